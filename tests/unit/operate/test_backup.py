"""The one moment of a backup: while snapshots begin, nothing else commits."""

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.common.storage.database import Database
from gateway.operate.archive.staging import CONTROL
from gateway.operate.backup import LiveBackup
from spool.sqlite.snapshots import SqliteSnapshots
from spool.sqlite.spool import SqliteSpool
from tests.support.spool_rig import Clock, append, open_spool


def add(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO counted DEFAULT VALUES")


async def test_no_database_commits_while_the_snapshots_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_dir = tmp_path / "data"
    spool = open_spool(data_dir, Clock())
    control = await Database.open(data_dir / CONTROL)
    await control.write(lambda connection: connection.execute("CREATE TABLE counted (id INTEGER PRIMARY KEY)"))
    await control.write(add)
    await append(spool, [b"{}"])
    snapshot, writes = SqliteSpool.snapshot, []

    async def observed(self: SqliteSpool, others: Mapping[str, Path]) -> SqliteSnapshots:
        """A commit of control.db is asked for before the snapshots are there."""
        writes.append(asyncio.ensure_future(control.write(add)))
        found = await snapshot(self, others)
        assert not writes[0].done(), "it was committed between the snapshots"
        return found

    monkeypatch.setattr(SqliteSpool, "snapshot", observed)
    staged = await LiveBackup(data_dir, spool, {CONTROL: control}, Clock()).stage(None)
    await writes[0]  # it goes on as soon as the snapshots are there, whatever is copied
    with sqlite3.connect(staged.folder / CONTROL) as copy:
        assert copy.execute("SELECT count(*) FROM counted").fetchone() == (1,)
    copy.close()
    with sqlite3.connect(data_dir / CONTROL) as now:
        assert now.execute("SELECT count(*) FROM counted").fetchone() == (2,)
    now.close()
    await control.close()
    await spool.close()


async def test_what_commits_while_the_copies_are_made_is_not_in_them(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    spool = open_spool(data_dir, Clock())
    await append(spool, [b"{}"])
    snapshots = await spool.snapshot({})
    await append(spool, [b"{}", b"{}"])
    to = tmp_path / "to"
    to.mkdir()
    snapshots.copy(to)
    snapshots.close()
    with sqlite3.connect(to / "spool.db") as copy:
        assert copy.execute("SELECT sum(n) FROM chunk").fetchone() == (1,)
    copy.close()
    await spool.close()
