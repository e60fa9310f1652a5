"""The senders in control.db: read at the start, written about once a minute and at the end. What
came since the last write is missing after a kill.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

import orjson

from gateway.common.storage.database import Database, scripts_of
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.senders.activity import Activity, Refusal, SenderId, Senders
from spool.data_lock import DataLock

PART: Final = "senders"
WRITE_EVERY_S: Final = 60.0


class Row(NamedTuple):
    sender_no: int
    key: str | None
    format: str
    service: str | None
    product: str
    figures: str


class SenderStore:
    """Open with `SenderStore.open`."""

    def __init__(self, database: Database, senders: Senders) -> None:
        self._database = database
        self.senders = senders

    @classmethod
    async def open(cls, database: Database, now_ms: Callable[[], int]) -> Self:
        """Raises DatabaseUnavailable."""
        await database.migrate(PART, scripts_of("gateway.fleet.senders.migrations"))
        senders = Senders(now_ms)
        senders.restore(sorted(await database.read(read_all), key=lambda row: row[1].last_ms))
        return cls(database, senders)

    async def close(self) -> None:
        """Write the rest; a file that cannot be written costs at most what came since the last
        time.
        """
        with suppress(DatabaseUnavailable):
            await self.write()

    async def write(self) -> None:
        """Write down what changed since. Raises DatabaseUnavailable, and what changed stays so."""
        changed = list(self.senders.changed())
        rows = [row_of(sender, activity) for sender, activity in changed]
        gone, self.senders.gone = self.senders.gone, []
        if not rows and not gone:
            return
        for _, activity in changed:
            activity.is_changed = False
        try:
            await self._database.write(lambda connection: write_all(connection, rows, gone))
        except BaseException:
            self.senders.gone = gone + self.senders.gone
            for _, activity in changed:
                activity.is_changed = True
            raise


def read_all(connection: sqlite3.Connection) -> list[tuple[SenderId, Activity]]:
    found = connection.execute("SELECT sender_no, key, format, service, product, figures FROM senders").fetchall()
    return [read_row(Row(*row)) for row in found]


def write_all(connection: sqlite3.Connection, rows: Sequence[Row], gone: Sequence[int]) -> None:
    connection.executemany("DELETE FROM senders WHERE sender_no = ?", [(number,) for number in gone])
    connection.executemany("INSERT OR REPLACE INTO senders VALUES (?, ?, ?, ?, ?, ?)", rows)


def row_of(sender: SenderId, activity: Activity) -> Row:
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
    return Row(activity.sender_no, *sender, orjson.dumps(figures).decode())


def read_row(row: Row) -> tuple[SenderId, Activity]:
    figures = orjson.loads(row.figures)
    refusals = {reason: Refusal(n, last_ms) for reason, (n, last_ms) in figures.pop("refusals").items()}
    sender = SenderId(row.key, row.format, row.service, row.product)
    return sender, Activity(row.sender_no, **figures, refusals=refusals, is_changed=False)


@asynccontextmanager
async def offline_senders(data_dir: Path, control_database: Path, now_ms: Callable[[], int]) -> AsyncIterator[Senders]:
    """The senders of a stopped gateway; the lock of the data directory is held meanwhile.

    Raises SpoolLocked, SpoolError, DatabaseUnavailable.
    """
    with DataLock(data_dir):
        database = await Database.open(control_database)
        try:
            yield (await SenderStore.open(database, now_ms)).senders
        finally:
            await database.close()
