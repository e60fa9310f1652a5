"""The days of billing drops for an operator: their state, their content, and the request to drop
those of a month.

It works on what is kept alone, so also while no gateway runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal, Self, TypedDict

import orjson

from gateway.common.contract.json_types import Count, Schema, Time
from gateway.usage.billing.content import DayContent, day_content, day_text, month_hours
from gateway.usage.billing.home import BillingHome, Day, Summary
from gateway.usage.sums.grains import DAY
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.tally import HOUR_MS
from spool.clock import rfc3339_ms

DAY_MS: Final = DAY * HOUR_MS
DayState = Literal["open", "partial", "due", "dropped", "refused"]


class BillingDay(TypedDict):
    day: Annotated[str, Schema(format="date")]
    state: DayState
    """`partial`: it began before counting did, and is dropped only when asked for."""
    row_count: Count | None
    """This and the next four are of what is in force at the upstream."""
    costs: Mapping[str, str] | None
    calls_without_cost: Count | None
    """FOCUS has no row for them."""
    dropped_at: Time | None
    revision: str | None
    """Digest of the rows."""
    refused: str | None
    """Why the upstream refused the day."""


@dataclass(frozen=True, slots=True)
class BillingSettings:
    """As an operator set them."""

    connection: str
    upstream: str
    """Its address; `embedded` for the service in this process."""
    every_s: float
    """Between two looks for days that are due."""
    close_after_s: float
    """A day is dropped so long after its end."""
    since_hour: int | None
    """First hour of the first day that is dropped unasked; None for the month in which the
    connection was named first.
    """

    @property
    def target(self) -> str:
        return f"{self.upstream} {self.connection}"


class BillingBook:
    """Make with `open`. Every method raises DatabaseUnavailable."""

    def __init__(
        self, home: BillingHome, sums: SumHome, settings: BillingSettings, source: str, now_ms: Callable[[], int]
    ) -> None:
        self.home = home
        self._sums = sums
        self.settings = settings
        self.source = source
        """Whose days they are at the upstream."""
        self.now_ms = now_ms

    @classmethod
    async def open(
        cls,
        home: BillingHome,
        sums: SumHome,
        settings: BillingSettings,
        gateway_id: str | None,
        now_ms: Callable[[], int],
    ) -> Self:
        """With a *gateway_id* drops to the target begin; a command on the files has none."""
        target, since = settings.target, settings.since_hour
        if gateway_id is not None:
            month, _ = month_hours(day_text(now_ms() // HOUR_MS)[:7])
            from_hour = month if since is None else since
            await home.commit(
                lambda kept: kept.begin(target, from_hour=from_hour, is_stated=since is not None, gateway_id=gateway_id)
            )
        source = await home.read(lambda kept: kept.source_of(target))
        return cls(home, sums, settings, source, now_ms)

    async def last_closed_hour(self) -> int:
        """First hour of the last day that is closed and counted to its end."""
        now_ms = self.now_ms()
        as_of = await self._sums.read(lambda kept: kept.as_of(now_hour=now_ms // HOUR_MS))
        through_ms = min(as_of.counted_through_ms or 0, now_ms) - round(self.settings.close_after_s * 1000)
        return (through_ms // DAY_MS - 1) * DAY

    async def summary(self) -> Summary:
        last = await self.last_closed_hour()
        return await self.home.read(lambda kept: kept.summary(self.settings.target, last))

    async def days(self, month: str) -> list[BillingDay]:
        """The days of *month*, YYYY-MM, that hold usage. Raises ValueError."""
        last = await self.last_closed_hour()
        return [_day_json(day, last) for day in await self._days(month)]

    async def plan(self, month: str) -> list[tuple[DayContent, bool]]:
        """The content of the closed days of *month* as it would be dropped now, and whether it is
        all of the day.
        """
        return [(await self.content(day.hour), day.is_whole) for day in await self._closed(month)]

    async def content(self, hour: int) -> DayContent:
        """Of one day, on a snapshot of its own."""
        return await self._sums.read_apart(partial(day_content, hour=hour, now_hour=self.now_ms() // HOUR_MS))

    async def want(self, month: str, *, partly_known: bool) -> tuple[int, int]:
        """Ask for the closed days of *month*: how many, and how many are left out. Without
        *partly_known*, days that began before counting did are left out unless they were dropped
        before. Raises ValueError.
        """
        days = await self._closed(month)
        hours = [day.hour for day in days if day.is_whole or day.content is not None or partly_known]
        await self.home.commit(lambda kept: kept.want(self.settings.target, hours))
        return len(hours), len(days) - len(hours)

    async def _closed(self, month: str) -> list[Day]:
        last = await self.last_closed_hour()
        return [day for day in await self._days(month) if day.hour <= last]

    async def _days(self, month: str) -> list[Day]:
        first, end = month_hours(month)
        return await self.home.read(lambda kept: kept.days(self.settings.target, first, end))


def _state(day: Day, last_hour: int) -> DayState:
    if day.hour > last_hour:
        return "open"
    return (
        "partial"
        if not day.is_whole and day.content is None and day.state == "due" and not day.is_wanted
        else day.state
    )


def _day_json(day: Day, last_hour: int) -> BillingDay:
    return {
        "day": day_text(day.hour),
        "state": _state(day, last_hour),
        "row_count": day.row_count,
        "costs": None if day.costs is None else orjson.loads(day.costs),
        "calls_without_cost": day.calls_without_cost,
        "dropped_at": None if day.dropped_at_ms is None else rfc3339_ms(day.dropped_at_ms),
        "revision": day.content,
        "refused": day.refused,
    }
