"""`JournalStore` in Postgres.

A row's place is (transaction, number): about the order of commits. What commits late may have a
smaller place than what was read. It is not left out, for rows leave when they are counted: the
reader begins again at the first one now and then. So no transaction of somebody else, however long,
holds the cell up.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from gateway.common.contract.journal import Row
from gateway.stores.postgres.database import PostgresConnection, PostgresDatabase
from spool.sql.packing import Unreadable, pack, unpack

_KEEP: Final = "INSERT INTO journal (form, payloads, packed, body) VALUES (?, ?, ?, ?)"
_SIZES: Final = (
    "SELECT xid::text::bigint, id, length(body) FROM journal WHERE (xid, id) > (?::text::xid8, ?)"
    " ORDER BY xid, id LIMIT ?"
)
_READ: Final = (
    "SELECT xid::text::bigint, id, form, packed, body FROM journal WHERE (xid, id) > (?::text::xid8, ?)"
    " AND (xid, id) <= (?::text::xid8, ?) ORDER BY xid, id"
)
ROW_BYTES: Final = 100
"""Of a row, without its body."""
_PAGES: Final = "SELECT pg_relation_size('journal') / current_setting('block_size')::bigint"
_LIVE: Final = f"SELECT coalesce(sum(length(body) + {ROW_BYTES}), 0)::bigint FROM journal"  # noqa: S608 - own SQL
_SAMPLED: Final = _LIVE + " TABLESAMPLE SYSTEM (?)"
PAGES: Final = 4096
"""Of the table, that are read to measure what waits; they hold no large body."""
_THESE: Final = "(xid, id) IN (SELECT unnest(?::text[])::xid8, unnest(?::bigint[]))"


class PostgresJournal:
    """Of the schema of *database*, whose tables `gateway.stores.postgres.cell` makes."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def keep(self, form: int, body: bytes, payloads: int) -> None:
        packed = pack(body)
        await self._database.insert(_KEEP, (form, payloads, packed is not body, packed))

    async def waiting_bytes(self) -> int:
        return await self._database.read(_waiting_bytes)

    async def read(self, after: tuple[int, int], *, max_rows: int, max_bytes: int) -> list[Row]:
        return await self._database.read(lambda connection: _rows(connection, after, max_rows, max_bytes))

    def dropping(self, places: Sequence[tuple[int, int]]) -> Callable[[Any], None]:
        return lambda connection: _run(connection, f"DELETE FROM journal WHERE {_THESE}", places)  # noqa: S608 - own SQL

    def setting_aside(self, places: Sequence[tuple[int, int]]) -> Callable[[Any], None]:
        copied = "form, payloads, kept_at, packed, body"
        sql = f"INSERT INTO journal_damaged ({copied}) SELECT {copied} FROM journal WHERE {_THESE}"  # noqa: S608 - own SQL
        return lambda connection: _run(connection, sql, places)


def _waiting_bytes(connection: PostgresConnection) -> int:
    """The rows that are there: a table stays as long as it ever was. Of a long one a sample of
    pages is read, so that it takes milliseconds however much waits; it is about 2 % wrong.
    """
    (pages,) = connection.execute(_PAGES).fetchone() or (0,)
    if pages <= PAGES:
        (size,) = connection.execute(_LIVE).fetchone() or (0,)
        return int(size)
    share = PAGES / pages
    (size,) = connection.execute(_SAMPLED, (100 * share,)).fetchone() or (0,)
    return int(size / share)


def _rows(connection: PostgresConnection, after: tuple[int, int], max_rows: int, max_bytes: int) -> list[Row]:
    last, size = after, 0
    for xid, number, row_bytes in connection.execute(_SIZES, (str(after[0]), after[1], max_rows)):
        if last != after and size + row_bytes > max_bytes:
            break
        last, size = (xid, number), size + row_bytes
    if last == after:
        return []
    found = connection.execute(_READ, (str(after[0]), after[1], str(last[0]), last[1]))
    return [
        Row((xid, number), form, _body(stored, packed), len(stored) + ROW_BYTES)
        for xid, number, form, packed, stored in found
    ]


def _body(stored: bytes, packed: bool) -> bytes | None:  # noqa: FBT001 - a column
    try:
        return unpack(stored) if packed else stored
    except Unreadable:
        return None


def _run(connection: PostgresConnection, sql: str, places: Sequence[tuple[int, int]]) -> None:
    if places:
        connection.execute(sql, ([str(xid) for xid, _ in places], [number for _, number in places]))
