"""A damaged spool.db becomes a whole one: what can be read is copied, and the damaged
files are kept in `quarantine/`.

Every page is read for itself (`pages`), so a damaged page costs the rows on it and no others.
The order of steps is the promise that no crash leaves an empty spool in place of a damaged one:

1. `spool.db.salvage` is written while the damaged files stay where they are;
2. when it is whole and on disk it is renamed to `spool.db.salvaged`;
3. spool.db and its log move to `quarantine/<time>/`, the log first;
4. `spool.db.salvaged` is renamed to `spool.db`.

A start that finds `spool.db.salvaged` goes on at step 3. What the rows no longer state is
settled afterwards, in one transaction of the new file (`reconciling`).
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson

from spool.counters import Counters
from spool.data_dir import DATABASE, make_private_dir, touch_private
from spool.sqlite import database
from spool.sqlite.recovery.log_file import Log
from spool.sqlite.recovery.page_size import page_bytes_of
from spool.sqlite.recovery.pages import (
    INDEX_INTERIOR,
    INDEX_LEAF,
    TABLE_LEAF,
    Column,
    Damaged,
    Row,
    Value,
    fits,
    is_free,
    kind_of,
    rows_on,
    walk,
)
from spool.system.files import read_at
from spool.system.sync import sync_path

QUARANTINE = "quarantine"
SALVAGING, SALVAGED = f"{DATABASE}.salvage", f"{DATABASE}.salvaged"
FINDINGS = "salvage"
"""Name in `meta` of what a salvage found; there until `reconciling` has settled it."""
_VERSION_AT = 60
_TYPES: dict[str, type[int] | type[str] | type[bytes]] = {"INTEGER": int, "TEXT": str, "BLOB": bytes}
_KNOWN_BY_SHAPE = frozenset({"meta", "chunk", "change", "lane", "batch", "dead_letter", "held", "series"})
"""Tables whose rows cannot be taken for those of another one; rows on pages that nothing
leads to are known by it."""


class Table(NamedTuple):
    name: str
    columns: list[Column]
    """In the order in which they are stored."""
    has_rowid: bool


class Image:
    """The pages of a database as its last commit left them, so far as they are whole."""

    def __init__(self, file: BinaryIO | None, log: Log, page_bytes: int) -> None:
        """*file* is read by pages, since it may be larger than
        the memory; None when there is none.
        """
        self._file = file
        self._page_bytes = page_bytes
        self._file_pages = 0 if file is None else file.seek(0, os.SEEK_END) // page_bytes
        self._latest: dict[int, bytes] = {}
        self.earlier: list[tuple[int, bytes]] = []
        """Pages that a later frame of the log replaced."""
        self.lost_frames = 0
        """Frames of committed pages that do not hold together."""
        for _, number, page in log.committed():
            if number in self._latest:
                self.earlier.append((number, self._latest[number]))
            self._latest[number] = page
        self.pages = max(self._file_pages, max(self._latest, default=0))
        if log.commits:
            self.lost_frames = sum(not log.is_whole(i) for i in log.heads if i <= log.commits[-1])

    def read(self, number: int) -> bytes:
        """Raises Damaged when there is no such page."""
        page = self._latest.get(number)
        return self._read_file(number) if page is None else page

    def _read_file(self, number: int) -> bytes:
        if self._file is None or not 0 < number <= self._file_pages:
            raise Damaged("a page beyond the file's end")
        return read_at(self._file.fileno(), self._page_bytes, (number - 1) * self._page_bytes)

    def in_file(self, number: int) -> bytes | None:
        """The file's own copy of a page that the log replaced."""
        if number not in self._latest or number > self._file_pages:
            return None
        return self._read_file(number)


def salvage(data_dir: Path, now_ms: int, why: str) -> None:
    """Put a whole spool.db in the damaged one's place.

    Raises sqlite3.Error and OSError, with the files as they were.
    """
    finish(data_dir, now_ms)
    path = data_dir / SALVAGING
    remove(path)
    touch_private(path)
    try:
        damaged = _copy(data_dir, path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            is_there = any((data_dir / f"{DATABASE}{suffix}").exists() for suffix in ("", "-wal"))
            folder = folder_name(data_dir, now_ms) if is_there else ""
            findings = {"at_ms": now_ms, "folder": folder, "why": why, "damaged": damaged}
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (FINDINGS, orjson.dumps(findings).decode()))
    except BaseException:
        remove(path)
        raise
    sync_path(path)
    path.rename(data_dir / SALVAGED)
    finish(data_dir, now_ms)


