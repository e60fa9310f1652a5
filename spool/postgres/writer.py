"""The one thread that owns the spool's connection to Postgres: it runs groups of work, each in one
commit.

Every transaction begins with a lock, so that one whose outcome is unknown is over before anything
is read again, and with a *fence*, which fails once another process owns the spool: then nothing is
written by this one any more. If a group fails, its parts are run again one by one, so that one bad
part takes no one with it; not after a COMMIT whose outcome is unknown. Then the connection is made
again, what the counters are is read, and what was gathered counts as lost until its owner has
looked for it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final

import psycopg
import structlog

from spool.counters import Counters
from spool.errors import Fenced, SpoolError
from spool.histogram import ANSWER_S, Histogram
from spool.postgres.committing import UnknownOutcome, committed, durable
from spool.postgres.connection import PostgresConnection, break_off
from spool.postgres.migrating import ONE_AT_A_TIME, migrate, spool_scripts
from spool.postgres.room import NOTHING_KNOWN, measure
from spool.postgres.session import is_broken, mapped_errors, spool_error
from spool.record import Lane
from spool.sql.counter_rows import load_counters
from spool.sql.groups import Group, GroupResult, Operation, Written, write_group
from spool.status import Room

log = structlog.get_logger()

Fence = Callable[[PostgresConnection], object]
"""Called first in each transaction. Raises Fenced where this process owns the spool no longer, and
else keeps another one from owning it before the transaction ends."""

_BEGIN: Final = (
    "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('ai-telemetry-gateway spool ' || current_schema(), 0))"
)
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
"""Between two tries to connect again."""
MEASURE_S: Final = 10.0
CROWDED_MEASURE_S: Final = 1.0
"""How often it is measured what the tables hold, and while that is much."""
MEASURE_SHARE: Final = 0.05
"""Of the writer's time that it may take."""


