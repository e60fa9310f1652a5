"""The one thread that owns spool.db's connection: it runs groups of work, each group in one commit.

A `Group` is what gathered while the commit before it was on its way to the disk (group commit). If
a group fails, it is rolled back and its parts are run again one by one, so that one bad part takes
no one with it. After a failed COMMIT the connection's own view is not trusted: the file is opened
again; after an error of the disk only once all of it was written again and synced. A file that
turns out to be damaged is salvaged (`salvage`), at the start and in between. On a full disk appends
are refused, and the reserve is given up so that acks and deletions go on; appends are taken again
when the reserve could be set aside again.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from spool.counters import Counters
from spool.data_dir import DATABASE, RESERVE
from spool.errors import SpoolCorrupt, SpoolError, SpoolLocked, SpoolTooNew
from spool.histogram import ANSWER_S, Histogram
from spool.record import Lane
from spool.sql.counter_rows import load_counters
from spool.sql.groups import Group, GroupResult, Operation, write_group
from spool.sqlite import database
from spool.sqlite.recovery import opening, salvage
from spool.sqlite.reserve import Reserve
from spool.sqlite.room import NOTHING_KNOWN, measure
from spool.status import Room

log = structlog.get_logger()

SALVAGE_EVERY_S = 60.0
"""At least so long between two salvages of a spool that is open."""

CHECKPOINT_BYTES = 8 << 20
"""Of write-ahead log that is copied into the file at a time, once no commit waits: an append that
comes meanwhile waits for it. With 2 MiB those were more than one in a hundred."""
MAX_CHECKPOINT_BYTES = 2 * CHECKPOINT_BYTES
"""With so many a waiting commit comes after."""
COMMIT_BYTES = 16 << 10
"""Of pages that a commit writes beside its chunks, about."""
MEASURE_S = 0.01
"""The room is measured so often while commits follow each other: that is several calls of the
system, each of which hands over the interpreter."""

FileId = tuple[int, int]


class Writer:
    """Owns the connection.

    Made on the caller's thread (so that opening fails there), then run by its own.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        synchronous: str,
        followers: dict[Lane, list[Lane]],
        reserve_bytes: int,
        max_bytes: int,
        now_ms: Callable[[], int],
        guards: Callable[[], bool] = lambda: True,
    ) -> None:
        """*guards*: whether the directory of that name is still the one that is locked."""
        self._data_dir = data_dir
        self._path = str(data_dir / DATABASE)
        self._guards = guards
        self._now_ms = now_ms
        self.on_salvaged: Operation = lambda *_: None
        """Run in a salvaged file before anything else is."""
        self.is_awaited: Callable[[], bool] = lambda: False
        """Whether others wait for the writer."""
        self.counters_before_salvage: Counters | None = None
        """As committed last, for `on_salvaged` of a spool that was open; None at the start."""
        self._dir_id = file_id(data_dir)
        """Of the data directory, which is locked."""
        self._file_id: FileId | None = None
        """Of spool.db."""
        self._next_salvage_s = 0.0
        self._is_unsynced = False
        """Set by a sync that failed, until all was written again."""
        self._synchronous = synchronous
        self._log_bytes = database.log_bytes_for(min(max_bytes, 4 * reserve_bytes) if reserve_bytes else max_bytes)
        self.uncopied_bytes = 0
        """Of write-ahead log that was not copied into the file, about. Read by other threads."""
        self._followers = followers
        self._reserve = Reserve(data_dir / RESERVE, reserve_bytes)
        self.commit_seconds = Histogram(ANSWER_S)
        """Of commits that keep records, with their sync. Read by other threads."""
        self._connection, self._counters = self._open_first()
        self.is_disk_full = not self._reserve.hold()
        """Whether new data is refused until there is room again. Read by other threads."""
        self.lost_appends = 0
        """Commits of appends that failed. Read by other threads, and by
        operations that build upon appends."""
        self.refuses_appends = False
        """Set when an append was lost: what was gathered since may build upon
        it. The owner takes it back."""
        self.distrusted = 0
        """Salvages of an open spool: what was on disk may be gone."""
        self.room = measure(self._connection, data_dir, NOTHING_KNOWN)
        """As measured last."""
        self._measured_s = time.monotonic()
        self.floor_bytes = self._reserve.floor_bytes
        """What must be free on the disk for new data to be taken."""
        self.cuts_log = False
        """Set by an operation: after its commit the write-ahead log is copied into the file, which
        so becomes as short as it is."""

    def _open_first(self) -> tuple[sqlite3.Connection, Counters]:
        """Open the file; on a full disk at the cost of the reserve."""
        try:
            return self._open_whole()
        except (SpoolTooNew, SpoolLocked):
            raise
        except SpoolError:
            if not self._reserve.give_up():
                raise
            return self._open_whole()

    def _open_whole(self) -> tuple[sqlite3.Connection, Counters]:
        """Open the file; a damaged one is salvaged first."""
        with database.mapped_errors(str(self._data_dir)):
            salvage.finish(self._data_dir, self._now_ms())
            damage = opening.damage(self._data_dir)
            if damage is None:
                (self._data_dir / opening.CHECK).unlink(missing_ok=True)
        if damage is None:
            try:
                return self._open_file()
            except SpoolCorrupt as error:
                damage = str(error)
        self._salvage(damage)
        return self._open_file()

    def _salvage(self, damage: str) -> None:
        """Raises SpoolError, with the files as they were, also where the disk gives no page."""
        opening.refuse_unreadable(self._data_dir)
        log.error("spool damaged", damage=damage)
        began_s = time.monotonic()
        with database.mapped_errors(str(self._data_dir)):
            salvage.salvage(self._data_dir, self._now_ms(), damage)
            (self._data_dir / opening.CHECK).unlink(missing_ok=True)
        log.warning("spool salvaged", took_s=round(time.monotonic() - began_s, 1), kept_in=salvage.QUARANTINE)

    def _open_file(self) -> tuple[sqlite3.Connection, Counters]:
        connection = database.connect(self._data_dir, synchronous=self._synchronous, log_bytes=self._log_bytes)
        try:
            with database.mapped_errors(str(self._data_dir)):
                self._file_id = file_id(self._data_dir / DATABASE)
                return connection, load_counters(connection)
        except BaseException:
            connection.close()
            raise

    def _open_again(self) -> tuple[sqlite3.Connection, Counters]:
        """Open a file that was there: where it is gone, an empty one would stand for it."""
        path = self._data_dir / DATABASE
        if not path.exists() or path.stat().st_size == 0:
            raise SpoolCorrupt("spool.db was deleted or emptied while the gateway ran")
        return self._open_file()

    def run_now(self, operation: Operation) -> Any:
        """Run one operation on the caller's thread, before `start`."""
        result = self._execute(Group(operations=[operation]))
        if isinstance(result.results[0], BaseException):
            self._connection.close()
            raise result.results[0]
        return result.results[0]

    def make_room(self) -> None:
        """Run inside an operation now and then: take new data again when the
        reserve can be set aside.
        """
        if self.is_disk_full and self._reserve.hold():
            self.is_disk_full = False
            log.info("disk has room again", free_bytes=self.room.free_bytes)

    def run(self, group: Group) -> GroupResult:
        """Run *group* in one commit; on the one thread that this writer is used by from now on."""
        self._look_at_file()
        result = self._without_appends(group) if self.refuses_appends else self._execute(group)
        if self.is_disk_full or self.cuts_log:
            self.cuts_log = False
            self._shorten_log()
            result.room = self._measure()
        return result

    def _without_appends(self, group: Group) -> GroupResult:
        """Refuse the group's appends, run its operations."""
        refused = self._lost(SpoolError("an append before this one was lost")) if group.has_appends else None
        results = self._execute(Group(operations=group.operations)).results if group.operations else []
        return self._result(refused, results)

    def copy_log(self) -> Room | None:
        """Copy what the write-ahead log has gained into the file, where that is enough; after those
        who waited for its commits were answered. The room that the files then take.
        """
        if self.uncopied_bytes < self.copied_from_bytes(is_awaited=self.is_awaited()):
            return None
        self.uncopied_bytes = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            log.debug("write-ahead log not copied", error=str(error))
        return self._measure()

    def copied_from_bytes(self, *, is_awaited: bool) -> int:
        """How much write-ahead log is copied at a time, while a commit is awaited or not."""
        enough_bytes = MAX_CHECKPOINT_BYTES if is_awaited else CHECKPOINT_BYTES
        return min(enough_bytes, self._log_bytes // 2)

    def close(self) -> None:
        self._connection.close()

    def _shorten_log(self) -> None:
        """Copy the write-ahead log into the file and cut it: only then do
        deletions free room on the disk.
        """
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self.uncopied_bytes = 0
        except sqlite3.Error as error:
            log.debug("write-ahead log not cut", error=str(error))

    def _execute(self, group: Group) -> GroupResult:
        try:
            return self._result(None, self.transaction(group))
        except Exception as error:  # noqa: BLE001 whatever one part raises, the others are still owed their commit
            if len(group.operations) + group.has_appends == 1:
                return self._failed(group, error)
        return self._one_by_one(group)

    def _failed(self, group: Group, error: Exception) -> GroupResult:
        failure: Exception = error
        if isinstance(error, (sqlite3.Error, UnicodeDecodeError)):
            failure = database.spool_error("the spool could not be written", error)
            failure.__cause__ = error
            gave_up_reserve = self._note_full(error)
            self._reopen(failure)
            if gave_up_reserve and group.operations:
                return self._execute(group)
        if group.operations:
            return self._result(None, [failure])
        return self._result(self._lost(failure if isinstance(failure, SpoolError) else SpoolError(str(failure))), [])

    def _lost(self, error: SpoolError) -> SpoolError:
        """Appends were lost by *error*: take no more until the owner knows, and
        let later operations see it.
        """
        self.lost_appends += 1
        self.refuses_appends = True
        return error

    def _note_full(self, error: Exception) -> bool:
        """When the disk is full: refuse appends and free the reserve; whether that made room."""
        if not (database.is_full(error) or self.is_disk_full):
            return False
        if not self.is_disk_full:
            self.is_disk_full = True
            log.error("disk full")
        gave_up = self._reserve.give_up()
        if gave_up:
            log.warning("reserve given up", bytes=self._reserve.size_bytes)
        return gave_up

    def _one_by_one(self, group: Group) -> GroupResult:
        appended: SpoolError | None = None
        results: list[Any] = []
        if group.has_appends:
            appended = self._execute(group.appends).appended
        for operation in group.operations:
            results += self._execute(Group(operations=[operation])).results
        return self._result(appended, results)

    def _result(self, appended: SpoolError | None, results: list[Any]) -> GroupResult:
        is_known = self.is_awaited() and time.monotonic() < self._measured_s + MEASURE_S
        return GroupResult(self._counters, None if is_known else self._measure(), appended, results, self.lost_appends)

    def _measure(self) -> Room:
        self._measured_s = time.monotonic()
        self.room = measure(self._connection, self._data_dir, self.room)
        return self.room

    def transaction(self, group: Group) -> list[Any]:
        """One commit; the counters change only when it succeeded."""
        began_s = time.perf_counter()
        with database.one_commit(self._connection):
            written = write_group(self._connection, group, self._counters, self._followers, self.is_awaited)
        self.uncopied_bytes += written.size_bytes + COMMIT_BYTES
        if group.chunks:
            self.commit_seconds.observe(time.perf_counter() - began_s)
        self._counters = written.counters
        return written.results

    def _reopen(self, failure: Exception) -> None:
        """Take nothing of the failed connection for true: open the file again
        and read the counters from it.
        """
        try:
            self._connection.close()
            self._is_unsynced |= getattr(failure.__cause__, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_FSYNC
            if isinstance(failure, SpoolCorrupt):
                self._mend(failure)
                return
            try:
                self._connection, self._counters = self._open_again()
            except SpoolCorrupt as error:
                self._mend(error)
            else:
                if self._is_unsynced:
                    self._write_again()
        except (SpoolError, sqlite3.Error, UnicodeDecodeError) as error:
            log.error("spool not opened again", error=str(error))  # noqa: TRY400 - the disk is at fault, not a line here

    def _mend(self, damage: SpoolCorrupt) -> None:
        """Salvage the damaged file and go on with it.

        Not again and again: each time leaves a copy in the quarantine.
        """
        if time.monotonic() < self._next_salvage_s:
            raise damage
        self._next_salvage_s = time.monotonic() + SALVAGE_EVERY_S
        self.counters_before_salvage = self._counters
        self._salvage(str(damage))
        self.distrusted += 1
        self._connection, self._counters = self._open_file()
        self.transaction(Group(operations=[self.on_salvaged]))
        self.counters_before_salvage = None
        self._lost(damage)

    def _look_at_file(self) -> None:
        """Before a commit: SQLite does not notice that spool.db was emptied, deleted or replaced,
        and goes on writing to what no start will find.
        """
        try:
            status = os.stat(self._path)  # noqa: PTH116 before each commit: a Path costs more than the call
            found, is_empty = (status.st_dev, status.st_ino), status.st_size == 0
        except FileNotFoundError:
            found, is_empty = None, False
        except OSError:
            return
        if found != self._file_id:
            if self._is_ours():
                self._put_back("deleted" if found is None else "replaced")
        elif is_empty:
            self._reopen_emptied()

    def _is_ours(self) -> bool:
        """Whether the directory is the one that was locked: another one is not ours to write to."""
        try:
            return file_id(self._data_dir) == self._dir_id
        except OSError:
            return False

    def _put_back(self, how: str) -> None:
        """Write what the connection still has in place of the file that is gone; another file
        there goes to the quarantine.
        """
        if time.monotonic() < self._next_salvage_s or not self._guards():  # another's directory keeps its file
            return
        self._next_salvage_s = time.monotonic() + SALVAGE_EVERY_S
        log.error("spool.db removed or replaced while the gateway ran", how=how)
        try:
            with database.mapped_errors(str(self._data_dir)):
                salvage.put_back(self._data_dir, self._connection, self._now_ms())
            self._connection, self._counters = self._open_file()
        except SpoolError as error:
            log.error("spool.db not put back", error=str(error), retry_s=SALVAGE_EVERY_S)  # noqa: TRY400 - as above

    def _reopen_emptied(self) -> None:
        """What the write-ahead log holds goes into the file; without the rest it is salvaged."""
        log.error("spool.db was emptied while the gateway ran")
        self._connection.close()
        try:
            with database.mapped_errors(str(self._data_dir)):
                damage = opening.damage(self._data_dir)
            if damage is None:
                self._connection, self._counters = self._open_file()
                log.warning("spool.db restored from its write-ahead log")
            else:
                self._mend(SpoolCorrupt("spool.db was emptied while the gateway ran"))
        except (SpoolError, sqlite3.Error, UnicodeDecodeError) as error:
            log.error("spool not opened again", error=str(error))  # noqa: TRY400 - the disk is at fault, not a line here

    def _write_again(self) -> None:
        """After an error of the disk: what could not be synced may be gone from the disk and
        still be read from memory.

        A system that failed to write a page once calls it written from then on. So all that the log
        holds is copied into the file, which writes it again, and is believed only if that could
        be synced. Raises SpoolError, sqlite3.Error.
        """
        try:
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise SpoolError("the write-ahead log is in use, and cannot be written again")
        except BaseException:
            self._connection.close()
            raise
        self._is_unsynced = False


def file_id(path: Path) -> FileId | None:
    """Device and inode of the file or directory that has this name now; None for none.

    Raises OSError.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
