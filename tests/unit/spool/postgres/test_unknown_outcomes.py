"""A commit whose connection breaks is kept or not, and nobody knows: nothing of it is lost, and
nothing is counted twice.
"""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from spool.dead_letters import Chosen
from spool.errors import SpoolError
from spool.events import NewEvent, RepeatKey
from spool.record import AI_TELEMETRY
from spool.unit_cost import Rules
from tests.support.calls import call
from tests.support.cut_postgres import Cutter, Moment
from tests.support.postgres import needs_postgres
from tests.support.spool_homes import InPostgres
from tests.support.spool_rig import Clock, Rig, append, drained, frozen

pytestmark = [needs_postgres, pytest.mark.parametrize("moment", ["before", "after"])]


@pytest.fixture
def home(clock: Clock, cut: tuple[Cutter, str]) -> InPostgres:
    return InPostgres(clock, cut[1])


@pytest.fixture
def cutter(cut: tuple[Cutter, str]) -> Cutter:
    return cut[0]


@pytest.fixture
async def rig(home: InPostgres, tmp_path: Path, clock: Clock) -> AsyncIterator[Rig]:
    rig = await Rig.opened(tmp_path, clock, home=home)
    yield rig
    await home.check()
    await rig.close()


async def recovered(rig: Rig) -> None:
    assert rig.counting.recovery is not None
    await rig.counting.recovery


async def test_an_append_that_comes_again_is_counted_once(cutter: Cutter, rig: Rig, moment: Moment) -> None:
    await rig.send(call("earlier"))
    cutter.next_cut = moment
    with pytest.raises(SpoolError):
        await rig.send(call("a", trace="u"))
    await recovered(rig)
    await rig.send(call("a", trace="u"), call("earlier"))
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)
    assert rig.spool.edge()["duplicate"] == (2 if moment == "after" else 1)
    assert (cutter.cuts, rig.counting.rebuilds) == (1, 0)


async def test_what_was_settled_is_forwarded_once(cutter: Cutter, rig: Rig, moment: Moment) -> None:
    await rig.send(call("a"))
    cutter.next_cut = moment
    with pytest.raises(SpoolError):
        await rig.settle()
    await recovered(rig)
    assert rig.counting.rebuilds == 1, "what it decided may be known there, or not"
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_batch_that_was_acked_or_not_goes_out_under_its_own_id(
    cutter: Cutter, home: InPostgres, moment: Moment
) -> None:
    spool = home.open()
    await append(spool, [b"{}"])
    batch = await frozen(spool)
    cutter.next_cut = moment
    with pytest.raises(SpoolError):
        await spool.ack(batch)
    spool.forget_leases(AI_TELEMETRY)
    again = await spool.freeze(AI_TELEMETRY, max_records=10, max_bytes=1 << 20)
    assert again == (batch if moment == "before" else None)
    if again is not None:
        await spool.ack(again)
    assert spool.depth(AI_TELEMETRY).delivered == 1
    await home.check()
    await spool.close()


async def test_an_event_is_kept_once(cutter: Cutter, home: InPostgres, moment: Moment) -> None:
    spool = home.open()
    store, event = spool.events(Rules()), NewEvent(RepeatKey(b"k" * 16, b"c" * 8), b'{"event":1}', None)
    cutter.next_cut = moment
    with pytest.raises(SpoolError):
        await store.keep_events([event], Counter())
    assert await store.keep_events([event], Counter()) == ["kept" if moment == "before" else "duplicate"]
    assert await drained(spool, "usage_events") == [b'{"event":1}']
    await home.check()
    await spool.close()


async def test_what_waits_behind_it_goes_on(cutter: Cutter, home: InPostgres, moment: Moment) -> None:
    spool = home.open()
    lost = append(spool, [b"1"])
    cutter.next_cut = moment
    with pytest.raises(SpoolError):
        await lost
    await append(spool, [b"2"])
    assert (await drained(spool))[-1:] == [b"2"]
    assert await spool.operator().count(Chosen()) == 0
    await home.check()
    await spool.close()


async def test_the_connection_is_made_again_only_when_the_server_takes_it(
    cutter: Cutter, home: InPostgres, dsn: str, moment: Moment
) -> None:
    spool = home.open()
    await append(spool, [b"1"])
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("CREATE TABLE kept AS SELECT 1")
    connect, tries = spool.writer.connect, 0

    def refused() -> psycopg.Connection:
        nonlocal tries
        tries += 1
        raise SpoolError("Postgres: no route to the host")

    cutter.next_cut, spool.writer.connect = moment, refused
    for number in (b"2", b"3", b"4"):
        with pytest.raises(SpoolError):
            await append(spool, [number])
    assert tries == 1, "the next try waits"
    spool.writer.connect, spool.writer._next_try_s = connect, 0.0
    await append(spool, [b"5"])
    assert await drained(spool) == ([b"1", b"5"] if moment == "before" else [b"1", b"2", b"5"])
    await home.check()
    await spool.close()
