"""Deletes the names that no row of usage has, in small pieces: a commit and a question wait for one
piece at most.

The rows are read on one snapshot. What they use is a superset of what is used later, as long as no
usage is added meanwhile; to forget a user only takes a name out of use.
"""

import asyncio
from contextlib import aclosing
from functools import partial
from itertools import chain
from typing import Final

from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.sums import model_versions, names, tags
from gateway.stores.sql.sums.columns import quoted
from gateway.stores.sql.sums.tables import TABLES
from gateway.usage.sums import bounds
from spool.sql.connection import Connection

ROWS: Final = 5_000
"""Read at a time: some 10 ms."""
NAMES: Final = 2_000
"""Deleted in one commit."""
PAUSE_S: Final = 0.01
"""Between two pieces."""
_READS: Final = tuple(f"SELECT {', '.join(quoted(table.columns))} FROM {table.name}" for table in TABLES)  # noqa: S608 - own SQL


async def drop_unused_names(database: SqlDatabase[Connection]) -> None:
    """Where more than half of `bounds.MAX_NAMES` or of the sets of tags are held. The caller adds
    no usage until this returns.

    Raises DatabaseUnavailable.
    """
    if await database.read(names.count) <= bounds.MAX_NAMES // 2 and not await database.read(tags.are_many):
        return
    unused = sorted(await _unused(database))
    for start in range(0, len(unused), NAMES):
        await database.write(partial(model_versions.drop_names, ids=unused[start : start + NAMES]))
        await asyncio.sleep(PAUSE_S)


async def _unused(database: SqlDatabase[Connection]) -> set[int]:
    unused = await database.read(names.all_ids) - await database.read(model_versions.of_others)
    unused -= await database.read(tags.values_in_use)
    for sql in _READS:
        async with aclosing(database.pieces(sql, ROWS)) as pieces:
            async for rows in pieces:
                unused.difference_update(chain.from_iterable(rows))
                await asyncio.sleep(PAUSE_S)
    return unused
