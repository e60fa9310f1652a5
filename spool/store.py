"""The spool as its users see it: a protocol for each user, `Spool`, which is all of them, and
`FileSpool`, which is also what only a file on this machine has.

Two homes implement it, with one text of SQL (`spool.sql`): a file (`spool.sqlite`), and a schema of
Postgres (`spool.postgres`). All methods are called on the event loop's thread, except where one
states otherwise; awaitables complete when the change is on disk. Each raises SpoolError when the
spool cannot keep or give records now.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from spool.dead_letters import Chosen, DeadLetter, DeadLetterSummary, LetterPage, Place, ReasonCount, Requeued, SortKey
from spool.errors import SpoolError
from spool.events import EventOutcome, IntakeOutcome, NewEvent, RepeatKey
from spool.forgetting import Forgotten
from spool.histogram import Histogram
from spool.record import Batch, Lane
from spool.series import Ending, Held, NewHeld, SeriesRow, SightingRow
from spool.settings import SpoolSettings
from spool.settling import Change, Evidence, Moved, Outcomes, Position, Settled
from spool.status import Quarantined, Room, Verified
from spool.unit_cost import BaseRecord, Created, Metered, Mismatch, Rules, Shape, Stream, StreamState


@dataclass(frozen=True, slots=True)
class Refusal:
    """One record that the upstream refused, or several that it counted."""

    index: int | None
    """Position in the batch; None where it did not say which records they are."""
    code: str
    message: str
    """Safe to show: the upstream's words, cut to 512 characters."""
    records: int = 1
    """More than one only without an index."""


@dataclass(frozen=True, slots=True)
class Depth:
    """What a lane holds.

    `kept = delivered + pending + dead_lettered + expired` at all times.
    """

    kept: int
    delivered: int
    pending: int
    dead_lettered: int
    expired: int
    oldest_pending_ms: int | None
    """Time in ms at which the oldest pending record was received; None when nothing is pending."""
    pending_bytes: int | None = None
    """About: by the mean size of the oldest ones; None where no one measured it."""


@dataclass(slots=True)
class ItemCounts:
    """Items of one append by their outcome: `received = kept + duplicate +
    suppressed + rejected + ignored`.
    """

    received: int = 0
    kept: int = 0
    duplicate: int = 0
    suppressed: int = 0
    rejected: int = 0
    ignored: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """`<outcome>.<reason>` -> items."""


class LaneStore(Protocol):
    """A lane as its pump uses it."""

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        """Fix the next batch of *lane* on disk, oldest first, and lease it;
        None when nothing is ready.

        Batches frozen earlier and not leased now (released, or left by a
        restart) come first, with the same id, generation and bytes. Raises
        SpoolCorrupt when the file cannot be read.
        """

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        """The upstream took the batch, except the *refused* records, which become dead letters."""

    async def release(self, batch: Batch, *, answered: bool) -> None:
        """Give the batch back, to be frozen again unchanged; *answered* (a non-2xx
        came) raises its generation.
        """

    async def split(self, batch: Batch) -> None:
        """Replace the batch by its two halves, each with an id of its own.

        Needs at least two records.
        """

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        """Make every record of the batch a dead letter, with the upstream's reason."""

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        """Return when something may be ready to freeze in *lane*, or after *timeout_s*."""


class BrakeStore(Protocol):
    """Keeps over a restart which lanes are held because their upstream refuses every record."""

    async def brake_reason(self, lane: Lane) -> str | None:
        """None where *lane* is not. Raises SpoolError."""

    async def note_brake(self, lane: Lane, reason: str | None) -> None:
        """On disk when it returns. Raises SpoolError."""


class SupervisedLaneStore(LaneStore, Protocol):
    """A lane as the supervisor of its pump uses it."""

    @property
    def gateway_id(self) -> str:
        """Identity of what is counted here as one, made with the store: records, batches and
        repeats are known by it. Sent as `X-Gateway-Id` and in every envelope.
        """

    def depth(self, lane: Lane) -> Depth:
        """The lane's counts now."""

    async def is_ready(self, lane: Lane, *, max_records: int, max_bytes: int) -> bool:
        """Whether the lane has anything to send now, leased or not."""

    def forget_leases(self, lane: Lane) -> None:
        """The pump of *lane* is gone: its batches go out again as they are, under the same ids."""


