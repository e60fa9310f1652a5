"""Budgets with real sums: exactly one alert for each threshold and period,
over restarts, replays of sums, and changes.
"""

import asyncio
import base64
import hmac
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from exporters.secret import Secret
from gateway.common.contract.errors import BadPayload, NameInUse, NotFound
from gateway.common.storage.database import Database
from gateway.observability.budget_metrics import BudgetCollector
from gateway.operate import budgets as operations
from gateway.stores.sql import budgets as sql_budgets
from gateway.usage.budgets.book import Budgets
from gateway.usage.budgets.budget import Span
from gateway.usage.budgets.delivering import DEFAULT
from gateway.usage.budgets.home import Alert
from gateway.usage.budgets.webhook import BadSecret, Webhook, headers_of, signing_key
from gateway.usage.sums.figures import money_text
from gateway.usage.sums.home import Counted, SumHome
from gateway.usage.sums.tally import HOUR_MS, Tally
from spool.clock import rfc3339_ms
from tests.support.operations import perform
from tests.support.polling import until_true
from tests.support.stores import Home, SqliteHome, only_sqlite
from tests.unit.usage.sums.test_tally import NOW_MS, counted, record

DAY_MS = 24 * HOUR_MS
KEY = b"k" * 24
NEW = {
    "name": "Core", "amount": "10", "currency": "USD", "period": "month",
    "thresholds": [{"of": "actual", "percent": 50}, {"of": "actual", "percent": 100}],
}  # fmt: skip


class Rig:
    """One home, the budgets that run on it, and a clock."""

    def __init__(self, home: Home, sums: SumHome) -> None:
        self.home, self.sums = home, sums
        self.now_ms = NOW_MS
        self.webhooks: dict[str, Webhook] = {}
        self.budgets: Budgets

    async def start(self) -> None:
        """Again: as after a restart."""
        kept = await self.home.budgets()
        self.budgets = await Budgets.open(kept, self.sums, now_ms=lambda: self.now_ms, webhooks=self.webhooks)

    async def spend(
        self, cost: str | None, *, ago_h: float = 0, team: str = "core", currency: str = "USD", **more: Any
    ) -> None:
        """One more call in the sums, and a look at them."""
        price = None if cost is None else {"amount": cost, "currency": currency, "source": "reported"}
        started = {"started_at": rfc3339_ms(self.now_ms - int(ago_h * HOUR_MS))}
        tally: Tally = counted(record(cost=price, attribution={"team": team}, **started, **more), now_ms=self.now_ms)
        await self.sums.store(Counted(tally, "spool", 1, None, self.now_ms, self.now_ms))
        await self.look()

    async def look(self) -> None:
        self.budgets._looked_at = (0, 0)
        await self.budgets.look()

    async def ask(self, method: str, path: str = "", body: Any = None, **query: str) -> Any:
        return await perform(
            operations.OPERATIONS, self.budgets, method, f"/v2/budgets{path}", query=list(query.items()), body=body
        )

    async def create(self, **changes: Any) -> str:
        made: str = (await self.ask("POST", body={**NEW, **changes}))["budget"]["id"]
        return made

    async def alerts(self, budget_id: str) -> list[tuple[str, int, bool]]:
        """The oldest first."""
        found = (await self.ask("GET", f"/{budget_id}"))["budget"]["alerts"]
        return [(each["of"], each["percent"], each["is_rearmed"]) for each in found[::-1]]

    async def state(self, budget_id: str) -> dict[str, Any]:
        state: dict[str, Any] = (await self.ask("GET", f"/{budget_id}/state"))["state"]
        return state


@pytest.fixture
async def rig(home: Home) -> Rig:
    made = Rig(home, await home.sums())
    await made.start()
    return made


def database_of(rig: Rig) -> Database:
    """For tests that are `only_sqlite`."""
    assert isinstance(rig.home, SqliteHome)
    return rig.home.database


