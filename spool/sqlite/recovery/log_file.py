"""The write-ahead log as a file: which of its frames hold together, and whether SQLite would read
all that it should. Read only.

SQLite reads a log up to its first bad frame and forgets the rest without a word. That is right for
the end of a commit that a power cut tore; it is loss when commits that were answered stand behind
it. Each frame carries a running checksum that starts from the one before, so a frame can be checked
against its neighbour's header even when the neighbour's page is damaged. Source:
sqlite.org/fileformat2.html#the_write_ahead_log.
"""

import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spool.sqlite.recovery.page_size import page_bytes_of
from spool.sqlite.recovery.pages import PAGE_SIZES

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
_MAGIC = 0x377F0682
"""Its last bit states that the checksums are of big-endian words."""
_LATEST_COMMITS = 2
_INDEX_FRAMES_AT = 16
"""Where the -shm file states how many frames SQLite reads: mxFrame of the WAL-index header."""


class FrameHead(NamedTuple):
    page: int
    size_pages: int
    """Of the file after a commit; 0 for a frame that ends none."""
    salts: bytes
    checksum: bytes


class Log:
    """The frames of one log that are of its present round: those with the salts of its header."""

    def __init__(self, content: bytes, page_bytes: int) -> None:
        self._content = content
        self._page_bytes = page_bytes
        self._frame_bytes = FRAME_HEADER_BYTES + page_bytes
        head = content[:HEADER_BYTES]
        self._words = ">" if head[3:4] == b"\x83" else "<"
        # The header's magic is stored big-endian; its own checksum states whether it is whole.
        self.is_header_whole = len(head) == HEADER_BYTES and _checksum(head[:24], b"\0" * 8, self._words) == head[24:]
        every = [self._head(i) for i in range((len(content) - HEADER_BYTES) // self._frame_bytes)]
        salts = head[16:24] if self.is_header_whole else _first(every)
        self.heads = {i: frame for i, frame in enumerate(every) if frame.salts == salts}
        self.commits = [i for i, frame in self.heads.items() if frame.size_pages]

    def _head(self, i: int) -> FrameHead:
        at = HEADER_BYTES + i * self._frame_bytes
        page, size = struct.unpack_from(">II", self._content, at)
        return FrameHead(page, size, self._content[at + 8 : at + 16], self._content[at + 16 : at + 24])

    def page(self, i: int) -> bytes:
        """The page in frame *i*."""
        at = HEADER_BYTES + i * self._frame_bytes + FRAME_HEADER_BYTES
        return self._content[at : at + self._page_bytes]

    def is_whole(self, i: int) -> bool:
        """Whether the frame's checksum follows from the one before, or would if that, or its own,
        were not damaged itself.
        """
        return self._sum(i) == self.heads[i].checksum or self._is_sum_damaged(i) or self._is_sum_damaged(i - 1)

    def _sum(self, i: int, before: bytes | None = None) -> bytes:
        """The checksum of frame *i* as it follows from the one *before*, by default the stored
        one.
        """
        if before is None:
            before = self._content[24:HEADER_BYTES] if i == 0 else self._head(i - 1).checksum
        at = HEADER_BYTES + i * self._frame_bytes
        seeded = _checksum(self._content[at : at + 8], before, self._words)
        return _checksum(self.page(i), seeded, self._words)

    def _is_sum_damaged(self, i: int) -> bool:
        """Whether nothing of frame *i* is damaged but its checksum: that of the next one follows
        from what it should be.
        """
        following = self.heads.get(i + 1)
        return i in self.heads and following is not None and self._sum(i + 1, self._sum(i)) == following.checksum

    def committed(self) -> Iterator[tuple[int, int, bytes]]:
        """(frame, page number, page) of each whole frame up to the last commit, oldest first."""
        last = max((i for i in self.commits if self.is_whole(i)), default=-1)
        for i, head in self.heads.items():
            if i <= last and head.page and self.is_whole(i):
                yield i, head.page, self.page(i)


def _first(heads: list[FrameHead]) -> bytes:
    """The salts of the log's first frames: what stands behind them may be of an earlier round."""
    counted = Counter(head.salts for head in heads[:8])
    return counted.most_common(1)[0][0] if counted else b""


def _checksum(content: bytes, before: bytes, words: str) -> bytes:
    a, b = struct.unpack(">II", before)
    for x, y in struct.iter_unpack(f"{words}II", content):
        a = (a + x + b) & 0xFFFFFFFF
        b = (b + y + a) & 0xFFFFFFFF
    return struct.pack(">II", a, b)


def forgets_commits(database: Path) -> bool:
    """Whether SQLite would forget commits that stand in the log of
    *database* behind a damaged frame.

    The last commit is left out: a power cut may have torn it before anyone was answered. Nothing is
    changed but the -shm file, which is made again at every start. Raises sqlite3.Error when the
    file cannot be opened at all.
    """
    path = Path(f"{database}-wal")
    if not path.exists() or path.stat().st_size < HEADER_BYTES + FRAME_HEADER_BYTES + min(PAGE_SIZES):
        return False
    content = path.read_bytes()
    log = Log(content, page_bytes_of(database, content))
    if not log.is_header_whole:
        return bool(log.commits)
    if len(log.commits) < _LATEST_COMMITS:
        return False
    return frames_read(database) <= log.commits[-_LATEST_COMMITS]


def frames_read(database: Path) -> int:
    """How many frames of its log SQLite takes for good."""
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        with Path(f"{database}-shm").open("rb") as index:
            index.seek(_INDEX_FRAMES_AT)
            return int.from_bytes(index.read(4), "little")
    finally:
        connection.close()
