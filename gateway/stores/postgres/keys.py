"""Keys in Postgres (`KeyHome`), which a request is checked against without asking it.

`now` answers from memory. A change is in it once its commit returned; one of another gateway within
a second: the transaction of each change notifies, and the generation is polled every `POLL_S` on a
connection of its own, which no long question holds up.

While Postgres cannot be asked, the keys that are known go on being valid, however long that is, and
one that another gateway disabled meanwhile is among them; a key that is not known is refused.
`unasked_s` says for how long, and after `WARN_S` a line of the log does.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Self, TypeVar

import psycopg
import structlog

from gateway.access.home import KeyRows, KeysNow
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.stores.postgres.database import PostgresConnection, PostgresDatabase
from gateway.stores.sql.database import make_tables
from gateway.stores.sql.keys import (
    EVERY,
    EVERY_VIEWER,
    GENERATION,
    PART,
    SqlKeyRows,
    keys_now,
    keys_of,
    note_access,
)

T = TypeVar("T")
_log = structlog.get_logger()

POLL_S: Final = 0.5
WARN_S: Final = 5.0
ANSWER_S: Final = 5.0
"""A connection that does not answer for so long is replaced."""
_CHANNEL: Final = "ai_telemetry_gateway_keys"
_NOTIFY: Final = f"SELECT pg_notify('{_CHANNEL}', current_schema())"


class PostgresKeys:
    """Open with `PostgresKeys.open`; close before the database is closed."""

    def __init__(self, database: PostgresDatabase, seen: KeysNow) -> None:
        self._database = database
        self._seen = seen
        self._changes = 0
        self._asked_s = time.monotonic()
        self._has_warned = False
        self._is_closed = False
        self._following = asyncio.create_task(self._follow())

    @classmethod
    async def open(cls, database: PostgresDatabase) -> Self:
        """The keys in *database*; missing tables are created. Raises DatabaseUnavailable."""
        await make_tables(database, PART)
        return cls(database, await database.read(partial(keys_now, known_generation=-1)))

    @property
    def unasked_s(self) -> float:
        """Since Postgres last said which keys there are."""
        return time.monotonic() - self._asked_s

    async def commit(self, change: Callable[[KeyRows], T]) -> T:
        def changed(connection: PostgresConnection) -> tuple[T, KeysNow]:
            result = change(SqlKeyRows(connection))
            connection.execute(_NOTIFY)
            return result, keys_now(connection, known_generation=-1)

        result, now = await self._database.write(changed)
        if now.generation >= self._seen.generation:  # else a later commit returned before this one
            self._changes += 1
            self._seen = now
        return result

    async def read(self, question: Callable[[KeyRows], T]) -> T:
        return await self._database.read(lambda connection: question(SqlKeyRows(connection)))

    async def note_access(self, noted: Mapping[str, int]) -> None:
        await self._database.write(partial(note_access, noted=noted))

    def now(self, known_generation: int) -> KeysNow:
        """As Postgres last answered."""
        if self._is_closed:
            raise DatabaseUnavailable("the key store is closed")
        seen = self._seen
        return seen if seen.generation != known_generation else seen._replace(keys=None, viewers=None)

    async def close(self) -> None:
        self._is_closed = True
        self._following.cancel()
        with suppress(asyncio.CancelledError):
            await self._following

    async def _follow(self) -> None:
        while not self._is_closed:  # psycopg 3.2 waits by wait_for, which can lose a cancellation
            try:
                async with await self._database.connect_apart() as connection:
                    await connection.execute(f"LISTEN {_CHANNEL}")
                    while not self._is_closed:
                        async with asyncio.timeout(ANSWER_S):
                            await self._ask(connection)
                        async for _ in connection.notifies(timeout=POLL_S, stop_after=1):
                            pass
            except (psycopg.Error, OSError, TimeoutError, ValueError) as error:  # ValueError: a row that holds no JSON
                self._warn(error)
                await asyncio.sleep(POLL_S)

    async def _ask(self, connection: psycopg.AsyncConnection) -> None:
        changes = self._changes
        (generation, created) = await (await connection.execute(GENERATION)).fetchone() or (-1, 0)
        if generation != self._seen.generation:
            async with connection.transaction(force_rollback=True):
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                (generation, created) = await (await connection.execute(GENERATION)).fetchone() or (-1, 0)
                keys = await (await connection.execute(EVERY)).fetchall()
                viewers = await (await connection.execute(EVERY_VIEWER)).fetchall()
            if changes == self._changes:  # else what a commit returned meanwhile is as new, or newer
                self._seen = keys_of(generation, created, keys, viewers)
        self._asked_s, self._has_warned = time.monotonic(), False

    def _warn(self, error: Exception) -> None:
        if self.unasked_s > WARN_S and not self._has_warned:
            self._has_warned = True
            _log.warning("changes of keys are not seen", error=type(error).__name__, since_s=round(self.unasked_s))
