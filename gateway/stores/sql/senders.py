"""`SenderStore` in a database."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

import orjson

from gateway.common.storage.sql import SqlDatabase
from gateway.fleet.senders.activity import Activity, Refusal, SenderId
from gateway.stores.sql.database import make_tables
from spool.sql.connection import Connection

PART: Final = "senders"


_PUT: Final = (
    "INSERT INTO senders (sender_no, key, format, service, product, figures) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (sender_no) DO UPDATE SET key = excluded.key, format = excluded.format,"
    " service = excluded.service, product = excluded.product, figures = excluded.figures"
)


class _Row(NamedTuple):
    sender_no: int
    key: str | None
    format: str
    service: str | None
    product: str
    figures: str


class SqlSenders:
    """Open with `SqlSenders.open`."""

    def __init__(self, database: SqlDatabase[Connection]) -> None:
        self._database = database

    @classmethod
    async def open(cls, database: SqlDatabase[Connection]) -> Self:
        """What *database* has; missing tables are created. Raises DatabaseUnavailable."""
        await make_tables(database, PART)
        return cls(database)

    async def read(self) -> list[tuple[SenderId, Activity]]:
        return await self._database.read(_read_all)

    async def write(self, changed: Sequence[tuple[SenderId, Activity]], gone: Sequence[int]) -> None:
        rows = [_row_of(sender, activity) for sender, activity in changed]
        await self._database.write(lambda connection: _write_all(connection, rows, gone))


def _read_all(connection: Connection) -> list[tuple[SenderId, Activity]]:
    found = connection.execute("SELECT sender_no, key, format, service, product, figures FROM senders").fetchall()
    return [_read_row(_Row(*row)) for row in found]


def _write_all(connection: Connection, rows: Sequence[_Row], gone: Sequence[int]) -> None:
    connection.executemany("DELETE FROM senders WHERE sender_no = ?", [(number,) for number in gone])
    connection.executemany(_PUT, rows)


def _row_of(sender: SenderId, activity: Activity) -> _Row:
    figures = {
        "first_ms": activity.first_ms,
        "last_ms": activity.last_ms,
        "requests": activity.requests,
        "items": activity.items,
        "calls": activity.calls,
        "without_usage": activity.without_usage,
        "size_bytes": activity.size_bytes,
        "longest_gap_ms": activity.longest_gap_ms,
        "refusals": {reason: [x.requests, x.last_ms] for reason, x in activity.refusals.items()},
    }
    return _Row(activity.sender_no, *sender, orjson.dumps(figures).decode())


def _read_row(row: _Row) -> tuple[SenderId, Activity]:
    figures = orjson.loads(row.figures)
    refusals = {reason: Refusal(n, last_ms) for reason, (n, last_ms) in figures.pop("refusals").items()}
    sender = SenderId(row.key, row.format, row.service, row.product)
    return sender, Activity(row.sender_no, **figures, refusals=refusals, is_changed=False)
