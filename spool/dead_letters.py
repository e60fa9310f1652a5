"""Dead letters as an operator sees them: what can be asked for, and what is answered. Pure."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from spool.record import Lane

QUARANTINED = "quarantined"
"""Reason of dead letters whose records the spool lost; every other one is the upstream's."""

SortKey = Literal["buried_at", "lane", "reason"]


class Chosen(NamedTuple):
    """Which dead letters: those for which all that is set holds."""

    lanes: tuple[Lane, ...] = ()
    """Any of these; empty for all."""
    reasons: tuple[str, ...] = ()
    """The upstream's codes, any of these; empty for all."""
    since_ms: int | None = None
    """Set aside at this wall-clock time or later."""
    until_ms: int | None = None
    """Set aside before this time."""
    ids: tuple[int, ...] = ()

    @property
    def is_all(self) -> bool:
        """Nothing is set, so every dead letter is chosen."""
        return self == Chosen()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that the upstream refused for good."""

    id: int
    lane: Lane
    buried_ms: int
    reason: str
    """The upstream's code, or one of ours."""
    message: str
    """The upstream's words, cut to 512 characters."""
    size_bytes: int
    """Of the record."""
    record: bytes


class Place(NamedTuple):
    """Beside the dead letter with this sort value and id."""

    value: str | int | float
    id: int


class LetterPage(NamedTuple):
    """Dead letters in order, as of one moment."""

    letters: list[DeadLetter]
    is_first: bool
    """Whether none of those that were asked for is before them."""
    total: int
    """Of all that were asked for."""


def place_of(letter: DeadLetter, sort: SortKey) -> Place:
    values: dict[SortKey, str | int] = {"buried_at": letter.buried_ms, "lane": letter.lane, "reason": letter.reason}
    return Place(values[sort], letter.id)


class ReasonCount(NamedTuple):
    lane: Lane
    reason: str
    records: int
    size_bytes: int
    oldest_ms: int
    newest_ms: int


class Requeued(NamedTuple):
    """What became of the chosen dead letters."""

    replayed: dict[Lane, int]
    """Records that are pending again."""
    skipped: int
    """Of a lane that is not set up any more, or whose bytes the spool itself could not read."""


class DeadLetterSummary(NamedTuple):
    """Counts beside those of the two identities, as of a moment ago."""

    reasons: tuple[ReasonCount, ...] = ()
    """Dead letters whose bytes are here."""
    counts: tuple[tuple[Lane, str, int], ...] = ()
    """(lane, name of `spool.sql.replay.side_counts`, n)."""
    sending_again: tuple[tuple[Lane, int], ...] = ()
    """Delivered records that are still to be sent again."""

    @property
    def size_bytes(self) -> int:
        """Of the records of all dead letters."""
        return sum(reason.size_bytes for reason in self.reasons)
