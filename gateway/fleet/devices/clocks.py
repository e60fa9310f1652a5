"""Times of devices are by the suspend-aware monotonic clock (`spool.age`), which no jump of the
wall clock moves; what others read is by the wall clock. Pure.
"""

from typing import Final, NamedTuple

_STEP_MS: Final = 60_000
"""The difference is rounded to it: small corrections of the wall clock must not change the bytes of
an enrolment that is sent again."""


class Now(NamedTuple):
    """One moment by both clocks."""

    ms: int
    """By the suspend-aware monotonic clock."""
    ahead_ms: int
    """What to add to a time of devices for what the wall clock would state: 0 unless that jumped,
    or the gateway stood still for long."""


def now_by(age_ms: int, wall_ms: int) -> Now:
    return Now(age_ms, round((wall_ms - age_ms) / _STEP_MS) * _STEP_MS)
