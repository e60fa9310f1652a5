"""Where a spool in memory is kept while it is closed."""

from collections.abc import Callable
from typing import TypeVar

from spool.record import OWN_LANES, UNIT_COST
from tests.support.spool_in_memory.disk import AGAIN, FIRST, Disk, Operation

T = TypeVar("T")


class MemoryHome:
    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()
        self.on_commit: Callable[[], None] = lambda: None
        """Called before and after each commit."""

    def commit(self, operation: Operation[T]) -> T:
        """What *operation* returns, and what it changed is kept; nothing where it raises."""
        self.on_commit()
        changed = self.disk.copied()
        found = operation(changed)
        self.disk = changed
        self.on_commit()
        return found


def check(disk: Disk) -> None:
    """The identities hold, and the figures state what is kept."""
    assert disk.counters.is_balanced(), disk.counters
    assert disk.counters.edge["kept"] == sum(disk.counters.lane(lane).kept for lane in OWN_LANES)
    for lane, state in disk.lanes.items():
        waiting = sum(
            1
            for chunk in disk.of(state.source, state.next.seq)
            for _ in chunk.left(state.next.idx if chunk.seq == state.next.seq else 0)
        )
        batched = sum(len(frozen.positions) for frozen in state.frozen if frozen.origin == FIRST)
        again = len(state.sent_again(AGAIN))
        totals = sum(stream.pending() for stream in disk.streams.values()) if lane == UNIT_COST else 0
        assert disk.counters.lane(lane).pending == waiting + batched + again + totals + disk.held_in(state.source), lane
        kept = sum(letter.records for letter in disk.letters if letter.shown.lane == lane)
        gone = disk.beside[lane, "dead_letters.dropped"] + disk.beside[lane, "dead_letters.expired"]
        assert disk.counters.lane(lane).dead_lettered == kept + gone, lane
