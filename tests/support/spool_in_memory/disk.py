"""What a spool in memory keeps, as one commit leaves it."""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from spool.age import Seen
from spool.counters import Counters
from spool.dead_letters import DeadLetter
from spool.errors import SpoolError
from spool.record import AI_TELEMETRY, Batch, Lane
from spool.series import Held, SeriesRow
from spool.settling import MOVED, Position
from spool.store import Refusal
from tests.support.spool_in_memory.unit_streams import UnitStream

T = TypeVar("T")
EMPTY_BYTES: Final = 8192
"""Nothing is kept for nothing."""
KEY_BYTES: Final = 64
"""About what a repeat key takes."""
NEVER_SETTLES: Final = 1 << 62
CODE_CHARS: Final = 64
MESSAGE_CHARS: Final = 512

FIRST: Final = ""
AGAIN: Final = "dead_letter"
"""Its dead letters were requeued: they are pending again."""
ONCE_MORE: Final = "delivered"
"""It was delivered, and stays counted as such."""


@dataclass(slots=True)
class Chunk:
    seq: int
    lane: Lane
    """Of requeued dead letters: `again:` and the lane that sends them."""
    received_ms: int = 0
    records: list[bytes] = field(default_factory=list)
    facts: bytes = b""
    links: bytes = b""
    changes: dict[int, tuple[str, bytes | None]] = field(default_factory=dict)

    def left(self, first: int = 0) -> Iterator[tuple[int, bytes]]:
        """Index and bytes of each record from *first* on, as settling left it."""
        for idx, stored in enumerate(self.records[first:], first):
            record = self.changes[idx][1] if idx in self.changes else stored
            if record is not None:
                yield idx, record

    def outcomes(self) -> Iterator[tuple[str, bytes]]:
        for idx, stored in enumerate(self.records):
            outcome, record = self.changes.get(idx, ("kept", None))
            if outcome != MOVED:
                yield outcome, stored if record is None else record

    def size_bytes(self) -> int:
        return sum(map(len, self.records)) + len(self.facts) + len(self.links)


@dataclass(slots=True)
class Frozen:
    batch: Batch
    positions: list[Position]
    origin: str = FIRST

    @property
    def first(self) -> Position:
        return self.positions[0]


@dataclass(slots=True)
class Stretch:
    """Records that are to be sent again and that no batch holds yet; never empty."""

    positions: list[Position]
    origin: str


@dataclass(slots=True)
class LaneState:
    source: Lane
    next: Position
    """Of the first record that was in no batch."""
    frozen: list[Frozen] = field(default_factory=list)
    again: list[Stretch] = field(default_factory=list)
    """The first asked for first."""

    def first_needed(self) -> int:
        """The first chunk of the source that is still to be sent."""
        batched = [frozen.first.seq for frozen in self.frozen if frozen.origin != AGAIN]
        again = [stretch.positions[0].seq for stretch in self.again if stretch.origin == ONCE_MORE]
        return min([self.next.seq, *batched, *again])

    def first_pending(self) -> int:
        """The first chunk of the source with a record that was not delivered."""
        return min([self.next.seq, *(frozen.first.seq for frozen in self.frozen if frozen.origin == FIRST)])

    def sent_again(self, origin: str) -> list[Position]:
        """Those of *origin* that are to be sent, frozen or not."""
        parts = [x.positions for x in (*self.frozen, *self.again) if x.origin == origin]
        return [position for part in parts for position in part]


class Letter(NamedTuple):
    shown: DeadLetter
    records: int
    """That it stands for."""

    @property
    def can_go_back(self) -> bool:
        """The upstream did not name the records of one without bytes."""
        return bool(self.shown.record)


class Taken(NamedTuple):
    """What is known of a repeat key."""

    content: bytes
    taken_ms: int