class UnitCostLane(SupervisedLaneStore, Protocol):
    """The lane of unit cost: batches of running totals, one stream each;
    `max_records` counts totals.
    """

    async def learn_base(self, stream: str, base: Sequence[BaseRecord] | None) -> None:
        """Keep what the upstream holds of a *stream* of which nothing was sent yet;
        None when that is unknown.
        """

    @property
    def keeps_deletions(self) -> bool:
        """Whether the deletion of a stream waits for a key that grants it."""

    async def streams(self) -> list[Stream]:
        """All streams, by name; also those that are gone."""

    async def block(self, stream: str, for_s: float) -> None:
        """Send nothing of *stream* for so long, but for its deletion: its name is blocked."""

    async def run_maintenance(self, *, keep_totals_ms: int) -> int:
        """Expire records older than `max_age`, forget totals unchanged for
        *keep_totals_ms*; how many expired.
        """


class EventStore(Protocol):
    """Usage events and unit-cost records on their way in.

    A repeat within the window adds nothing.
    """

    async def keep_events(
        self, events: Sequence[NewEvent], rejected: Counter[str], *, counts_repeats: bool = True
    ) -> list[IntakeOutcome]:
        """Keep the new ones, in one commit with the counts of the *rejected* (by reason);
        the outcome of each event.

        *counts_repeats* is false for events that no sender sent: only a
        kept one counts as an item.
        """

    async def keep_records(self, records: Sequence[Metered], repeat_key: RepeatKey | None) -> IntakeOutcome:
        """Keep all *records* of one request or none.

        Without a *repeat_key* a repeat is not recognised.
        """

    async def create_stream(self, name: str, shape: Shape) -> Created | Mismatch:
        """Make a stream before its first record, or state that it is there."""

    async def delete_stream(self, name: str, repeat_key: RepeatKey | None, *, forced: bool) -> EventOutcome | Mismatch:
        """Delete a stream with what waits in it; unless *forced*, only one without records.

        `duplicate` for a repeat, which deletes nothing.
        """

    async def streams(self) -> list[StreamState]:
        """The streams in use, by name."""

    async def note_rejected(self, items: int, reason: str) -> None:
        """Count a request that was refused as a whole."""

    async def forget(self, taken_before_ms: int) -> int:
        """Forget up to `FORGET_AT_ONCE` repeat keys older than that, oldest first; how many."""


class SeriesStore(Protocol):
    """Metrics: the last values of series, pending aggregates, the activity of sources."""

    async def series(self, keys: Sequence[bytes]) -> list[SeriesRow]:
        """The rows of those *keys* that are known."""

    def keep(
        self,
        held: Sequence[NewHeld],
        series: Sequence[SeriesRow],
        sightings: Sequence[SightingRow],
        counts: ItemCounts,
        received_ms: int,
    ) -> Awaitable[None]:
        """Write what payloads of metrics add, in one commit: all
        of it, or with SpoolError nothing.
        """

    def note(self, sightings: Sequence[SightingRow]) -> Awaitable[None]:
        """Write sightings in the commit of what was appended in the same `reserve`, or, with
        SpoolError, neither.
        """

    async def sightings(self, seen_after_ms: int, most: int) -> list[SightingRow]:
        """The latest *most* sightings since then, oldest first."""

    async def oldest_held_ms(self) -> int | None:
        """When the oldest pending aggregate was received; None when none is pending."""

    async def held_count(self) -> int:
        """How many aggregates are pending; takes a step for each."""

    async def due(self, received_through_ms: int, most: int) -> list[Held]:
        """Up to *most* aggregates that were received up to then, oldest first."""

    async def turn_back(self, now_ms: int) -> None:
        """The clock jumped back to *now_ms*: an aggregate received later
        waits as one received now.
        """

    async def end(self, endings: Sequence[Ending], now_ms: int, announce: Callable[[int], None]) -> None:
        """Release pending aggregates in a chunk of their own, or drop them:
        all, or with SpoolError none.

        *announce* gets the chunk's number before any later chunk has one.
        """

    async def forget(self, now_ms: int, seen_before_ms: int) -> int:
        """Forget some series whose `until_ms` is over, and
        sightings before that time; how many.
        """


