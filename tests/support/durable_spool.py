"""The embedded spool with the few verbs that exporter tests need besides: put records in,
look at what was set aside.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from spool.record import Lane
from spool.settings import SpoolSettings
from spool.sqlite.spool import SqliteSpool
from spool.store import ItemCounts

NOW_MS = 1_767_607_200_000  # 2026-01-05T10:00:00Z


class DurableSpool(SqliteSpool):
    """Hands records out at once: nothing settles, nothing lingers."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, SpoolSettings(linger_ms=0), now_ms=lambda: NOW_MS, settling=())
        self._path = data_dir / "spool.db"

    async def put(self, lane: Lane, records: Sequence[bytes]) -> None:
        await self.append(lane, records, ItemCounts(received=len(records), kept=len(records)))

    def dead_letters(self, lane: Lane) -> list[tuple[bytes, str, str]]:
        """(record, code, message) of each."""
        with closing(sqlite3.connect(self._path)) as connection:
            rows = connection.execute("SELECT record, code, message FROM dead_letter WHERE lane=? ORDER BY id", (lane,))
            return [(bytes(record), code, message) for record, code, message in rows]

    def leased(self, lane: Lane) -> int:
        return len(self._leased[lane])
