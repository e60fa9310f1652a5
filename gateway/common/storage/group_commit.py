"""Group commit: changes of one part that wait at the same time share one commit, so a burst costs a
few syncs.

A change that raises is rolled back to its savepoint; the others of its group are committed.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from gateway.common.storage.sql import SqlDatabase
from spool.sql.connection import Connection

T = TypeVar("T")
Change = Callable[[Connection], T]

MAX_TOGETHER = 500


class Commits:
    """One queue of changes. Used on the event loop's thread only."""

    def __init__(
        self, database: SqlDatabase[Connection], part: str, after: Change[Any], committed: Callable[[Any], None]
    ) -> None:
        """*after* runs at the end of each commit; *committed* receives its result once that is on
        disk.
        """
        self._database = database
        self._part = part
        self._after = after
        self._committed = committed
        self._waiting: list[tuple[Change[Any], asyncio.Future[Any]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def commit(self, change: Change[T]) -> T:
        """Run *change* in the next commit; on disk when this returns. Raises DatabaseUnavailable,
        and what *change* raises.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await future

    async def close(self) -> None:
        """Return when the queue is empty."""
        if self._writing is not None:
            with suppress(asyncio.CancelledError):
                await self._writing

    async def _write(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:MAX_TOGETHER], self._waiting[MAX_TOGETHER:]
                await self._write_group(group)
        finally:
            self._writing = None

    async def _write_group(self, group: list[tuple[Change[Any], asyncio.Future[Any]]]) -> None:
        try:
            changes = [change for change, _ in group]
            run = partial(_run, changes, self._after, self._database.errors)
            results, summary = await self._database.write_part(self._part, run)
        except Exception as error:  # noqa: BLE001 raised to every caller of the group
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        self._committed(summary)
        for (_, future), result in zip(group, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


def _run(
    changes: Sequence[Change[Any]], after: Change[Any], errors: tuple[type[Exception], ...], connection: Connection
) -> tuple[list[Any], Any]:
    return [_result_or_error(change, errors, connection) for change in changes], after(connection)


def _result_or_error(change: Change[Any], errors: tuple[type[Exception], ...], connection: Connection) -> Any:
    """The result, or the exception; the engine's own *errors* propagate and fail the whole
    commit.
    """
    connection.execute("SAVEPOINT change")
    try:
        result = change(connection)
    except errors:
        raise
    except Exception as error:  # noqa: BLE001 raised to the caller of the change
        connection.execute("ROLLBACK TO change")
        result = error
    connection.execute("RELEASE change")
    return result
