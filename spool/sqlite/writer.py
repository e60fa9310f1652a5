"""The one thread that owns spool.db's connection: it runs groups of work, each group in one commit.

A `Group` is what gathered while the commit before it was on its way to the disk (group commit). If a group fails, it
is rolled back and its parts are run again one by one, so that one bad part takes nobody with it. After a failed COMMIT
the connection's own view is not trusted: the file is opened anew. On a full disk appends are refused, and the reserve is
given up so that acks and deletions go on; appends are taken again when the reserve could be set aside anew.
"""

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from spool.errors import SpoolCorrupt, SpoolError
from spool.figures import Figures
from spool.record import Lane
from spool.sqlite import database, rows
from spool.sqlite.reserve import Reserve
from spool.store import Tally

log = logging.getLogger(__name__)

Operation = Callable[[sqlite3.Connection, Figures], Any]
"""Work inside a transaction; its result goes to who asked. Figures are a copy, kept only if the commit succeeds."""


@dataclass(slots=True)
class Group:
    """What goes into one commit."""

    chunks: list[rows.ChunkRow] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True)
class GroupResult:
    figures: Figures
    """As committed last."""
    used_bytes: int
    appended: SpoolError | None
    """None when the chunks and tallies are on disk."""
    results: list[Any]
    """For each operation its result, or the exception it raised."""