@dataclass(slots=True)
class Disk:
    """What is kept."""

    gateway_id: str = "gw-0000000000000000"
    next_seq: int = 1
    chunks: dict[int, Chunk] = field(default_factory=dict)
    lanes: dict[Lane, LaneState] = field(default_factory=dict)
    settled: dict[Lane, int] = field(default_factory=dict)
    letters: list[Letter] = field(default_factory=list)
    """The oldest first."""
    last_letter: int = 0
    letter_bytes: int = 0
    """What dead letters may take."""
    beside: Counter[tuple[Lane, str]] = field(default_factory=Counter)
    """The counts beside the counters, as `DeadLetterSummary.counts` names them."""
    counters: Counters = field(default_factory=Counters)
    brakes: dict[Lane, str] = field(default_factory=dict)
    seen: Seen | None = None
    series: dict[bytes, SeriesRow] = field(default_factory=dict)
    sightings: dict[str, int] = field(default_factory=dict)
    held: dict[int, Held] = field(default_factory=dict)
    last_held: int = 0
    taken: dict[bytes, Taken] = field(default_factory=dict)
    """Repeat keys, the oldest first."""
    streams: dict[str, UnitStream] = field(default_factory=dict)
    last_stream: int = 0
    refuses_chunks: bool = False
    """Every commit that has a chunk in it fails."""

    def copied(self) -> "Disk":
        """Nothing of it is shared but what never changes."""
        return copy.deepcopy(self, {id(self.taken): dict(self.taken), id(self.letters): list(self.letters)})

    # ---- chunks

    def add(self, chunk: Chunk) -> None:
        """Raises SpoolError."""
        if self.refuses_chunks:
            raise SpoolError("the disk takes no records")
        self.chunks[chunk.seq] = chunk

    def of(self, source: Lane, first_seq: int = 0, last_seq: int = NEVER_SETTLES) -> list[Chunk]:
        """The chunks of *source* from *first_seq* through *last_seq*, in order."""
        return [
            chunk for seq, chunk in sorted(self.chunks.items()) if chunk.lane == source and first_seq <= seq <= last_seq
        ]

    def at(self, position: Position) -> bytes:
        """The record there, which must be left."""
        return dict(self.chunks[position.seq].left())[position.idx]

    def ready(self, lane: Lane) -> list[Chunk]:
        """Those of which *lane* may freeze records."""
        state = self.lanes[lane]
        return self.of(state.source, state.next.seq, self.settled[state.source])

    def followers(self, own: Lane) -> list[Lane]:
        return [name for name, state in self.lanes.items() if state.source == own]

    # ---- as a whole

    def size_bytes(self) -> int:
        kept = sum(chunk.size_bytes() for chunk in self.chunks.values())
        totals = sum(stream.size_bytes() for stream in self.streams.values())
        return EMPTY_BYTES + kept + self.size_of_letters() + totals + KEY_BYTES * len(self.taken)

    def size_of_letters(self) -> int:
        return sum(letter.shown.size_bytes for letter in self.letters)

    def newest_ms(self) -> int | None:
        times = [self.chunks[max(self.chunks)].received_ms] if self.chunks else []
        return max([*times, *(held.received_ms for held in self.held.values())], default=None)

    def last_seq(self) -> int:
        settled = [seq for seq in self.settled.values() if seq < NEVER_SETTLES]
        return max([0, *self.chunks, *(state.next.seq for state in self.lanes.values()), *settled])

    def held_in(self, source: Lane) -> int:
        """Records that wait outside of any chunk: aggregates, which are AI records."""
        return len(self.held) if source == AI_TELEMETRY else 0

    def bury(self, lane: Lane, refusals: Sequence[tuple[Refusal, bytes]], now_ms: int) -> None:
        """Make dead letters; each record is empty where the upstream did not name it."""
        for refusal, record in refusals:
            self.last_letter += 1
            code, message = refusal.code[:CODE_CHARS], refusal.message[:MESSAGE_CHARS]
            shown = DeadLetter(self.last_letter, lane, now_ms, code, message, len(record), record)
            self.letters.append(Letter(shown, refusal.records))

    def forget_letters(self, chosen: Sequence[Letter], why: str = "") -> None:
        """Delete them; they stay counted as dead_lettered, and beside it as *why*, if any."""
        gone = {letter.shown.id for letter in chosen}
        self.letters = [letter for letter in self.letters if letter.shown.id not in gone]
        if why:
            for letter in chosen:
                self.beside[letter.shown.lane, why] += letter.records


Operation = Callable[[Disk], T]


def with_record(letter: Letter, record: bytes) -> Letter:
    return letter._replace(shown=replace(letter.shown, record=record, size_bytes=len(record)))
