"""`JournalStore` in memory, whose commits a test can hold back or let fail."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from gateway.common.contract.journal import Row
from gateway.common.storage.errors import DatabaseUnavailable

Place = tuple[int, int]


class MemoryJournal:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.payloads: list[int] = []
        """Of each row that was ever kept."""
        self.damaged: list[Row] = []
        self.size_bytes = 0
        self.may_commit = asyncio.Event()
        self.may_commit.set()
        self.fails = False
        self.commits = 0
        """That are under way."""
        self._next = 1

    async def keep(self, form: int, body: bytes, payloads: int) -> None:
        self.commits += 1
        try:
            await self.may_commit.wait()
        finally:
            self.commits -= 1
        if self.fails:
            raise DatabaseUnavailable("no primary")
        self.rows.append(Row((self._next, 1), form, body, len(body)))
        self.payloads.append(payloads)
        self._next += 1

    async def waiting_bytes(self) -> int:
        if self.fails:
            raise DatabaseUnavailable("no primary")
        return self.size_bytes

    async def read(self, after: Place, *, max_rows: int, max_bytes: int) -> list[Row]:
        return [row for row in self.rows if row.place > after][:max_rows]

    def dropping(self, places: Sequence[Place]) -> Callable[[Any], None]:
        def drop(_: object) -> None:
            self.rows = [row for row in self.rows if row.place not in places]

        return drop

    def setting_aside(self, places: Sequence[Place]) -> Callable[[Any], None]:
        return lambda _: self.damaged.extend(row for row in self.rows if row.place in places)
