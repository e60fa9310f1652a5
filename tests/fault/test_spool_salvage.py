"""C03: a damaged spool starts, gives back every record whose pages are whole, and accounts for
the others; never an empty start in silence.
"""

import os
import random
import re
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from spool.record import AI_TELEMETRY
from spool.sql import packing
from spool.sql.packing import LEAST_BYTES
from spool.sqlite import database, writer
from spool.sqlite.recovery import salvage
from spool.sqlite.spool import SqliteSpool
from tests.support.damage import (
    FRAME_BYTES,
    FRAME_HEADER_BYTES,
    LOG_HEADER_BYTES,
    PAGE_BYTES,
    damage,
    damaged_copy,
    pages_of,
)
from tests.support.spool_rig import append, assert_balanced, copied, drained, frozen, log_copied, open_spool

SEEDS = int(os.environ.get("SALVAGE_SEEDS", "120"))
RECORDS = 150
DELIVERED = 30
REFUSED = 3
START_S = 5.0


def record(n: int) -> bytes:
    """Its number in every piece of it, so that each page it lies on can be reported."""
    return b"<%06d>" % n * (40 + n * 61 % 1300)


async def written(folder: Path, *, logged: int) -> Path:
    """A spool with delivered, frozen, refused and waiting records, as a crash leaves it; the
    last *logged* are in the log.
    """
    spool = open_spool(folder / "live")
    for n in range(RECORDS):
        if n == RECORDS - logged:
            await spool.close()
            spool = open_spool(folder / "live")
            await spool.run_maintenance()
        await append(spool, [record(n)])
        if n == DELIVERED + 19:
            await spool.ack(await frozen(spool, max_records=DELIVERED))
            await spool.bury(await frozen(spool, max_records=REFUSED), "422", "no")
            await frozen(spool, max_records=10)
    if not logged:
        await spool.close()
        spool = open_spool(folder / "live")
    crashed = copied(folder / "live", folder / "crashed")
    await spool.close()
    return crashed


def numbers_in(content: bytes) -> set[int]:
    return {int(n) for n in re.findall(rb"<(\d{6})>", content)}


def touched(before: Path, after: Path, page_bytes: int) -> set[int]:
    """Records of which any page or frame is not what it was."""
    now = dict(pages_of(after, page_bytes))
    return {n for where, page in pages_of(before, page_bytes) if now.get(where) != page for n in numbers_in(page)}