def finish(data_dir: Path, now_ms: int) -> None:
    """Steps 3 and 4, where a salvage came as far as that; also one that a crash cut short."""
    if not (data_dir / SALVAGED).exists():
        return
    sync_path(data_dir)
    place = data_dir / QUARANTINE / folder_name(data_dir, now_ms)
    for name in (f"{DATABASE}-wal", DATABASE):
        if (data_dir / name).exists():
            make_private_dir(place.parent)
            make_private_dir(place)
            (data_dir / name).rename(place / name)
    (data_dir / f"{DATABASE}-shm").unlink(missing_ok=True)
    if place.exists():
        sync_path(place)
    sync_path(data_dir)
    (data_dir / SALVAGED).rename(data_dir / DATABASE)
    sync_path(data_dir)


def put_back(data_dir: Path, connection: sqlite3.Connection, now_ms: int) -> None:
    """Write what an open *connection* reads in place of a spool.db that is not its file any more,
    and close it; another file in that place moves to the quarantine.

    Raises sqlite3.Error and OSError; then the connection is as it was.
    """
    path = data_dir / SALVAGING
    remove(path)
    touch_private(path)
    try:
        with closing(sqlite3.connect(path)) as target:
            connection.backup(target)
            target.execute("PRAGMA journal_mode=DELETE").fetchall()
    except BaseException:
        remove(path)
        raise
    sync_path(path)
    connection.close()
    if not (data_dir / DATABASE).exists():
        remove(data_dir / DATABASE)  # its log, which the copy has
    path.rename(data_dir / SALVAGED)
    finish(data_dir, now_ms)


def folder_name(data_dir: Path, now_ms: int) -> str:
    """A folder's name in the quarantine that no other file of spool.db lies in."""
    name = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    taken = (f"{name}-{n}" for n in range(2, 1 << 20))
    while (data_dir / QUARANTINE / name / DATABASE).exists():
        name = next(taken)
    return name


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _copy(data_dir: Path, path: Path) -> dict[str, int]:
    """Copy all rows that can be read into a new database at *path*; table ->
    what could not be read of it.
    """
    source, log = data_dir / DATABASE, data_dir / f"{DATABASE}-wal"
    content = log.read_bytes() if log.exists() else b""
    page_bytes = page_bytes_of(source, content)
    frames = Log(content, page_bytes)
    if not source.exists():
        return _copy_image(Image(None, frames, page_bytes), path)
    with source.open("rb") as file:
        return _copy_image(Image(file, frames, page_bytes), path)


def _copy_image(image: Image, path: Path) -> dict[str, int]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        database.prepare(connection, "OFF", database.LOG_BYTES)
        # No journal: a copy that did not come to its end is thrown away whole.
        connection.execute("PRAGMA journal_mode=OFF").fetchall()
        database.migrate(connection, through=version_of(image))
        copying = Copying(image, connection)
        connection.execute("BEGIN")
        copying.run()
        copying.drop_unreadable_counters()
        connection.execute("COMMIT")
        database.migrate(connection)
    finally:
        connection.close()
    return copying.damaged


def version_of(image: Image) -> int:
    """The layout of the file; the newest when its header cannot be read."""
    newest = database.migrations()[-1][0]
    try:
        head = image.read(1)
    except Damaged:
        return newest
    version = int.from_bytes(head[_VERSION_AT : _VERSION_AT + 4], "big")
    return version if head[:15] == b"SQLite format 3" and 0 < version <= newest else newest