async def test_a_threshold_alerts_once_in_a_period_over_restarts_and_looks(rig: Rig) -> None:
    core = await rig.create(filter={"team": ["core"]})
    await rig.spend("4.9")
    assert await rig.alerts(core) == []
    await rig.spend("100", team="other")
    await rig.spend("100", currency="EUR")
    assert await rig.alerts(core) == []
    await rig.spend("0.1")
    await rig.spend("0.1")
    assert await rig.alerts(core) == [("actual", 50, False)]
    await rig.start()
    await rig.look()
    await rig.spend("6")
    await rig.start()
    await rig.look()
    assert await rig.alerts(core) == [("actual", 50, False), ("actual", 100, False)]
    assert [(each.percent, money_text(each.figure)) for each in rig.budgets.crossings()] == [
        (100, "11.1"),
        (50, "11.1"),
    ]
    rig.now_ms += 31 * DAY_MS
    await rig.look()
    assert (await rig.state(core))["spent"] == "0"
    assert rig.budgets.crossings() == [], "the period of the alerts is over"
    await rig.spend("5")
    assert len(await rig.alerts(core)) == 3, "a new period alerts again"


async def test_a_lost_memory_of_an_alert_raises_no_second_one(rig: Rig) -> None:
    core = await rig.create()
    await rig.spend("5")
    before = (await rig.ask("GET", f"/{core}"))["budget"]["alerts"]
    rig.budgets._alerts.clear()
    rig.now_ms += 1
    await rig.look()
    assert (await rig.ask("GET", f"/{core}"))["budget"]["alerts"] == before
    assert [alert["percent"] for alert in before] == [50]


