"""The spool as its users see it: append, settle, freeze, ack, release, split, bury, depth.

Two homes implement it: SQLite (`spool.sqlite`), and a replicated one later. All methods are called on the event
loop's thread; the awaitables complete when the change is on disk.
"""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from spool.record import Batch, Lane


@dataclass(frozen=True, slots=True)
class Refusal:
    """One record the far end would not take."""

    index: int
    """Position in the batch."""
    code: str
    message: str
    """Safe to show: the far end's words, cut to 512 characters."""


@dataclass(frozen=True, slots=True)
class Depth:
    """What a lane holds. `kept = delivered + pending + dead_lettered + expired` at all times."""

    kept: int
    delivered: int
    pending: int
    dead_lettered: int
    expired: int
    oldest_pending_ms: int | None
    """Wall-clock time in ms at which the oldest pending record was received; None when nothing is pending."""


@dataclass(slots=True)
class ItemCounts:
    """Items of one append by their fate at the edge: `received = kept + duplicate + suppressed + rejected + ignored`."""

    received: int = 0
    kept: int = 0
    duplicate: int = 0
    suppressed: int = 0
    rejected: int = 0
    ignored: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """`<fate>.<reason>` -> count, for the figures behind the fates."""


class LaneStore(Protocol):
    """The part of the spool that a pump uses."""

    @property
    def gateway_id(self) -> str:
        """Identity of this store, made with it: sent as `X-Gateway-Id` and in every envelope."""

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        """Fix the next batch of *lane* on disk, oldest first, and lease it; None when nothing is ready.

        Batches frozen earlier and not leased now (released, or left by a restart) come first, with the same id,
        generation and bytes. Raises SpoolCorrupt when the file cannot be read.
        """

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        """The far end has the batch, but for the *refused* records, which become dead letters."""

    async def release(self, batch: Batch, *, answered: bool) -> None:
        """Give the batch back, to be frozen again unchanged; *answered* (a non-2xx came) raises its generation."""

    async def split(self, batch: Batch) -> None:
        """Replace the batch by its two halves, each a batch with an id of its own. Needs at least two records."""

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        """Set every record of the batch aside as a dead letter, with the far end's reason."""

    def depth(self, lane: Lane) -> Depth:
        """The lane's counts now."""

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        """Return when something may be ready to freeze in *lane*, or after *timeout_s*."""


class Spool(LaneStore, Protocol):
    """The whole spool, as the intake uses it."""

    def admit(self, size: int) -> None:
        """Raise SpoolFull when *size* more bytes may not be kept, SpoolError while nothing may; asked before anything is counted."""

    def turn(self) -> AbstractContextManager[object]:
        """While it is held, a `position` stays true until the `append` that takes it; hold it briefly."""

    def position(self, lane: Lane) -> tuple[int, int]:
        """(chunk, index) that the next record appended to *lane* will have, within one `turn`."""

    def append(
        self, lane: Lane, records: Sequence[bytes], tally: ItemCounts, *, facts: bytes = b"", links: bytes = b""
    ) -> Awaitable[None]:
        """Keep *records* of *lane* and the *tally*, in one commit with whatever else waits; done when on disk.

        *facts* and *links* are the ledger's own evidence, opaque here, given back at start. Raises SpoolError at once, with nothing
        kept, while the ledger is read again after a loss; the awaitable raises SpoolError (SpoolFull: no room on the disk) when the
        commit failed. Limits are `admit`'s: refusing here what was counted already would make its resend a duplicate.
        """

    def edge(self) -> Mapping[str, int]:
        """The edge's counts: received, kept, duplicate, suppressed, rejected, ignored."""
