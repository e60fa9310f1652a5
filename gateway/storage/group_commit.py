"""Changes of control.db that wait at the same time share one commit, so that a burst of them costs a few syncs.

Each change is whole or not there: one that raises is undone by itself, and the others are committed.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from gateway.storage.database import Database

T = TypeVar("T")
Change = Callable[[sqlite3.Connection], T]

TOGETHER_MOST = 500


class Commits:
    """One queue of changes. Used on the event loop's thread only."""

    def __init__(self, database: Database, after: Change[Any], committed: Callable[[Any], None]) -> None:
        """*after* runs at the end of each commit, and *committed* is given what it returned once that is on disk."""
        self._database = database
        self._after = after
        self._committed = committed
        self._waiting: list[tuple[Change[Any], asyncio.Future[Any]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def commit(self, change: Change[T]) -> T:
        """Run *change* in the next commit; on disk when this returns. Raises DatabaseUnavailable, and what *change* raises."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await future

    async def close(self) -> None:
        """Return when nothing waits any more."""
        if self._writing is not None:
            with suppress(asyncio.CancelledError):
                await self._writing

    async def _write(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:TOGETHER_MOST], self._waiting[TOGETHER_MOST:]
                await self._write_group(group)
        finally:
            self._writing = None

    async def _write_group(self, group: list[tuple[Change[Any], asyncio.Future[Any]]]) -> None:
        try:
            results, told = await self._database.write(partial(_run, [change for change, _ in group], self._after))
        except Exception as error:  # noqa: BLE001 whoever waits is told
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        self._committed(told)
        for (_, future), result in zip(group, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


def _run(changes: Sequence[Change[Any]], after: Change[Any], connection: sqlite3.Connection) -> tuple[list[Any], Any]:
    return [_undone_where_it_raises(change, connection) for change in changes], after(connection)


def _undone_where_it_raises(change: Change[Any], connection: sqlite3.Connection) -> Any:
    """The result, or what was raised; sqlite3's own errors go up, for then nothing of the commit can be trusted."""
    connection.execute("SAVEPOINT change")
    try:
        result = change(connection)
    except sqlite3.Error:
        raise
    except Exception as error:  # noqa: BLE001 given to whoever asked for the change
        connection.execute("ROLLBACK TO change")
        result = error
    connection.execute("RELEASE change")
    return result
