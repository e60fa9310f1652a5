"""One schema of the user's Postgres over psycopg: commits that are durable, and migrations by part.

A change or a question runs in a thread, in one piece, as with SQLite: so no statement is ever
cancelled, and a store is written once for both. A commit whose wait for the standbys was cancelled
answers success with a warning; here it is a failure, whose outcome is unknown.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from gateway.common.storage.completed import completed
from gateway.common.storage.errors import DatabaseUnavailable
from spool.postgres.committing import UnknownOutcome, committed, durable
from spool.postgres.connection import CONNECT, SESSION, PostgresConnection, break_off, text_of
from spool.postgres.durability import SETTINGS, Durability, unsafe_settings
from spool.postgres.migrating import ONE_AT_A_TIME, migrate

__all__ = ["PostgresConnection", "PostgresDatabase"]

T = TypeVar("T")

CONNECTIONS: Final = 4
BREAK_OFF_S: Final = 0.1
WAIT_S: Final = 5.0
"""For a free connection: while the standbys are gone each commit keeps one."""
_OF_PART: Final = (
    "SELECT pg_advisory_xact_lock(hashtextextended('ai-telemetry-gateway ' || current_schema() || ' ' || ?, 0))"
)

_SNAPSHOT: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class PostgresDatabase:
    """Open with `PostgresDatabase.open`. Every method raises DatabaseUnavailable in place of the
    driver's own errors.
    """

    engine: Final = "postgres"
    errors: Final = (psycopg.Error,)

    def __init__(
        self,
        dsn: str,
        pool: ConnectionPool,
        connections: int,
        begin: Callable[[PostgresConnection], object],
        answer_s: float | None,
    ) -> None:
        self._dsn = dsn
        self._pool = pool
        self._begin = begin
        self._connections, self._answer_s = connections, answer_s
        self._free = asyncio.Semaphore(connections)
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="postgres")
        self._busy: set[psycopg.Connection] = set()
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        durability: Durability,
        connections: int = CONNECTIONS,
        begin: Callable[[PostgresConnection], object] = lambda _: None,
        answer_s: float | None = None,
    ) -> Self:
        """The schema that *dsn*'s role sees first. Refuses a server that would answer a commit
        before it is durable. *begin* is done first in each transaction that changes something.
        *answer_s*: for how long an answer is waited for; None: for as long as it takes.
        """
        pool = ConnectionPool(
            dsn,
            kwargs=CONNECT,
            configure=_configure,
            min_size=1,
            max_size=connections,
            timeout=WAIT_S,
            open=False,
        )
        database = cls(dsn, pool, connections, begin, answer_s)
        try:
            await asyncio.to_thread(pool.open)
            unsafe = unsafe_settings(await database.read(_settings), durability)
            if unsafe:
                raise DatabaseUnavailable("; ".join(unsafe))
        except BaseException:
            await database.close()
            raise
        return database

    async def write(self, change: Callable[[PostgresConnection], T]) -> T:
        """Run *change* in one transaction, one at a time in the schema; durable when this returns,
        nothing of it kept when *change* raises.

        A connection that breaks in the commit leaves its outcome unknown: raises
        DatabaseUnavailable, and a repeated change must come to the same.
        """

        def locked(connection: PostgresConnection) -> T:
            connection.execute(ONE_AT_A_TIME)
            return change(connection)

        return await self.commit(locked)

    async def write_part(self, part: str, change: Callable[[PostgresConnection], T]) -> T:
        """As `write`, but one at a time only among the changes that name the same *part*."""

        def locked(connection: PostgresConnection) -> T:
            connection.execute(_OF_PART, (part,))
            return change(connection)

        return await self.commit(locked)

    async def commit(self, change: Callable[[PostgresConnection], T]) -> T:
        """`write`, next to other changes: they may be made at the same time."""

        def committed_change() -> T:
            with self._connected() as connection, committed(connection):
                own = PostgresConnection(connection)
                self._begin(own)
                return change(own)

        return await self._run(committed_change)

    async def insert(self, sql: str, parameters: Sequence[Any]) -> None:
        """One statement in a commit of its own, in one round trip; as `commit`."""

        def inserted() -> None:
            with self._connected() as connection, durable(connection):
                PostgresConnection(connection).execute(sql, parameters)

        await self._run(inserted)

    async def read(self, question: Callable[[PostgresConnection], T]) -> T:
        """Run *question* on one snapshot."""

        def snapshot() -> T:
            with self._connected() as connection, connection.transaction(force_rollback=True):
                connection.execute(_SNAPSHOT)
                return question(PostgresConnection(connection))

        return await self._run(snapshot)

    async def connect_apart(self) -> psycopg.AsyncConnection:
        """A connection beside those of this database, for who listens. It raises the driver's own
        errors, and the caller closes it.
        """
        connecting = asyncio.ensure_future(psycopg.AsyncConnection.connect(self._dsn, **CONNECT))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            with suppress(psycopg.Error):
                await (await connecting).close()
            raise

    async def read_apart(self, question: Callable[[PostgresConnection], T]) -> T:
        """As `read`, on a connection of its own: no other question waits for this one."""

        def snapshot() -> T:
            with self._apart() as connection:
                return question(PostgresConnection(connection))

        return await completed(asyncio.to_thread(snapshot))

    async def pieces(self, sql: str, rows: int) -> AsyncGenerator[list[tuple[Any, ...]]]:
        """What *sql* selects, *rows* at a time, on one snapshot and a connection of its own."""
        apart = ExitStack()
        with _unavailable():
            try:
                connection = await completed(asyncio.to_thread(apart.enter_context, self._apart()))
                cursor = apart.enter_context(connection.cursor("pieces"))  # of the server, which keeps the rest
                await completed(asyncio.to_thread(cursor.execute, sql))
                while piece := await completed(asyncio.to_thread(cursor.fetchmany, rows)):
                    yield piece
            finally:
                await completed(asyncio.to_thread(apart.close))

    async def migrate(self, part: str, scripts: Sequence[str]) -> None:
        """Bring *part*'s tables to the last of *scripts*, which are numbered from 1 and never
        edited once released. Gateways that start together do it one after the other.
        """

        await self.write(lambda connection: migrate(connection, part, scripts))

    async def close(self) -> None:
        """What still runs after `WAIT_S`, as a commit without its standbys, loses its connection:
        the server goes on with it, and its caller does not know the outcome.
        """
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                for _ in range(self._connections):
                    await self._free.acquire()
        self._break_off()
        await asyncio.to_thread(self._pool.close)
        ending = asyncio.ensure_future(asyncio.to_thread(self._threads.shutdown))
        while not ending.done():  # one that took a connection just now hangs as well
            self._break_off()
            await asyncio.wait({ending}, timeout=BREAK_OFF_S)

    def _break_off(self) -> None:
        for connection in tuple(self._busy):
            break_off(connection)

    async def _run(self, work: Callable[[], T]) -> T:
        """The result of *work*, whose thread goes on to its end when the caller is cancelled."""
        if self._is_closed:
            raise DatabaseUnavailable("Postgres: the database is closed")
        try:
            async with asyncio.timeout(WAIT_S):  # Python 3.11's wait_for can lose a cancellation
                await self._free.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(
                f"Postgres: no connection of {self._connections} was free for {WAIT_S:g} s"
            ) from None
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(self._answer_s):
                return await asyncio.shield(running)
        except TimeoutError:
            raise DatabaseUnavailable(
                f"Postgres: no answer for {self._answer_s} s, so nobody knows whether it was done: are its standbys there?"
                " telemetry-gateway doctor says"
            ) from None

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._free.release()
        running.exception()  # its caller may be gone

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        with _unavailable():
            connection = self._sound()
            try:
                yield connection
            finally:
                self._given_back(connection)

    def _sound(self) -> psycopg.Connection:
        """Where a failover broke those that are idle, one that was made since."""
        for _ in range(self._connections):
            connection = self._taken()
            if self._is_closed or not _is_broken(connection):
                return connection
            self._given_back(connection)
        return self._taken()

    def _taken(self) -> psycopg.Connection:
        """Busy before anything is asked of it, so that `close` can end that."""
        connection = self._pool.getconn()
        self._busy.add(connection)
        return connection

    def _given_back(self, connection: psycopg.Connection) -> None:
        self._busy.discard(connection)
        self._pool.putconn(connection)

    @contextmanager
    def _apart(self) -> Iterator[psycopg.Connection]:
        """A connection of its own, on one snapshot."""
        if self._is_closed:
            raise DatabaseUnavailable("Postgres: the database is closed")
        with _unavailable(), closing(psycopg.connect(self._dsn, **CONNECT)) as connection:
            self._busy.add(connection)
            try:
                _configure(connection)
                with connection.transaction(force_rollback=True):
                    connection.execute(_SNAPSHOT)
                    yield connection
            finally:
                self._busy.discard(connection)


def _configure(connection: psycopg.Connection) -> None:
    connection.execute(SESSION)


def _settings(connection: PostgresConnection) -> dict[str, str]:
    rows = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(?)", (list(SETTINGS),))
    return dict(rows.fetchall())


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, PoolTimeout, PoolClosed) as error:
        raise DatabaseUnavailable(f"Postgres: {text_of(error)}") from error
    except UnknownOutcome as error:
        raise DatabaseUnavailable(str(error)) from error


def _is_broken(connection: psycopg.Connection) -> bool:
    try:
        ConnectionPool.check_connection(connection)
    except psycopg.Error:
        return True
    return False
