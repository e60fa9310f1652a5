"""SQLite's file format, as far as rows can be read out of a damaged file: pages in, rows out. Pure.

SQLite itself stops at the first damaged page it meets on its way down a tree, so one page in the
wrong place hides all that hang below it. Here each page is read for itself. What does not hold
together raises `Damaged`; nothing is guessed. Source: sqlite.org/fileformat2.html. One constraint:
UTF-8, no reserved bytes at the end of pages, as `database` makes files.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

PAGE_SIZES = (4096, 8192)
"""Bytes of a page: of files that this release makes, and of those that earlier ones made."""
TABLE_INTERIOR, TABLE_LEAF, INDEX_INTERIOR, INDEX_LEAF = 0x05, 0x0D, 0x02, 0x0A
TREE_PAGES = frozenset({TABLE_INTERIOR, TABLE_LEAF, INDEX_INTERIOR, INDEX_LEAF})
FREE_PAGE = 2
"""A free page's kind in the pointer map."""
FILE_HEADER_BYTES = 100
_MAP_ENTRY_BYTES = 5
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_FIRST_BLOB_TYPE = 12
_MAX_VARINT_BYTES = 9

Value = int | float | str | bytes | None
ReadPage = Callable[[int], bytes]
"""A page by its number, from 1; raises Damaged when there is none."""


class Damaged(Exception):
    """What was read is not what SQLite would have written."""


class Row(NamedTuple):
    rowid: int | None
    """None in an index, and in a table without rowid."""
    values: list[Value]


def kind_of(number: int, page: bytes) -> int:
    return page[_header_at(number)]


def _header_at(number: int) -> int:
    return FILE_HEADER_BYTES if number == 1 else 0


def children(number: int, page: bytes) -> list[int]:
    """The pages below an interior page. Raises Damaged."""
    at = _header_at(number)
    cells = [*_cells(number, page), at + 8]
    if None in cells:
        raise Damaged("a cell outside of its page")
    return [int.from_bytes(page[cell : cell + 4], "big") for cell in cells if cell is not None]


def rows_on(number: int, page: bytes, read: ReadPage) -> Iterator[Row | None]:
    """Each row on a page of any tree; None for one that cannot be read. Raises Damaged
    when the page is no tree's.
    """
    kind = kind_of(number, page)
    if kind == TABLE_INTERIOR:
        return
    for cell in _cells(number, page):
        try:
            yield None if cell is None else _row(kind, page, cell, read)
        except (Damaged, IndexError, UnicodeDecodeError):
            yield None


def _cells(number: int, page: bytes) -> list[int | None]:
    """Where the cells begin; None for one that is not inside the page. Raises Damaged."""
    at = _header_at(number)
    kind = page[at]
    if kind not in TREE_PAGES:
        raise Damaged("no page of a tree")
    count = int.from_bytes(page[at + 3 : at + 5], "big")
    first = at + (12 if kind in {TABLE_INTERIOR, INDEX_INTERIOR} else 8)
    after = first + 2 * count
    if after > len(page):
        raise Damaged("more cells than a page holds")
    cells = (int.from_bytes(page[i : i + 2], "big") for i in range(first, after, 2))
    return [cell if after <= cell < len(page) else None for cell in cells]


def _row(kind: int, page: bytes, at: int, read: ReadPage) -> Row:
    if kind == INDEX_INTERIOR:
        at += 4
    size, at = _varint(page, at)
    rowid = None
    if kind == TABLE_LEAF:
        rowid, at = _varint(page, at)
        rowid -= (rowid >> 63) << 64
    largest = len(page) - 35 if kind == TABLE_LEAF else (len(page) - 12) * 64 // 255 - 23
    return Row(rowid, _values(_payload(page, at, size, largest, read)))


def _payload(page: bytes, at: int, size: int, largest: int, read: ReadPage) -> bytes:
    """A cell's content, with what overflows the page."""
    local = size
    if size > largest:
        smallest = (len(page) - 12) * 32 // 255 - 23
        local = smallest + (size - smallest) % (len(page) - 4)
        local = smallest if local > largest else local
    if at + local > len(page):
        raise Damaged("a cell that leaves its page")
    parts = [page[at : at + local]]
    left = size - local
    following = int.from_bytes(page[at + local : at + local + 4], "big") if left else 0
    while left:
        overflow = read(following)
        following = int.from_bytes(overflow[:4], "big")
        parts.append(overflow[4 : 4 + left])
        left -= len(parts[-1])
    return b"".join(parts)


def _values(payload: bytes) -> list[Value]:
    """A record's columns."""
    header_bytes, at = _varint(payload, 0)
    types: list[int] = []
    while at < header_bytes:
        serial, at = _varint(payload, at)
        types.append(serial)
    if at != header_bytes:
        raise Damaged("a record's header does not end at its stated size")
    values: list[Value] = []
    for serial in types:
        value, at = _value(payload, at, serial)
        values.append(value)
    if at != len(payload):
        raise Damaged("a record does not end at its stated size")
    return values


def _value(payload: bytes, at: int, serial: int) -> tuple[Value, int]:
    if serial == 0:
        return None, at
    if serial in {8, 9}:
        return serial - 8, at
    if serial in _INTEGER_BYTES:
        after = at + _INTEGER_BYTES[serial]
        return int.from_bytes(_slice(payload, at, after), "big", signed=True), after
    if serial < _FIRST_BLOB_TYPE:
        raise Damaged("a number that no column of ours has")
    after = at + (serial - _FIRST_BLOB_TYPE) // 2
    content = _slice(payload, at, after)
    return (content.decode() if serial % 2 else content), after


def _slice(payload: bytes, at: int, after: int) -> bytes:
    if after > len(payload):
        raise Damaged("a column that leaves its record")
    return payload[at:after]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for i in range(_MAX_VARINT_BYTES):
        byte = content[at + i]
        if i == _MAX_VARINT_BYTES - 1:
            return value << 8 | byte, at + i + 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 the top bit states that more follows
            return value, at + i + 1
    raise AssertionError


def walk(root: int, read: ReadPage) -> Iterator[tuple[int, bytes | None]]:
    """Each page of the tree from *root* down; None in place of one that cannot be read,
    and of what hangs below it.
    """
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        number = waiting.pop()
        if number in seen:
            yield number, None
            continue
        seen.add(number)
        try:
            page = read(number)
            if kind_of(number, page) in {TABLE_INTERIOR, INDEX_INTERIOR}:
                waiting += reversed(children(number, page))
            else:
                _cells(number, page)
        except Damaged:
            yield number, None
        else:
            yield number, page


def is_free(number: int, page: bytes, read: ReadPage) -> bool:
    """Whether the pointer map calls the page free; not when the map itself cannot be read."""
    stride = len(page) // _MAP_ENTRY_BYTES + 1
    mapped_by = (number - 2) // stride * stride + 2
    at = (number - mapped_by - 1) * _MAP_ENTRY_BYTES
    if at < 0:
        return False
    try:
        return read(mapped_by)[at] == FREE_PAGE
    except Damaged:
        return False


def fits(values: Sequence[Value], columns: "Sequence[Column]") -> bool:
    """Whether *values* may be a row of a table with these columns; fewer where
    later layouts added some.
    """
    return 0 < len(values) <= len(columns) and all(
        isinstance(value, column.type) or (value is None and column.may_be_null)
        for value, column in zip(values, columns, strict=False)
    )


class Column(NamedTuple):
    name: str
    type: type[int] | type[str] | type[bytes]
    may_be_null: bool
    """Also of the column that stands for the rowid, which is stored as null."""