@only_sqlite
async def test_looking_costs_as_much_for_a_budget_however_many_there_are(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in alerts whose period is asked for, and in alerts that are read."""
    counts: Counter[str] = Counter()

    def span(alert: Alert) -> Span:
        counts["asked"] += 1
        return Span(alert.first_day, alert.end_day)

    def read(row: Any) -> Alert:
        counts["read"] += 1
        return made(row)

    made = sql_budgets._alert
    monkeypatch.setattr(Alert, "span", property(span))
    monkeypatch.setattr(sql_budgets, "_alert", read)
    await rig.spend("10")
    work = []
    for number in range(16):
        await rig.create(name=f"budget {number}", period="day")
        if number in {3, 15}:
            rig.now_ms += DAY_MS
            counts.clear()
            await rig.spend("10")
            await rig.look()
            metrics = [*BudgetCollector(rig.budgets).collect()]
            assert {x.value for each in metrics if "crossed" in each.name for x in each.samples} == {2}
            work.append(counts.total())
    assert work[1] <= 6 * work[0]


async def test_the_state_names_what_is_spent_left_and_unknown(rig: Rig) -> None:
    core = await rig.create(stop_at=60, filter={"team": ["core", None]})
    await rig.spend("2.5")
    await rig.spend(None)
    await rig.spend("3", currency="EUR")
    state = await rig.state(core)
    assert {name: state[name] for name in ("spent", "remaining", "ratio", "calls", "calls_without_cost")} == {
        "spent": "2.5", "remaining": "7.5", "ratio": 0.25, "calls": 3, "calls_without_cost": 1,
    }  # fmt: skip
    assert (state["other_costs"], state["hard_stop"]) == ({"EUR": "3"}, False)
    await rig.spend("3.5", team="")
    assert (await rig.state(core))["hard_stop"] is True
    with pytest.raises(NotFound):
        await rig.state("none")


async def test_a_forecast_alerts_once_though_it_falls_and_rises(rig: Rig) -> None:
    core = await rig.create(period="day", thresholds=[{"of": "forecast", "percent": 100}])
    await rig.spend("4")
    assert await rig.alerts(core) == [], "4 in ten and a half hours are 9.1 in a day"
    await rig.spend("1")
    assert await rig.alerts(core) == [("forecast", 100, False)]
    rig.now_ms += 8 * HOUR_MS
    await rig.look()
    assert (await rig.state(core))["forecast_ratio"] < 1
    await rig.ask("PATCH", f"/{core}", {"amount": "10.5"})
    await rig.spend("4")
    assert (await rig.state(core))["forecast_ratio"] > 1
    assert await rig.alerts(core) == [("forecast", 100, False)], "time took it back, not the change"


async def test_a_late_record_crosses_the_threshold_of_its_own_period(rig: Rig) -> None:
    core = await rig.create(period="day")
    await rig.spend("1")
    rig.now_ms += DAY_MS
    await rig.spend("6", ago_h=24)
    (alert,) = (await rig.ask("GET", f"/{core}"))["budget"]["alerts"]
    assert alert["period"]["start"] == "2026-01-05T00:00:00Z"
    assert (alert["spent"], (await rig.state(core))["spent"]) == ("7", "0")


async def test_a_change_raises_an_alert_again_only_where_it_uncrossed_the_threshold(rig: Rig) -> None:
    core = await rig.create()
    await rig.spend("5")
    await rig.ask("PATCH", f"/{core}", {"name": "renamed", "thresholds": [{"of": "actual", "percent": 90}]})
    await rig.ask("PATCH", f"/{core}", {"thresholds": NEW["thresholds"], "amount": "9"})
    assert await rig.alerts(core) == [("actual", 50, False)], "5 of 9 is crossed still"
    await rig.ask("PATCH", f"/{core}", {"amount": "20"})
    assert await rig.alerts(core) == [("actual", 50, True)]
    assert rig.budgets.crossings() == []
    await rig.spend("5")
    await rig.start()
    await rig.look()
    assert await rig.alerts(core) == [("actual", 50, True), ("actual", 50, False)]
    ids = [each["id"] for each in (await rig.ask("GET", f"/{core}"))["budget"]["alerts"]]
    assert len(set(ids)) == 2


async def test_a_credit_that_uncrosses_a_threshold_raises_no_second_alert(rig: Rig) -> None:
    core = await rig.create()
    await rig.spend("5")
    await rig.spend("-3")
    await rig.ask("PATCH", f"/{core}", {"amount": "11"})
    await rig.spend("4")
    assert await rig.alerts(core) == [("actual", 50, False)]


async def test_budgets_are_listed_changed_and_deleted(rig: Rig) -> None:
    core, all_of_it = await rig.create(filter={"team": ["core"]}), await rig.create(name="All", period="week")
    await rig.spend("5")
    page = await rig.ask("GET", sort_key="ratio", sort_order="desc", limit="1")
    assert [each["id"] for each in page["budgets"]] == [all_of_it]
    assert page["pagination"]["total_count"] == 2
    assert [each["name"] for each in (await rig.ask("GET", period="month"))["budgets"]] == ["Core"]
    with pytest.raises(NameInUse):
        await rig.create(name="All")
    for bad in ({"amount": "0"}, {"amount": 5}, {"currency": "usd"}, {"currency": "CRD"}, {"filter": {"prompt": ["x"]}}, {"webhook": "none"},
                {"filter": {"team": []}}, {"thresholds": [{"of": "actual", "percent": 0}]}, {"name": " "}):  # fmt: skip
        with pytest.raises(BadPayload, match=next(iter(bad))):
            await rig.create(**{"name": "Bad", **bad})
    await rig.ask("DELETE", f"/{core}")
    with pytest.raises(NotFound):
        await rig.ask("GET", f"/{core}")
    assert [each["name"] for each in (await rig.ask("GET"))["budgets"]] == ["All"]


async def test_a_budget_of_a_model_counts_its_dated_versions(rig: Rig) -> None:
    model = await rig.create(filter={"model": ["gpt-4o"]})
    version = await rig.create(name="Version", filter={"model": ["gpt-4o-2024-08-06"]})
    for name, cost in (("gpt-4o-2024-08-06", "3"), ("gpt-4o-2024-11-20", "2"), ("gpt-4o-mini", "50")):
        await rig.spend(cost, response_model=name)
    assert await rig.alerts(model) == [("actual", 50, False)]
    assert await rig.alerts(version) == []


async def test_a_forgotten_user_leaves_the_filters(rig: Rig) -> None:
    both = await rig.create(filter={"user": ["zoe", "ada"]})
    one = await rig.create(name="Zoe's", filter={"user": ["zoe"]})
    assert await rig.budgets.forget_users({"zoe"}, dry_run=True) == 2
    assert await rig.budgets.forget_users({"zoe"}, dry_run=False) == 2
    assert (await rig.ask("GET", f"/{both}"))["budget"]["filter"] == {"user": ["ada"]}
    with pytest.raises(NotFound):
        await rig.ask("GET", f"/{one}")


class Receiver:
    """Takes webhooks, once it refused some; and never the first one where it is *poisoned*."""

    def __init__(self, refusals: int = 0, *, poisoned: bool = False, redirect: str | None = None) -> None:
        self._refusals = refusals
        self._poisoned = poisoned
        self.redirect = redirect
        self.seen: list[tuple[str, bytes]] = []
        self.webhook: Webhook
        self.answers = asyncio.Event()
        self.answers.set()

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        given, sent_s = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        signed = hmac.digest(KEY, b".".join((given.encode(), sent_s.encode(), body)), "sha256")
        assert request.headers["webhook-signature"] == "v1," + base64.b64encode(signed).decode()
        self.seen.append((given, body))
        await self.answers.wait()
        if self.redirect is not None:
            return web.Response(status=307, headers={"Location": self.redirect})
        is_refused = len(self.seen) <= self._refusals or (self._poisoned and given == self.seen[0][0])
        return web.Response(status=503 if is_refused else 204)


@pytest.fixture
async def receivers() -> AsyncIterator[tuple[Receiver, ...]]:
    """One that refuses twice, one that leads to it, one that never takes the first, and one that
    takes all.
    """
    found = (Receiver(refusals=2), Receiver(redirect="/0"), Receiver(poisoned=True), Receiver())
    app = web.Application()
    for number, receiver in enumerate(found):
        app.router.add_post(f"/{number}", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    for number, receiver in enumerate(found):
        receiver.webhook = Webhook(Secret(f"http://{host}:{port}/{number}"), KEY)
    yield found
    await runner.cleanup()


async def until_called(rig: Rig, outcome: str) -> None:
    """A process that runs until a webhook's call ended so; one that was begun ends."""
    await rig.start()
    running = asyncio.create_task(rig.budgets.run())
    calls = rig.budgets.deliverer.calls
    await until_true(lambda: calls[outcome] > 0, what=outcome)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_webhook_is_signed_and_tried_again_under_one_id_over_restarts(
    rig: Rig, receivers: tuple[Receiver, ...]
) -> None:
    receiver = receivers[0]
    rig.webhooks[DEFAULT] = receiver.webhook
    await rig.start()
    core = await rig.create()
    await rig.spend("5")
    await until_called(rig, "retried")
    await until_called(rig, "delivered")
    (alert,) = (await rig.ask("GET", f"/{core}"))["budget"]["alerts"]
    assert set(receiver.seen) == {(alert["id"], receiver.seen[0][1])}
    assert alert["webhook"]["outcome"] == "delivered"
    assert alert["webhook"]["attempts"] == len(receiver.seen) == 3
    told = json.loads(receiver.seen[0][1])["data"]
    assert (told["budget_name"], told["threshold"], told["spent"]) == ("Core", {"of": "actual", "percent": 50}, "5")
    await rig.start()
    assert await (await rig.home.budgets()).read(lambda kept: kept.waiting_webhooks()) == {}


async def test_a_receiver_that_takes_nothing_holds_up_no_other(rig: Rig, receivers: tuple[Receiver, ...]) -> None:
    rig.webhooks |= {DEFAULT: receivers[0].webhook, "dead": receivers[1].webhook}
    await rig.start()
    dead = await rig.create(name="Dead", webhook="dead")
    core = await rig.create()
    await rig.spend("5")
    await until_called(rig, "delivered")
    found = {
        name: (await rig.ask("GET", f"/{each}"))["budget"]["alerts"][0]["webhook"]["outcome"]
        for name, each in (("dead", dead), ("core", core))
    }
    assert found == {"dead": "pending", "core": "delivered"}
    rig.now_ms += 4 * DAY_MS
    kept = await rig.home.budgets()
    waiting = await kept.read(lambda each: each.next_waiting("dead"))
    assert waiting is not None
    for _ in range(9 - waiting.attempts):
        await kept.commit(lambda each: each.note_attempt(waiting.alert_no, "pending", rig.now_ms))
    await until_called(rig, "failed")
    given_up = (await rig.ask("GET", f"/{dead}"))["budget"]["alerts"][0]["webhook"]
    assert (given_up["outcome"], given_up["attempts"]) == ("failed", 10)


@only_sqlite
async def test_a_call_that_cannot_be_noted_repeats_none_that_is_under_way(
    rig: Rig, receivers: tuple[Receiver, ...]
) -> None:
    slow, other = receivers[0], receivers[2]
    rig.webhooks |= {DEFAULT: slow.webhook, "other": other.webhook}
    await rig.start()
    core = await rig.create()
    await rig.create(name="Other", webhook="other")
    await rig.spend("5")
    failing = "CREATE TRIGGER failing BEFORE UPDATE ON budget_alerts WHEN NEW.webhook = 'other' BEGIN SELECT RAISE(ABORT, ''); END"
    await database_of(rig).write(lambda each: each.execute(failing))
    slow.answers.clear()
    deliverer = rig.budgets.deliverer
    deliverer._chance = lambda: 1e6
    running = asyncio.create_task(deliverer.run())
    await until_true(lambda: bool(slow.seen and deliverer._retries), what="both calls")
    for _ in range(50):  # a round may follow
        deliverer.wake()
        await rig.ask("GET", f"/{core}")
    assert (len(slow.seen), len(other.seen)) == (1, 1), "a call without a note waits before it is repeated"
    deliverer._retries.clear()
    deliverer.wake()
    await until_true(lambda: len(other.seen) > 1, what="the next round")
    assert len(slow.seen) == 1
    slow.answers.set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_receiver_that_answers_slowly_holds_up_no_new_alert_of_another(
    rig: Rig, receivers: tuple[Receiver, ...]
) -> None:
    slow, other = receivers[0], receivers[3]
    rig.webhooks |= {DEFAULT: slow.webhook, "other": other.webhook}
    await rig.start()
    slow.answers.clear()
    await rig.create(name="Slow")
    await rig.spend("5")
    running = asyncio.create_task(rig.budgets.deliverer.run())
    await until_true(lambda: len(slow.seen) == 1, what="the slow call")
    both = await rig.create(name="Other", webhook="other")
    await rig.spend("5")
    await until_true(lambda: rig.budgets.deliverer.calls["delivered"] == 2, what="the other's alerts")
    raised = (await rig.ask("GET", f"/{both}"))["budget"]["alerts"][::-1]
    assert [given for given, _ in other.seen] == [alert["id"] for alert in raised], "in the order of the alerts"
    assert len(slow.seen) == 1, "one call at a time, and its next alert waits for it"
    slow.answers.set()
    await until_true(lambda: rig.budgets.deliverer.calls["delivered"] == 4, what="the slow one's alerts")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (len(other.seen), len({given for given, _ in slow.seen})) == (2, 2)
    assert await (await rig.home.budgets()).read(lambda kept: kept.waiting_webhooks()) == {}


async def test_an_alert_that_is_never_taken_holds_up_no_other(rig: Rig, receivers: tuple[Receiver, ...]) -> None:
    rig.webhooks[DEFAULT] = receivers[2].webhook
    await rig.start()
    core = await rig.create()
    await rig.spend("10")
    await until_called(rig, "delivered")
    alerts = (await rig.ask("GET", f"/{core}"))["budget"]["alerts"]
    assert [(each["percent"], each["webhook"]["outcome"]) for each in alerts] == [(100, "delivered"), (50, "pending")]


def test_a_signature_is_that_of_the_published_library() -> None:
    """Made by `standardwebhooks` 1.0 for Python."""
    webhook = Webhook(Secret("http://h"), signing_key(Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")))
    headers = headers_of(webhook, "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', 1614265330)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_signing_secret_is_text_or_base64_and_long_enough() -> None:
    assert signing_key(Secret("whsec_" + base64.b64encode(KEY).decode())) == KEY
    assert signing_key(Secret("x" * 24)) == b"x" * 24
    for bad in ("short", "whsec_???", "whsec_" + base64.b64encode(b"short").decode()):
        with pytest.raises(BadSecret):
            signing_key(Secret(bad))
    assert "x" * 24 not in repr(Webhook(Secret("http://h/token"), b"x" * 24))
