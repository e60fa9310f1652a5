"""The senders, kept over restarts: read at the start, written about once a minute and at the end.
What came since the last write is missing after a kill.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, Self

from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.senders.activity import Activity, SenderId, Senders

WRITE_EVERY_S: Final = 60.0


class SenderStore(Protocol):
    """Where they are kept; `gateway.stores` has the homes. Raises DatabaseUnavailable."""

    async def read(self) -> list[tuple[SenderId, Activity]]:
        """All that are kept, in any order."""

    async def write(self, changed: Sequence[tuple[SenderId, Activity]], gone: Sequence[int]) -> None:
        """Keep what *changed*, and forget the senders of these numbers, in one commit."""


class KeptSenders:
    """Open with `KeptSenders.open`."""

    def __init__(self, store: SenderStore, senders: Senders) -> None:
        self._store = store
        self.senders = senders

    @classmethod
    async def open(cls, store: SenderStore, now_ms: Callable[[], int]) -> Self:
        """Raises DatabaseUnavailable."""
        senders = Senders(now_ms)
        senders.restore(sorted(await store.read(), key=lambda row: row[1].last_ms))
        return cls(store, senders)

    async def close(self) -> None:
        """Write the rest; a store that cannot be written costs at most what came since the last
        time.
        """
        with suppress(DatabaseUnavailable):
            await self.write()

    async def write(self) -> None:
        """Write down what changed since. Raises DatabaseUnavailable, and what changed stays so."""
        changed = list(self.senders.changed())
        gone, self.senders.gone = self.senders.gone, []
        if not changed and not gone:
            return
        for _, activity in changed:
            activity.is_changed = False
        try:
            await self._store.write(changed, gone)
        except BaseException:
            self.senders.gone = gone + self.senders.gone
            for _, activity in changed:
                activity.is_changed = True
            raise