class PostgresWriter:
    """`spool.sql.groups.GroupWriter`. Opened on any thread, then used by one."""

    floor_bytes = 0
    """The disk is the server's."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection],
        *,
        followers: Mapping[Lane, Sequence[Lane]],
        max_bytes: int,
        fence: Fence,
    ) -> None:
        """*connect* opens a connection in autocommit, and raises SpoolError."""
        self.connect = connect
        self._followers, self._max_bytes, self._fence = followers, max_bytes, fence
        self._connection: psycopg.Connection | None = None
        self._counters = Counters()
        self._fault = SpoolError("Postgres: not connected")
        """Why there is no connection, where there is none."""
        self._next_try_s, self._pause_s = 0.0, FIRST_PAUSE_S
        self._next_measure_s = 0.0
        self.is_awaited: Callable[[], bool] = lambda: False
        self.is_closing = False
        """Set by another thread: a connection that breaks is not made again."""
        self.fenced: Fenced | None = None
        """Set for good once another process owns the spool. Read by other threads."""
        self.commit_seconds = Histogram(ANSWER_S)
        self.lost_appends = 0
        self.refuses_appends = False
        self.distrusted = 0
        self.room: Room = NOTHING_KNOWN

    def open(self, prepare: Operation) -> Any:
        """Make the tables that are missing, and run *prepare*, which must be first; its result.

        Raises Fenced, SpoolError.
        """
        self._connection = self.connect()
        try:
            with mapped_errors():
                self._migrate(self._connection)
                self._counters = self._read_counters(self._connection)
            (result,) = self._execute(Group(operations=[prepare])).results
        except BaseException:
            self.close()
            raise
        if isinstance(result, BaseException):
            self.close()
            raise result
        return result

    def run(self, group: Group) -> GroupResult:
        """Run *group* in one commit; on the one thread that this writer is used by from now on."""
        if self._connection is None and self.fenced is None:
            self._open_again()
        return self._without_appends(group) if self.refuses_appends else self._execute(group)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def break_off(self) -> None:
        """From another thread: what is under way fails now. A commit that waits for standbys which
        are gone would wait for as long as they are.
        """
        connection = self._connection
        if connection is not None:
            break_off(connection)

    def measure_soon(self) -> None:
        """Run inside an operation: the room is measured behind its commit."""
        self._next_measure_s = 0.0

    # ---- one group

    def _without_appends(self, group: Group) -> GroupResult:
        """Refuse the group's appends, run its operations."""
        refused = self._lost(SpoolError("an append before this one was lost")) if group.has_appends else None
        results = self._execute(Group(operations=group.operations)).results if group.operations else []
        return self._result(refused, results)

    def _execute(self, group: Group) -> GroupResult:
        connection = self._connection
        if connection is None:
            return self._refused(group, self.fenced or self._fault)
        try:
            return self._result(None, self.transaction(connection, group))
        except Fenced as error:
            self._end(error)
        except UnknownOutcome as error:
            if group.operations:  # a lost append is looked for by its chunk; what else was done has none
                self._distrust()
            self._drop(SpoolError(f"Postgres: {error}"))
        except psycopg.Error as error:
            if not is_broken(connection, error):
                return self._failed(group, spool_error(error), error)
            self._drop(spool_error(error))
        except Exception as error:  # noqa: BLE001 whatever one part raises, the others are still owed their commit
            return self._failed(group, error, error)
        return self._refused(group, self.fenced or self._fault)

    def transaction(self, connection: psycopg.Connection, group: Group) -> list[Any]:
        """One commit; the counters change only when it succeeded."""
        if group.only_looks:
            return self._looked(connection, group)
        began_s = time.perf_counter()
        with self._one_commit(connection) as own:
            written = self._written(connection, own, group)
        if group.chunks:
            self.commit_seconds.observe(time.perf_counter() - began_s)
        self._counters = written.counters
        return written.results

    def _looked(self, connection: psycopg.Connection, group: Group) -> list[Any]:
        """What is read needs no fence: what follows from it is written behind one."""
        connection.execute("BEGIN READ ONLY", prepare=False)
        try:
            return self._written(connection, PostgresConnection(connection, is_binary=True), group).results
        finally:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK", prepare=False)

    def _written(self, connection: psycopg.Connection, own: PostgresConnection, group: Group) -> Written:
        is_read = group.operations or group.joined
        with nullcontext() if is_read else connection.pipeline():  # what is not read needs one round trip
            return write_group(own, group, self._counters, self._followers, self.is_awaited)

    @contextmanager
    def _one_commit(self, connection: psycopg.Connection) -> Iterator[PostgresConnection]:
        """Raises UnknownOutcome, Fenced, psycopg.Error, and what is raised inside."""
        with durable(connection) as warnings:
            try:
                connection.execute(_BEGIN, prepare=False)  # two statements in one round trip
                own = PostgresConnection(connection, is_binary=True)
                self._fence(own)
                yield own
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK", prepare=False)
                raise
            warnings.clear()  # from here on there is the COMMIT alone
            _commit(connection)

    def _failed(self, group: Group, failure: Exception, cause: Exception) -> GroupResult:
        """The group was rolled back."""
        if len(group.operations) + group.has_appends > 1:
            return self._one_by_one(group)
        if failure is not cause:
            failure.__cause__ = cause
        if group.operations:
            return self._result(None, [failure])
        lost = failure if isinstance(failure, SpoolError) else SpoolError(str(failure))
        return self._result(self._lost(lost), [])

    def _one_by_one(self, group: Group) -> GroupResult:
        appended = self._execute(group.appends).appended if group.has_appends else None
        results: list[Any] = []
        for operation in group.operations:
            results += self._execute(Group(operations=[operation])).results
        return self._result(appended, results)

    def _refused(self, group: Group, error: SpoolError) -> GroupResult:
        """Nothing of *group* was kept, or nobody knows."""
        lost = self._lost(error.copied()) if group.has_appends else None
        return GroupResult(self._counters, None, lost, [error.copied() for _ in group.operations], self.lost_appends)

    def _lost(self, error: SpoolError) -> SpoolError:
        """Appends were lost by *error*: take no more until the owner knows, and
        let later operations see it.
        """
        self.lost_appends += 1
        self.refuses_appends = True
        return error

    def _result(self, appended: SpoolError | None, results: list[Any]) -> GroupResult:
        return GroupResult(self._counters, self._measured(), appended, results, self.lost_appends)

    def _measured(self) -> Room | None:
        if self._connection is None or time.monotonic() < self._next_measure_s:
            return None
        began_s = time.monotonic()
        try:
            self.room = measure(self._connection, self._max_bytes)
        except psycopg.Error as error:  # the next group finds out what it is
            log.debug("tables not measured", error=type(error).__name__)
            return None
        ended_s, is_crowded = time.monotonic(), self.room.used_bytes > self._max_bytes // 2
        pause_s = max(CROWDED_MEASURE_S if is_crowded else MEASURE_S, (ended_s - began_s) / MEASURE_SHARE)
        self._next_measure_s = ended_s + pause_s
        return self.room

    # ---- the connection

    def _migrate(self, connection: psycopg.Connection) -> None:
        try:
            with committed(connection):
                connection.execute(ONE_AT_A_TIME)
                migrate(PostgresConnection(connection), "spool", spool_scripts())
        except UnknownOutcome as error:
            raise SpoolError(f"Postgres: {error}") from error

    def _read_counters(self, connection: psycopg.Connection) -> Counters:
        try:
            with self._one_commit(connection) as own:
                return load_counters(own)
        except UnknownOutcome as error:
            raise SpoolError(f"Postgres: {error}") from error

    def _drop(self, fault: SpoolError) -> None:
        """The connection is of no use any more."""
        log.error("connection to Postgres lost", error=str(fault))
        self._fault = fault
        self.close()

    def _end(self, fenced: Fenced) -> None:
        log.error("another process owns the spool", error=str(fenced))
        self.fenced = fenced
        self.close()

    def _open_again(self) -> None:
        """Connect again, where that was not tried just now. A fence that fails ends it for good."""
        if self.is_closing or time.monotonic() < self._next_try_s:
            return
        try:
            self._connection = self.connect()
            with mapped_errors():
                counters = self._read_counters(self._connection)
        except Fenced as error:
            self._end(error)
        except SpoolError as error:
            self._fault = error
            self.close()
            self._next_try_s = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        else:
            self._go_on(counters)

    def _go_on(self, counters: Counters) -> None:
        log.info("connected to Postgres again")
        self._pause_s = FIRST_PAUSE_S
        if counters.edge["received"] < self._counters.edge["received"]:
            log.error("Postgres lost what it had committed: a standby without it took over")
            self._distrust()
        self._counters = counters

    def _distrust(self) -> None:
        """What its owner counted from the rows may not be so: it is to be read again."""
        self.distrusted += 1
        self.lost_appends += 1
        self.refuses_appends = True


def _commit(connection: psycopg.Connection) -> None:
    try:
        done = connection.execute("COMMIT", prepare=False)
    except psycopg.Error as error:
        if is_broken(connection, error):
            raise UnknownOutcome(f"the connection was lost in a commit: {spool_error(error)}") from error
        raise
    if done.statusmessage != "COMMIT":  # of a transaction in which a statement failed
        raise SpoolError("Postgres: the transaction was rolled back")
