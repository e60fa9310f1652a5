"""Where billing drops by day are kept, as this room uses it: days that are due, the day under way,
and what is in force at the upstream.

A day is due when usage was added to it since its last drop, or when a command asked for it. The day
under way is kept as the bytes that are sent, part by part, until the upstream has them all.

A drop replaces the day at the upstream. A day that began before this home counted may be known in
part only (it may be new beside an old spool), so it is not dropped unasked. For the same reason the
source of the rows stays what it was at first, even with a new spool.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

from gateway.common.storage.home import Home


class Part(NamedTuple):
    """One request of the day under way."""

    part: int
    batch_id: str
    hour: int
    body: bytes
    frozen_at: str
    generation: int
    attempts: int


class Day(NamedTuple):
    """What is known of one day."""

    hour: int
    revision: int
    """Of its usage now."""
    seen_revision: int
    content: str | None
    row_count: int | None
    costs: str | None
    calls_without_cost: int | None
    dropped_at_ms: int | None
    refused: str | None
    refused_revision: int | None
    is_wanted: bool
    is_whole: bool
    """False: the day began before counting did."""

    @property
    def state(self) -> Literal["due", "dropped", "refused"]:
        """`dropped`: what is in force at the upstream is what is counted."""
        if self.refused is not None and self.refused_revision == self.revision and not self.is_wanted:
            return "refused"
        if self.is_wanted or self.seen_revision != self.revision:
            return "due"
        return "dropped"


class Summary(NamedTuple):
    """Numbers of days, over all months."""

    due: int
    refused: int
    dropped: int
    last_dropped_ms: int | None
    parts: int
    """Not days: parts of the day under way that the upstream does not have."""


class BillingRows(Protocol):
    """What is kept of billing, inside one commit or snapshot. *target* names the connection at its
    upstream; hours are since 1970, UTC, a day is named by its first.
    """

    def begin(self, target: str, *, from_hour: int, is_stated: bool, gateway_id: str) -> None:
        """Drop to *target* the days from *from_hour* on. A later call changes that hour only where
        an operator stated it (*is_stated*), and never the source, which is the first call's
        *gateway_id*.
        """

    def source_of(self, target: str) -> str:
        """Whose days they are at the upstream; empty before it began."""

    def due_day(self, target: str, last_hour: int) -> int | None:
        """The oldest day that is due and began at *last_hour* or before; None where none is."""

    def dropped_content(self, target: str, hour: int) -> str | None:
        """Digest of what is in force; None also for a day that a command asked for, which goes out
        again.
        """

    def note_unchanged(self, target: str, hour: int, revision: int) -> None:
        """What is in force is what is counted now."""

    def freeze(
        self,
        target: str,
        hour: int,
        revision: int,
        manifest: dict[str, Any],
        requests: Sequence[tuple[str, bytes]],
        frozen_at: str,
    ) -> None:
        """Put the day under way: its *requests*, each the id of its batch and its body."""

    def next_part(self, target: str) -> Part | None:
        """The first part of the day under way that the upstream does not have."""

    def waiting_parts(self, target: str) -> list[str]:
        """Ids of the batches of the day under way that the upstream does not have."""

    def take(self, target: str, batch_id: str, *, now_ms: int) -> dict[str, Any] | None:
        """The upstream has the part; the manifest of the day where it was the last one, which is
        then in force.
        """

    def give_back(self, target: str, batch_id: str, *, answered: bool, all_parts: bool) -> None:
        """The part goes out again, under another idempotency key where the upstream *answered*;
        *all_parts*: so do those that it took.
        """

    def discard(self, target: str) -> None:
        """The day under way is frozen again."""

    def refuse(self, target: str, why: str) -> None:
        """The upstream refuses the day under way; it is due again when usage is added to it, or
        when a command asks for it.
        """

    def want(self, target: str, hours: Sequence[int]) -> None:
        """Ask for the days that begin with *hours*."""

    def days(self, target: str, first_hour: int, end_hour: int) -> list[Day]:
        """The days that hold usage, in order."""

    def summary(self, target: str, last_hour: int) -> Summary: ...


BillingHome = Home[BillingRows]
