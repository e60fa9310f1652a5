"""Unit-cost streams in the spool: made, deleted, begun again, in order with their records."""

from collections.abc import AsyncIterator

import orjson
import pytest

from spool.dead_letters import Chosen
from spool.events import RepeatKey
from spool.record import UNIT_COST, Batch
from spool.store import Refusal
from spool.unit_cost import NAME_BLOCKED_MS, Mismatch, Shape, TotalKey
from tests.support.spool_homes import SpoolHome
from tests.support.spool_rig import Clock
from tests.support.unit_streams import METRIC, SHAPE, STREAM, UnitRig, metered, place


@pytest.fixture
async def rig(home: SpoolHome, clock: Clock) -> AsyncIterator[UnitRig]:
    made = UnitRig(home, clock)
    yield made
    await made.close()


async def delete(rig: UnitRig, mark: RepeatKey | None = None, *, forced: bool = True) -> object:
    return await rig.store.delete_stream(STREAM, mark, forced=forced)


def operation_in(batch: Batch) -> str:
    return str(orjson.loads(batch.records[0])["operation"])


async def pass_block(rig: UnitRig) -> None:
    rig.clock.now_ms += NAME_BLOCKED_MS
    await rig.ship()


async def test_a_stream_is_made_before_its_first_record_which_must_have_its_shape(rig: UnitRig) -> None:
    assert await rig.store.create_stream(STREAM, SHAPE) == "made"
    assert await rig.store.create_stream(STREAM, SHAPE) == "exists"
    assert await rig.store.create_stream(STREAM, METRIC) == Mismatch("stream_kind", "allocation")
    assert await rig.keep(metered(1, shape=METRIC)) == Mismatch("stream_kind", "allocation")
    await rig.keep(metered(1))
    await rig.ship()
    assert rig.far.operations[0] == (STREAM, "create_stream")
    assert rig.far.streams == {
        STREAM: {"kind": "allocation", "granularity": "HOURLY", "dimensions": ["custom:Product"]}
    }
    assert rig.far.at() == 1


async def test_a_creation_that_no_key_may_send_travels_with_the_first_totals(rig: UnitRig) -> None:
    rig.may_create = False
    await rig.store.create_stream(STREAM, SHAPE)
    assert await rig.freeze() is None
    assert [(each.name, each.shape, each.pending) for each in await rig.store.streams()] == [(STREAM, SHAPE, 1)]
    await rig.keep(metered(4))
    await rig.ship()
    assert [operation for _, operation in rig.far.operations] == ["sum"]
    assert rig.spool.depth(UNIT_COST).delivered == 2


