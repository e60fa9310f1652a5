"""A commit that fails: its senders are reported, what was counted upon it is void, and a resend is
no duplicate.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from spool.errors import SpoolError
from spool.record import AI_TELEMETRY
from tests.support.calls import call
from tests.support.polling import HANGS_S
from tests.support.spool_homes import SpoolHome
from tests.support.spool_rig import Clock, Rig, append


@pytest.fixture
async def rig(home: SpoolHome, tmp_path: Path, clock: Clock) -> AsyncIterator[Rig]:
    rig = await Rig.opened(tmp_path, clock, home=home)
    yield rig
    await home.check()
    await rig.close()


async def rebuilt(rig: Rig) -> None:
    """The ledger was read from the home after the loss."""
    assert rig.counting.rebuilding is not None
    await rig.counting.rebuilding


async def test_a_refused_payload_is_taken_when_it_comes_again_and_an_earlier_one_is_a_duplicate(
    home: SpoolHome, rig: Rig
) -> None:
    await rig.send(call("earlier"))
    await home.break_appends()
    with pytest.raises(SpoolError):
        await rig.send(call("refused", trace="u"))
    await home.mend_appends()
    await rebuilt(rig)
    await rig.send(call("refused", trace="u"), call("earlier"))
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)
    assert (rig.spool.edge()["kept"], rig.spool.edge()["duplicate"]) == (2, 1)
    assert rig.counting.rebuilds == 1


async def test_until_the_ledger_is_read_again_nothing_is_taken(home: SpoolHome, rig: Rig) -> None:
    await home.break_appends()
    with pytest.raises(SpoolError):
        await rig.send(call("a"))
    with pytest.raises(SpoolError):
        rig.spool.admit(1)
    with pytest.raises(SpoolError):
        append(rig.spool, [b"{}"])
    await home.mend_appends()
    await rebuilt(rig)
    rig.spool.admit(1)


async def test_a_call_is_not_dropped_for_one_that_was_lost(home: SpoolHome, rig: Rig) -> None:
    """The parent is on disk and due when the children that would cover it are refused,
    in one and the same commit.
    """
    await rig.send(call("root", at=(0, 3000), tokens=(200, 40), scope="framework"))
    await home.break_appends()
    rig.clock.now_ms += 10_000
    lost = rig.append(call("c1", parent="root"), call("c2", parent="root"))
    with pytest.raises(SpoolError):
        await rig.counting.settle_due(rig.clock.now_ms)
    with pytest.raises(SpoolError):
        await lost
    await home.mend_appends()
    await rebuilt(rig)
    await rig.settle()
    assert await rig.totals() == (1, 200, 40), "its children never came again, so it stands"


async def test_the_settling_task_goes_on_after_a_failure_and_ends_with_its_rebuild(home: SpoolHome, rig: Rig) -> None:
    rig.counting.settle_ms = 0
    running = asyncio.create_task(rig.counting.run())
    await home.break_appends()
    with pytest.raises(SpoolError):
        await rig.send(call("a"))
    await home.mend_appends()
    await rebuilt(rig)
    await rig.send(call("a"))
    async with asyncio.timeout(HANGS_S):
        while not (records := await rig.records()):
            await rig.spool.wait_ready(AI_TELEMETRY, 5)
    assert len(records) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
