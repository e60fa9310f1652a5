"""The write-ahead log is copied into the file in small steps, behind the answers."""

from contextlib import closing
from pathlib import Path

from spool.sqlite import database, writer
from spool.sqlite.spool import SqliteSpool
from tests.support.spool_rig import Clock, append, assert_balanced, drained, log_copied, noise, open_spool

MIB = 1 << 20


def log_bytes(data_dir: Path) -> int:
    return (data_dir / "spool.db-wal").stat().st_size


async def fill(spool: SqliteSpool, mib: int) -> list[bytes]:
    """Append so much, one record of half a MiB after the other."""
    records = [noise(MIB // 2, n) for n in range(2 * mib)]
    for record in records:
        await append(spool, [record])
        await log_copied(spool)
    return records


async def test_the_log_stays_short_however_much_is_appended(spool: SqliteSpool, data_dir: Path) -> None:
    await fill(spool, 12)
    short_bytes = log_bytes(data_dir)
    await fill(spool, 32)
    assert log_bytes(data_dir) < short_bytes + MIB
    assert short_bytes < writer.CHECKPOINT_BYTES + 2 * MIB


async def test_a_log_that_a_reader_needs_grows_and_is_used_again_afterwards(spool: SqliteSpool, data_dir: Path) -> None:
    with closing(database.connect_to_read(data_dir)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM chunk").fetchone()
        records = await fill(spool, 18)
        assert log_bytes(data_dir) > 18 * MIB, "the reader sees what there was"
        assert reader.execute("SELECT count(*) FROM chunk").fetchone() == (0,)
    grown_bytes = log_bytes(data_dir)
    records += await fill(spool, 24)
    assert log_bytes(data_dir) < grown_bytes + writer.CHECKPOINT_BYTES + MIB
    assert await drained(spool) == records
    await assert_balanced(spool)


async def test_the_file_shrinks_when_it_is_emptied(data_dir: Path, clock: Clock) -> None:
    spool = open_spool(data_dir, clock)
    for _ in range(60):
        await append(spool, [noise(100_000)])
    await drained(spool)
    clock.now_ms += 2 * 86_400_000
    for _ in range(10):
        await spool.run_maintenance()
    assert spool.used_bytes < 400_000
    await spool.close()
    assert (data_dir / "spool.db").stat().st_size < 600_000
