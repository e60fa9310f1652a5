"""What a home's writer runs in one commit, and what became of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from spool.counters import Counters
from spool.errors import SpoolError
from spool.histogram import Histogram
from spool.record import Lane
from spool.sql.chunks import ChunkRow, insert_chunk
from spool.sql.connection import Connection
from spool.sql.counter_rows import save_counters
from spool.status import Room
from spool.store import ItemCounts

Operation = Callable[[Any, Counters], Any]
"""Work inside a transaction, on the home's connection; its result goes to who asked. Counters are
a copy, kept only if the commit succeeds."""


@dataclass(frozen=True, slots=True)
class Look:
    """An operation that only reads: it needs no fence, and its commit no sync."""

    read: Callable[[Any], Any]

    def __call__(self, connection: Connection, _: Counters) -> Any:
        return self.read(connection)


@dataclass(slots=True)
class Group:
    """What goes into one commit."""

    chunks: list[ChunkRow] = field(default_factory=list)
    counts: list[ItemCounts] = field(default_factory=list)
    joined: list[Operation] = field(default_factory=list)
    """Kept with the chunks and counts, or not at all."""
    operations: list[Operation] = field(default_factory=list)
    is_divisible: bool = False
    """Whether only the first operations are run where others wait for the writer."""

    @property
    def has_appends(self) -> bool:
        return bool(self.chunks or self.counts or self.joined)

    @property
    def appends(self) -> "Group":
        """The group without its operations."""
        return Group(self.chunks, self.counts, self.joined)

    @property
    def only_looks(self) -> bool:
        return not self.has_appends and all(isinstance(each, Look) for each in self.operations)

    @property
    def has_work(self) -> bool:
        return self.has_appends or bool(self.operations)


@dataclass(slots=True)
class GroupResult:
    counters: Counters
    """As committed last."""
    room: Room | None
    """None where it was not measured again, as more commits wait."""
    appended: SpoolError | None
    """None when the chunks and tallies are on disk."""
    results: list[Any]
    """For each operation that was run its result, or the exception it raised."""
    lost_appends: int
    """Of the writer, by then."""


class Written(NamedTuple):
    """A group that is ready to be committed."""

    counters: Counters
    """What they come to with it."""
    results: list[Any]
    """Of its operations, as far as they were run."""
    size_bytes: int
    """Of its chunks, as they are stored."""


def write_group(
    connection: Connection,
    group: Group,
    known: Counters,
    followers: Mapping[Lane, Sequence[Lane]],
    is_awaited: Callable[[], bool],
) -> Written:
    """Write *group* inside a transaction; the counters are *known* as committed last. Raises what
    one of its parts raises.
    """
    counters, size_bytes = known.copy(), 0
    for chunk in group.chunks:
        size_bytes += insert_chunk(connection, chunk)
        for lane in followers[chunk.lane]:
            counters.keep(lane, chunk.n)
    for counts in group.counts:
        counters.add(counts)
    for operation in group.joined:
        operation(connection, counters)
    results: list[Any] = []
    for operation in group.operations:
        if results and group.is_divisible and is_awaited():
            break
        results.append(operation(connection, counters))
    if group.has_appends or counters != known:  # a group that only reads writes nothing
        save_counters(connection, counters)
    return Written(counters, results, size_bytes)


class GroupWriter(Protocol):
    """Owns the connection of a home. One thread uses it; what stands here is read by others too."""

    is_awaited: Callable[[], bool]
    """Whether others wait for the writer."""
    lost_appends: int
    """Commits of appends that failed."""
    refuses_appends: bool
    """Set when an append was lost: what was gathered since may build upon it. The owner takes it
    back."""
    distrusted: int
    """How often it turned out that what was committed before may be gone, or may not be known."""

    @property
    def commit_seconds(self) -> Histogram:
        """Of commits that keep records, with their sync."""

    @property
    def room(self) -> Room:
        """As measured last."""

    @property
    def floor_bytes(self) -> int:
        """What must be free on the disk for new data to be taken."""

    def run(self, group: Group) -> GroupResult:
        """Run *group* in one commit; what its parts raise is in the result."""

    def close(self) -> None: ...
