"""The budgets of one gateway: kept on disk, their spend in memory, one alert a crossing.

The spend of a budget is the sum of the gateway's own days of usage, read again when these moved;
so a repeat of a call, which no sum counts twice, crosses nothing. An alert is stored in the
transaction that finds it has none yet, with the webhook that is to be called: what comes after is
repeated until it is done, and no restart raises a second one.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Self

import structlog

from gateway.common.contract.budgets import Crossing
from gateway.common.contract.errors import NotFound
from gateway.common.contract.reach import reach_within
from gateway.usage.budgets.body import BudgetChange, NewBudget, fields_of
from gateway.usage.budgets.budget import (
    DAY_MS,
    LATE_DAYS,
    Budget,
    Period,
    Span,
    Spend,
    Threshold,
    crossed,
    next_day_ms,
    period_text,
    spans_watched,
    spend_of,
)
from gateway.usage.budgets.delivering import DEFAULT, Deliverer
from gateway.usage.budgets.home import Alert, BudgetHome, BudgetRows
from gateway.usage.budgets.kept import (
    changed_budget,
    delete_budget,
    forget_users,
    new_budget,
    put_budget,
    raise_alerts,
    rearm,
)
from gateway.usage.budgets.webhook import Webhook, body_of
from gateway.usage.sums.figures import Bucket
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.grains import DAY
from gateway.usage.sums.home import SumHome, SumRows
from gateway.usage.sums.saved_filter import where_of
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import TimeRange

log = structlog.get_logger()

NO_SUCH_BUDGET: Final = "no budget has this id"
ROUND_S: Final = 2.0
SHARE: Final = 0.2
"""Of the time, for reading sums."""

Spends = Mapping[Span, Spend]
"""Of the periods that are watched; the current one is the last."""

_PeriodKey = tuple[str, Period, Span]
"""Id of a budget, and one of its periods."""


class Standing(NamedTuple):
    """A budget with what it spent in the current period."""

    budget: Budget
    spend: Spend


class Budgets:
    """Make with `open`; `run` until cancelled. Every method that awaits may raise
    DatabaseUnavailable; an unknown id raises NotFound.
    """

    def __init__(
        self,
        home: BudgetHome,
        sums: SumHome,
        *,
        now_ms: Callable[[], int],
        webhooks: Mapping[str, Webhook],
        follower: UsageFollower | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """*webhooks*: by name, `DEFAULT` for that of all budgets. *follower* counts in a running
        gateway; None looks at what a stopped one has counted.
        """
        self.now_ms = now_ms
        self._home = home
        self._sums = sums
        self._webhooks = webhooks
        self._follower = follower
        self._random_bytes = random_bytes
        self._budgets: dict[str, Budget] = {}
        self._spends: dict[str, Spends] = {}
        self._alerts: dict[_PeriodKey, dict[Threshold, Alert]] = {}
        """Those that are not rearmed, of periods that are watched or were lately."""
        self._alerts_of_day = -1
        """When they were read last; later ones were added."""
        self._lock = asyncio.Lock()
        self._looked_at = (-1, -1)
        self._earlier_ms = now_ms if follower is None else follower.earlier_ms
        """By which things are old."""
        self.deliverer = Deliverer(home, webhooks, now_ms=now_ms, earlier_ms=self._earlier_ms)

    @classmethod
    async def open(
        cls,
        home: BudgetHome,
        sums: SumHome,
        *,
        now_ms: Callable[[], int],
        webhooks: Mapping[str, Webhook],
        follower: UsageFollower | None = None,
    ) -> Self:
        """The budgets in *home*, compared with *sums*. Raises DatabaseUnavailable."""
        budgets = cls(home, sums, now_ms=now_ms, webhooks=webhooks, follower=follower)
        await budgets._reload()
        return budgets

    # ---- what is asked

    def known(self) -> list[Standing]:
        """The budgets whose spend is known by now, without a question to the database."""
        spends = self._spends
        budgets = self._budgets.items()
        return [Standing(budget, last_of(spends[each])) for each, budget in budgets if each in spends]

    async def standings(self) -> list[Standing]:
        """Every budget."""
        for budget_id in [each for each in self._budgets if each not in self._spends]:
            await self._compare(budget_id)
        return self.known()

    async def standing(self, budget_id: str) -> Standing:
        """From memory, but for the first time after a start."""
        budget = self._budgets.get(budget_id)
        if budget is None:
            raise NotFound(NO_SUCH_BUDGET)
        if budget_id not in self._spends:
            await self._compare(budget_id)
        return Standing(self._budgets[budget_id], last_of(self._spends[budget_id]))

    async def alerts(self, budget_id: str) -> list[Alert]:
        """Those that are kept, the latest first."""
        return await self._home.read(lambda kept: kept.alerts_of(budget_id))

    def crossings(self) -> list[Crossing]:
        """Crossed thresholds of current periods, and those found within a day; the latest first."""
        now_ms = self.now_ms()
        found = [
            alert
            for (budget_id, _, span), alerts in self._alerts.items()
            if budget_id in self._budgets
            for alert in alerts.values()
            if now_ms < max(span.end_ms, alert.at_ms + DAY_MS)
        ]
        found.sort(key=lambda alert: alert.at_ms)
        return [self._crossing(self._budgets[alert.budget_id], alert) for alert in reversed(found)]

    def crossed_now(self, budget_id: str) -> int:
        """Thresholds that alerted in the current period."""
        budget, spend = self._budgets[budget_id], last_of(self._spends[budget_id])
        return len(self._raised(budget, spend.span))

    def _crossing(self, budget: Budget, alert: Alert) -> Crossing:
        spend = self._spends.get(budget.budget_id, {}).get(alert.span)
        found = alert.spent if alert.of == "actual" else alert.forecast
        now = None if spend is None else spend.spent if alert.of == "actual" else spend.forecast
        text = period_text(alert.period, alert.span)
        return Crossing(
            alert_id=alert.alert_id, name=budget.name, of=alert.of, percent=alert.percent, period=text,
            amount=alert.amount, currency=alert.currency, figure=now if now is not None else found or alert.spent, reach=reach_within(budget.filter),
        )  # fmt: skip

    def counted_through_ms(self) -> int | None:
        """Calls whose outcome was final by then are in every spend; None: not known."""
        return None if self._follower is None else self._follower.as_of_ms

    # ---- what is changed

    async def create(self, body: NewBudget, *, by: str) -> Standing:
        """Raises BadPayload, NameInUse, TooManyKept."""
        fields = fields_of(body, self._names())
        async with self._lock:
            now_ms = self.now_ms()
            budget_id = self._random_bytes(16).hex()

            await self._home.commit(partial(new_budget, fields=fields, budget_id=budget_id, by=by, now_ms=now_ms))
            await self._reload()
        await self._compare(budget_id)
        return await self.standing(budget_id)

    async def change(self, budget_id: str, body: BudgetChange, *, by: str) -> Standing:
        """A threshold that the change un-crosses may raise an alert again. Raises BadPayload,
        NameInUse.
        """
        fields = fields_of(body, self._names())
        async with self._lock:
            before = self._budgets.get(budget_id)
            if before is None:
                raise NotFound(NO_SUCH_BUDGET)
            after = changed_budget(before, fields, by=by, now_ms=self.now_ms())
            spends = await self._read(before), await self._read(after)

            def store(kept: BudgetRows) -> None:
                put_budget(kept, after)
                rearm(kept, (before, spends[0]), (after, spends[1]))

            await self._home.commit(store)
            await self._reload()
        await self._compare(budget_id)
        return await self.standing(budget_id)

    async def delete(self, budget_id: str) -> None:
        """With its alerts; a webhook that still waits is not called."""
        async with self._lock:
            await self._home.commit(partial(delete_budget, budget_id=budget_id))
            await self._reload()

    async def forget_users(self, users: Collection[str], *, dry_run: bool) -> int:
        """Take *users* out of the filters; how many budgets named one."""
        async with self._lock:
            change = partial(forget_users, users=users, dry_run=dry_run)
            named = await (self._home.read(change) if dry_run else self._home.commit(change))
            await self._reload()
            return named

    def _names(self) -> set[str]:
        return {*self._webhooks} - {DEFAULT}

    async def _reload(self) -> None:
        """Read budgets and alerts again; a spend stands unless what its budget counts changed."""
        now_ms = self.now_ms()
        budgets, alerts = await self._home.read(
            lambda kept: (kept.every(), kept.alerts_since(_remembered_since(now_ms)))
        )
        self._spends = {
            each: spends
            for each, spends in self._spends.items()
            if each in budgets and budgets[each].what_is_counted == self._budgets[each].what_is_counted
        }
        self._budgets, self._alerts, self._alerts_of_day = budgets, {}, now_ms // DAY_MS
        self._remember(alerts)

    def _remember(self, alerts: Iterable[Alert]) -> None:
        for alert in alerts:
            self._alerts.setdefault((alert.budget_id, alert.period, alert.span), {})[alert.threshold] = alert

    # ---- what is watched

    async def run(self) -> None:
        """Look at every budget whenever the sums moved, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.deliverer.run(), name="webhooks of budgets")
            tasks.create_task(self._run(), name="budgets")

    async def _run(self) -> None:
        while True:
            began_s = time.monotonic()
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - the next round repeats the work
                log.warning("budgets were not compared with usage; the next round retries", error=type(error).__name__)
            took_s = time.monotonic() - began_s
            wait_s = max(ROUND_S, took_s * (1 / SHARE - 1))
            await asyncio.sleep(min(wait_s, max(ROUND_S, next_day_ms(self.now_ms()) / 1000)))

    async def look(self) -> None:
        """Compare every budget with the sums, if these moved or the hour changed since."""
        changes = -1 if self._follower is None else self._follower.changes
        looked_at = (changes, self.now_ms() // HOUR_MS)
        if not self._budgets or looked_at == self._looked_at:
            return
        if self.now_ms() // DAY_MS != self._alerts_of_day:
            async with self._lock:
                await self._reload()
        for budget_id in [*self._budgets]:
            await self._compare(budget_id)
        self._looked_at = looked_at

    async def _compare(self, budget_id: str) -> None:
        """Compare one budget with the sums, and raise the alerts that are due."""
        async with self._lock:
            budget = self._budgets.get(budget_id)
            if budget is None:
                return
            spends = await self._read(budget)
            due = [(spend, self._due(budget, spend)) for spend in spends.values()]
            if any(thresholds for _, thresholds in due):
                await self._raise(budget, due)
            self._spends[budget_id] = spends

    def _due(self, budget: Budget, spend: Spend) -> list[Threshold]:
        raised = self._raised(budget, spend.span)
        return [threshold for threshold in crossed(budget, spend) if threshold not in raised]

    def _raised(self, budget: Budget, span: Span) -> Mapping[Threshold, Alert]:
        """What alerted in the period."""
        return self._alerts.get((budget.budget_id, budget.period, span), {})

    async def _raise(self, budget: Budget, due: Sequence[tuple[Spend, Sequence[Threshold]]]) -> None:
        webhook = DEFAULT if budget.webhook is None else budget.webhook
        common: dict[str, Any] = {
            "now_ms": self.now_ms(),
            "kept_ms": self._earlier_ms(),
            "webhook": webhook if budget.webhook is not None or DEFAULT in self._webhooks else None,
            "webhook_body": partial(body_of, budget),
        }

        def store(kept: BudgetRows) -> tuple[list[Alert], list[Alert]]:
            raised = [
                alert for spend, thresholds in due for alert in raise_alerts(kept, budget, spend, thresholds, **common)
            ]
            return raised, kept.alerts_since(_remembered_since(common["now_ms"]), budget.budget_id)

        raised, stored = await self._home.commit(store)
        self._remember(stored)
        self.deliverer.wake()
        for alert in raised if self._follower is not None else ():  # a command on the files has no log
            log.info(
                "a budget's threshold is crossed",
                budget_id=alert.budget_id,
                alert_id=alert.alert_id,
                of=alert.of,
                percent=alert.percent,
            )

    async def _read(self, budget: Budget) -> Spends:
        """What *budget* spent in each period that is watched, of sums that are up to date."""
        if self._follower is not None:
            await self._follower.write()
        now_ms = self.now_ms()
        spans = spans_watched(budget, now_ms)
        within = TimeRange(spans[0].first_day * DAY, (now_ms // DAY_MS + 1) * DAY)

        def by_day(kept: SumRows) -> list[Bucket]:
            return kept.over_time(within, now_hour=now_ms // HOUR_MS, where=where_of(budget.filter))

        buckets = await self._sums.read_apart(by_day)
        days = [(bucket.start_ms // DAY_MS, bucket.sums) for bucket in buckets]
        return {span: spend_of(budget, span, days, now_ms) for span in spans}


def _remembered_since(now_ms: int) -> int:
    return now_ms - (LATE_DAYS + 2) * DAY_MS


def last_of(spends: Spends) -> Spend:
    """Of the current period."""
    return list(spends.values())[-1]
