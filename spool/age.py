"""How old things are: a clock that only time really spent moves on, whatever the wall clock does.

Ages (`max_age`, `keep_delivered`, settling, waits) are differences of this clock. While the process
runs it follows the system's monotonic clock. A stop lasts as long as the wall clock states, but at
most `LONGEST_STOP_MS`: so a machine that starts with its clock years ahead makes nothing older than
a day, and one that starts years behind makes nothing younger. It begins as the wall clock, and
differs from it only by what that jumped.
"""

import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple

LONGEST_STOP_MS: Final = 86_400_000
"""A stop counts as at most a day. A longer one keeps its records longer than `max_age`
states, which loses nothing."""

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 0))


class Seen(NamedTuple):
    """Both clocks at one moment, as they are written to disk now and then."""

    age_ms: int
    wall_ms: int


def monotonic_ms() -> int:
    """Goes on while the machine is suspended: on Linux by a clock of its own, on macOS and Windows
    the monotonic one does.
    """
    if sys.platform == "win32":
        return time.monotonic_ns() // 1_000_000
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


class AgeClock:
    """Call it for the time in ms; it never goes back."""

    def __init__(self, start_ms: int, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._offset_ms = start_ms - monotonic_ms()

    def __call__(self) -> int:
        return self._monotonic_ms() + self._offset_ms


def age_at_start(seen: Seen | None, newest_ms: int | None, wall_ms: int) -> int:
    """Where the clock goes on: after what was *seen* last and after the *newest* acceptance; None
    for what there is none of.
    """
    if newest_ms is None and seen is None:
        return wall_ms
    if seen is None:  # a file of an earlier release: its times are the wall clock's
        last_ms = newest_ms or 0
        return min(wall_ms, last_ms + LONGEST_STOP_MS)
    newest_ms = min(newest_ms or 0, seen.age_ms + LONGEST_STOP_MS)  # a stamp from years ahead is no time
    last_ms = max(seen.age_ms, newest_ms)
    stopped_ms = wall_ms - (seen.wall_ms + last_ms - seen.age_ms)
    return last_ms + min(max(stopped_ms, 0), LONGEST_STOP_MS)