@pytest.mark.timeout(0 if SEEDS > 200 else 600)
@pytest.mark.parametrize(
    ("logged", "least_packed", "page_bytes"),
    [(0, LEAST_BYTES, PAGE_BYTES), (30, 1 << 30, PAGE_BYTES), (30, 1 << 30, 8192)],
    ids=["in the file", "partly in the log, over several pages", "the same in larger pages"],
)
async def test_c03_a_damaged_spool_starts_and_gives_every_record_whose_pages_are_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chance: random.Random,
    logged: int,
    least_packed: int,
    page_bytes: int,
) -> None:
    with monkeypatch.context() as before:
        before.setattr(packing, "LEAST_BYTES", least_packed)
        before.setattr(database, "PAGE_BYTES", page_bytes)
        crashed = await written(tmp_path, logged=logged)
    waiting = set(range(DELIVERED + REFUSED, RECORDS))
    lost = again = salvaged = 0
    slowest_s = 0.0
    for _ in range(SEEDS // 3):
        seed = chance.getrandbits(32)
        data_dir = damaged_copy(crashed, tmp_path / "damaged")
        what = f"seed {seed}: {damage(data_dir, random.Random(seed), page_bytes)}"
        safe = waiting - touched(crashed, data_dir, page_bytes) - last_commits()
        began_s = time.process_time()
        spool = open_spool(data_dir)
        slowest_s = max(slowest_s, time.process_time() - began_s)
        await assert_balanced(spool)
        delivered = spool.depth(AI_TELEMETRY).delivered
        given = await drained(spool)
        await assert_balanced(spool)
        found = [int(one[1:7]) for one in given]
        assert all(one == record(n) for one, n in zip(given, found, strict=True)), (
            f"{what}: an altered record was given"
        )
        assert len(set(found)) == len(found), f"{what}: a record was given twice"
        assert safe <= set(found), f"{what}: {sorted(safe - set(found))} were lost, whose pages are whole"
        missing = waiting - set(found) - last_commits()
        if "wal cut" not in what or min(missing, default=RECORDS) < RECORDS - logged:
            must_be_accounted(spool, missing, delivered, what)
        if spool.quarantined:
            assert (data_dir / "quarantine" / spool.quarantined[-1].folder).is_dir(), what
        salvaged += bool(spool.quarantined)
        lost += len(missing)
        again += len(set(found) - waiting)
        await append(spool, [b"after"])
        assert await drained(spool) == [b"after"], what
        await spool.close()
    assert slowest_s < START_S
    sys.stderr.write(
        f"{SEEDS // 3} seeds: {salvaged} salvaged, {lost} records gone, {again} again; slowest start {slowest_s:.2f} s of CPU\n"
    )


def must_be_accounted(spool: SqliteSpool, missing: set[int], delivered: int, what: str) -> None:
    """Each of the *missing* is a dead letter, or no one knows how
    many are gone, and that is said.

    Those before a cut log's end, too.
    """
    entry = spool.quarantined[-1] if spool.quarantined else None
    assert delivered <= DELIVERED, f"{what}: what is gone counts as delivered"
    if entry is None or entry.records is not None:
        dead = spool.depth(AI_TELEMETRY).dead_lettered - REFUSED
        assert dead >= len(missing) or "wal cut" in what, f"{what}: {sorted(missing)} are gone, {dead} are counted"


def last_commits() -> set[int]:
    """What a torn end of the log costs: no one can distinguish it from a commit that a power
    cut kept from being answered.
    """
    return {RECORDS - 1}


async def test_c03_a_spool_that_vanished_is_no_empty_start_in_silence(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "data")
    for n in range(10):
        await append(spool, [record(n)])
    await spool.ack(await frozen(spool, max_records=4))
    gateway_id = spool.gateway_id
    await spool.close()
    (tmp_path / "data" / "spool.db").unlink()
    with capture_logs() as logged:
        spool = open_spool(tmp_path / "data")
    assert spool.gateway_id == gateway_id
    assert spool.quarantined[-1].records == 6
    assert "missing or empty" in str(logged)
    depth = spool.depth(AI_TELEMETRY)
    assert (depth.kept, depth.delivered, depth.pending, depth.dead_lettered) == (10, 4, 0, 6)
    await assert_balanced(spool)
    await append(spool, [b"after"])
    assert await drained(spool) == [b"after"]
    await spool.close()


@pytest.mark.parametrize("table", ["meta", "lane", "batch", "change", "chunk", "held", "dead_letter", "series"])
async def test_c03_whatever_table_is_lost_nothing_that_waits_is(tmp_path: Path, table: str) -> None:
    """The first page of one table is zeroed: for all but the records' own, what
    waits is given, at least once.
    """
    crashed = await written(tmp_path, logged=0)
    zero_roots(crashed, (table,))
    spool = open_spool(crashed)
    assert len(spool.quarantined) == 1
    await assert_balanced(spool)
    found = [int(one[1:7]) for one in await drained(spool)]
    assert set(range(DELIVERED + REFUSED, RECORDS)) <= set(found)
    assert len(found) == len(set(found))
    await assert_balanced(spool)
    await spool.close()


@pytest.mark.parametrize("tables", [("lane",), ("lane", "batch"), ("lane", "change")])
async def test_c03_a_lost_position_sends_nothing_twice_that_is_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: tuple[str, ...]
) -> None:
    """The summary beside a spool that was not closed knows an older position than its batches; one
    batch of two is on the page that is lost.
    """
    monkeypatch.setattr(writer, "CHECKPOINT_BYTES", 0)  # else an older page is in the log
    spool = open_spool(tmp_path / "live")
    for n in range(40):
        await append(spool, [record(n)])
    await spool.ack(await frozen(spool, max_records=10))
    for _ in range(2):
        await frozen(spool, max_records=10)
    for n in range(40, 60):
        await append(spool, [record(n)])
        await log_copied(spool)
    crashed = copied(tmp_path / "live", tmp_path / "crashed")
    await spool.close()
    (crashed / "spool.db-wal").unlink()
    zero_roots(crashed, tables)
    spool = open_spool(crashed)
    found = [int(one[1:7]) for one in await drained(spool)]
    assert len(found) == len(set(found))
    assert set(range(10, 60)) <= set(found)
    if tables == ("lane",):
        assert sorted(found) == list(range(10, 60)), "no batch is lost, so what was delivered is known"
        assert spool.depth(AI_TELEMETRY).delivered == 60
    await assert_balanced(spool)
    await spool.close()


async def test_c03_a_flipped_bit_in_what_a_lane_reads_stops_no_lane(tmp_path: Path) -> None:
    """The pages hold together, so nothing is salvaged."""
    spool = open_spool(tmp_path)
    await append(spool, [record(0)])
    await spool.close()
    path = tmp_path / "spool.db"
    content = path.read_bytes()
    named = b"ai_telemetryai_telemetry"  # the lane's name, and its source
    assert content.count(named) == 1
    path.write_bytes(content.replace(named, named[:-1] + b"x"))
    spool = open_spool(tmp_path)
    assert not spool.quarantined
    assert await drained(spool) == [record(0)]
    await assert_balanced(spool)
    await spool.run_maintenance()
    await spool.close()


