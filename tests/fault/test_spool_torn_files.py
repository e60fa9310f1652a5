"""Torn and damaged files: what was on disk before the damage is read, or the spool states that it
cannot be; it never invents.
"""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from spool.errors import SpoolError
from spool.record import AI_TELEMETRY
from spool.sqlite.recovery.pages import TABLE_LEAF
from tests.support.spool_rig import append, assert_balanced, copied, drained, freeze, open_spool

RECORDS = 60
LOG_HEADER_BYTES = 32
FRAME_BYTES = 24 + 4096
"""A page and its header (SQLite, "WAL File Format")."""
FLIPPED_BYTES = 40


async def written(folder: Path) -> tuple[Path, list[int]]:
    """A spool's files as a crash leaves them, and the length of the write-ahead log
    after each of its records.
    """
    spool = open_spool(folder / "live")
    sizes: list[int] = []
    for n in range(RECORDS):
        await append(spool, [record(n)])
        sizes.append((folder / "live" / "spool.db-wal").stat().st_size)
    crashed = copied(folder / "live", folder / "crashed")
    await spool.close()
    return crashed, sizes


def record(n: int) -> bytes:
    return b"%06d" % n + b"-" * (n * 37 % 900)


def damaged_copy(crashed: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(crashed, to)
    return to


async def test_a_log_cut_anywhere_keeps_every_commit_before_the_cut(tmp_path: Path, chance: random.Random) -> None:
    crashed, sizes = await written(tmp_path)
    for cut in [0, 31, 32, sizes[0] - 1, sizes[0], sizes[-1], *(chance.randrange(sizes[-1]) for _ in range(25))]:
        data_dir = damaged_copy(crashed, tmp_path / "cut")
        with (data_dir / "spool.db-wal").open("r+b") as log:
            log.truncate(cut)
        (data_dir / "spool.db-shm").unlink(missing_ok=True)
        spool = open_spool(data_dir)
        await assert_balanced(spool)
        whole = sum(size <= cut for size in sizes)
        found = await drained(spool)
        assert found == [record(n) for n in range(whole)], f"cut at {cut}"
        await append(spool, [b"after"])
        assert await drained(spool) == [b"after"]
        await spool.close()


async def read_or_refused(data_dir: Path) -> tuple[list[bytes], int] | None:
    """What the spool still gives, and how many records it reports as gone; None when
    it states that it cannot. Any other error is the test's failure.
    """
    try:
        spool = open_spool(data_dir)
    except SpoolError:
        return None
    try:
        found = await drained(spool, max_records=5)
        return found, sum(salvage.records or 0 for salvage in spool.quarantined)
    except SpoolError:
        return None
    finally:
        await spool.close()


async def test_flipped_bytes_in_the_log_cost_no_commit_but_those_they_hit(
    tmp_path: Path, chance: random.Random
) -> None:
    crashed, sizes = await written(tmp_path)
    for _ in range(25):
        data_dir = damaged_copy(crashed, tmp_path / "flipped")
        start = flip(data_dir / "spool.db-wal", chance)
        (data_dir / "spool.db-shm").unlink(missing_ok=True)
        read = await read_or_refused(data_dir)
        before = [record(n) for n in range(sum(size <= start for size in sizes))]
        assert read is not None
        found, _ = read
        assert found[: len(before)] == before, f"flipped at {start}: what came before is gone"
        assert len(found) >= RECORDS - 2, f"flipped at {start}: commits behind it were forgotten"


async def test_flipped_bytes_in_the_file_cost_the_rows_they_hit_or_are_called_a_spool_error(
    tmp_path: Path, chance: random.Random
) -> None:
    crashed, _ = await written(tmp_path)
    spool = open_spool(crashed)
    await spool.close()  # the log goes into the file
    true = [record(n) for n in range(RECORDS)]
    readable = 0
    for _ in range(50):
        data_dir = damaged_copy(crashed, tmp_path / "flipped")
        start = flip(data_dir / "spool.db", chance)
        read = await read_or_refused(data_dir)
        if read is None:
            continue
        readable += 1
        found, gone = read
        assert found == [record for record in true if record in found], (
            f"flipped at {start}: an altered record was given"
        )
        assert len(found) >= RECORDS - max(gone, 2), f"flipped at {start}: {gone} reported, more are lost"
    assert readable > 25


def flip(path: Path, chance: random.Random) -> int:
    """Overwrite 40 bytes somewhere; where."""
    start = chance.randrange(path.stat().st_size - FLIPPED_BYTES)
    flip_at(path, start)
    return start


def flip_at(path: Path, start: int) -> None:
    content = bytearray(path.read_bytes())
    end = start + FLIPPED_BYTES
    content[start:end] = bytes(byte ^ 0xA5 for byte in content[start:end])
    path.write_bytes(content)


@pytest.mark.parametrize(
    "hit",
    [
        pytest.param(b'"received":', id="a counter without its name"),
        pytest.param(b"OB    NOT NULL      -- the records", id="a schema with one column more"),
    ],
)
async def test_bytes_that_sqlite_takes_for_sound_cost_no_record(tmp_path: Path, hit: bytes) -> None:
    crashed, _ = await written(tmp_path)
    spool = open_spool(crashed)
    await spool.close()
    content = (crashed / "spool.db").read_bytes()
    assert content.count(hit) == 1
    flip_at(crashed / "spool.db", content.index(hit))
    read = await read_or_refused(crashed)
    assert read is not None
    assert read[0] == [record(n) for n in range(RECORDS)]


async def test_a_page_gives_the_rows_whose_places_it_still_states(tmp_path: Path) -> None:
    crashed, _ = await written(tmp_path)
    spool = open_spool(crashed)
    await spool.close()
    content = (crashed / "spool.db").read_bytes()
    pages = range(0, len(content), 4096)
    page = next(at for at in pages if content[at] == TABLE_LEAF and content[at + 3 : at + 5] == bytes([0, RECORDS]))
    flip_at(crashed / "spool.db", page + 8 + 2 * 10)
    read = await read_or_refused(crashed)
    assert read is not None
    assert read[0] == [record(n) for n in range(RECORDS) if not 10 <= n < 10 + FLIPPED_BYTES // 2]
    assert read[1] == FLIPPED_BYTES // 2


async def test_an_emptied_log_leaves_what_was_copied_into_the_file(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "live")
    await append(spool, [b"1"])
    await spool.close()
    spool = open_spool(tmp_path / "live")
    await append(spool, [b"2"])
    crashed = copied(tmp_path / "live", tmp_path / "crashed")
    await spool.close()
    (crashed / "spool.db-wal").write_bytes(b"")
    (crashed / "spool.db-shm").unlink()
    spool = open_spool(crashed)
    assert await drained(spool) == [b"1"]
    await spool.close()


@pytest.mark.parametrize(
    "damage",
    [
        "body=zeroblob(100)", "body=zeroblob(length(body))", "body='text'", "body=NULL", "body=7", "ends=zeroblob(3)", "ends='text'", "ends=x''", "ends=NULL",
        "n=NULL", "n='many'", "n=-5", "n=1<<40", "n=0", "received_ms='late'", "facts='?'", "links=NULL",
    ],
)  # fmt: skip
async def test_c04_a_row_that_cannot_be_decoded_is_set_aside_after_one_read_and_its_neighbours_are_delivered(
    tmp_path: Path, damage: str
) -> None:
    spool = open_spool(tmp_path / "data")
    for n in range(9):
        await append(spool, [record(n), record(n + 100)])
    await spool.ask(lambda c, _: damaged_row(c, damage))
    first = await freeze(spool, max_records=100)
    assert first is not None
    others = [record(n + i) for n in range(9) if n != 4 for i in (0, 100)]
    whole = [record(n + i) for n in range(9) for i in (0, 100)]
    is_lost = damage.startswith(("body", "ends"))
    assert list(first.records) == (others if is_lost else whole)
    await spool.ack(first)
    assert await freeze(spool) is None
    depth = spool.depth(AI_TELEMETRY)
    assert (depth.kept, depth.pending) == (18, 0), "each has a fate"
    assert (depth.delivered, depth.dead_lettered) == ((16, 2) if is_lost else (18, 0))
    await append(spool, [b"after"])
    assert await drained(spool) == [b"after"]
    await assert_balanced(spool)
    await spool.close()


def damaged_row(connection: sqlite3.Connection, damage: str) -> None:
    """The fifth chunk, as damage may leave it: SQLite gives back what the bytes state,
    whatever the column is declared as.
    """
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute("UPDATE sqlite_master SET sql=replace(sql, 'NOT NULL', '        ') WHERE name='chunk'")
    connection.execute("PRAGMA writable_schema=RESET")
    connection.execute(f"UPDATE chunk SET {damage} WHERE seq=(SELECT min(seq)+4 FROM chunk)")


async def test_frames_of_the_log_in_another_order_cost_no_commit_before_the_first_that_moved(
    tmp_path: Path, chance: random.Random
) -> None:
    crashed, sizes = await written(tmp_path)
    true = [record(n) for n in range(RECORDS)]
    for _ in range(15):
        data_dir = damaged_copy(crashed, tmp_path / "reordered")
        first = reorder(data_dir / "spool.db-wal", chance)
        (data_dir / "spool.db-shm").unlink(missing_ok=True)
        spool = open_spool(data_dir)
        whole = sum(size <= first for size in sizes)
        found = await drained(spool)
        assert found[:whole] == true[:whole]
        assert found == [record for record in true if record in found], "an altered record was given, or one twice"
        await append(spool, [b"after"])
        assert await drained(spool) == [b"after"]
        await assert_balanced(spool)
        await spool.close()


def reorder(log: Path, chance: random.Random) -> int:
    """Exchange two frames; where the first of them begins."""
    content = bytearray(log.read_bytes())
    frames = (len(content) - LOG_HEADER_BYTES) // FRAME_BYTES
    one, other = (LOG_HEADER_BYTES + place * FRAME_BYTES for place in sorted(chance.sample(range(frames), 2)))
    content[one : one + FRAME_BYTES], content[other : other + FRAME_BYTES] = (
        content[other : other + FRAME_BYTES],
        content[one : one + FRAME_BYTES],
    )
    log.write_bytes(content)
    return one
