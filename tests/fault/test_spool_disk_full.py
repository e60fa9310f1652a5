"""C05.

A full disk: new data is refused, nothing is answered that was not committed, deliveries go
on, and it heals by itself.
"""

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spool.errors import SpoolError, SpoolFull
from spool.record import AI_TELEMETRY
from spool.sqlite.spool import SqliteSpool
from tests.support.calls import call
from tests.support.spool_rig import (
    SETTINGS,
    Clock,
    Rig,
    append,
    assert_balanced,
    drained,
    freeze,
    frozen,
    noise,
    open_spool,
)

DISK_BYTES = 32 << 20
RESERVED = replace(SETTINGS, reserve_bytes=9 << 20, max_bytes=64 << 20, keep_delivered_ms=0, window_ms=0)
"""The write-ahead log (8 MiB by the limit in bytes) must be copied into the file before
a deletion frees anything."""
RECORD_BYTES = 50_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of `DISK_BYTES`."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Leave no byte free."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        for block_bytes in (1 << 16, 4096, 1):
            try:
                while True:
                    file.write(b"x" * block_bytes)
            except OSError:
                continue
    return filler


def free_bytes(place: Path) -> int:
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize


def record(n: int) -> bytes:
    return b"%08d" % n + noise(RECORD_BYTES, n)


async def append_until_refused(spool: SqliteSpool, first: int = 0, *, asking: bool = True) -> list[bytes]:
    """The records that were acknowledged; without *asking* whether there is room."""
    acknowledged: list[bytes] = []
    for n in range(first, first + 10_000):
        try:
            if asking:
                spool.admit(RECORD_BYTES)
            await append(spool, [record(n)])
        except SpoolError:
            return acknowledged
        acknowledged.append(record(n))
    raise AssertionError("the disk never filled")


async def test_a_full_disk_refuses_new_data_and_drains_and_takes_new_data_again(small_disk: Path) -> None:
    clock = Clock()
    spool = open_spool(small_disk / "data", clock, settings=RESERVED)
    acknowledged = await append_until_refused(spool, asking=False)
    assert acknowledged
    with pytest.raises(SpoolFull, match="disk is full"):
        spool.admit(1)
    await assert_balanced(spool)
    assert await drained(spool, max_records=3) == acknowledged, "all that was acknowledged, and nothing else"
    clock.now_ms += 1000
    for _ in range(4):
        await spool.run_maintenance()
    more = await append_until_refused(spool, first=10_000)
    assert len(more) > len(acknowledged) // 2, "the room of what was delivered is used again"
    assert await drained(spool) == more
    await assert_balanced(spool)
    await spool.close()


async def test_deliveries_go_on_with_no_byte_free_and_new_data_is_taken_when_others_make_room(
    small_disk: Path,
) -> None:
    clock = Clock()
    spool = open_spool(small_disk / "data", clock, settings=RESERVED)
    for n in range(20):
        await append(spool, [record(n)])
    filler = fill(small_disk)
    refused = await asyncio.gather(*(append(spool, [record(n)]) for n in range(20, 30)), return_exceptions=True)
    assert {type(answer) for answer in refused} == {SpoolFull}
    batch = await frozen(spool, max_records=5)
    await spool.split(batch)
    assert await drained(spool, max_records=3) == [record(n) for n in range(20)]
    with pytest.raises(SpoolFull):
        spool.admit(1)
    await spool.run_maintenance()
    squeezed_in = await append_until_refused(spool, first=30)
    filler.unlink()
    await spool.run_maintenance()
    spool.admit(RECORD_BYTES)
    await append(spool, [record(50)])
    assert await drained(spool) == [*squeezed_in, record(50)]
    await assert_balanced(spool)
    await spool.close()


async def test_a_start_on_a_full_disk_delivers_what_it_has(small_disk: Path) -> None:
    spool = open_spool(small_disk / "data", settings=RESERVED)
    for n in range(10):
        await append(spool, [record(n)])
    await spool.close()
    filler = fill(small_disk)
    spool = open_spool(small_disk / "data", settings=RESERVED)
    try:
        await append(spool, [record(11)])
    except SpoolFull:
        kept = []
    else:
        kept = [record(11)]
    assert await drained(spool, max_records=2) == [*(record(n) for n in range(10)), *kept]
    await spool.close()
    filler.unlink()
    spool = open_spool(small_disk / "data", settings=RESERVED)
    spool.admit(RECORD_BYTES)
    assert spool.depth(AI_TELEMETRY).delivered == 10 + len(kept)
    await spool.close()


async def test_new_data_is_refused_while_less_than_the_floor_is_free_and_taken_again_above_it(small_disk: Path) -> None:
    """C05.

    The floor is a quarter of the reserve: a disk that fills slowly is never
    written to its last byte by us.
    """
    clock = Clock()
    spool = open_spool(small_disk / "data", clock, settings=RESERVED)
    acknowledged = await append_until_refused(spool)
    assert free_bytes(small_disk) >= RESERVED.reserve_bytes // 4 - 3 * RECORD_BYTES
    assert (small_disk / "data" / "reserve").stat().st_blocks * 512 >= RESERVED.reserve_bytes, "it was not touched"
    with pytest.raises(SpoolFull, match="disk is full") as refused:
        spool.admit(RECORD_BYTES)
    assert refused.value.retry_after_s == 30, "nothing drains"
    assert await drained(spool, max_records=20) == acknowledged
    clock.now_ms += 1
    for _ in range(4):
        await spool.run_maintenance()
    assert await append_until_refused(spool, first=20_000), "the room of what was delivered was given back"
    await assert_balanced(spool)
    await spool.close()


async def test_settling_and_the_ledger_live_through_a_full_disk(small_disk: Path) -> None:
    rig = await Rig.opened(small_disk / "data", settings=RESERVED)
    await rig.send(call("kept", tokens=(1, 1)), call("beside", trace="u", tokens=(1, 1), scope="other"))
    filler = fill(small_disk)
    refused = 0
    for n in range(40):
        wave = [call(f"{n}-{i}", trace=f"w{n}-{i}", tokens=(2, 2)) for i in range(100)]
        try:
            await rig.send(*wave)
        except SpoolError:
            refused += 1
    assert refused
    filler.unlink()
    await rig.spool.run_maintenance()
    assert rig.counting.recovery is not None
    await rig.counting.recovery
    for n in range(40):
        await rig.send(*(call(f"{n}-{i}", trace=f"w{n}-{i}", tokens=(2, 2)) for i in range(100)))
    await rig.settle()
    assert await rig.totals() == (4001, 8001, 8001), "each refused call was taken at its resend, each kept one once"
    await rig.close()


async def test_a_limit_on_file_size_is_no_acknowledgement_and_no_end(tmp_path: Path) -> None:
    """EFBIG from the system, which SQLite calls an I/O error: needs no small
    disk, so it runs everywhere.
    """
    spool = open_spool(tmp_path / "data")
    for n in range(10):
        await append(spool, [record(n)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, hard))
    try:
        acknowledged = await append_until_refused(spool, first=10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert await drained(spool) == [*(record(n) for n in range(10)), *acknowledged]
    await append(spool, [b"after"])
    assert await drained(spool) == [b"after"]
    assert await freeze(spool) is None
    await assert_balanced(spool)
    await spool.close()
