"""`SumHome` in a database."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Self, TypeVar

from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.database import make_tables
from gateway.stores.sql.sums import hours
from gateway.stores.sql.sums.forgetting import count_rows, forget_in_sums
from gateway.stores.sql.sums.hour_sums import sum_hours
from gateway.stores.sql.sums.latencies import add_latencies
from gateway.stores.sql.sums.model_versions import relate_known
from gateway.stores.sql.sums.questions import SqlSumRows
from gateway.stores.sql.sums.rollups import add, keep_tags, note_as_of, take_over
from gateway.stores.sql.sums.unused_names import drop_unused_names
from gateway.usage.sums.history import History, Usage
from gateway.usage.sums.home import Counted, SumRows
from gateway.usage.sums.tally import ATTO, HOUR_MS, PICO, Key, Sums
from spool.sql.connection import Connection

T = TypeVar("T")


class SqlSums:
    """Open with `SqlSums.open`."""

    def __init__(self, database: SqlDatabase[Connection]) -> None:
        self._database = database

    @classmethod
    async def open(cls, database: SqlDatabase[Connection]) -> Self:
        """The sums in *database*; missing tables are created. Raises DatabaseUnavailable."""
        await hours.make_tables(database)
        await make_tables(database, "usage_rollups")
        await database.write(relate_known)
        return cls(database)

    async def begin(self, now_ms: int, tags: Collection[str] = ()) -> None:
        await self._database.write(partial(_begin, now_hour=now_ms // HOUR_MS, tags=tags))

    async def counted_through(self, source: str) -> int:
        return await self._database.write(partial(hours.through_no, source=source))  # it waits for its turn

    async def store(self, counted: Counted) -> None:
        await self._database.write(partial(_store, counted=counted))

    async def history(self, now_ms: int) -> History:
        return await self._database.read(partial(hours.read, now_ms=now_ms))

    async def read(self, question: Callable[[SumRows], T]) -> T:
        return await self._database.read(lambda connection: question(SqlSumRows(connection)))

    async def read_apart(self, question: Callable[[SumRows], T]) -> T:
        """On a connection of its own."""
        return await self._database.read_apart(lambda connection: question(SqlSumRows(connection)))

    async def forget_users(self, users: Collection[str], *, dry_run: bool) -> int:
        if dry_run:
            return await self._database.read(partial(count_rows, users=users))
        return await self._database.write(partial(forget_in_sums, users=users))

    async def drop_unused_names(self) -> None:
        await drop_unused_names(self._database)


def _store(connection: Connection, counted: Counted) -> None:
    tally, now_ms, age_ms = counted.tally, counted.now_ms, counted.age_ms
    earlier_ms, later_ms = sorted((now_ms, age_ms))
    hours.write(
        connection, tally, source=counted.source, through_no=counted.through_no, now_ms=later_ms, kept_ms=earlier_ms
    )
    add(
        connection,
        tally.sums,
        now_hour=now_ms // HOUR_MS,
        kept_hour=earlier_ms // HOUR_MS,
        failed_costs=tally.failed_costs,
    )
    sum_hours(connection, earlier_ms // HOUR_MS)
    add_latencies(connection, tally.latencies, now_hour=now_ms // HOUR_MS, kept_hour=earlier_ms // HOUR_MS)
    if counted.as_of_ms is not None:
        note_as_of(connection, counted.as_of_ms)


def _begin(connection: Connection, now_hour: int, tags: Collection[str]) -> None:
    """With what an earlier release counted for the detectors alone."""
    take_over(connection, sums_of_history(hours.read(connection, now_hour * HOUR_MS)), now_hour=now_hour)
    keep_tags(connection, tags)


def sums_of_history(history: History) -> dict[Key, Sums]:
    """What the detectors' hours hold, as sums; what they do not hold is unknown."""
    sums: dict[Key, Sums] = {}
    for usage in history.usage:  # no two have the same names
        names = (usage.provider, usage.model, usage.team, "", "", "", usage.service_name, "", "", "")
        key = Key(usage.hour, *names, usage.currency, usage.cost_source)
        sums[key] = _sums_of(usage)
    return sums


def _sums_of(usage: Usage) -> Sums:
    return [
        usage.calls,
        usage.failed_calls,
        usage.calls_without_usage,
        usage.calls_without_usage,
        0 if usage.currency else usage.calls,
        usage.calls_without_price,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens if usage.cacheable_tokens else None,
        None,
        None,
        usage.cacheable_tokens or None,
        usage.cache_read_tokens if usage.cacheable_tokens else None,
        usage.cost_pico * (ATTO // PICO),
    ]
