"""Chunks are compressed on disk, and what a damaged file holds for a frame takes no memory."""

import sqlite3
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spool.data_dir import DATABASE
from spool.record import AI_TELEMETRY
from spool.settings import SpoolSettings
from spool.sql import packing
from spool.sql.chunks import PACKED_BODY, with_checksum
from spool.sql.packing import MAX_BYTES, Unreadable, pack, unpack
from spool.sqlite.recovery.verify import verify_stopped
from spool.sqlite.spool import SqliteSpool
from spool.store import ItemCounts
from tests.support.spool_rig import append, assert_balanced, drained, frozen, noise, open_spool

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BOMB_BYTES = 128 << 20
ZSTD_BLOCK_BYTES = 128 << 10


def record(n: int) -> bytes:
    return b'{"schema":"inference/1","record_id":"%032x","provider":"openai","request_model":"gpt-4o"}' % n


async def execute(spool: SqliteSpool, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
    return await spool.ask(lambda connection, _: connection.execute(sql, values).fetchall())


@pytest.mark.parametrize("content", [b"", b"{}", b"a" * 100_000, noise(5_000), bytes(range(256)) * 40])
def test_what_is_packed_is_unpacked_as_it_was(content: bytes) -> None:
    packed = pack(content)
    assert packed == content or unpack(packed) == content
    assert len(packed) <= len(content)


def test_content_that_a_frame_makes_no_shorter_is_stored_as_it_is() -> None:
    short = noise(5_000)
    assert pack(short) is short
    large = bytes(MAX_BYTES + 1)
    assert pack(large) is large


@pytest.mark.parametrize(
    "damage",
    [
        lambda frame: b"",
        lambda frame: frame[:-1],
        lambda frame: frame + b"\0",
        lambda frame: frame + frame,
        lambda frame: frame[:30] + bytes([frame[30] ^ 0xFF]) + frame[31:],
        lambda frame: zstd.compress(bytes(MAX_BYTES + 1)),
        lambda frame: zstd.compress(b"no size", options={zstd.CompressionParameter.content_size_flag: 0}),
        lambda frame: b"JSON" * 20,
    ],
    ids=["empty", "cut", "longer", "two", "flipped", "too large", "no size", "no frame"],
)
def test_what_is_no_frame_of_ours_is_unreadable(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(Unreadable):
        unpack(damage(pack(b"".join(map(record, range(40))))))


def bomb() -> bytes:
    """A sound frame of zeros."""
    compressor = zstd.ZstdCompressor(level=1)
    return b"".join([*(compressor.compress(bytes(1 << 20)) for _ in range(BOMB_BYTES >> 20)), compressor.flush()])


def sound_bomb() -> bytes:
    """The same, with its size in the header."""
    return zstd.compress(bytes(BOMB_BYTES), level=1)


def lying_bomb() -> bytes:
    """The same, with a header that states 200 bytes; each block repeats one byte."""
    header = zstd.compress(bytes(200))[:6]
    more, last = ((ZSTD_BLOCK_BYTES << 3 | 0b010 | is_last).to_bytes(3, "little") + b"\0" for is_last in (0, 1))
    return header + more * (BOMB_BYTES // ZSTD_BLOCK_BYTES) + last


@pytest.mark.parametrize("frame", [bomb(), sound_bomb(), lying_bomb()], ids=["no size", "stated", "lying"])
def test_a_frame_that_would_grow_beyond_bounds_takes_no_memory(frame: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable):
            unpack(frame)
        assert tracemalloc.get_traced_memory()[1] < 2 * packing.MAX_BYTES
    finally:
        tracemalloc.stop()


async def test_a_chunk_takes_less_of_the_disk_than_its_records(spool: SqliteSpool) -> None:
    records = [record(n) for n in range(200)]
    facts, links = b"".join(b"fact %012d" % n for n in range(200)), b"link" * 100
    await spool.append(AI_TELEMETRY, records, ItemCounts(received=200, kept=200), facts=facts, links=links)
    ((stored, packed),) = await execute(spool, "SELECT length(facts) + length(links) + length(body), packed FROM chunk")
    assert packed == 7
    assert stored * 4 < sum(map(len, records)) + len(facts) + len(links)
    (evidence,) = [page async for page in await spool.evidence(AI_TELEMETRY, 0, 1000)]
    assert [(x.facts, x.links) for x in evidence] == [(facts, links)]
    assert await drained(spool, max_records=33) == records


async def test_chunks_of_an_earlier_layout_are_read_with_compressed_ones(data_dir: Path) -> None:
    spool = open_spool(data_dir)
    records = [record(n) for n in range(60)]
    await append(spool, records[:20])
    await append(spool, records[20:40])
    body = b"".join(records[:20])
    ends = b"".join((len(record(0)) * (n + 1)).to_bytes(4, "little") for n in range(20))
    await execute(spool, "UPDATE chunk SET body=?, ends=?, packed=0 WHERE seq=1", (body, with_checksum(ends, body)))
    await append(spool, records[40:])
    assert await execute(spool, "SELECT packed & 1 FROM chunk ORDER BY seq") == [(0,), (1,), (1,)]
    assert b"".join([body async for body in spool.pending_bodies(AI_TELEMETRY)]) == b"".join(records)
    assert (await spool.settled_records(AI_TELEMETRY, 0, max_bytes=1 << 20)).records == records
    assert list((await frozen(spool, max_records=50)).records) == records[:50]
    await spool.close()
    assert verify_stopped(data_dir).findings == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("packed", "0"),
        ("packed", "8"),
        ("packed", "'a'"),
        ("body", "x'28b52ffd'"),
        ("body", "substr(body, 1, 60)"),
        ("ends", "substr(ends, 1, 4) || ends"),
    ],
)
async def test_a_damaged_compressed_chunk_is_set_aside_and_its_neighbours_go_on(
    data_dir: Path, column: str, value: str
) -> None:
    spool = open_spool(data_dir)
    for start in (0, 20, 40):
        await append(spool, [record(n) for n in range(start, start + 20)])
    await execute(spool, f"UPDATE chunk SET {column}={value} WHERE seq=2")
    assert await drained(spool) == [record(n) for n in (*range(20), *range(40, 60))]
    depth = spool.depth(AI_TELEMETRY)
    assert (depth.delivered, depth.pending) == (40, 0)
    assert depth.dead_lettered == 20
    await assert_balanced(spool)
    await spool.close()


async def test_a_bomb_in_a_chunk_with_its_checksum_takes_no_memory(data_dir: Path) -> None:
    spool = open_spool(data_dir)
    await append(spool, [record(n) for n in range(20)])
    await append(spool, [record(n) for n in range(20, 40)])
    ends = BOMB_BYTES.to_bytes(4, "little")
    body = sound_bomb()
    await execute(
        spool,
        "UPDATE chunk SET body=?, ends=?, n=1, packed=? WHERE seq=1",
        (body, with_checksum(ends, body), PACKED_BODY),
    )
    tracemalloc.start()
    try:
        assert await drained(spool) == [record(n) for n in range(20, 40)]
        assert tracemalloc.get_traced_memory()[1] < 2 * packing.MAX_BYTES
    finally:
        tracemalloc.stop()
        await spool.close()


async def test_damaged_evidence_is_no_evidence(spool: SqliteSpool) -> None:
    facts = b"fact" * 50
    await spool.append(AI_TELEMETRY, [record(1)], ItemCounts(received=1, kept=1), facts=facts, links=b"link" * 50)
    await execute(spool, "UPDATE chunk SET facts=substr(facts, 1, 12)")
    (page,) = [page async for page in await spool.evidence(AI_TELEMETRY, 0, 1000)]
    assert [(x.facts, x.links) for x in page] == [(b"", b"link" * 50)]


async def test_a_batch_waits_for_no_more_bytes_than_it_may_hold(data_dir: Path) -> None:
    """The limit of a request is one of records as they travel, not as they are stored."""
    spool = open_spool(data_dir, settings=SpoolSettings(linger_ms=60_000, reserve_bytes=0))
    await append(spool, [record(n) for n in range(50)])
    batch = await spool.freeze(AI_TELEMETRY, max_records=1000, max_bytes=50 * len(record(0)))
    assert batch is not None
    await spool.close()


async def test_the_file_states_what_is_packed(data_dir: Path) -> None:
    spool = open_spool(data_dir)
    await append(spool, [record(n) for n in range(20)])
    await append(spool, [b"{}"])
    await spool.close()
    with closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        assert connection.execute("SELECT packed FROM chunk ORDER BY seq").fetchall() == [(1,), (0,)]
