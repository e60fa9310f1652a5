"""`LearntBasesStore` in a database."""

from collections.abc import Sequence
from typing import Final, Self

from gateway.common.storage.sql import SqlDatabase
from gateway.counting.bases import Instrumentation, LearntBy, Proofs
from gateway.stores.sql.database import make_tables
from spool.sql.connection import Connection

PART: Final = "learnt_bases"
_COLUMNS: Final = "library, version, provider, key, scope, inclusive, exclusive, last_ms"
_PUT: Final = f"INSERT INTO learnt_bases ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - own SQL
_DELETE: Final = "DELETE FROM learnt_bases WHERE library = ? AND version = ? AND provider = ? AND key = ?"


class SqlLearntBases:
    """Open with `SqlLearntBases.open`."""

    def __init__(self, database: SqlDatabase[Connection]) -> None:
        self._database = database

    @classmethod
    async def open(cls, database: SqlDatabase[Connection]) -> Self:
        """What *database* has; missing tables are created. Raises DatabaseUnavailable."""
        await make_tables(database, PART)
        return cls(database)

    async def read(self) -> list[tuple[LearntBy, Proofs]]:
        return await self._database.read(_read_all)

    async def write(self, changed: Sequence[tuple[LearntBy, Proofs]], gone: Sequence[LearntBy]) -> None:
        rows = [
            (*by.instrumentation, by.key, proofs.scope, proofs.inclusive, proofs.exclusive, proofs.last_ms)
            for by, proofs in changed
        ]
        replaced = [(*by.instrumentation, by.key) for by in (*gone, *(by for by, _ in changed))]
        await self._database.write(lambda connection: _write_all(connection, rows, replaced))


def _read_all(connection: Connection) -> list[tuple[LearntBy, Proofs]]:
    found = connection.execute(f"SELECT {_COLUMNS} FROM learnt_bases ORDER BY last_ms")  # noqa: S608 - own SQL
    return [
        (
            LearntBy(Instrumentation(library, version, provider), key),
            Proofs(scope, inclusive, exclusive, last_ms, is_changed=False, written_ms=last_ms),
        )
        for library, version, provider, key, scope, inclusive, exclusive, last_ms in found
    ]


def _write_all(connection: Connection, rows: Sequence[tuple[object, ...]], replaced: Sequence[tuple[str, ...]]) -> None:
    connection.executemany(_DELETE, replaced)
    connection.executemany(_PUT, rows)
