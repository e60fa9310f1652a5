"""Chunks that are held for longer than they settle: nothing of them goes out, and what comes
meanwhile is counted with them.
"""

from tests.support.calls import call
from tests.support.spool_rig import SETTLE_MS, Rig

DAY_MS = 86_400_000


def hold(rig: Rig, from_ms: int | None) -> None:
    async def held_from_ms() -> int | None:
        return from_ms

    rig.counting._held_from_ms = held_from_ms


async def test_what_was_received_before_goes_and_what_came_since_waits(rig: Rig) -> None:
    await rig.send(call("a"))
    rig.clock.now_ms += 1000
    hold(rig, rig.spool.age_ms())
    await rig.send(call("b", trace="b"))
    assert await rig.settle() == 1
    assert [record["record_id"] for record in await rig.records()] == [call("a").record["record_id"]]
    assert rig.counting.held_s is None, "it settles"
    assert await rig.settle(after_ms=DAY_MS) == 0
    assert await rig.records() == []
    assert rig.counting.held_s == DAY_MS / 1000
    hold(rig, None)
    assert await rig.settle(after_ms=0) == 1
    assert rig.counting.held_s is None
    assert await rig.totals() == (1, 100, 20)


async def test_reports_that_come_while_a_call_is_held_are_counted_with_it(rig: Rig) -> None:
    hold(rig, rig.spool.age_ms())
    await rig.send(call("a", response="r", tokens=(None, None)))
    await rig.settle()
    await rig.send(call("a", response="r", tokens=(None, None)))
    await rig.send(call("b", trace="other", response="r", service="gateway", cost="0.01"))
    await rig.settle()
    await rig.reopen()
    hold(rig, None)
    await rig.settle(after_ms=0)
    assert await rig.totals() == (1, 100, 20)
    assert rig.spool.edge()["duplicate"] == 2


async def test_a_call_whose_second_report_is_held_waits_with_it(rig: Rig) -> None:
    """Also where the first one came from someone who is not held, a settle time earlier."""
    await rig.send(call("a", response="r", tokens=(None, None)))
    rig.clock.now_ms += SETTLE_MS - 1
    hold(rig, rig.spool.age_ms() - SETTLE_MS)
    await rig.send(call("b", trace="other", response="r", service="laptop"))
    assert await rig.settle() == 0
    hold(rig, None)
    await rig.settle(after_ms=0)
    assert await rig.totals() == (1, 100, 20)
