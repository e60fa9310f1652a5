"""What a server holds, what it lost, and what it would lose."""

from dataclasses import replace

import psycopg
import pytest

from spool.errors import SpoolError, SpoolFull
from spool.postgres.spool import PostgresSpool
from spool.record import AI_TELEMETRY
from tests.support.postgres import needs_postgres, shared_server
from tests.support.spool_homes import InPostgres
from tests.support.spool_rig import SETTINGS, Clock, append, drained, noise

pytestmark = needs_postgres


async def test_a_standby_that_lacks_what_was_answered_is_not_believed_to_have_it(home: InPostgres, dsn: str) -> None:
    spool = home.open()
    is_distrusted: list[bool] = []
    spool.on_lost_append = lambda **told: is_distrusted.extend(told.values())
    await append(spool, [b"1"])
    with psycopg.connect(dsn, autocommit=True) as other:
        (before,) = other.execute("SELECT value FROM meta WHERE name='figures'").fetchone() or ("",)
        await append(spool, [b"2"])
        spool.writer.break_off()
        other.execute("DELETE FROM chunk WHERE seq=2")
        other.execute("UPDATE meta SET value=%s WHERE name='figures'", (before,))
    with pytest.raises(SpoolError):
        await spool.settled_seq(AI_TELEMETRY)
    assert is_distrusted == []
    await spool.settled_seq(AI_TELEMETRY)
    assert is_distrusted == [True], "what was counted since may be gone"
    with pytest.raises(SpoolError):
        append(spool, [b"3"])
    spool.accept_appends()
    await append(spool, [b"3"])
    assert await drained(spool) == [b"1", b"3"]
    await home.check()
    await spool.close()


async def test_one_that_answers_too_early_is_refused(clock: Clock) -> None:
    hasty = shared_server().dsn(synchronous_commit="off")
    with pytest.raises(SpoolError, match="synchronous_commit is off"):
        await PostgresSpool.open(hasty, SETTINGS, durability="storage", now_ms=clock)


async def test_one_that_is_not_there_is_named(clock: Clock) -> None:
    with pytest.raises(SpoolError, match="Postgres: "):
        await PostgresSpool.open("host=/nowhere user=postgres", SETTINGS, durability="storage", now_ms=clock)


async def test_the_limit_is_of_what_the_tables_hold_and_they_are_filled_again(home: InPostgres, clock: Clock) -> None:
    """A table stays as long as it ever was."""
    spool = home.open(settings=replace(SETTINGS, max_bytes=4 << 20, keep_delivered_ms=0, window_ms=0))

    async def fill() -> int:
        for number in range(100):
            try:
                spool.admit(100_000)
            except SpoolFull:
                return number
            await append(spool, [noise(100_000, number)])
        raise AssertionError("it took more than its limit")

    first = await fill()
    assert first > 20
    assert len(await drained(spool)) == first
    clock.now_ms += 1
    await spool.run_maintenance()
    assert spool.writer.room.file_bytes > spool.settings.max_bytes // 2, "else nothing is shown"
    assert first // 2 < await fill() <= first * 1.2
    await home.check()
    await spool.close()
