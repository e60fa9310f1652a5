"""How long a commit waits for more to share it, as databases delay commits under load. Asked by the
spool's writer, and where requests are gathered that will be one append.

A commit writes a few pages and syncs once, however little it holds. While appends keep coming, one
that waits a moment holds several. A lone sender that waits for each answer gains nothing by it, nor
does a spool that is seldom written: there is no wait then, except in a probe now and then, which
looks whether there would be company now. Nor is there one for more than came of late: senders that
all wait for their answers send no more; now and then a commit looks whether more would come.
"""

from collections import deque

DELAY_S = 0.002
"""The longest wait, from the first append that waits."""
MAX_APPENDS = 16
"""With so many a commit never waits longer."""
_OF_LATE = 8
"""The largest of so many commits is what another one waits for at most."""
IDLE_S = 0.01
"""After so long without a commit of appends nothing else is to be expected soon."""
PROBE_EVERY = 32
STRETCH_EVERY = 64
"""One commit in so many waits for more than came of late."""
_WORTH = 0.5
"""Appends that come within the delay, beside the first, on average: a wait saves at least one
commit in three."""


class CommitDelay:
    """Of one place where appends gather; times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._company = 0.0
        """Smoothed number of further appends that commits gained by waiting."""
        self._sizes = deque([MAX_APPENDS], _OF_LATE)
        self._last_s = float("-inf")
        self._since_probe = 0
        self._waited = False
        self._to_stretch = STRETCH_EVERY

    @property
    def enough(self) -> int:
        """With so many appends a commit waits no longer."""
        return min(max(self._sizes), MAX_APPENDS) if self._to_stretch else MAX_APPENDS

    def until_s(self, first_s: float) -> float:
        """When to commit appends of which the first came at *first_s*; in the past: at once."""
        self._since_probe += 1
        is_probe = self._since_probe >= PROBE_EVERY
        self._waited = first_s - self._last_s < IDLE_S and (is_probe or self._company >= _WORTH)
        return first_s + DELAY_S if self._waited else first_s

    def committed(self, appends: int, now_s: float) -> None:
        """A commit that held so many of them ended."""
        self._last_s = now_s
        self._sizes.append(appends)
        self._to_stretch = self._to_stretch - 1 if self._to_stretch else STRETCH_EVERY
        if self._waited:
            self._since_probe = 0
            self._company = (self._company + appends - 1) / 2
            self._waited = False
