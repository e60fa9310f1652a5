"""What operations ask of billing drops, in a running gateway or on the files of a stopped one."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal, TypedDict

from gateway.common.contract.billing import MONTH
from gateway.common.contract.errors import BadPayload, NotFound
from gateway.common.contract.json_types import Count, Month, Schema
from gateway.common.lists.conventions import ListRequest, Page
from gateway.usage.billing.book import BillingBook, BillingDay
from gateway.usage.billing.content import DayContent, day_text
from gateway.usage.billing.lane import BillingLane, BillingStatus
from gateway.usage.billing.relay import BillingRelay
from gateway.usage.billing.relay_home import RelayHome
from gateway.usage.sums.tally import HOUR_MS

LAST_MONTH: Final = "9999-12"
"""Its end is beyond the last date that can be written."""
NOT_CONFIGURED: Final = "no billing connection is configured: set billing.connection"


Change = Literal["new", "changed", "none"]


class BillingAnswer(TypedDict):
    connection: str
    month: Month
    lane: BillingStatus | None
    days: list[BillingDay]


class PlannedDay(TypedDict):
    day: Annotated[str, Schema(format="date")]
    row_count: Count
    costs: Mapping[str, str]
    calls_without_cost: Count
    """FOCUS has no row for them."""
    revision: str
    change: Change
    """Beside what is in force."""
    refused: str | None
    """Why the upstream refuses it; null also while no gateway runs."""


class SentBilling(TypedDict):
    month: Month
    dry_run: bool
    is_running: bool
    wanted: Count
    left_out: Count
    """Days that began before counting did, where `partial` is false."""
    days: list[PlannedDay]
    """Of a dry run."""


class BillingRequests:
    """Every method raises NotFound where no connection is configured, BadPayload for text that is
    not a month, DatabaseUnavailable.
    """

    def __init__(self, book: BillingBook | None, lane: BillingLane | None, now_ms: Callable[[], int]) -> None:
        """*lane* is None where no gateway runs."""
        self._book = book
        self._lane = lane
        self._now_ms = now_ms

    async def show(self, month: str | None) -> BillingAnswer:
        """The state of the lane, and the days of *month*; of the current one where it is None."""
        book = self._opened()
        asked = checked_month(month or day_text(self._now_ms() // HOUR_MS)[:7])
        return {
            "connection": book.settings.connection,
            "month": asked,
            "lane": None if self._lane is None else self._lane.status(),
            "days": await book.days(asked),
        }

    async def send(self, month: str, *, partly_known: bool) -> SentBilling:
        """Ask for the closed days of *month*; the lane sends them."""
        wanted, left_out = await self._opened().want(checked_month(month), partly_known=partly_known)
        if self._lane is not None:
            self._lane.wake()
        return self._answer(month, dry_run=False, wanted=wanted, left_out=left_out, days=[])

    async def plan(self, month: str, *, partly_known: bool) -> SentBilling:
        """What `send` would drop, and, where a gateway runs, why the upstream would refuse it."""
        book = self._opened()
        planned = await book.plan(checked_month(month))
        known = {day["day"]: day["revision"] for day in await book.days(month)}
        chosen = [day for day, is_whole in planned if is_whole or partly_known or known.get(day.text)]
        refusals = {} if self._lane is None else {day.text: await self._lane.refusal(day) for day in chosen}
        days = [_plan_json(day, known.get(day.text), refusals.get(day.text)) for day in chosen]
        return self._answer(month, dry_run=True, wanted=len(days), left_out=len(planned) - len(days), days=days)

    def _answer(self, month: str, *, dry_run: bool, wanted: int, left_out: int, days: list[PlannedDay]) -> SentBilling:
        return {
            "month": month,
            "dry_run": dry_run,
            "is_running": self._lane is not None,
            "wanted": wanted,
            "left_out": left_out,
            "days": days,
        }

    def _opened(self) -> BillingBook:
        if self._book is None:
            raise NotFound(NOT_CONFIGURED)
        return self._book


class RelayRequests:
    """What operations ask of the drops that senders gave to this gateway. Every method raises
    DatabaseUnavailable.
    """

    def __init__(self, home: RelayHome, relay: BillingRelay | None) -> None:
        """*relay* is None where no gateway runs."""
        self._home = home
        self._relay = relay

    async def page(self, request: ListRequest) -> Page:
        return await self._home.read(lambda kept: kept.page(request))

    async def retry(self, drop_id: str) -> None:
        """Send a refused drop again. Raises NotFound."""
        if self._relay is None:
            is_refused = await self._home.commit(lambda kept: kept.retry(drop_id)) is not None
        else:
            is_refused = await self._relay.retry(drop_id)
        if not is_refused:
            raise NotFound("no refused drop has this id")

    async def remove(self, drop_id: str) -> None:
        """Give up a drop that waits or was refused. Raises NotFound."""
        if not await self._home.commit(lambda kept: kept.remove(drop_id)):
            raise NotFound("no drop that waits or was refused has this id")


def checked_month(text: str) -> str:
    if MONTH.fullmatch(text) is None or not "01" <= text[5:] <= "12" or not "1970" <= text < LAST_MONTH:
        raise BadPayload("month: YYYY-MM is needed, such as 2026-01")
    return text


def _plan_json(day: DayContent, dropped: str | None, refused: str | None) -> PlannedDay:
    return {
        "day": day.text,
        "row_count": len(day.lines),
        "costs": day.costs,
        "calls_without_cost": day.calls_without_cost,
        "revision": day.digest,
        "change": _change(day, dropped),
        "refused": refused,
    }


def _change(day: DayContent, dropped: str | None) -> Change:
    if dropped is None:
        return "new"
    return "none" if dropped == day.digest else "changed"
