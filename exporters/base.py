"""What every exporter is: one verb, `send`, and its five endings."""

from dataclasses import dataclass
from typing import Protocol

from spool.record import Batch
from spool.store import Refusal


@dataclass(frozen=True, slots=True)
class Delivered:
    """The upstream has the batch, but for the records it *refused*."""

    refused: tuple[Refusal, ...] = ()
    """Each placed; or of OTLP's `partial_success`, which may count refusals and place none
    (`Refusal.index` is None): none of the batch may be sent again."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try the same batch again later."""

    reason: str
    answered: bool
    """Whether the upstream answered (then the next try carries another
    idempotency key) or fell silent."""
    after_s: float | None = None
    """The upstream's own wish (`Retry-After`), bounded to an hour; None
    lets the back-off decide."""
    throttled: bool = False
    """The upstream asks the whole lane to slow down (429, 503), which is not held against this
    batch."""
    may_be_there: bool = False
    """No answer came, or none that can be read, and the request may have arrived: a connection was
    made."""
    unreadable: bool = False
    """An answer came that cannot be read whole. The upstream knows each record that comes again,
    so if it happens again, halves may go instead: theirs are shorter."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The lane cannot work as it is set up (key, scope, path): stop it, keep
    its data, probe now and then.
    """

    reason: str
    answered: bool = True
    """False when nothing was sent or no answer came (no key, a certificate that no one trusts)."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The upstream refuses these bytes for ever: split them until the culprits stand
    alone, and dead-letter those.
    """

    code: str
    message: str
    too_large: bool = False
    """The size was the reason, so smaller batches may pass whole."""
    may_be_there: bool = False
    """The upstream may have taken it, and would not know it as a repeat: nothing of it is sent
    again unasked, whole or in parts."""


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A success that does not account for the batch (`exporters.accounting`): nothing of it counts
    as delivered, and nothing as refused. It is sent again under the same idempotency key, then in
    halves, then the lane is held.
    """

    reason: str
    is_divisible: bool = True
    """False where the upstream knows a repeat by the id of the whole batch alone."""


Outcome = Delivered | Retry | Hold | Refused | NotUnderstood


class Exporter(Protocol):
    """Sends one batch to one upstream. Raises nothing of the transport's own; bugs do raise."""

    async def send(self, batch: Batch) -> Outcome:
        """Send *batch* once."""

    async def close(self) -> None:
        """Give back sockets and files."""
