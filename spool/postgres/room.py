"""How many bytes the spool's tables hold."""

from typing import Final

import psycopg

from spool.status import Room

NOTHING_KNOWN: Final = Room(0, 0, 0, 0)
_TABLES: Final = (
    "meta", "chunk", "change", "lane", "batch", "dead_letter", "series", "held", "sighting", "stretch", "side_count",
    "unit_stream", "unit_total", "unit_batch", "unit_item", "taken",
)  # fmt: skip
_SIZES: Final = (
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(%s)"
)
_ROW_BYTES: Final = 100
"""Of a row beside its content, with its entries in indexes."""
_LIVE: Final = (
    f"SELECT (SELECT coalesce(sum(length(ends) + length(facts) + length(links) + length(body) + {_ROW_BYTES}), 0) FROM chunk)"  # noqa: S608 - own SQL
    f" + (SELECT coalesce(sum(bytes + {_ROW_BYTES}), 0) FROM dead_letter)"
)


def measure(connection: psycopg.Connection, max_bytes: int) -> Room:
    """The room that the tables take, outside of any transaction.

    What is deleted is used again, and a table stays as long as it ever was. So while the tables
    take more than half of *max_bytes*, the records in them are counted instead.
    """
    sizes: dict[str, int] = dict(connection.execute(_SIZES, (list(_TABLES),)).fetchall())
    table_bytes = sum(sizes.values())
    used_bytes = table_bytes
    if table_bytes > max_bytes // 2:
        (live_bytes,) = connection.execute(_LIVE).fetchone() or (0,)
        used_bytes = min(table_bytes, int(live_bytes) + table_bytes - sizes["chunk"] - sizes["dead_letter"])
    return Room(used_bytes, table_bytes, 0, 0)
