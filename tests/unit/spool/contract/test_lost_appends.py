"""A commit that fails: its senders are reported, what was counted upon it is void, and a resend is
no duplicate.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.counting.calls import order
from gateway.rules.call import Call
from spool.errors import SpoolError
from spool.record import AI_TELEMETRY, Lane
from tests.support.calls import call, link
from tests.support.polling import HANGS_S
from tests.support.spool_homes import SpoolHome
from tests.support.spool_rig import Clock, Rig, append


@pytest.fixture
async def rig(home: SpoolHome, tmp_path: Path, clock: Clock) -> AsyncIterator[Rig]:
    rig = await Rig.opened(tmp_path, clock, home=home)
    yield rig
    await home.check()
    await rig.close()


async def recovered(rig: Rig) -> None:
    """The ledger knows what the home has, after the loss."""
    assert rig.counting.recovery is not None
    await rig.counting.recovery


async def test_a_refused_payload_is_taken_when_it_comes_again_and_an_earlier_one_is_a_duplicate(
    home: SpoolHome, rig: Rig
) -> None:
    await rig.send(call("earlier"))
    await home.break_appends()
    with pytest.raises(SpoolError):
        await rig.send(call("refused", trace="u"))
    await home.mend_appends()
    await recovered(rig)
    await rig.send(call("refused", trace="u"), call("earlier"))
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)
    assert (rig.spool.edge()["kept"], rig.spool.edge()["duplicate"]) == (2, 1)
    assert rig.counting.rebuilds == 0, "nothing was read again"


async def test_until_the_ledger_took_it_back_nothing_is_taken(home: SpoolHome, rig: Rig) -> None:
    await home.break_appends()
    with pytest.raises(SpoolError):
        await rig.send(call("a"))
    with pytest.raises(SpoolError):
        rig.spool.admit(1)
    with pytest.raises(SpoolError):
        append(rig.spool, [b"{}"])
    await home.mend_appends()
    await recovered(rig)
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
    await recovered(rig)
    await rig.settle()
    assert await rig.totals() == (1, 200, 40), "its children never came again, so it stands"


async def test_the_settling_task_goes_on_after_a_failure_and_ends_with_its_rebuild(home: SpoolHome, rig: Rig) -> None:
    rig.counting.settle_ms = 0
    running = asyncio.create_task(rig.counting.run())
    await home.break_appends()
    with pytest.raises(SpoolError):
        await rig.send(call("a"))
    await home.mend_appends()
    await recovered(rig)
    await rig.send(call("a"))
    async with asyncio.timeout(HANGS_S):
        while not (records := await rig.records()):
            await rig.spool.wait_ready(AI_TELEMETRY, 5)
    assert len(records) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def lose(home: SpoolHome, rig: Rig, *calls: Call, links: Sequence[bytes] = ()) -> None:
    """What never comes again; nothing is read from the home for it."""
    await home.break_appends()
    with pytest.raises(SpoolError):
        await rig.append(*calls, links=links)
    await home.mend_appends()
    await recovered(rig)
    assert rig.counting.rebuilds == 0


@pytest.mark.parametrize("same", [{"response": "r1"}, {"request": "q1"}])
async def test_reports_of_one_call_are_one_with_a_lost_one_between_them(
    home: SpoolHome, rig: Rig, same: dict[str, Any]
) -> None:
    """Each names the one before it."""
    await rig.send(call("a", service="w", **same), call("b", trace="t2", service="x", scope="another", **same))
    await lose(home, rig, call("c", trace="t3", service="y", scope="a third", **same))
    await rig.send(call("d", trace="t4", service="z", scope="a fourth", **same))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_call_below_a_span_is_found_with_a_lost_span_beside_it(home: SpoolHome, rig: Rig) -> None:
    await rig.append(call("below", parent="m", service="x"), links=[link("t", "m", "root")])
    await lose(home, rig, links=[link("t", "n", "root")])
    await rig.append(links=[link("t", "o", "root")])
    await rig.send(call("root", at=(0, 3000), scope="framework"))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_lost_report_of_a_products_first_way_suppresses_none_of_its_second(home: SpoolHome, rig: Rig) -> None:
    way = {"product": "codex", "session": "s"}
    await rig.send(call("a", rank=2, **way))
    await lose(home, rig, call("b", trace="u", rank=1, **way))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_pass_that_a_lost_call_was_in_takes_none_for_its_products_way(
    home: SpoolHome, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the way that goes on would not count. The disk is slow: the call is due when its commit
    fails.
    """
    monkeypatch.setattr(type(rig.spool), "sealed_seq", property(lambda _: 1_000_000))
    way = {"product": "codex", "session": "s"}
    rig.counting.settle_ms = 0
    await home.break_appends()
    lost = rig.append(call("a", rank=2, **way))
    with pytest.raises(SpoolError):
        await rig.counting.settle_due(rig.clock.now_ms)
    with pytest.raises(SpoolError):
        await lost
    await home.mend_appends()
    await recovered(rig)
    await rig.send(call("b", trace="u", rank=1, **way))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_lost_report_of_a_second_scope_makes_no_pair_of_what_settled(home: SpoolHome, rig: Rig) -> None:
    await rig.send(call("a", request="q"))
    await rig.settle()
    await rig.reopen()
    await lose(home, rig, call("b", trace="u", tokens=(1, 2)))
    await rig.send(call("c", scope="framework"))
    await rig.send(call("d", trace="w", request="q", service="gateway"))
    await rig.settle()
    assert await rig.totals() == (3, 300, 60)