async def test_c03_a_flipped_bit_in_the_checksum_of_a_logged_page_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "LEAST_BYTES", 1 << 30)  # else a later version of a page has it too
    crashed = await written(tmp_path, logged=30)
    waiting = [record(n) for n in range(DELIVERED + REFUSED, RECORDS)]
    n_frames = ((crashed / "spool.db-wal").stat().st_size - LOG_HEADER_BYTES) // FRAME_BYTES
    for frame in range(0, n_frames // 2, 5):
        data_dir = damaged_copy(crashed, tmp_path / "damaged")
        flip(data_dir / "spool.db-wal", LOG_HEADER_BYTES + frame * FRAME_BYTES + 18)
        spool = open_spool(data_dir)
        assert spool.quarantined, frame
        assert await drained(spool) == waiting, frame
        await spool.close()


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x08
    path.write_bytes(content)


async def test_c03_a_flipped_bit_in_an_index_or_the_schema_hides_no_record(tmp_path: Path) -> None:
    """Pages hold together, and SQLite finds by an index what that names."""
    spool = open_spool(tmp_path / "whole")
    for n in range(20):
        await append(spool, [record(n)])
    await spool.close()
    content = (tmp_path / "whole/spool.db").read_bytes()
    (page,) = roots_of(tmp_path / "whole", ("chunk_lane",))
    in_index = content.index(b"ai_telemetry", (page - 1) * PAGE_BYTES)
    in_schema = content.index(b"settled_seq INTEGER")
    for at in (18, 47, in_index, in_schema):
        data_dir = damaged_copy(tmp_path / "whole", tmp_path / "damaged")
        flip(data_dir / "spool.db", at)
        spool = open_spool(data_dir)
        assert len(spool.quarantined) == 1, at
        assert spool.quarantined[-1].records == 0, at
        assert await drained(spool) == [record(n) for n in range(20)], at
        await assert_balanced(spool)
        await spool.close()


def zero_roots(data_dir: Path, tables: tuple[str, ...]) -> None:
    roots = roots_of(data_dir, tables)
    with (data_dir / "spool.db").open("r+b") as file:
        for root in roots:
            file.seek((root - 1) * PAGE_BYTES)
            file.write(bytes(PAGE_BYTES))


def roots_of(data_dir: Path, names: tuple[str, ...]) -> list[int]:
    """The first page of each of these tables and indexes."""
    with closing(sqlite3.connect(data_dir / "spool.db")) as connection:
        listed = ", ".join(f"'{name}'" for name in names)
        found = connection.execute(f"SELECT rootpage FROM sqlite_master WHERE name IN ({listed})")
        return [root for (root,) in found]


@pytest.mark.parametrize("step", ["remove", "sync_path", "rename", "unlink"])
async def test_c03_a_salvage_that_is_cut_short_anywhere_is_done_again(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call that changes a file ends the salvage once, as a kill there would; the next
    start finds nothing missing.
    """
    crashed = await written(tmp_path, logged=60)
    damage_root(crashed)
    waiting = [record(n) for n in range(DELIVERED + REFUSED, RECORDS)]
    for nth in range(1, 12):
        data_dir = damaged_copy(crashed, tmp_path / "damaged")
        with monkeypatch.context() as patch:
            is_cut = cut_short(patch, step, nth)
            with suppress(Killed):
                await open_spool(data_dir).close()
            if not is_cut():
                assert nth > 1, "no salvage was begun"
                break
        spool = open_spool(data_dir)
        assert spool.quarantined, f"{step} {nth}"
        assert await drained(spool) == waiting, f"{step} {nth}"
        await assert_balanced(spool)
        await spool.close()
    else:
        raise AssertionError(f"{step} is called again and again")


class Killed(BaseException):
    pass


def cut_short(patch: pytest.MonkeyPatch, step: str, nth: int) -> Callable[[], bool]:
    """The *nth* call of *step* by the salvage does not come to
    be; whether it was called as often.
    """
    holder = salvage if step in {"remove", "sync_path"} else Path
    real = getattr(holder, step)
    calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise Killed
        return real(*args, **kwargs)

    patch.setattr(holder, step, call)
    return lambda: calls >= nth


def damage_root(data_dir: Path) -> None:
    """The page from which all chunks hang."""
    with closing(sqlite3.connect(f"{(data_dir / 'spool.db').as_uri()}?mode=ro", uri=True)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name='chunk'").fetchone()
    log = bytearray((data_dir / "spool.db-wal").read_bytes())
    for frame in range((len(log) - LOG_HEADER_BYTES) // FRAME_BYTES):
        at = LOG_HEADER_BYTES + frame * FRAME_BYTES
        if int.from_bytes(log[at : at + 4], "big") == root:
            log[at + FRAME_HEADER_BYTES : at + FRAME_HEADER_BYTES + 100] = b"\xee" * 100
    (data_dir / "spool.db-wal").write_bytes(log)
    with (data_dir / "spool.db").open("r+b") as file:
        file.seek((root - 1) * PAGE_BYTES)
        file.write(b"\xee" * 100)
