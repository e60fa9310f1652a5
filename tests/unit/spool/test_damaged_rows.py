"""Rows that do not hold together."""

from pathlib import Path

import pytest

from spool.record import AI_TELEMETRY
from spool.sqlite.spool import SqliteSpool
from tests.support.spool_rig import Clock, append, drained, frozen, open_spool


def numbers(*span: int) -> list[bytes]:
    return [str(n).encode() for n in range(*span)]


async def dead_letters(spool: SqliteSpool) -> list[tuple[str, str, str, bytes]]:
    """(lane, code, message, record), oldest first."""
    found: list[tuple[str, str, str, bytes]] = await spool.ask(
        lambda connection, _: connection.execute("SELECT lane, code, message, record FROM dead_letter").fetchall()
    )
    return found


DAMAGE = {
    "no place for the last record": "ends=x'010203'",
    "a record that ends before it begins": "ends=CAST(x'ffffffff0000000003000000'||substr(ends, 13) AS BLOB)",
    "a record beyond the body": "ends=CAST(x'010000000200000004000000'||substr(ends, 13) AS BLOB)",
    "ends that are text": "ends=CAST(x'ff' AS TEXT)",
    "a body that is text": "body=CAST(x'ff' AS TEXT)",
    "a shorter body": "body=x'33'",
    "a number for a body": "body=5",
    "one other byte": "body=x'333439'",
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_garbage_row_is_set_aside_and_its_neighbours_are_delivered(
    data_dir: Path, clock: Clock, damage: str
) -> None:
    spool = open_spool(data_dir, clock)
    for start in (0, 3, 6):
        await append(spool, numbers(start, start + 3))
    await spool.ask(lambda connection, _: connection.execute(f"UPDATE chunk SET {DAMAGE[damage]} WHERE seq=2"))
    assert await drained(spool, max_records=4) == [*numbers(3), *numbers(6, 9)]
    dead = await dead_letters(spool)
    assert {code for _, code, *_ in dead} == {"unreadable_row"}
    assert spool.depth(AI_TELEMETRY).dead_lettered == len(dead) == 3
    assert spool.counters.is_balanced()
    await spool.close()


async def test_a_row_that_rots_under_a_frozen_batch_leaves_the_rest_of_the_batch(data_dir: Path, clock: Clock) -> None:
    spool = open_spool(data_dir, clock)
    for start in (0, 3, 6):
        await append(spool, numbers(start, start + 3))
    await frozen(spool, max_records=5)
    alone = await frozen(spool, max_records=1)
    assert alone.records == (b"5",)
    await spool.ask(lambda connection, _: connection.execute("UPDATE chunk SET ends=x'00' WHERE seq=2"))
    await spool.close()
    spool = open_spool(data_dir, clock)
    assert await drained(spool) == [*numbers(3), *numbers(6, 9)]
    assert spool.depth(AI_TELEMETRY).dead_lettered == 3
    assert spool.counters.is_balanced()
    await spool.close()
