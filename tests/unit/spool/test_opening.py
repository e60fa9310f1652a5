"""Opening a data directory: who may, what the files look like, and what a
damaged or newer file is reported.
"""

import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from spool.errors import SpoolError, SpoolLocked, SpoolTooNew
from spool.record import AI_TELEMETRY
from spool.sqlite.database import migrations
from spool.sqlite.spool import SqliteSpool
from tests.support.spool_rig import append, assert_balanced, drained, frozen, open_spool

SECOND_OPENER = """
import asyncio, sys
from pathlib import Path
from tests.support.spool_rig import open_spool
async def main():
    open_spool(Path(sys.argv[1]))
asyncio.run(main())
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "lock"}


def file_modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def write_nonsense(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "spool.db").write_bytes(b"not a database at all" * 1000)


async def test_a_second_opener_is_refused_and_the_first_one_goes_on(spool: SqliteSpool, data_dir: Path) -> None:
    await append(spool, [b"1"])
    before = contents(data_dir)
    with pytest.raises(SpoolLocked, match=str(os.getpid())):
        open_spool(data_dir)
    assert contents(data_dir) == before
    assert await drained(spool) == [b"1"]


async def test_another_process_is_refused_too(spool: SqliteSpool, data_dir: Path) -> None:
    second = subprocess.run(  # noqa: ASYNC221 the loop has nothing else to do
        [sys.executable, "-c", SECOND_OPENER, str(data_dir)], capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode != 0
    assert "SpoolLocked" in second.stderr
    assert f"process {os.getpid()}" in second.stderr


async def test_a_closed_spool_may_be_opened_again_and_keeps_its_name(data_dir: Path) -> None:
    spool = open_spool(data_dir)
    name = spool.gateway_id
    await spool.close()
    spool = open_spool(data_dir)
    assert spool.gateway_id == name
    await spool.close()


async def test_every_file_is_private(spool: SqliteSpool, data_dir: Path) -> None:
    await append(spool, [b"1"])
    assert file_modes(data_dir.parent)["data"] == 0o700
    modes = file_modes(data_dir)
    assert {"spool.db", "spool.db-wal", "spool.db-shm", "lock"} <= set(modes)
    assert set(modes.values()) == {0o600}, modes


async def test_files_are_private_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        spool = open_spool(tmp_path / "data")
        await append(spool, [b"1"])
    finally:
        os.umask(before)
    assert set(file_modes(tmp_path / "data").values()) == {0o600}
    await spool.close()


async def test_a_file_of_a_newer_release_is_refused_untouched(data_dir: Path) -> None:
    spool = open_spool(data_dir)
    await append(spool, [b"1"])
    await spool.close()
    newest = migrations()[-1][0]
    with sqlite3.connect(data_dir / "spool.db") as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute(f"PRAGMA user_version={newest + 1}")
    connection.close()
    before = contents(data_dir)
    with pytest.raises(SpoolTooNew, match=f"layout {newest + 1}"):
        open_spool(data_dir)
    assert contents(data_dir) == before
    with sqlite3.connect(data_dir / "spool.db") as connection:
        connection.execute(f"PRAGMA user_version={newest}")
    connection.close()
    spool = open_spool(data_dir)
    assert await drained(spool) == [b"1"]
    await spool.close()


async def test_a_file_that_is_no_spool_is_kept_in_quarantine(data_dir: Path) -> None:
    write_nonsense(data_dir)
    before = contents(data_dir)["spool.db"]
    with capture_logs() as logged:
        spool = open_spool(data_dir)
    (entry,) = spool.quarantined
    assert (data_dir / "quarantine" / entry.folder / "spool.db").read_bytes() == before
    assert entry.records is None, "nobody knows what it held"
    events = [line["event"] for line in logged]
    assert events == ["spool damaged", "spool salvaged", "spool salvaged with losses"]
    await append(spool, [b"1"])
    assert await drained(spool) == [b"1"]
    await spool.close()


@pytest.mark.parametrize("figures", ["", "{", "[]", '{"edge": {}}', '{"edge":{},"reasons":{},"lanes":{"x":{"y":1}}}'])
async def test_figures_that_cannot_be_read_are_taken_from_the_summary(data_dir: Path, figures: str) -> None:
    spool = open_spool(data_dir)
    await append(spool, [b"1"])
    before = spool.depth(AI_TELEMETRY), dict(spool.edge())
    await spool.close()
    with sqlite3.connect(data_dir / "spool.db") as connection:
        connection.execute("UPDATE meta SET value=? WHERE name='figures'", (figures,))
    connection.close()
    spool = open_spool(data_dir)
    assert (spool.depth(AI_TELEMETRY), dict(spool.edge())) == before
    assert spool.quarantined[-1].records == 0
    await assert_balanced(spool)
    await spool.close()


async def test_a_folder_that_cannot_be_used_is_a_spool_error(tmp_path: Path) -> None:
    write_nonsense(tmp_path / "data")
    with pytest.raises(SpoolError):
        open_spool(tmp_path / "data" / "spool.db")


async def test_a_refused_opener_leaves_no_lock_behind(data_dir: Path) -> None:
    (data_dir / "spool.db").mkdir(parents=True)
    with pytest.raises(SpoolError):
        open_spool(data_dir)
    (data_dir / "spool.db").rmdir()
    spool = open_spool(data_dir)
    await spool.close()


def hold_and_die(data_dir: str) -> None:
    """Open, append, and end without closing, as kill -9 does."""
    import asyncio  # noqa: PLC0415 in the child

    async def main() -> None:
        spool = open_spool(Path(data_dir))
        await append(spool, [b"1", b"2"])
        await frozen(spool, max_records=1)
        os._exit(9)

    asyncio.run(main())


async def test_the_lock_of_a_dead_process_is_free(data_dir: Path) -> None:
    child = multiprocessing.get_context("spawn").Process(target=hold_and_die, args=(str(data_dir),))
    child.start()
    child.join(60)
    assert child.exitcode == 9
    spool = open_spool(data_dir)
    assert await drained(spool) == [b"1", b"2"]
    await spool.close()


async def test_an_exporter_that_is_gone_is_named_with_what_it_left(data_dir: Path) -> None:
    spool = open_spool(data_dir, exporters=("archive",))
    await append(spool, [b"1", b"2"])
    await spool.close()
    with capture_logs() as logged:
        spool = open_spool(data_dir)
    assert [(line["event"], line["lane"], line["expired"]) for line in logged] == [
        ("exporter no longer configured", "archive", 2)
    ]
    await spool.close()