class NumberingStore(Protocol):
    """The spool numbers records before they are on disk."""

    def reserve(self) -> AbstractContextManager[object]:
        """While it is held, a `position` stays true until the `append` that
        takes it; hold it briefly.
        """

    def position(self, lane: Lane) -> tuple[int, int]:
        """(chunk, index) that the next record appended to *lane* will have. Raises SpoolError while
        appends are refused.
        """


class LostAppend(Protocol):
    def __call__(self, *, is_distrusted: bool) -> None:
        """An append failed after its positions were handed out: what was counted since is void.
        With *is_distrusted* so may be what was counted before: the spool was damaged, or
        `refuse_appends` was called.
        """


class CountingStore(NumberingStore, Protocol):
    """The spool as the ledger, settling and metrics use it."""

    @property
    def series(self) -> SeriesStore:
        """What it keeps of metrics."""

    on_lost_append: LostAppend | None
    lost_appends: int
    """Commits of appends that failed, as far as their senders were
    answered; goes with `settle`."""

    @property
    def sealed_seq(self) -> int:
        """Chunks up to here take no more records: they are on disk or on their way."""

    def wall_ms(self) -> int:
        """The wall clock, for stamps."""

    def number_chunk(self) -> int:
        """The number of a chunk that the next `settle` within this `reserve` writes itself."""

    def settle(
        self,
        lane: Lane,
        through_seq: int,
        changes: Sequence[Change] = (),
        *,
        lost_appends: int | None = None,
        moved: Moved | None = None,
    ) -> Awaitable[None]:
        """Release *lane*'s chunks up to *through_seq*, less what *changes* drop, in one
        commit with the counters.

        *moved* goes with changes of outcome `MOVED`; its chunk is numbered (`number_chunk`)
        in the `reserve` of this call. With *lost_appends*, their number when the changes were
        begun, it raises SpoolError when one was lost since: a record may then have been
        dropped for one that is not on disk.
        """

    async def read(self, lane: Lane, positions: Sequence[Position]) -> list[bytes | None]:
        """The records at *positions*; None for one that is gone or dropped."""

    async def evidence(self, lane: Lane, received_after_ms: int, most_records: int) -> AsyncIterator[list[Evidence]]:
        """What the ledger needs to be rebuilt, page by page, oldest first."""

    async def evidence_of(self, lane: Lane, seq: int) -> Evidence | None:
        """The evidence of one chunk; None when it is gone."""

    async def settled_seq(self, lane: Lane) -> int:
        """The last settled chunk."""

    async def kept_chunks(self, lane: Lane, first_seq: int) -> list[int]:
        """Numbers of *lane*'s chunks on disk, from *first_seq* on."""

    def refuse_appends(self, error: SpoolError) -> None:
        """Refuse appends with *error* until `accept_appends`; calls `on_lost_append`."""

    def accept_appends(self) -> None:
        """The ledger was rebuilt from the file: take appends again."""


class IntakeStore(Protocol):
    """The spool as the front of a gateway uses it."""

    def admit(self, size: int) -> None:
        """Raise SpoolFull when *size* more bytes may not be kept, SpoolError while nothing may.

        It is asked before anything is counted: refusing in `append`
        would make the resend a duplicate.
        """


class AppendStore(NumberingStore, Protocol):
    """The spool as what counts telemetry uses it."""

    def append(
        self, lane: Lane, records: Sequence[bytes], counts: ItemCounts, *, facts: bytes = b"", links: bytes = b""
    ) -> Awaitable[None]:
        """Keep *records* of *lane* and the *counts*, in one commit with all that
        waits; done when on disk.

        *facts* and *links* are the ledger's own evidence, opaque here, given back at start.
        Raises SpoolError at once, with nothing kept, while the ledger is rebuilt after a loss;
        the awaitable raises SpoolError (SpoolFull: no room on the disk) when the commit failed.
        """


