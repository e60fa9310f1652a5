"""Answers that are not understood, and how the records at fault are found. Pure.

1. The batch goes again after up to a second: the same bytes under the same idempotency key.
2. If that is not understood either, it goes in halves, one at a time, oldest first, down to single
   records. Parts that are understood are delivered. A batch that must not be halved counts as one
   record here.
3. A single record whose answer is not understood is kept back, and the next part goes. The lane is
   held when `HOPELESS` records in a row were kept back with nothing understood between them; each
   probe then goes on with the next part.
4. After the last part those that were kept back go again. The first that is not understood holds
   the lane: it is probed until it is, and nothing newer goes before it.

All of this is in memory. After a restart it begins again, since nothing was delivered or refused.
"""

from typing import Literal

from exporters.base import NotUnderstood
from spool.record import Batch

HOPELESS = 2
"""Records in a row. One may be at fault alone; after two, no answer may be one."""

Step = Literal["again", "halve", "keep_back", "hold", "bury"]


class Narrowing:
    def __init__(self) -> None:
        self.reason: str | None = None
        """Why the last answer is not understood; None while answers are."""
        self.is_last_round = False
        """All parts were tried; those that were kept back go again."""
        self._repeated: set[str] = set()
        """Ids of batches that went a second time."""
        self._parts_of: set[str] = set()
        """`sent_at` of batches, which their parts inherit."""
        self._halved: set[str] = set()
        """Those of them that were halved."""
        self._in_a_row = 0
        self._buries = 0

    @property
    def is_open(self) -> bool:
        """Until it is closed only parts go, one at a time."""
        return self.reason is not None

    @property
    def is_hopeless(self) -> bool:
        return self._in_a_row >= HOPELESS

    def is_part(self, batch: Batch) -> bool:
        """Whether the answer to *batch*, or to one that it was a part of, was not understood."""
        return batch.sent_at in self._parts_of

    def step(self, batch: Batch, answer: NotUnderstood) -> Step:
        """What becomes of *batch* after *answer*."""
        self.reason = answer.reason
        self._parts_of.add(batch.sent_at)
        if batch.batch_id not in self._repeated and batch.sent_at not in self._halved:
            self._repeated.add(batch.batch_id)
            return "hold" if self.is_last_round else "again"
        if len(batch.records) > 1 and answer.is_divisible:
            self._halved.add(batch.sent_at)
            return "halve"
        if self._buries:
            self._buries -= 1
            return "bury"
        self._in_a_row += 1
        return "hold" if self.is_last_round else "keep_back"

    def understood(self) -> None:
        """The answer to a batch was."""
        self._in_a_row = 0
        if self.is_last_round:
            self.close()

    def begin_last_round(self) -> None:
        self.is_last_round = True

    def bury(self, batches: int) -> None:
        """An operator's word: so many that would be kept back become dead letters."""
        self._buries = batches

    def close(self) -> None:
        """Every part was understood."""
        self.reason = None
        self.is_last_round = False
        self._repeated.clear()
        self._parts_of.clear()
        self._halved.clear()
        self._in_a_row = self._buries = 0
