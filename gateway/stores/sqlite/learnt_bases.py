"""`LearntBasesStore` in control.db."""

import sqlite3
from collections.abc import Sequence
from typing import Final, Self

from gateway.common.storage.database import Database, scripts_of
from gateway.counting.bases import Instrumentation, LearntBy, Proofs

PART: Final = "learnt_bases"


class SqliteLearntBases:
    """Open with `SqliteLearntBases.open`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, database: Database) -> Self:
        """What *database* has; missing tables are created. Raises DatabaseUnavailable."""
        await database.migrate(PART, scripts_of("gateway.stores.sqlite.migrations.learnt_bases"))
        return cls(database)

    async def read(self) -> list[tuple[LearntBy, Proofs]]:
        return await self._database.read(_read_all)

    async def write(self, changed: Sequence[tuple[LearntBy, Proofs]], gone: Sequence[LearntBy]) -> None:
        rows = [
            (*by.instrumentation, by.key, proofs.scope, proofs.inclusive, proofs.exclusive, proofs.last_ms)
            for by, proofs in changed
        ]
        keys = [(*by.instrumentation, by.key) for by in gone]
        await self._database.write(lambda connection: _write_all(connection, rows, keys))


def _read_all(connection: sqlite3.Connection) -> list[tuple[LearntBy, Proofs]]:
    found = connection.execute(
        "SELECT library, version, provider, key, scope, inclusive, exclusive, last_ms FROM learnt_bases ORDER BY last_ms"
    )
    return [
        (
            LearntBy(Instrumentation(library, version, provider), key),
            Proofs(scope, inclusive, exclusive, last_ms, is_changed=False, written_ms=last_ms),
        )
        for library, version, provider, key, scope, inclusive, exclusive, last_ms in found
    ]


def _write_all(
    connection: sqlite3.Connection, rows: Sequence[tuple[object, ...]], gone: Sequence[tuple[str, ...]]
) -> None:
    where = "library = ? AND version = ? AND provider = ? AND key = ?"
    connection.executemany(f"DELETE FROM learnt_bases WHERE {where}", gone)  # noqa: S608 - own SQL
    connection.executemany("INSERT OR REPLACE INTO learnt_bases VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
