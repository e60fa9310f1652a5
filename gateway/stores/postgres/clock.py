"""The time of a cell is that of its database: the wall clocks of its gateways do not matter."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from gateway.common.storage.errors import DatabaseUnavailable
from gateway.stores.postgres.database import PostgresConnection, PostgresDatabase
from spool.age import monotonic_ms

LEARN_S: Final = 1.0
"""How often the database is asked."""
_NOW: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class DatabaseClock:
    """Call it for milliseconds since 1970: those of the local monotonic clock, and by how much the
    database's clock is ahead of it. Until the first answer it is the wall clock.
    """

    def __init__(self, wall_ms: Callable[[], int], monotonic_ms: Callable[[], int] = monotonic_ms) -> None:
        self._monotonic_ms = monotonic_ms
        self._ahead_ms = wall_ms() - monotonic_ms()

    def __call__(self) -> int:
        return self._monotonic_ms() + self._ahead_ms

    async def learn(self, database: PostgresDatabase) -> None:
        """Go by the clock of *database*. An answer that took its time changes no more than it
        proves wrong. Raises DatabaseUnavailable.
        """
        least_ms, greatest_ms = await database.read(self._ahead)
        self._ahead_ms = min(max(self._ahead_ms, least_ms), greatest_ms)

    def _ahead(self, connection: PostgresConnection) -> tuple[int, int]:
        """By how much the database's clock is ahead, at least and at most."""
        asked_ms = self._monotonic_ms()
        (there_ms,) = connection.execute(_NOW).fetchone() or (asked_ms + self._ahead_ms,)
        return there_ms - self._monotonic_ms(), there_ms - asked_ms + 1

    async def follow(self, database: PostgresDatabase) -> None:
        """Learn until cancelled; meanwhile time goes on by what is known."""
        while True:
            await asyncio.sleep(LEARN_S)
            with suppress(DatabaseUnavailable):
                await self.learn(database)