class SettledReader(Protocol):
    """Settled records, read along behind the lanes; a settled chunk never changes."""

    @property
    def gateway_id(self) -> str:
        """As `LaneStore` has it."""

    def age_ms(self) -> int:
        """As `StatusStore` has it."""

    async def settled_records(self, lane: Lane, after_seq: int, *, max_bytes: int) -> Settled:
        """The records of *lane*'s settled chunks after *after_seq*: whole chunks,
        until they hold *max_bytes*.

        Damaged rows are left out. `through_seq` is less than *after_seq* when the spool never
        came that far: then it is not the file that the reader knew. Chunks that every lane has
        delivered are deleted whether a reader reached them or not, but for `keep_after`.
        """

    def keep_after(self, lane: Lane, seq: int) -> None:
        """Keep *lane*'s chunks after *seq*, also when they are delivered and old, until this is
        called again: a reader has stored nothing of them. While the spool is crowded they go.
        """

    async def settled_outcomes(self, lane: Lane, after_seq: int, *, max_bytes: int, max_behind: int) -> Outcomes:
        """What became of each record of *lane*'s settled chunks after *after_seq*, dropped ones
        too: whole chunks, until they hold *max_bytes*.

        A reader that is more than *max_behind* chunks behind skips to there.
        """

    async def outcomes_before(self, lane: Lane, before_seq: int, *, max_bytes: int) -> Outcomes:
        """The same of the settled chunks before *before_seq*, the newest record first.

        `through_seq` is the oldest chunk that was read.
        """

    async def settled_seq(self, lane: Lane) -> int:
        """The last settled chunk."""

    def pending_bodies(self, lane: Lane) -> AsyncIterator[bytes]:
        """The records that *lane* did not deliver yet, a chunk at a
        time, one record behind the other.

        Records that settling dropped may be among them. Appends and deliveries do not wait for it.
        """


class DeadLetterStore(Protocol):
    """Dead letters and resends, as an operator asks for them.

    Changes go by pages, one commit a page.
    """

    async def letter_lanes(self) -> list[Lane]:
        """The lanes that are set up, and those that dead letters are left of."""

    async def reasons(self) -> list[ReasonCount]:
        """Counts by lane and reason, the most frequent of a lane first."""

    async def missing(self, ids: Sequence[int]) -> list[int]:
        """Those of *ids* that no dead letter has."""

    async def count(self, chosen: Chosen) -> int:
        """How many are *chosen*."""

    async def page(
        self, chosen: Chosen, *, sort: SortKey, descending: bool, beyond: Place | None, most: int
    ) -> LetterPage:
        """Up to *most* of the *chosen*, in order, from the first one *beyond* a place on."""

    async def find(
        self,
        chosen: Chosen,
        *,
        sort: SortKey = "buried_at",
        descending: bool = False,
        beyond: Place | None = None,
        most: int,
    ) -> list[DeadLetter]:
        """The letters of `page` alone."""

    async def forget_user(self, users: Collection[str], *, dry_run: bool) -> Forgotten:
        """Remove *users*, as records name them, from the records whose bytes nothing depends on.
        With *dry_run* they are counted only.
        """

    async def replay_dead_letters(self, chosen: Chosen, most: int | None = None) -> Requeued:
        """Make up to *most* of the *chosen* pending again, oldest first, under their own
        record ids. Raises NoSuchLane.
        """

    async def drop_dead_letters(self, chosen: Chosen, most: int | None = None) -> int:
        """Delete up to *most* of the *chosen*, oldest first; how many.

        They stay counted as dead_lettered. Raises NoSuchLane.
        """

    async def replay_delivered(self, lanes: Sequence[Lane], received_from_ms: int) -> dict[Lane, int]:
        """Send again what *lanes* delivered of the records received since then and
        still on disk; lane -> records.

        They stay counted as delivered. Raises NoSuchLane for a lane that
        delivers a present state.
        """

    async def count_delivered(self, lanes: Sequence[Lane], received_from_ms: int) -> dict[Lane, int]:
        """How many `replay_delivered` would send again; lane -> records. Raises NoSuchLane."""


