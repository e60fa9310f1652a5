"""How many bytes the spool's tables hold."""

from typing import Final

import psycopg

from spool.status import Room

NOTHING_KNOWN: Final = Room(0, 0, 0, 0)
_ROW_BYTES: Final = 100
"""Of a row beside its content, with its entries in indexes."""
_BODIES: Final = "length(ends) + length(facts) + length(links) + length(body)"
_ROW_SIZES: Final = {
    "chunk": _BODIES,
    "dead_letter": "bytes",
    "held": "length(facts) + length(record)",
    "unit_item": "length(body)",
    "change": "coalesce(length(record), 0)",
} | dict.fromkeys(
    ("meta", "lane", "batch", "series", "sighting", "stretch", "side_count", "unit_stream", "unit_total", "unit_batch", "taken"),
    "pg_column_size(t.*)",
)  # fmt: skip
"""Table -> SQL of how many bytes a row holds, which reads no body."""
_TABLES: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(%s)"
)
_LIVE: Final = " UNION ALL ".join(
    f"SELECT coalesce(sum({size} + {_ROW_BYTES}), 0) FROM {table} t"  # noqa: S608 - own SQL
    for table, size in _ROW_SIZES.items()
)


def measure(connection: psycopg.Connection, max_bytes: int) -> Room:
    """The room that the tables take, outside of any transaction.

    A table stays as long as it ever was: what is deleted is used again. So while the tables take
    more than half of *max_bytes*, what their rows hold counts in its place.
    """
    (table_bytes,) = connection.execute(_TABLES, (list(_ROW_SIZES),)).fetchone() or (0,)
    used_bytes = table_bytes
    if table_bytes > max_bytes // 2:
        used_bytes = min(table_bytes, sum(int(live_bytes) for (live_bytes,) in connection.execute(_LIVE)))
    return Room(used_bytes, table_bytes, 0, 0)
