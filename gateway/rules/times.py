"""Times of the wire (ns since the epoch) as the record has them. Pure."""

from spool.record import Flag

NS_PER_MS = 1_000_000
FIRST_NS = 946_684_800 * 10**9
"""2000-01-01: an earlier start is no time of an AI call but a unit mistaken, or a clock never set.
Calls outside FIRST_NS to LAST_NS are rejected."""
LAST_NS = 4_102_444_800 * 10**9
"""2100-01-01."""
AHEAD_MS = 5 * 60 * 1000
"""A start this far ahead of its receipt is flagged `clock_skew`."""
LATE_MS = 24 * 3600 * 1000
"""A start this far before its receipt is flagged `late`."""


def ms_of(ns: int) -> int:
    """Whole milliseconds since the epoch, rounded down."""
    return ns // NS_PER_MS


def duration_ms(start_ns: int, end_ns: int) -> int | None:
    """Rounded; None when the end is not after the start by any sane measure."""
    if end_ns < start_ns or end_ns >= LAST_NS:
        return None
    return (end_ns - start_ns + NS_PER_MS // 2) // NS_PER_MS


def time_flags(start_ms: int, received_at_ms: int) -> list[Flag]:
    """`clock_skew` or `late`, where the start is far from the receipt. A fresh list."""
    ahead = start_ms - received_at_ms
    if ahead > AHEAD_MS:
        return ["clock_skew"]
    if ahead < -LATE_MS:
        return ["late"]
    return []
