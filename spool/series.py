"""What metrics keep in the spool: series, pending aggregates, and which source reported what.

Pure.
"""

from typing import Final, NamedTuple

KEYS_AT_ONCE: Final = 500
"""Series read in one statement; more are read in several, so that appends do not wait long."""
SORT_AT_ONCE: Final = 5_000
"""Series sorted at a time: other threads wait that long."""
FORGET_AT_ONCE: Final = 2_000
"""Rows deleted in one commit."""


class SeriesRow(NamedTuple):
    """The last value of one series."""

    key: bytes
    start_ns: int
    time_ns: int
    value: int
    measurements: int
    seen_ms: int
    until_ms: int


class SightingRow(NamedTuple):
    """A source, and when it was active last."""

    whose: str
    seen_ms: int


class NewHeld(NamedTuple):
    """An aggregate that is to wait: its digest and its record."""

    facts: bytes
    record: bytes


class Held(NamedTuple):
    """One pending aggregate."""

    held_id: int
    received_ms: int
    facts: bytes
    record: bytes


class Ending(NamedTuple):
    """What was decided about a pending aggregate."""

    held_id: int
    outcome: str | None
    """`suppressed.<reason>` drops it; None releases it as *record*."""
    record: bytes