class Writer:
    """Owns the connection. Made on the caller's thread (so that opening fails there), then run by its own."""

    def __init__(
        self, data_dir: Path, *, synchronous: str, followers: dict[Lane, list[Lane]], reserve_bytes: int
    ) -> None:
        self._data_dir = data_dir
        self._synchronous = synchronous
        self._followers = followers
        self._reserve = Reserve(data_dir / "reserve", reserve_bytes)
        self._connection, self._figures = self._open_first()
        self.is_disk_full = not self._reserve.hold()
        """Whether new data is refused until there is room again. Read by other threads."""
        self.lost_appends = 0
        """Commits of appends that failed. Read by other threads, and by operations that build upon appends."""
        self.refuses_appends = False
        """Set when an append was lost: what was gathered since may build upon it. The owner takes it back."""

    def _open_first(self) -> tuple[sqlite3.Connection, Figures]:
        """Open the file; on a full disk at the cost of the reserve."""
        try:
            return self._open_file()
        except SpoolError:
            if not self._reserve.give_up():
                raise
            return self._open_file()

    def _open_file(self) -> tuple[sqlite3.Connection, Figures]:
        connection = database.connect(self._data_dir, synchronous=self._synchronous)
        try:
            with database.mapped_errors(str(self._data_dir)):
                return connection, load_figures(connection)
        except BaseException:
            connection.close()
            raise

    def run_now(self, operation: Operation) -> Any:
        """Run one operation on the caller's thread, before `start`."""
        result = self._execute(Group(operations=[operation]))
        if isinstance(result.results[0], BaseException):
            self._connection.close()
            raise result.results[0]
        return result.results[0]

    def make_room(self) -> None:
        """Run inside an operation now and then: take new data again when the reserve can be set aside."""
        if self.is_disk_full and self._reserve.hold():
            self.is_disk_full = False
            log.warning("the disk has room again: new data is taken")

    def run(self, group: Group) -> GroupResult:
        """Run *group* in one commit; on the one thread that this writer is used by from now on."""
        result = self._without_appends(group) if self.refuses_appends else self._execute(group)
        if self.is_disk_full:
            self._shorten_log()
        return result

    def _without_appends(self, group: Group) -> GroupResult:
        """Refuse the group's appends, run its operations."""
        refused = (
            self._lost(SpoolError("an append before this one was lost")) if group.chunks or group.tallies else None
        )
        results = self._execute(Group(operations=group.operations)).results if group.operations else []
        return self._result(refused, results)

    def close(self) -> None:
        self._connection.close()

    def _shorten_log(self) -> None:
        """Copy the write-ahead log into the file and cut it: only then do deletions free room on the disk."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            log.debug("the write-ahead log could not be cut: %s", error)

    def _execute(self, group: Group) -> GroupResult:
        try:
            return self._result(None, self._transaction(group))
        except Exception as error:  # noqa: BLE001 whatever one part raises, the others are still owed their commit
            if len(group.operations) + bool(group.chunks or group.tallies) == 1:
                return self._failed(group, error)
        return self._one_by_one(group)

    def _failed(self, group: Group, error: Exception) -> GroupResult:
        failure: Exception = error
        if isinstance(error, (sqlite3.Error, UnicodeDecodeError)):
            failure = database.spool_error("the spool could not be written", error)
            failure.__cause__ = error
            gave_up_reserve = self._note_full(error)
            self._reopen()
            if gave_up_reserve and group.operations:
                return self._execute(group)
        if group.operations:
            return self._result(None, [failure])
        return self._result(self._lost(failure if isinstance(failure, SpoolError) else SpoolError(str(failure))), [])

    def _lost(self, error: SpoolError) -> SpoolError:
        """Appends were lost by *error*: take no more until the owner knows, and let later operations see it."""
        self.lost_appends += 1
        self.refuses_appends = True
        return error

    def _note_full(self, error: Exception) -> bool:
        """When the disk is full: refuse appends and free the reserve; whether that made room."""
        if not (database.is_full(error) or self.is_disk_full):
            return False
        if not self.is_disk_full:
            self.is_disk_full = True
            log.error("the disk is full: new data is refused until there is room; deliveries go on")
        return self._reserve.give_up()

    def _one_by_one(self, group: Group) -> GroupResult:
        appended: SpoolError | None = None
        results: list[Any] = []
        if group.chunks or group.tallies:
            appended = self._execute(Group(group.chunks, group.tallies)).appended
        for operation in group.operations:
            results += self._execute(Group(operations=[operation])).results
        return self._result(appended, results)

    def _result(self, appended: SpoolError | None, results: list[Any]) -> GroupResult:
        return GroupResult(self._figures, used_bytes(self._connection), appended, results)

    def _transaction(self, group: Group) -> list[Any]:
        """One commit; the figures change only when it succeeded."""
        connection = self._connection
        figures = self._figures.copy()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for chunk in group.chunks:
                rows.insert_chunk(connection, chunk)
                for lane in self._followers[chunk.lane]:
                    figures.keep(lane, chunk.n)
            for tally in group.tallies:
                figures.add(tally)
            results = [operation(connection, figures) for operation in group.operations]
            if group.tallies or group.chunks or figures != self._figures:  # a group that only reads writes nothing
                connection.execute(
                    "INSERT INTO meta (name, value) VALUES ('figures', ?)"
                    " ON CONFLICT DO UPDATE SET value=excluded.value",
                    (orjson.dumps(figures).decode(),),
                )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._figures = figures
        return results

    def _reopen(self) -> None:
        """Take nothing of the failed connection for true: open the file again and read the figures from it."""
        try:
            self._connection.close()
            self._connection, self._figures = self._open_file()
        except (SpoolError, sqlite3.Error, UnicodeDecodeError):
            log.exception("the spool could not be opened again; the next request tries once more")


def load_figures(connection: sqlite3.Connection) -> Figures:
    """The figures as committed last. Raises SpoolCorrupt when they cannot be read."""
    found = connection.execute("SELECT value FROM meta WHERE name='figures'").fetchone()
    try:
        return Figures() if found is None else Figures.from_json(orjson.loads(found[0]))
    except (ValueError, KeyError, TypeError) as error:
        raise SpoolCorrupt("the spool's figures cannot be read") from error


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of spool.db's pages that hold something."""
    try:
        (pages,) = connection.execute(
            "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count"
        ).fetchone()
    except sqlite3.Error:
        return 0
    return int(pages) * database.PAGE_BYTES
