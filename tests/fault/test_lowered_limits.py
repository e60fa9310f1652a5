"""C20: a limit that is lowered deletes no dead letter. Those that are kept stay; while they are
above the limit, each new one takes the place of the oldest.
"""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from spool.dead_letters import Chosen
from spool.errors import SpoolFull
from spool.record import AI_TELEMETRY
from spool.settings import SpoolSettings
from spool.sqlite.spool import SqliteSpool
from spool.store import Refusal
from tests.support.spool_rig import SETTINGS, Clock, append, assert_balanced, copied, frozen, noise, open_spool

KIB, MIB = 1 << 10, 1 << 20
RECORD_BYTES = 200 * KIB
LOWERED = {
    "spool.max_bytes": replace(SETTINGS, max_bytes=12 * MIB),
    "spool.max_dead_letter_bytes": replace(SETTINGS, max_dead_letter_bytes=3 * MIB),
}
"""Both leave 3 MiB to dead letters."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


def numbered(*span: int) -> list[bytes]:
    return [b"%06d" % n + noise(RECORD_BYTES, n) for n in range(*span)]


async def refuse_all(spool: SqliteSpool) -> None:
    """What waits is sent, and the upstream refuses it."""
    while spool.depth(AI_TELEMETRY).pending:
        batch = await frozen(spool, max_records=5)
        await spool.ack(batch, [Refusal(i, "bad_record", "no") for i in range(len(batch.records))])


async def refused(data_dir: Path, clock: Clock, *span: int, settings: SpoolSettings = SETTINGS) -> None:
    """A run in which these records came in and were refused."""
    spool = open_spool(data_dir, clock, settings=settings)
    await append(spool, numbered(*span))
    await refuse_all(spool)
    await spool.run_maintenance()
    await spool.close()


async def kept(spool: SqliteSpool, clock: Clock) -> list[int]:
    """The numbers of the dead letters after upkeep, which deletes their chunks first."""
    for _ in range(3):
        clock.now_ms += 1000
        await spool.run_maintenance()
    found = await spool.operator().find(Chosen(), most=1000)
    return sorted(int(letter.record[:6]) for letter in found)


async def test_what_is_refused_under_a_limit_below_all_that_is_held_stays_a_dead_letter(
    tmp_path: Path, clock: Clock
) -> None:
    """As the model of `tests/property/test_spool_model.py` found it."""
    await open_spool(tmp_path, clock, settling=(AI_TELEMETRY,)).close()
    spool = open_spool(tmp_path, clock, settings=replace(SETTINGS, max_bytes=1), settling=(AI_TELEMETRY,))
    seq, _ = spool.position(AI_TELEMETRY)
    await append(spool, [b"000000"])
    await spool.settle(AI_TELEMETRY, seq)
    await refuse_all(spool)
    assert await kept(spool, clock) == [0]
    assert spool.depth(AI_TELEMETRY).dead_lettered == 1
    await assert_balanced(spool)
    await spool.close()


@pytest.mark.parametrize("limit", LOWERED)
async def test_dead_letters_stay_when_a_limit_is_lowered(tmp_path: Path, clock: Clock, limit: str) -> None:
    await refused(tmp_path, clock, 30)
    for _ in range(2):
        spool = open_spool(tmp_path, clock, settings=LOWERED[limit])
        assert await kept(spool, clock) == [*range(30)]
        await assert_balanced(spool)
        await spool.close()


@pytest.mark.parametrize("limit", LOWERED)
async def test_above_a_lowered_limit_a_new_dead_letter_takes_the_place_of_the_oldest(
    tmp_path: Path, clock: Clock, limit: str
) -> None:
    await refused(tmp_path, clock, 30)
    spool = open_spool(tmp_path, clock, settings=LOWERED[limit])
    await kept(spool, clock)
    await append(spool, numbered(30, 33))
    await refuse_all(spool)
    assert await kept(spool, clock) == [*range(3, 33)]
    await spool.close()


@pytest.mark.parametrize("limit", LOWERED)
async def test_a_lowered_limit_holds_as_soon_as_the_dead_letters_are_below_it(
    tmp_path: Path, clock: Clock, limit: str
) -> None:
    await refused(tmp_path, clock, 30)
    spool = open_spool(tmp_path, clock, settings=LOWERED[limit])
    await spool.operator().drop_dead_letters(Chosen(), most=20)
    assert await kept(spool, clock) == [*range(20, 30)]
    await append(spool, numbered(30, 50))
    await refuse_all(spool)
    assert await kept(spool, clock) == [*range(35, 50)], "3 MiB hold 15 of 200 KiB"
    await assert_balanced(spool)
    await spool.close()


async def test_kills_let_dead_letters_above_a_lowered_limit_not_grow(tmp_path: Path, clock: Clock) -> None:
    lowered, data_dir = LOWERED["spool.max_dead_letter_bytes"], tmp_path / "0"
    await refused(data_dir, clock, 30)
    for life in range(1, 4):
        spool = open_spool(data_dir, clock, settings=lowered)
        await spool.run_maintenance()
        await append(spool, numbered(30 * life, 30 * life + 10))
        await refuse_all(spool)
        data_dir = copied(data_dir, tmp_path / str(life))
        await spool.close()
    spool = open_spool(data_dir, clock, settings=lowered)
    assert len(await kept(spool, clock)) == 30
    await spool.close()


async def test_a_backlog_that_is_refused_after_the_limit_was_lowered_below_it_stays_whole(
    tmp_path: Path, clock: Clock
) -> None:
    """Nothing new is taken meanwhile, so the disk needs no room for it."""
    spool = open_spool(tmp_path, clock)
    await append(spool, numbered(10))
    await append(spool, numbered(10, 40))
    await spool.close()
    spool = open_spool(tmp_path, clock, settings=replace(SETTINGS, max_bytes=4 * MIB))
    for _ in range(2):
        batch = await frozen(spool, max_records=20)
        await spool.bury(batch, "bad_record", "no")
        await spool.run_maintenance()
    with pytest.raises(SpoolFull):
        spool.admit(1)
    assert await kept(spool, clock) == [*range(40)]
    await spool.close()


async def test_a_limit_that_is_raised_again_lets_more_be_kept(tmp_path: Path, clock: Clock) -> None:
    lowered, raised = (replace(SETTINGS, max_dead_letter_bytes=n * MIB) for n in (3, 9))
    await refused(tmp_path, clock, 30)
    spool = open_spool(tmp_path, clock, settings=lowered)
    assert len(await kept(spool, clock)) == 30
    await spool.close()
    await refused(tmp_path, clock, 30, 60, settings=raised)
    spool = open_spool(tmp_path, clock, settings=raised)
    assert await kept(spool, clock) == [*range(14, 60)], "9 MiB hold 46"
    await spool.close()


async def test_a_spool_of_a_release_that_noted_no_bound_keeps_what_it_has(tmp_path: Path, clock: Clock) -> None:
    await refused(tmp_path, clock, 30)
    with closing(sqlite3.connect(tmp_path / "spool.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM meta WHERE name='dead_letter_bound'")
    spool = open_spool(tmp_path, clock, settings=LOWERED["spool.max_dead_letter_bytes"])
    assert await kept(spool, clock) == [*range(30)]
    await spool.close()
