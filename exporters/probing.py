"""Which batches of a braked lane are probed, and in which order. Pure.

A batch of good records with a bad one is refused as a whole, so a probe goes down to a single
record by halves. Its other parts then wait for the next round, and the next probe tries another
batch: records that came later may be good. A record that was refused is not tried again until all
others were.
"""

from dataclasses import replace
from typing import NamedTuple

from spool.record import Batch

MAX_KEPT = 256
"""Batches that are kept leased of each kind; beyond it those that were refused go again."""


class GivenBack(NamedTuple):
    batch: Batch
    """Without its records."""
    is_answered: bool
    """It was sent and refused: it goes again under another idempotency key."""


class Probing:
    def __init__(self) -> None:
        self._refused: list[Batch] = []
        self._skipped: list[Batch] = []
        """Not sent: a part of the same batch was refused in this round."""
        self._probed: set[str] = set()
        """`sent_at` of the batches that a part was refused of in this round; their parts inherit
        it."""

    def __len__(self) -> int:
        return len(self._refused) + len(self._skipped)

    def refused(self, batch: Batch) -> list[GivenBack]:
        """Keep *batch* back; those that are to go again for it."""
        self._probed.add(batch.sent_at)
        self._refused.append(replace(batch, records=()))
        return self._again() if len(self._refused) > MAX_KEPT else []

    def skips(self, batch: Batch) -> bool:
        """Keep *batch* back where another part of it was refused in this round."""
        if batch.sent_at not in self._probed or len(self._skipped) >= MAX_KEPT:
            return False
        self._skipped.append(replace(batch, records=()))
        return True

    def next_round(self) -> list[GivenBack]:
        """Those that go again, after each batch was tried; empty where there are none."""
        self._probed.clear()
        skipped, self._skipped = self._skipped, []
        return [GivenBack(batch, is_answered=False) for batch in skipped] or self._again()

    def end(self) -> list[GivenBack]:
        """The brake is released, or the pump stops: all that was kept."""
        return [*self.next_round(), *self._again()]

    def _again(self) -> list[GivenBack]:
        refused, self._refused = self._refused, []
        return [GivenBack(batch, is_answered=True) for batch in refused]
