"""What an edge writes into the journal, and what the owner of the cell reads there. Pure.

A row holds the payloads of one commit: a pickle of plain types alone (protocol 5, which every
Python from 3.8 on reads). Reading one makes no object of any class, whatever the row holds. A row
states its form, so that a release that does not know it leaves it to one that does. Gateways of two
releases write the newest form that all of them read.
"""

import io
import pickle
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from gateway.fleet.senders.noting import SenderNotes
from gateway.pipeline.parsing.frames import pack, unpack
from gateway.pipeline.parsing.parse import Parsed
from gateway.rules.context import Context


class JournalCorrupt(Exception):
    """A row does not hold together. Its text quotes nothing of it."""


class Entry(NamedTuple):
    """One payload, or several of one head that were read together."""

    kind: str
    """As `Payload` has it."""
    parsed: Parsed
    """As a front read and priced it."""
    sent_by: "SentBy"
    payloads: int = 1


class SentBy(NamedTuple):
    """What differs in a `Context` from payload to payload."""

    received_at_ms: int
    received_at: str
    key: str | None
    counted_as: str | None
    peer: str
    key_fixes: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, context: Context) -> "SentBy":
        return cls(
            context.received_at_ms,
            context.received_at,
            context.key,
            context.counted_as,
            context.peer,
            tuple(context.key_fixes.items()),
        )

    def context(self, base: Context) -> Context:
        """*base*, which is the same for all payloads, with these."""
        return base._replace(**{**self._asdict(), "key_fixes": dict(self.key_fixes)})


def write_row(entries: Sequence[Entry], notes: SenderNotes) -> bytes:
    """The body of a row. *notes*: what senders were seen to do since the row before."""
    payloads = [(entry.kind, pack(entry.parsed, list), tuple(entry.sent_by), entry.payloads) for entry in entries]
    return pickle.dumps((payloads, tuple(notes)), protocol=5)


def read_row(body: bytes) -> tuple[list[Entry], SenderNotes]:
    """The inverse of `write_row`. Raises JournalCorrupt."""
    try:
        payloads, notes = _PlainUnpickler(io.BytesIO(body)).load()
        return [_entry(*payload) for payload in payloads], SenderNotes._make(notes)
    except (pickle.UnpicklingError, TypeError, ValueError, EOFError, IndexError, KeyError) as error:
        raise JournalCorrupt("a row of the journal does not hold together") from error


def _entry(kind: str, parsed: tuple[Any, ...], sent_by: tuple[Any, ...], payloads: int) -> Entry:
    return Entry(kind, unpack(parsed, iter), SentBy._make(sent_by), payloads)


class _PlainUnpickler(pickle.Unpickler):
    """Makes numbers, texts, bytes and containers of them."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise pickle.UnpicklingError("a class")


class Form(NamedTuple):
    """One way to write a row."""

    write: Callable[[Sequence[Entry], SenderNotes], bytes]
    read: Callable[[bytes], tuple[list[Entry], SenderNotes]]
    """Raises JournalCorrupt."""


FORMS: Final[dict[int, Form]] = {1: Form(write_row, read_row)}
"""Those that this release writes and reads, oldest first. A newer one reads them all."""
OLDEST: Final = min(FORMS)
"""Which every gateway of the cell reads."""


def shared_form(known: Iterable[Collection[int]]) -> int:
    """The newest form that this release and gateways which know *known* read. Of none: the oldest
    one, since it is not known who else is there.
    """
    others = list(known)
    return max(FORMS.keys() & set.intersection(*map(set, others)), default=OLDEST) if others else OLDEST
