"""The one thread that owns spool.db's connection: it runs groups of work, each group in one commit.

A `Group` is what gathered while the commit before it was on its way to the disk (group commit). If a group fails, it
is rolled back and its parts are run again one by one, so that one bad part takes nobody with it, and a full disk still
lets acks and deletes through. After a failed COMMIT the connection's own view is not trusted: the file is opened anew.
"""

import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from spool.errors import SpoolError
from spool.figures import Figures
from spool.record import Lane
from spool.sqlite import database, rows
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

    def __init__(self, data_dir: Path, *, synchronous: str, followers: dict[Lane, list[Lane]]) -> None:
        self._data_dir = data_dir
        self._synchronous = synchronous
        self._followers = followers
        self._connection = database.connect(data_dir, synchronous=synchronous)
        self._figures = load_figures(self._connection)
        self._queue: queue.SimpleQueue[tuple[Group, Callable[[GroupResult], None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="spool-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, group: Group, done: Callable[[GroupResult], None]) -> None:
        """Run *group*; *done* is called on the writer's thread."""
        self._queue.put((group, done))

    def stop(self) -> None:
        """Finish what was submitted, then close the file."""
        self._queue.put(None)
        self._thread.join()

    def run_now(self, operation: Operation) -> Any:
        """Run one operation on the caller's thread, before `start`."""
        result = self._execute(Group(operations=[operation]))
        if isinstance(result.results[0], BaseException):
            raise result.results[0]
        return result.results[0]

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            group, done = item
            done(self._execute(group))
        self._connection.close()

    def _execute(self, group: Group) -> GroupResult:
        try:
            return self._result(None, self._transaction(group))
        except Exception as error:  # noqa: BLE001 whatever one part raises, the others are still owed their commit
            if len(group.operations) + bool(group.chunks or group.tallies) == 1:
                return self._failed(group, error)
        return self._one_by_one(group)

    def _failed(self, group: Group, error: Exception) -> GroupResult:
        if isinstance(error, sqlite3.Error):
            self._reopen()
            failure: Exception = SpoolError(f"the spool could not be written: {error}")
            failure.__cause__ = error
        else:
            failure = error
        if group.operations:
            return self._result(None, [failure])
        return self._result(failure if isinstance(failure, SpoolError) else SpoolError(str(failure)), [])

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
            connection.execute(
                "INSERT INTO meta (name, value) VALUES ('figures', ?) ON CONFLICT DO UPDATE SET value=excluded.value",
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
            self._connection = database.connect(self._data_dir, synchronous=self._synchronous)
            self._figures = load_figures(self._connection)
        except SpoolError:
            log.exception("the spool could not be opened again; the next request tries once more")


def load_figures(connection: sqlite3.Connection) -> Figures:
    found = connection.execute("SELECT value FROM meta WHERE name='figures'").fetchone()
    return Figures() if found is None else Figures.from_json(orjson.loads(found[0]))


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of spool.db's pages that hold something."""
    try:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    except sqlite3.Error:
        return 0
    return int(pages - free) * database.PAGE_BYTES
