"""Looks for what could be saved, when someone asks: in the usage of the last 30 whole UTC days, at
most once in `FRESH_S`.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Final

from gateway.common.contract.errors import NotFound
from gateway.common.lists.conventions import ListRequest, Page
from gateway.usage.recommendations.home import RecommendationHome, RecommendationRows
from gateway.usage.recommendations.listing import page_of_recommendations
from gateway.usage.recommendations.recommendation import Recommendation, State, id_of, looked, realised, with_state
from gateway.usage.recommendations.waste import (
    PriceOf,
    Spent,
    Waste,
    batch_wastes,
    failed_wastes,
    is_batch,
    is_whole,
    wastes,
)
from gateway.usage.sums.bounds import MAX_GROUPS
from gateway.usage.sums.grains import DAY
from gateway.usage.sums.names import Absent, Filters
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import BadRange, TimeRange

DAYS: Final = 30
FIRST_HOURS: Final = DAY
"""Of a gateway, in which nothing is recommended."""
FRESH_S: Final = 600.0
BATCH_DAYS: Final = 7
MAX_BATCH_SERVICES: Final = 10
"""Whose hours are looked at: those that would save most."""
NO_SUCH: Final = "no such recommendation"


class Recommendations:
    """Every method raises DatabaseUnavailable, Overloaded; an unknown id NotFound."""

    def __init__(
        self,
        home: RecommendationHome,
        queries: UsageQueries,
        price_of: PriceOf,
        *,
        least_saving: Decimal,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """*least_saving*: in a month, of any currency; a smaller one is not recommended."""
        self._home = home
        self._queries = queries
        self._price_of = price_of
        self._least_saving = least_saving
        self._monotonic_s = monotonic_s
        self._turn = asyncio.Lock()
        self._looked_s = float("-inf")

    async def page(self, request: ListRequest) -> Page:
        await self._look()
        return page_of_recommendations(await self._home.read(lambda kept: kept.every()), request)

    async def read(self, recommendation_id: str) -> Recommendation:
        await self._look()
        return await self._home.read(partial(_one, recommendation_id=recommendation_id))

    async def change(self, recommendation_id: str, state: State, *, by: str) -> Recommendation:
        kept = await self.read(recommendation_id)
        calls = await self._service_calls(kept) if state == "accepted" else None
        set_state = partial(with_state, state=state, by=by, now_ms=self._queries.now_ms(), service_calls=calls)

        def change(rows: RecommendationRows) -> Recommendation:
            changed = set_state(_one(rows, recommendation_id))
            rows.put([changed])
            return changed

        return await self._home.commit(change)

    async def _look(self) -> None:
        async with self._turn:
            if self._monotonic_s() - self._looked_s < FRESH_S:
                return
            await self._queries.refresh()
            if await self._is_young():
                return
            kept = await self._home.read(lambda rows: rows.every())
            async with self._queries.apart() as apart:
                found = await self._found(apart)
                accepted = [each for each in kept if each.state == "accepted"]
                saved = {each.recommendation_id: await self._realised(apart, each) for each in accepted}
            await self._home.commit(partial(_note, found=found, saved=saved, now_ms=self._queries.now_ms()))
            self._looked_s = self._monotonic_s()

    async def _is_young(self) -> bool:
        now_ms = self._queries.now_ms()
        history = await self._queries.sums.history(now_ms)
        return now_ms // HOUR_MS - history.began_hour < FIRST_HOURS

    def _month(self) -> TimeRange:
        """The last `DAYS` whole UTC days."""
        today = self._queries.now_ms() // HOUR_MS // DAY * DAY
        return TimeRange(today - DAYS * DAY, today)

    async def _found(self, queries: UsageQueries) -> list[Waste]:
        spent = await _spent(queries, self._month())
        found = [each for each in wastes(spent, self._price_of) if each.saving >= self._least_saving]
        batches = [each for each in batch_wastes(spent, self._price_of) if each.saving >= self._least_saving]
        services = dict.fromkeys(each.service for each in sorted(batches, key=lambda each: -each.saving))
        waiting = {each for each in [*services][:MAX_BATCH_SERVICES] if await self._could_wait(queries, each)}
        failed = [each for each in await self._failed(queries, spent) if each.saving >= self._least_saving]
        return [*found, *(each for each in batches if each.service in waiting), *failed]

    async def _failed(self, queries: UsageQueries, spent: Sequence[Spent]) -> list[Waste]:
        """Of the days of which it is known what failed calls cost; *spent* is of the month."""
        month = self._month()
        failed = await queries.failed_costs(month)
        if failed.cells and failed.since_hour > month.first_hour:
            spent = await _spent(queries, month._replace(first_hour=failed.since_hour))
        return [*failed_wastes(spent, failed.cells)]

    async def _could_wait(self, queries: UsageQueries, service: str | None) -> bool:
        week = self._month()._replace(first_hour=self._month().end_hour - BATCH_DAYS * DAY)
        try:
            return is_batch(await queries.over_time(week, interval="hour", where=_of_service(service)))
        except BadRange:  # its hours are no longer kept
            return False

    async def _service_calls(self, kept: Recommendation) -> int:
        """In the days that its saving is of."""
        within = self._month()
        if kept.kind == "failed_calls":
            within = within._replace(first_hour=(await self._queries.failed_costs(within)).since_hour)
        return (await self._queries.totals(within, where=_of_service(kept.service))).calls

    async def _realised(self, queries: UsageQueries, accepted: Recommendation) -> Decimal | None:
        """Since the day after it was accepted; None before a whole one has passed, and where it is
        not known what the calls since then cost.
        """
        first = ((accepted.state_ms or 0) // HOUR_MS // DAY + 1) * DAY
        within = TimeRange(first, self._month().end_hour)
        if within.first_hour >= within.end_hour:
            return None
        where = _of_service(accepted.service)
        left = await self._left(queries, accepted, within)
        return None if left is None else realised(accepted, (await queries.totals(within, where=where)).calls, left)

    async def _left(self, queries: UsageQueries, accepted: Recommendation, within: TimeRange) -> Decimal | None:
        """What is still wasted, however few calls there are; None where that is not known."""
        names: Filters = {"provider": (accepted.provider,), "model": (accepted.model,)}
        spent = await _spent(queries, within, {**_of_service(accepted.service), **names})
        failed = await queries.failed_costs(within)
        if accepted.kind == "failed_calls" and failed.since_hour > within.first_hour:
            return None
        if not all(is_whole(each.sums) for each in spent):
            return None
        found = (
            *wastes(spent, self._price_of, least_calls=1),
            *batch_wastes(spent, self._price_of, least_calls=1),
            *failed_wastes(spent, failed.cells, least_calls=1),
        )
        return sum((each.saving for each in found if id_of(each) == accepted.recommendation_id), Decimal(0))


async def _spent(queries: UsageQueries, within: TimeRange, where: Filters | None = None) -> list[Spent]:
    by = ("service_name", "provider", "model")
    found = await queries.by(*by, within=within, where=where or {}, limit=MAX_GROUPS)
    return [Spent(group.names[0], group.names[1], group.names[2], group.sums) for group in found.groups]


def _of_service(service: str | None) -> Filters:
    return {"service_name": (Absent.UNKNOWN if service is None else service,)}


def _one(rows: RecommendationRows, recommendation_id: str) -> Recommendation:
    for each in rows.every():
        if each.recommendation_id == recommendation_id:
            return each
    raise NotFound(NO_SUCH)


def _note(rows: RecommendationRows, *, found: Sequence[Waste], saved: dict[str, Decimal | None], now_ms: int) -> None:
    before = rows.every()
    after = looked(before, found, now_ms)
    after = [replace(each, realised=saved.get(each.recommendation_id, each.realised)) for each in after]
    rows.put(_changed(before, after))
    rows.delete({each.recommendation_id for each in before} - {each.recommendation_id for each in after})


def _changed(before: Iterable[Recommendation], after: Iterable[Recommendation]) -> list[Recommendation]:
    known = {each.recommendation_id: each for each in before}
    return [each for each in after if known.get(each.recommendation_id) != each]