class Copying:
    """One copy of what an image holds into an empty database of the same layout."""

    def __init__(self, image: Image, connection: sqlite3.Connection) -> None:
        self._image = image
        self._connection = connection
        self.tables = {table.name: table for table in tables_of(connection)}
        self.damaged: dict[str, int] = {}
        self._reached: set[int] = set()

    def run(self) -> None:
        """Read every page of the damaged file and write what is whole into a new one."""
        if not self._image.pages:
            self._note("file")
            return
        for name, root in self._roots():
            self._tree(name, root)
        for number in range(2, self._image.pages + 1):
            if number not in self._reached:
                self._orphan(number)
        if self._image.lost_frames or self.damaged:
            self._earlier()
        if self._image.lost_frames:
            self.damaged["log"] = self._image.lost_frames

    def drop_unreadable_counters(self) -> None:
        """Counters that cannot be read would stop every start; how the rows
        make up for them is `reconciling`'s.
        """
        try:
            counters = self._connection.execute("SELECT value FROM meta WHERE name='figures'").fetchone()
            Counters.from_json(orjson.loads(counters[0]))
        except (TypeError, ValueError, KeyError):
            self._connection.execute("DELETE FROM meta WHERE name='figures'")
            self._note("figures")

    def _roots(self) -> list[tuple[str, int]]:
        """(table, or '' for an index; its root page), of what can be read of the schema."""
        found: list[tuple[str, int]] = []
        for number, page in walk(1, self._image.read):
            self._reached.add(number)
            for row in [None] if page is None else self._rows(number, page):
                if row is None:
                    self._note("schema")
                    continue
                kind, name, _, root = row.values[:4]
                if kind in {"table", "index"} and isinstance(name, str) and isinstance(root, int):
                    found.append((name if kind == "table" else "", root))
        return found

    def _tree(self, name: str, root: int) -> None:
        """Copy a table; of an index, note which pages are its."""
        for number, page in walk(root, self._image.read):
            if page is None:
                self._note(name)
                continue
            self._reached.add(number)
            if name in self.tables:
                self._keep(self.tables[name], self._rows(number, page))

    def _orphan(self, number: int) -> None:
        """Copy the rows of a page that nothing whole leads to."""
        try:
            page = self._image.read(number)
            if kind_of(number, page) in {TABLE_LEAF, INDEX_LEAF, INDEX_INTERIOR} and not is_free(
                number, page, self._image.read
            ):
                self._by_shape(self._rows(number, page))
        except Damaged:
            return

    def _earlier(self) -> None:
        """Copy chunks from older copies of pages; a chunk is never changed, so any copy of it
        that holds together is true.
        """
        copies: Iterable[tuple[int, bytes]] = [*self._image.earlier]
        in_file = ((n, page) for n in range(2, self._image.pages + 1) if (page := self._image.in_file(n)) is not None)
        for number, page in (*copies, *in_file):
            with suppress(Damaged):
                if kind_of(number, page) == TABLE_LEAF:
                    self._keep(self.tables["chunk"], self._of(self.tables["chunk"], self._rows(number, page)))

    def _rows(self, number: int, page: bytes) -> Iterator[Row | None]:
        try:
            yield from rows_on(number, page, self._image.read)
        except Damaged:
            yield None

    def _by_shape(self, rows: Iterator[Row | None]) -> None:
        for row in rows:
            fitting = [] if row is None else [t for t in self.tables.values() if is_row_of(t, row)]
            if len(fitting) == 1 and fitting[0].name in _KNOWN_BY_SHAPE:
                self._keep(fitting[0], iter([row]))

    @staticmethod
    def _of(table: Table, rows: Iterator[Row | None]) -> Iterator[Row]:
        return (row for row in rows if row is not None and is_row_of(table, row))

    def _keep(self, table: Table, rows: Iterator[Row | None]) -> None:
        """Insert what is whole; a key that is there already stays: the first
        copy met is the one in force.
        """
        for row in rows:
            if row is None or not is_row_of(table, row):
                self._note(table.name)
                continue
            values = stored(table, row)
            names = ", ".join(column.name for column in table.columns[: len(values)])
            places = ", ".join("?" * len(values))
            self._connection.execute(
                f"INSERT OR IGNORE INTO {table.name} ({names}) VALUES ({places})",  # noqa: S608 names of our own schema
                values,
            )

    def _note(self, name: str) -> None:
        key = name or "index"
        self.damaged[key] = self.damaged.get(key, 0) + 1


def tables_of(connection: sqlite3.Connection) -> Iterator[Table]:
    """The tables of a database, with their columns as they are stored."""
    listed = connection.execute(
        "SELECT name, sql LIKE '%WITHOUT ROWID%' FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    for name, without_rowid in listed:
        found = connection.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (name,)).fetchall()
        keys = sorted((pk, i) for i, (_, _, _, pk) in enumerate(found) if pk)
        order = [i for _, i in keys] if without_rowid else []
        order += [i for i in range(len(found)) if i not in order]
        columns = [
            Column(column, _TYPES[kind], not (not_null or (pk and without_rowid)))
            for column, kind, not_null, pk in (found[i] for i in order)
        ]
        yield Table(name, columns, not without_rowid)


def is_row_of(table: Table, row: Row) -> bool:
    """Whether the row may be one of *table*: types, and for a chunk, that its record count and
    the ends of its records agree.
    """
    if (row.rowid is not None) != table.has_rowid or not fits(row.values, table.columns):
        return False
    if table.name != "chunk":
        return True
    values = dict(zip((column.name for column in table.columns), row.values, strict=False))
    n, ends = values.get("n"), values.get("ends")
    return isinstance(n, int) and isinstance(ends, bytes) and n >= 0 and len(ends) == 4 * n + 4


def stored(table: Table, row: Row) -> list[Value]:
    """The values to insert: a column that stands for the rowid is null in the record."""
    return [row.rowid, *row.values[1:]] if table.has_rowid and row.values[0] is None else row.values


def kept_bytes(data_dir: Path) -> int:
    """Bytes of damaged files that are kept; 0 once an operator has moved them away."""
    return sum(path.stat().st_size for path in (data_dir / QUARANTINE).glob("*/*") if path.is_file())
