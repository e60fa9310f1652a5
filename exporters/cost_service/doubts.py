"""Batches that the upstream knows by their idempotency key alone, and whose last try
may have arrived unheard.

Under another key the upstream would carry out such a batch twice. A failure that is answered later
may come from something in front of the service, which knows no keys: it says nothing about the
silent try. So the key stays for some more tries. The service itself, asked under a key that it
knows, repeats its first answer, errors too and for ever: if that is still no success, nothing was
carried out, and the batch goes under another key as after any answered failure. If it is a success
that cannot be read, under the same key each time, it may list records that were refused: the batch
is set aside for the operator. One that is read and not understood holds the lane, whole.
"""

from dataclasses import replace

from exporters.base import Delivered, Hold, NotUnderstood, Outcome, Refused, Retry
from spool.record import Batch

SAME_KEY_TRIES = 6
"""Seconds while other batches pass, half a minute while none does."""


class Doubts:
    """One exporter's; kept in memory, since a batch that an earlier process may
    have sent states it itself.
    """

    def __init__(self) -> None:
        self._tries: dict[str, int | None] = {}
        """Batch -> answered failures since it may have arrived; None while it cannot have."""
        self._unreadable: dict[str, int] = {}
        """Batch -> answers that could not be read."""
        self._begun: set[str] = set()

    def begin(self, batch: Batch) -> None:
        """A try of *batch* goes out: one before it that never came to `settled`, since its pump is
        gone, may have arrived.
        """
        if batch.batch_id in self._begun:
            self._tries[batch.batch_id] = self._tries.get(batch.batch_id) or 0
        self._begun.add(batch.batch_id)

    def settled(self, batch: Batch, found: Outcome) -> Outcome:
        """*found*, as it counts for a batch that only its key distinguishes from a new one."""
        self._begun.discard(batch.batch_id)
        if batch.batch_id not in self._tries:  # an answered failure raises both, silence the attempts alone
            self._tries[batch.batch_id] = 0 if batch.attempts > batch.generation else None
        tries = self._tries[batch.batch_id]
        match found:
            case Delivered() | Refused():
                self._forget(batch)
            case Retry(unreadable=True):
                self._tries[batch.batch_id] = tries or 0
                unreadable = self._unreadable[batch.batch_id] = self._unreadable.get(batch.batch_id, 0) + 1
                if unreadable > SAME_KEY_TRIES:
                    self._forget(batch)
                    return Refused("ambiguous_answer", found.reason, may_be_there=True)
                return replace(found, unreadable=False)
            case Retry(may_be_there=True):
                self._tries[batch.batch_id] = tries or 0
            case NotUnderstood():
                self._tries[batch.batch_id] = tries or 0
                return replace(found, is_divisible=False)
            case Hold(answered=True) if tries is not None:
                return replace(found, answered=False)
            case Retry(answered=True) if tries is not None:
                self._tries[batch.batch_id] = tries + 1 if tries < SAME_KEY_TRIES else None
                return replace(found, answered=tries >= SAME_KEY_TRIES)
            case _:
                pass
        return found

    def _forget(self, batch: Batch) -> None:
        del self._tries[batch.batch_id]
        self._unreadable.pop(batch.batch_id, None)
