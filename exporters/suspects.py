"""Batches that fail while others pass: each is a suspect of its own, and no
reason to stop the lane. Pure.

A failure that follows one batch around points at its payload (spool promise C09): after
`SUSPECT_FAILURES` of them, with as many other batches delivered meanwhile, the batch is split; a
single record, or a batch that only ever meets silence (it may have arrived, so its id must stay),
is parked: kept leased, tried again after a delay of its own. Attempts alone never end a record.

An answer that cannot be read whole points at the size of its batch, whatever becomes of others:
after `UNREADABLE_ANSWERS` of them the batch is split.
"""

from dataclasses import dataclass
from typing import Literal

SUSPECT_FAILURES = 5
UNREADABLE_ANSWERS = 2
"""One that was cut on its way comes whole the second time."""
MAX_PARKED = 16
"""Beyond it the lane pauses as for any failure: so many suspects are an outage."""

Suspicion = Literal["none", "split", "park"]


@dataclass(slots=True)
class _History:
    failures: int
    answered: bool
    passed_before: int
    unreadable: int = 0


class Suspects:
    def __init__(self) -> None:
        self._passed = 0
        self._histories: dict[str, _History] = {}

    def passed(self, batch_id: str) -> None:
        self._passed += 1
        self.forget(batch_id)

    def forget(self, batch_id: str) -> None:
        self._histories.pop(batch_id, None)

    def failures(self, batch_id: str) -> int:
        history = self._histories.get(batch_id)
        return history.failures if history else 0

    def failed(
        self, batch_id: str, *, records: int, answered: bool, parked: int, unreadable: bool = False
    ) -> Suspicion:
        """Count a failure of the batch; what it points at. *parked*
        suspects are waiting already. *unreadable*: an answer came that cannot be read whole.
        """
        history = self._histories.setdefault(batch_id, _History(0, answered=False, passed_before=self._passed))
        history.failures += 1
        history.answered = history.answered or answered
        history.unreadable += unreadable
        if records > 1 and unreadable and history.unreadable >= UNREADABLE_ANSWERS:
            self.forget(batch_id)
            return "split"
        others_passed = self._passed - history.passed_before
        if history.failures < SUSPECT_FAILURES or others_passed < SUSPECT_FAILURES:
            return "none"
        if records > 1 and history.answered:
            self.forget(batch_id)
            return "split"
        return "park" if parked < MAX_PARKED else "none"
