"""Rows of settled chunks that late reports refer to, read back from the spool and kept for
a while.
"""

from collections.abc import Iterable, Iterator, Mapping

from gateway.counting.calls.digest import of_this_size
from gateway.counting.calls.ledger import MOVED
from gateway.counting.calls.rows import LateChunk
from spool.record import AI_TELEMETRY
from spool.settling import Evidence
from spool.store import CountingStore

MAX_BYTES = 16 << 20
"""Kept between two clusters; one cluster may need more for as long as it is decided."""
CHUNK_BYTES = 500
"""Of one chunk, beside its rows."""


class LateChunks(Mapping[int, LateChunk | None]):
    """Chunk seq -> its rows, or None where the spool no longer has them; what was read first is
    forgotten first.
    """

    def __init__(self, spool: CountingStore) -> None:
        self._spool = spool
        self._chunks: dict[int, LateChunk | None] = {}
        self._bytes = 0

    def __getitem__(self, seq: int) -> LateChunk | None:
        return self._chunks[seq]

    def __iter__(self) -> Iterator[int]:
        return iter(self._chunks)

    def __len__(self) -> int:
        return len(self._chunks)

    async def read(self, seqs: Iterable[int]) -> None:
        """Read these chunks, which settled. Raises SpoolError."""
        for seq in seqs:
            found = await self._spool.evidence_of(AI_TELEMETRY, seq)
            chunk = self._chunks[seq] = None if found is None else _late_chunk(found)
            self._bytes += _bytes_of(chunk)

    def prune(self) -> None:
        """Forget what is beyond `MAX_BYTES`."""
        while self._bytes > MAX_BYTES:
            self._bytes -= _bytes_of(self._chunks.pop(next(iter(self._chunks))))


def _bytes_of(chunk: LateChunk | None) -> int:
    return CHUNK_BYTES if chunk is None else CHUNK_BYTES + len(chunk.facts) + len(chunk.links) + 64 * len(chunk.dropped)


def _late_chunk(found: Evidence) -> LateChunk:
    moved = frozenset(idx for idx, outcome in found.dropped.items() if outcome == MOVED)
    return LateChunk(of_this_size(found.facts, found.n), found.links, frozenset(found.dropped) - moved, moved)