async def test_nothing_that_waited_is_sent_after_the_deletion_and_all_of_it_is_delivered_by_it(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    await rig.ship()
    await rig.keep(metered(5), metered(7, place("other")))
    assert await delete(rig, forced=False) == Mismatch("stream_holds_records", "")
    assert await delete(rig) == "kept"
    assert await rig.store.streams() == []
    await rig.ship()
    assert rig.far.operations[-1] == (STREAM, "delete_stream")
    assert rig.far.values == {}
    depth = rig.spool.depth(UNIT_COST)
    assert (depth.kept, depth.delivered, depth.pending) == (4, 4, 0)
    assert await delete(rig) == Mismatch("stream_unknown", "")


async def test_a_new_stream_of_the_name_waits_for_the_deletion_and_the_block_and_is_whole(rig: UnitRig) -> None:
    await rig.keep(metered(9))
    await rig.ship()
    await delete(rig)
    month = Shape("metric", "MONTHLY", ())
    await rig.keep(metered(3, TotalKey(place().bucket_ms, "", "{}"), shape=month))
    await rig.ship()
    assert rig.far.operations[-1] == (STREAM, "delete_stream")
    assert rig.spool.depth(UNIT_COST).pending == 1
    await rig.keep(metered(2, stream="another"))
    await rig.ship()
    assert rig.far.operations[-1] == ("another", "sum")
    await pass_block(rig)
    assert rig.far.operations[-1] == (STREAM, "replace")
    assert [str(value) for (stream, *_), value in rig.far.values.items() if stream == STREAM] == ["3"]


async def test_a_stream_is_made_again_after_its_deletion_and_the_block(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    await rig.ship()
    await delete(rig)
    assert await rig.store.create_stream(STREAM, METRIC) == "made"
    await rig.ship()
    assert [operation for _, operation in rig.far.operations] == ["sum", "delete_stream"]
    await pass_block(rig)
    assert rig.far.operations[-1] == (STREAM, "create_stream")
    assert rig.far.streams[STREAM]["kind"] == "metric"


async def test_a_batch_under_way_ends_before_the_deletion_goes_out_and_represents_nothing(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    under_way = await rig.frozen()
    await delete(rig)
    assert await rig.freeze() is None
    await rig.lane.bury(under_way, "refused", "")
    assert rig.spool.depth(UNIT_COST).dead_lettered == 0
    deletion = await rig.frozen()
    assert operation_in(deletion) == "delete_stream"
    await rig.lane.ack(deletion)
    assert rig.spool.depth(UNIT_COST).delivered == 2


async def test_a_batch_that_was_given_back_is_not_sent_after_the_deletion_was_asked(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    await rig.lane.release(await rig.frozen(), answered=False)
    await delete(rig)
    await rig.ship()
    assert [operation for _, operation in rig.far.operations] == ["delete_stream"]


async def test_a_second_deletion_takes_what_came_between(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    await delete(rig)
    first = await rig.frozen()
    await rig.keep(metered(2))
    await delete(rig)
    await rig.lane.release(first, answered=True)
    await rig.ship()
    assert [operation for _, operation in rig.far.operations] == ["delete_stream"]
    assert rig.spool.depth(UNIT_COST).delivered == 4


@pytest.mark.parametrize("killed_at", ["kept", "frozen", "sent"])
async def test_a_deletion_and_what_came_after_it_survive_a_kill_in_order(rig: UnitRig, killed_at: str) -> None:
    await rig.keep(metered(1))
    await rig.ship()
    await delete(rig)
    await rig.keep(metered(8))
    if killed_at != "kept":
        deletion = await rig.frozen()
        if killed_at == "sent":
            rig.far.apply(deletion)
    await rig.kill()
    await rig.ship()
    assert rig.far.values == {}
    await pass_block(rig)
    assert [operation for _, operation in rig.far.operations].count("replace") == 1
    assert rig.far.at() == 8


async def test_without_a_key_the_stream_waits_and_others_go_on(rig: UnitRig) -> None:
    rig.may_delete = False
    await rig.keep(metered(1))
    await rig.ship()
    await delete(rig)
    await rig.keep(metered(2))
    await rig.keep(metered(3, stream="another"))
    await rig.ship()
    assert ("another", "sum") in rig.far.operations
    assert rig.far.at() == 1
    assert rig.lane.keeps_deletions
    assert not await rig.lane.is_ready(UNIT_COST, max_records=10, max_bytes=1000)
    rig.may_delete = True
    await rig.ship()
    assert not rig.lane.keeps_deletions
    await pass_block(rig)
    assert rig.far.at() == 2


async def test_the_repeat_of_a_deletion_deletes_nothing_that_came_since(rig: UnitRig) -> None:
    mark = RepeatKey(b"deletion".ljust(16), b"".ljust(8))
    await rig.keep(metered(1))
    assert await delete(rig, mark) == "kept"
    await rig.keep(metered(2))
    assert await delete(rig, mark) == "duplicate"
    await rig.ship()
    await pass_block(rig)
    assert rig.far.at() == 2


async def test_a_blocked_name_waits_for_as_long_as_the_upstream_states(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    refused = await rig.frozen()
    await rig.lane.block(STREAM, 60)
    await rig.lane.release(refused, answered=True)
    assert await rig.freeze() is None
    rig.clock.now_ms += 60_000
    await rig.ship()
    assert rig.far.at() == 1


async def test_a_refused_deletion_is_a_dead_letter_that_may_be_replayed(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    await delete(rig)
    await rig.lane.ack(await rig.frozen(), [Refusal(0, "in_use", "")])
    assert rig.spool.depth(UNIT_COST).dead_lettered == 2
    assert (await rig.spool.operator().replay_dead_letters(Chosen())).replayed == {UNIT_COST: 1}
    await rig.ship()
    assert [operation for _, operation in rig.far.operations] == ["delete_stream"]


async def test_what_came_since_is_wiped_by_no_replay_and_what_was_deleted_comes_back_by_none(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    await rig.lane.bury(await rig.frozen(), "invalid", "")
    await delete(rig)
    await rig.lane.bury(await rig.frozen(), "in_use", "")
    await rig.keep(metered(2))
    requeued = await rig.spool.operator().replay_dead_letters(Chosen())
    assert (requeued.replayed, requeued.skipped) == ({}, 2)
    await rig.ship()
    assert rig.far.at() == 2
