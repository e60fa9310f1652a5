"""Insights of the service: the gateway's detectors over its own tables.

Records are summed by the hour, each once: the sums are committed together with the number of the
last record in them.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from gateway.common.storage.database import Database
from gateway.stores.sql.insights import SqlInsightRows
from gateway.stores.sql.sums import hours
from gateway.usage.insights.detect import Figures, detect
from gateway.usage.insights.finding import Finding
from gateway.usage.insights.kept import note_findings
from gateway.usage.insights.operations import Device
from gateway.usage.sums.tally import HOUR_MS, Tally

_log = structlog.get_logger()

ROUND_S: Final = 5.0
PAGE_RECORDS: Final = 1_000
"""Counted in one commit, which ingestion then waits for: some milliseconds."""
SOURCE: Final = "ai_records"

_DEVICES: Final = (
    "SELECT device_id, enrolled_at_ms, max(enrolled_at_ms, ifnull(heartbeat_at_ms, 0), ifnull(pinged_at_ms, 0)) AS last_ms"
    " FROM devices WHERE status <> 'blocked'"
)


class Finder:
    """Create with `open`; concurrent calls of `look` are serial."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms
        self._looked_at: tuple[object, ...] = ()
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, database: Database, now_ms: Callable[[], int]) -> "Finder":
        """Raises DatabaseUnavailable."""
        await hours.make_tables(database)
        return cls(database, now_ms)

    async def run(self) -> None:
        """Look every `ROUND_S`, until cancelled."""
        while True:
            await asyncio.sleep(ROUND_S)
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 the next round repeats the work
                _log.warning("insights could not be stored", of="local service", error=type(error).__name__)

    async def look(self) -> None:
        """Count new records, and store the findings if they may have changed. Raises
        DatabaseUnavailable.
        """
        async with self._turn:
            now_ms = self._now_ms()
            while await self._database.write(partial(count_page, now_ms=now_ms)) == PAGE_RECORDS:
                pass
            looks_at = await self._database.read(partial(state, now_ms=now_ms))
            if looks_at == self._looked_at:
                return
            found = await self._database.read(partial(found_in, now_ms=now_ms))
            await self._database.write(lambda connection: note_findings(SqlInsightRows(connection), found, now_ms))
            self._looked_at = looks_at


def count_page(connection: sqlite3.Connection, now_ms: int) -> int:
    """Count the next records; return their number."""
    rows = connection.execute(
        "SELECT record_no, record FROM ai_record_bodies WHERE record_no > ? ORDER BY record_no LIMIT ?",
        (hours.through_no(connection, SOURCE), PAGE_RECORDS),
    ).fetchall()
    if rows:
        tally = Tally()
        tally.add([record for _, record in rows], now_ms=now_ms)
        hours.write(connection, tally, source=SOURCE, through_no=rows[-1][0], now_ms=now_ms)
    return len(rows)


def state(connection: sqlite3.Connection, now_ms: int) -> tuple[object, ...]:
    """A state that changes whenever findings may change."""
    contacts = connection.execute(f"SELECT count(*), sum(last_ms) FROM ({_DEVICES})").fetchone()  # noqa: S608 - own SQL
    return (now_ms // HOUR_MS, hours.through_no(connection, SOURCE), *contacts)


def found_in(connection: sqlite3.Connection, now_ms: int) -> list[Finding]:
    devices = [Device._make(row) for row in connection.execute(_DEVICES)]
    return detect(Figures(now_ms, hours.read(connection, now_ms), devices=devices))
