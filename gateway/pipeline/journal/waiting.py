"""What waits in the journal, compared with what its owner counts. It decides how much more is
taken, and when a sender should come again.
"""

import time
from collections import deque
from collections.abc import Callable
from math import ceil
from typing import Final

RATE_OVER_S: Final = 30.0
"""A rate is of so long a time at most."""
RATE_FROM_S: Final = 10.0
"""Of a shorter one nothing is said: an owner that has just started is slower than it will be."""
MAX_WAIT_S: Final = 600.0
"""What would wait for longer is refused."""
RETRY_AFTER_S: Final = 5
"""Where nothing better is known."""
MAX_RETRY_AFTER_S: Final = 60


class Progress:
    """What an owner counts while it is behind: while more waits than is counted at once."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._since_s: float | None = None
        self._bytes = 0
        """Counted since then."""
        self._marks: deque[tuple[float, int]] = deque()
        """(when, bytes counted by then), of the last `RATE_OVER_S` and one before."""

    def note(self, counted_bytes: int, *, is_behind: bool) -> None:
        if not is_behind:
            self._since_s = None
            return
        now_s = self._monotonic_s()
        if self._since_s is None:
            self._since_s, self._bytes = now_s, 0
            self._marks.clear()
        else:
            self._bytes += counted_bytes
        self._marks.append((now_s, self._bytes))
        while len(self._marks) > 1 and self._marks[1][0] <= now_s - RATE_OVER_S:
            self._marks.popleft()

    @property
    def behind_s(self) -> float | None:
        """For how long it has been behind; None while it is not."""
        return None if self._since_s is None else self._monotonic_s() - self._since_s

    @property
    def bytes_per_s(self) -> float | None:
        """None while it is not behind, or for too short a time, or counts nothing at all."""
        if self._since_s is None:
            return None
        (began_s, before), (_, counted) = self._marks[0], self._marks[-1]
        lasted_s = self._monotonic_s() - began_s
        return (counted - before) / lasted_s if lasted_s >= RATE_FROM_S and counted > before else None


class Waiting:
    """What waits in the journal, as a gateway of the cell knows it."""

    def __init__(self) -> None:
        self.journal_bytes = 0
        """As measured last."""
        self.bytes_per_s: float | None = None
        """What the owner counts, as it published it; None while it keeps up, and between two
        owners."""

    def room_bytes(self, max_bytes: int) -> int:
        """How much may wait."""
        return max_bytes if self.bytes_per_s is None else min(max_bytes, int(self.bytes_per_s * MAX_WAIT_S))

    def retry_after_s(self, beyond_bytes: int) -> int:
        """When *beyond_bytes* will be counted."""
        if self.bytes_per_s is None:
            return RETRY_AFTER_S
        return min(MAX_RETRY_AFTER_S, max(RETRY_AFTER_S, ceil(beyond_bytes / self.bytes_per_s)))
