"""How large the pages of a spool.db are that may be damaged: what its log or its header states,
else what its content looks like. Read only.
"""

from collections import Counter
from pathlib import Path

from spool.sqlite.recovery.pages import PAGE_SIZES, TREE_PAGES

_SMALL, _LARGE = PAGE_SIZES
_SIZE_AT = slice(16, 18)
"""In the file's header."""
_LOG_SIZE_AT = slice(8, 12)
_LOG_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_SALTS_AT = slice(8, 16)
_LOOKED_AT_PAGES = 1024


def page_bytes_of(database: Path, log: bytes) -> int:
    """One of `PAGE_SIZES`; *log* is the content of the database's write-ahead log, if any.

    Raises OSError where the file is there and cannot be read.
    """
    head = _head(database)
    for stated in (log[_LOG_SIZE_AT], head[_SIZE_AT]):
        if (size := int.from_bytes(stated, "big")) in PAGE_SIZES:
            return size
    if votes := _votes(database):
        return _LARGE if sum(votes) * 2 > len(votes) else _SMALL
    return max(PAGE_SIZES, key=lambda size: _frames(log, size))


def _head(database: Path) -> bytes:
    if not database.exists():
        return b""
    with database.open("rb") as file:
        return file.read(_SIZE_AT.stop)


def _votes(database: Path) -> list[bool]:
    """Of each page of a tree, whether it uses more than a small page has."""
    votes: list[bool] = []
    if not database.exists():
        return votes
    with database.open("rb") as file:
        file.seek(_LARGE)
        while len(votes) < _LOOKED_AT_PAGES and (page := file.read(_LARGE)):
            if page[0] in TREE_PAGES:
                content_at = int.from_bytes(page[5:7], "big")
                votes.append(content_at > _SMALL or _has_cell_beyond(page))
    return votes


def _has_cell_beyond(page: bytes) -> bool:
    """Whether a page has a cell beyond the end of a small page."""
    count = int.from_bytes(page[3:5], "big")
    cells = page[8 : min(8 + 2 * count, _SMALL)]
    return any(int.from_bytes(cells[at : at + 2], "big") >= _SMALL for at in range(0, len(cells), 2))


def _frames(log: bytes, page_bytes: int) -> int:
    """How many frames of one round *log* has, were its pages so large."""
    frames = range(_LOG_HEADER_BYTES, len(log), _FRAME_HEADER_BYTES + page_bytes)
    salts = Counter(log[at + _SALTS_AT.start : at + _SALTS_AT.stop] for at in frames)
    del salts[bytes(8)]
    return max(salts.values(), default=0)
