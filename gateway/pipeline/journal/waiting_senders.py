"""Senders whose metrics brought too many new series: the owner of a cell counts them, and publishes
who must wait.
"""

from collections.abc import Mapping
from typing import Final

from gateway.counting.metrics.new_series import too_many_series
from gateway.pipeline.metrics import Settings

MAX_PUBLISHED: Final = 1000
"""Senders that wait the longest. What further ones bring is counted."""


class WaitingSenders:
    """As a gateway of the cell knows them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.waits_ms: Mapping[str, int] = {}
        """Sender -> until it may bring more, as the owner published it last."""

    def admit(self, sender: str) -> None:
        """Raises OverQuota for one that must wait."""
        if wait_ms := self.waits_ms.get(sender):
            raise too_many_series(self._settings.max_source_series, self._settings.window_ms, wait_ms)


def published(waits_ms: Mapping[str, int]) -> dict[str, int]:
    """What an owner states of *waits_ms*."""
    longest_first = sorted(waits_ms.items(), key=lambda each: -each[1])
    return dict(longest_first[:MAX_PUBLISHED])
