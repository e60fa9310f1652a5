"""How fast something empties, and so when it is worth coming again. Pure: the clock comes in."""

from collections.abc import Callable
from math import ceil
from typing import Final

WINDOW_S: Final = 10.0
"""The rate is that of the last one to two windows."""
SHORTEST_S: Final = 1
LONGEST_S: Final = 300
NOTHING_DRAINS_S: Final = 30
"""What is reported when nothing left lately: long enough to spare us, short enough to
notice an end of the trouble."""


class Drain:
    """Bytes that leave, over time."""

    __slots__ = ("_before_bytes", "_before_s", "_bytes", "_monotonic_s", "_since_s")

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._bytes = self._before_bytes = 0
        self._since_s = self._before_s = monotonic_s()

    def left(self, n_bytes: int) -> None:
        """*n_bytes* are gone."""
        self._turn(self._monotonic_s())
        self._bytes += n_bytes

    def wait_s(self, over_bytes: int) -> int:
        """Whole seconds until *over_bytes* will have left, at the rate of late: 1 to
        300; 30 when nothing leaves.
        """
        now_s = self._monotonic_s()
        self._turn(now_s)
        gone_bytes = self._before_bytes + self._bytes
        elapsed_s = max(now_s - self._before_s, 1.0)
        if gone_bytes <= 0:
            return NOTHING_DRAINS_S
        return min(LONGEST_S, max(SHORTEST_S, ceil(over_bytes * elapsed_s / gone_bytes)))

    def _turn(self, now_s: float) -> None:
        """Forget what left before the last window."""
        if now_s - self._since_s >= 2 * WINDOW_S:
            self._before_bytes, self._before_s = 0, now_s
        elif now_s - self._since_s >= WINDOW_S:
            self._before_bytes, self._before_s = self._bytes, self._since_s
        else:
            return
        self._bytes, self._since_s = 0, now_s
