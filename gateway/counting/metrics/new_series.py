"""How many new series each source brought lately. Pure.

Each costs a row of the spool and the work of an aggregate; a source whose labels never repeat
(a request id among them) would fill the spool with them.
"""

from typing import Final

from gateway.common.contract.errors import OverQuota
from gateway.common.lru import forget_oldest

MAX_SOURCES: Final = 10_000


class NewSeries:
    """Of each source, by the window it last reported in."""

    def __init__(self, most: int, window_ms: int) -> None:
        self._most = most
        self._window_ms = window_ms
        self._counts: dict[str, tuple[int, int]] = {}
        """Source -> begin of its window in ms, and series since then."""

    def note(self, source: str, series: int, now_ms: int) -> None:
        """*source* brought so many new *series*."""
        if not series:
            return
        begun_ms, known = self._counts.pop(source, (now_ms, 0))
        if not 0 <= now_ms - begun_ms < self._window_ms:
            begun_ms, known = now_ms, 0
        self._counts[source] = (begun_ms, known + series)
        forget_oldest(self._counts, MAX_SOURCES)

    def wait_ms(self, source: str, now_ms: int) -> int:
        """How long *source* must wait until it may bring more; 0 for not at all."""
        begun_ms, known = self._counts.get(source, (now_ms, 0))
        ends_ms = begun_ms + self._window_ms
        return ends_ms - now_ms if known >= self._most and begun_ms <= now_ms < ends_ms else 0

    def waiting_ms(self, now_ms: int) -> dict[str, int]:
        """Each source that must wait, and for how long."""
        waits = ((source, self.wait_ms(source, now_ms)) for source in self._counts)
        return {source: wait_ms for source, wait_ms in waits if wait_ms}


def too_many_series(most: int, window_ms: int, wait_ms: int) -> OverQuota:
    """For a source that brought *most* of them within the window."""
    return OverQuota(
        f"this sender brought {most} new series of metrics within {window_ms // 1000} s: send attributes that repeat,"
        " or raise limits.max_source_series of the gateway",
        retry_after_s=-(-wait_ms // 1000),
        reason="too_many_series",
        key="",
    )
