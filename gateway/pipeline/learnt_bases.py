"""What instrumentations proved of their input, kept over restarts: read at the start, and written
before the calls that were read by it go on.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, Self

import structlog

from gateway.common.storage.errors import DatabaseUnavailable
from gateway.counting.bases import LearntBases, LearntBy, Proofs

log = structlog.get_logger()


class LearntBasesStore(Protocol):
    """Where it is kept; `gateway.stores` has the homes. Raises DatabaseUnavailable."""

    async def read(self) -> list[tuple[LearntBy, Proofs]]:
        """All that is kept, what was proved longest ago first."""

    async def write(self, changed: Sequence[tuple[LearntBy, Proofs]], gone: Sequence[LearntBy]) -> None:
        """Keep what *changed* and forget what is *gone*, in one commit."""


class KeptLearntBases:
    """Open with `KeptLearntBases.open`."""

    def __init__(self, store: LearntBasesStore, bases: LearntBases) -> None:
        self._store = store
        self.bases = bases
        self._is_failing = False

    @classmethod
    async def open(cls, store: LearntBasesStore) -> Self:
        """Raises DatabaseUnavailable."""
        bases = LearntBases()
        bases.restore(await store.read())
        return cls(store, bases)

    async def write(self) -> None:
        """Write down what changed since. What cannot be written is tried again the next time:
        calls do not wait for it.
        """
        changed, gone = self.bases.changed(), list(self.bases.gone)
        if not changed and not gone:
            return
        try:
            await self._store.write(changed, gone)
        except DatabaseUnavailable as error:
            if not self._is_failing:
                log.warning("what senders proved of their input cannot be written down yet", error=type(error).__name__)
            self._is_failing = True
            return
        self._is_failing = False
        del self.bases.gone[: len(gone)]
        for _, proofs in changed:
            proofs.is_changed, proofs.written_ms = False, proofs.last_ms

    async def close(self) -> None:
        """Write the rest."""
        with suppress(DatabaseUnavailable):
            await self.write()