class Snapshots(Protocol):
    """Databases as of one moment, whatever is written to them since."""

    def copy(self, folder: Path, *, keep_free_bytes: int = 0) -> None:
        """Write each copy into *folder*, synced, 0600. Takes minutes for large ones: call it on a
        thread of its own.

        Raises SpoolError: for a database that is damaged, and where less than *keep_free_bytes*
        would be left on the disk.
        """

    def close(self) -> None:
        """Call it soon: the write-ahead logs grow until then."""


class StatusStore(Protocol):
    """What the spool reports of itself. Counts are those of the last commit."""

    settings: SpoolSettings

    def age_ms(self) -> int:
        """The suspend-aware monotonic clock (`spool.age`): every
        time in the spool is one of its.
        """

    def edge(self) -> Mapping[str, int]:
        """received, kept, duplicate, suppressed, rejected, ignored -> items."""

    def reasons(self) -> Mapping[str, int]:
        """`<outcome>.<reason>` -> items."""

    def lanes(self) -> Sequence[Lane]:
        """The lanes that are set up."""

    def depth(self, lane: Lane) -> Depth:
        """As `LaneStore` has it."""

    def dead_letter_summary(self) -> DeadLetterSummary:
        """Dead letters by reason, and what became of resends, as the last
        maintenance counted them.
        """

    @property
    def commit_seconds(self) -> Histogram:
        """How long commits that keep records took, with their sync, since the start."""

    @property
    def used_bytes(self) -> int:
        """What counts against `max_bytes`, with what is on its way to the disk."""

    @property
    def is_crowded(self) -> bool:
        """Whether what need not be kept should make room, before senders are refused."""


class Spool(
    IntakeStore, AppendStore, CountingStore, SupervisedLaneStore, BrakeStore, SettledReader, StatusStore, Protocol
):
    """The whole spool."""

    def events(self, rules: Rules) -> EventStore:
        """Its intake of events and unit cost; *rules*: what a new stream begins with."""

    def unit_cost(
        self,
        *,
        can_read: Callable[[], bool] = lambda: False,
        can_create: Callable[[], bool] = lambda: False,
        can_delete: Callable[[], bool] = lambda: True,
    ) -> UnitCostLane:
        """Its lane of unit cost; *can_read*: whether the upstream may be asked
        what it holds of a new stream; the others: whether streams are made and deleted there.
        """

    def operator(self) -> DeadLetterStore:
        """Its dead letters and resends."""

    async def run_maintenance(self) -> None:
        """Expire records, delete old delivered ones, give pages back,
        expire and count dead letters.
        """

    async def close(self) -> None:
        """Commit what waits and close the file; frozen batches stay
        frozen, later calls are refused.
        """


class FileSpool(Spool, Protocol):
    """A spool that is a file of this machine, and what only such a one has."""

    def keep_lock(self) -> bool:
        """Make the data directory's lock again where it was removed or replaced; whether it had
        to be.

        Raises SpoolLocked when another process has the directory by now, or it is no longer where
        it was: then stop. Raises SpoolError when the lock cannot be made again for now.
        """

    @property
    def room(self) -> Room:
        """As measured after the last commit."""

    @property
    def quarantined(self) -> Sequence[Quarantined]:
        """The last salvages of this spool, oldest first."""

    def quarantined_bytes(self) -> int:
        """Bytes of damaged files that are kept; 0 once an operator has moved them away."""

    def unacknowledged(self) -> int:
        """Salvages and losses that no operator has seen: neither acknowledged, nor their damaged
        files moved away.
        """

    async def acknowledge(self) -> int:
        """An operator has seen all of them; how many there were. Raises SpoolError."""

    async def verify(self) -> Verified:
        """Read the whole file beside the writer; a large spool takes minutes.

        Raises SpoolTooNew, SpoolError.
        """

    async def back_up(self, to: Path) -> int:
        """Write a copy to *to*, 0600, whole or not at all; its bytes.

        Raises SpoolError, also where *to* exists.
        """

    async def snapshot(self, others: Mapping[str, Path]) -> Snapshots:
        """The spool as of now, as `spool.db`, and the *others* as of the same moment: name of the
        copy -> database.

        The spool commits nothing meanwhile; the caller keeps the *others* from it. Raises
        SpoolError.
        """
