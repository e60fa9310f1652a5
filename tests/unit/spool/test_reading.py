"""Reading the counts of a gateway that does not run, which must change nothing."""

from pathlib import Path

import pytest

from spool.errors import SpoolError, SpoolLocked
from spool.sqlite.reading import read_held
from spool.sqlite.spool import SqliteSpool
from tests.support.calls import EPOCH_MS
from tests.support.spool_rig import append, copied, frozen, open_spool


async def test_what_waits_for_an_exporter_stays_when_the_counts_are_read(data_dir: Path, tmp_path: Path) -> None:
    spool = open_spool(data_dir, exporters=["archive"])
    await append(spool, [b"1", b"2"])
    await spool.ack(await frozen(spool))
    killed = copied(data_dir, tmp_path / "killed")
    await spool.close()
    (killed / "spool.db-shm").unlink()
    for stopped in (data_dir, killed):
        held = read_held(stopped)
        assert held.counters.edge["kept"] == 2
        assert (held.counters.lane("ai_telemetry").delivered, held.oldest_ms["ai_telemetry"]) == (2, None)
        assert (held.counters.lane("archive").pending, held.oldest_ms["archive"]) == (2, EPOCH_MS)
        again = open_spool(stopped, exporters=["archive"])
        assert (await frozen(again, "archive")).records == (b"1", b"2")
        await again.close()


async def test_a_running_spool_and_a_damaged_one_are_distinguished(
    spool: SqliteSpool, data_dir: Path, tmp_path: Path
) -> None:
    await append(spool, [b"1"])
    with pytest.raises(SpoolLocked):
        read_held(data_dir)
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "spool.db").write_bytes(b"no database" * 1000)
    with pytest.raises(SpoolError):
        read_held(damaged)
