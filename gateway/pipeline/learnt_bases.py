"""What instrumentations proved of their input, in control.db: read at the start, and written before
the calls that were read by it go on.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Self

import structlog

from gateway.common.storage.database import Database, scripts_of
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.counting.bases import Instrumentation, LearntBases, LearntBy, Proofs

log = structlog.get_logger()

PART: Final = "learnt_bases"
_Row = tuple[str, str, str, str, int, int, int, int]


class LearntBasesStore:
    """Open with `LearntBasesStore.open`."""

    def __init__(self, database: Database, bases: LearntBases) -> None:
        self._database = database
        self.bases = bases
        self._is_failing = False

    @classmethod
    async def open(cls, database: Database) -> Self:
        """Raises DatabaseUnavailable."""
        await database.migrate(PART, scripts_of("gateway.pipeline.migrations"))
        bases = LearntBases()
        bases.restore(await database.read(_read_all))
        return cls(database, bases)

    async def write(self) -> None:
        """Write down what changed since. What cannot be written is tried again the next time:
        calls do not wait for it.
        """
        changed, gone = self.bases.changed(), list(self.bases.gone)
        if not changed and not gone:
            return
        rows = [_row_of(by, proofs) for by, proofs in changed]
        try:
            await self._database.write(lambda connection: _write_all(connection, rows, gone))
        except DatabaseUnavailable as error:
            if not self._is_failing:
                log.warning("what senders proved of their input cannot be written down yet", error=type(error).__name__)
            self._is_failing = True
            return
        self._is_failing = False
        del self.bases.gone[: len(gone)]
        for _, proofs in changed:
            proofs.is_changed, proofs.written_ms = False, proofs.last_ms

    async def close(self) -> None:
        """Write the rest."""
        with suppress(DatabaseUnavailable):
            await self.write()


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


def _row_of(by: LearntBy, proofs: Proofs) -> _Row:
    return (*by.instrumentation, by.key, proofs.scope, proofs.inclusive, proofs.exclusive, proofs.last_ms)


def _write_all(connection: sqlite3.Connection, rows: Sequence[_Row], gone: Sequence[LearntBy]) -> None:
    connection.executemany(
        "DELETE FROM learnt_bases WHERE library = ? AND version = ? AND provider = ? AND key = ?",
        [(*by.instrumentation, by.key) for by in gone],
    )
    connection.executemany("INSERT OR REPLACE INTO learnt_bases VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