async def test_a_call_stands_alone_after_another_report_of_its_span_was_lost(home: SpoolHome, rig: Rig) -> None:
    """Those that stand alone take their product's way before a verdict upon others does."""
    way = {"product": "codex", "trace": ""}
    await rig.send(
        call("a", rank=3, session="x", **way),
        call("b", rank=3, **way),
        call("c", rank=1, session="y", **way),
        call("b", trace="", tokens=(7, 0)),
    )
    await lose(home, rig, call("c", trace="", tokens=(1, 2)))
    await rig.settle()
    assert await rig.totals() == (3, 300, 60)


async def test_lost_spans_take_the_place_of_none_that_are_known(home: SpoolHome, tmp_path: Path, clock: Clock) -> None:
    rig = await Rig.opened(tmp_path, clock, max_keys=1000, home=home)
    await rig.send(call("known"))
    for n in range(8):
        await home.break_appends()
        with pytest.raises(SpoolError):
            await rig.send(*(call(f"{n}-{i}") for i in range(200)))
        await home.mend_appends()
        await recovered(rig)
    await rig.send(call("known"))
    assert rig.spool.edge()["duplicate"] == 1
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)
    await rig.close()


async def test_another_version_of_a_span_is_news_after_it_was_lost(home: SpoolHome, rig: Rig) -> None:
    more = call("a", tokens=(100, 20))
    await rig.send(call("a", tokens=(None, None)))
    await lose(home, rig, more)
    await rig.send(more)
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_span_that_was_lost_twice_is_taken_the_third_time_and_known_from_then_on(
    home: SpoolHome, rig: Rig
) -> None:
    for _ in range(2):
        await lose(home, rig, call("a"))
    await rig.send(call("a"))
    await rig.send(call("a"))
    await rig.settle()
    assert (await rig.totals(), rig.spool.edge()["duplicate"]) == ((1, 100, 20), 1)


async def test_too_much_that_was_lost_is_found_out_from_the_home(
    home: SpoolHome, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "MAX_CHANGES", 3)
    await home.break_appends()
    with pytest.raises(SpoolError):
        await rig.send(call("a", rank=1, product="codex", session="s"))
    await home.mend_appends()
    await recovered(rig)
    assert rig.counting.rebuilds == 1
    await rig.send(call("a", rank=1, product="codex", session="s"))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_lost_call_is_taken_back_below_aggregates_that_were_written_behind_it(
    home: SpoolHome, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written by an operation, which is carried out alone where its commit failed."""
    kept_chunks = rig.spool.kept_chunks

    async def with_aggregates(lane: Lane, first_seq: int) -> list[int]:
        return [*await kept_chunks(lane, first_seq), 1_000_000]

    monkeypatch.setattr(rig.spool, "kept_chunks", with_aggregates)
    await lose(home, rig, call("a"))
    await rig.send(call("a"))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)
