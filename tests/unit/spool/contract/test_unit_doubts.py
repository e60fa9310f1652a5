"""Totals that a backup brought back, where the upstream went on since: nothing is added twice, and
what cannot be known waits for an operator.
"""

from collections.abc import AsyncIterator
from decimal import Decimal

import orjson
import pytest

from spool.dead_letters import Chosen
from spool.record import UNIT_COST
from spool.unit_cost import Judged, TotalKey, judged
from tests.support.calls import EPOCH_MS
from tests.support.spool_homes import SpoolHome, letters_of
from tests.support.spool_rig import Clock
from tests.support.unit_streams import METRIC, SHAPE, STREAM, UnitRig, metered, place


@pytest.fixture
async def rig(home: SpoolHome, clock: Clock) -> AsyncIterator[UnitRig]:
    made = UnitRig(home, clock, can_read=True)
    yield made
    await made.close()


@pytest.fixture
async def summing(home: SpoolHome, clock: Clock) -> AsyncIterator[UnitRig]:
    made = UnitRig(home, clock, ships="sum", can_read=True)
    yield made
    await made.close()


def holds(rig: UnitRig, value: int | None, element: str = "acme") -> None:
    """The upstream holds that by now, of records that the backup does not have."""
    key = (STREAM, "2026-01-05T10:00:00Z", element, place(element).filter)
    rig.far.values.pop(key, None)
    if value is not None:
        rig.far.values[key] = Decimal(value)


async def put_back(rig: UnitRig, value: int | None) -> None:
    """A backup in which 3 of the total 5 were delivered, and 2 wait; the upstream holds *value*."""
    await rig.keep(metered(3))
    await rig.ship()
    await rig.keep(metered(2))
    await rig.home.put_back()
    holds(rig, value)


async def set_aside(rig: UnitRig) -> list[tuple[str, str, str | None]]:
    """Code, operation and value of each dead letter."""
    found = [(code, orjson.loads(record)) for code, _, record in await letters_of(rig.spool, UNIT_COST)]
    return [(code, item["operation"], item["record"].get("value")) for code, item in found]


def figures(rig: UnitRig) -> tuple[int, int, int]:
    depth = rig.spool.depth(UNIT_COST)
    return depth.delivered, depth.pending, depth.dead_lettered


@pytest.mark.parametrize(
    ("there", "ends"), [(3, 5), (5, 5), (9, 9)], ids=["not delivered", "delivered", "delivered, and more came"]
)
async def test_what_waited_is_added_once(rig: UnitRig, there: int, ends: int) -> None:
    await put_back(rig, there)
    await rig.keep(metered(10), metered(1, place("new")))
    await rig.ship()
    assert (rig.far.at(), rig.far.at("new")) == (ends + 10, 1)
    assert figures(rig) == (4, 0, 0)


@pytest.mark.parametrize(
    ("there", "ends"), [(None, 7), (4, 7), (7, 7), (8, 8)], ids=["none", "the batch", "all", "all, and more came"]
)
async def test_a_batch_that_was_under_way_is_added_once(rig: UnitRig, there: int | None, ends: int) -> None:
    await rig.keep(metered(1, place("other")))
    await rig.ship()
    await rig.keep(metered(4))
    assert await rig.freeze() is not None
    await rig.keep(metered(3))
    await rig.home.put_back()
    await rig.reopen()
    holds(rig, there)
    await rig.ship()
    assert rig.far.at() == ends
    assert figures(rig) == (3, 0, 0)
    await rig.keep(metered(1))
    await rig.ship()
    assert rig.far.at() == ends + 1


@pytest.mark.parametrize("there", [None, 1, 4])
async def test_what_does_not_add_up_waits_for_an_operator(rig: UnitRig, there: int | None) -> None:
    """Smaller than before: a record was deleted since, or the read is late, or others send."""
    await put_back(rig, there)
    await rig.keep(metered(10))
    await rig.ship()
    assert rig.far.at() == 10 + (there or 0), "what came since is added, whatever is there"
    assert await set_aside(rig) == [("restored", "sum", "2")]
    assert figures(rig) == (2, 0, 1)
    await rig.spool.operator().replay_dead_letters(Chosen(reasons=("restored",)))
    await rig.ship()
    assert rig.far.at() == 12 + (there or 0)
    assert figures(rig) == (3, 0, 0)


async def test_without_a_read_what_waited_waits_for_an_operator(rig: UnitRig) -> None:
    await put_back(rig, 9)
    await rig.keep(metered(8, place(hour=2)))
    rig.can_read = False
    await rig.keep(metered(10))
    await rig.ship()
    assert rig.far.at() == 19
    assert await set_aside(rig) == [("restored", "sum", "2")]
    assert rig.far.operations[-2:] == [(STREAM, "sum"), (STREAM, "replace")], "a bucket that did not begin is ours"


@pytest.mark.parametrize("waiting", [[], [2]])
async def test_a_later_bucket_that_was_sent_is_not_replaced_unread(rig: UnitRig, waiting: list[int]) -> None:
    await rig.keep(metered(3, place(hour=2)))
    await rig.ship()
    await rig.keep(*(metered(value, place(hour=2)) for value in waiting))
    await rig.home.put_back()
    rig.can_read = False
    await rig.keep(metered(10, place(hour=2)))
    await rig.ship()
    assert rig.far.at(hour=2) == 13


async def test_a_stream_that_was_never_read_is_added_to_only_if_it_is_empty(rig: UnitRig) -> None:
    await rig.keep(metered(2), metered(1, place("other")))
    await rig.home.put_back()
    holds(rig, 2)
    await rig.ship()
    assert (rig.far.at(), rig.far.at("other")) == (2, 1)
    assert await set_aside(rig) == [("restored", "sum", "2")], "it may be another's"


async def test_a_frozen_sum_goes_out_before_the_read(rig: UnitRig) -> None:
    """Else the read would not show it."""
    rig.can_read = False
    await rig.keep(metered(1))
    batch = await rig.frozen()
    await rig.keep(metered(4))
    await rig.home.put_back()
    await rig.reopen()
    rig.can_read = True
    await rig.keep(metered(2))
    assert (await rig.frozen()).batch_id == batch.batch_id
    rig.far.apply(batch)
    await rig.lane.ack(batch)
    await rig.ship()
    assert rig.far.at() == 1 + 2
    assert await set_aside(rig) == [("restored", "sum", "4")], "what was there before is not known"


async def test_a_replaced_total_goes_out_whatever_is_there(rig: UnitRig) -> None:
    await put_back(rig, 1)
    await rig.keep(metered(6, operation="replace"))
    await rig.ship()
    assert rig.far.at() == 6
    assert figures(rig) == (3, 0, 0)


async def test_a_restore_may_be_repeated(rig: UnitRig) -> None:
    await put_back(rig, 5)
    await rig.keep(metered(1))
    await rig.home.put_back()
    holds(rig, 6)
    await rig.ship()
    assert rig.far.at() == 6
    assert figures(rig) == (3, 0, 0)


async def test_a_deletion_takes_what_is_in_doubt_with_it(rig: UnitRig) -> None:
    await put_back(rig, 9)
    await rig.store.delete_stream(STREAM, None, forced=True)
    await rig.ship()
    assert rig.far.values == {}
    assert figures(rig) == (3, 0, 0)


async def test_a_delete_of_several_totals_waits_for_an_operator(rig: UnitRig) -> None:
    await rig.keep(metered(3))
    await rig.ship()
    wide = metered(operation="delete", at=TotalKey(EPOCH_MS, "", ""), shape=SHAPE._replace(dimensions=()))
    await rig.keep(wide)
    await rig.home.put_back()
    holds(rig, 4, "later")
    await rig.keep(metered(1, place("later")))
    await rig.ship()
    assert rig.far.at("later") == 5
    assert await set_aside(rig) == [("restored", "delete", None)]


async def test_what_was_sent_below_a_delete_of_several_totals_stays(rig: UnitRig) -> None:
    await rig.keep(metered(3))
    await rig.keep(metered(operation="delete", at=TotalKey(EPOCH_MS, "", ""), shape=SHAPE._replace(dimensions=())))
    await rig.ship()
    await rig.home.put_back()
    holds(rig, 4, "later")
    await rig.keep(metered(1, place("later")))
    await rig.ship()
    assert rig.far.at("later") == 5


async def test_a_delete_of_several_totals_leaves_nothing_to_build_upon(rig: UnitRig) -> None:
    await rig.keep(metered(3))
    await rig.ship()
    await rig.keep(metered(operation="delete", at=TotalKey(EPOCH_MS, "", ""), shape=SHAPE._replace(dimensions=())))
    await rig.ship()
    await rig.keep(metered(2))
    await rig.home.put_back()
    await rig.ship()
    assert rig.far.at() == 2, "the upstream held nothing, and 2 waited"


async def test_sums_that_waited_wait_for_an_operator_and_a_frozen_one_keeps_its_id(summing: UnitRig) -> None:
    await summing.keep(metered(1))
    batch = await summing.frozen()
    await summing.keep(metered(2), metered(5, shape=METRIC, stream="other", at=TotalKey(EPOCH_MS, "", "{}")))
    await summing.home.put_back()
    await summing.reopen()
    again = await summing.frozen()
    assert (again.batch_id, again.records, again.generation) == (batch.batch_id, batch.records, batch.generation)
    summing.far.apply(again)
    await summing.lane.ack(again)
    assert await summing.freeze() is None
    assert sorted(await set_aside(summing)) == [("restored", "sum", "2"), ("restored", "sum", "5")]
    await summing.spool.operator().replay_dead_letters(Chosen(reasons=("restored",)))
    await summing.ship()
    assert summing.far.at() == 3


@pytest.mark.parametrize(
    ("held", "values", "found", "found_out"),
    [
        (5, [7, 9], 5, (0, 9)), (5, [7, 9], 7, (1, 9)), (5, [7, 9], 9, (2, 9)), (5, [7, 9], 11, (2, 11)),
        (5, [7, 9], 8, None), (5, [7, 9], 0, None), (5, [2], 2, (1, 2)), (5, [2], 4, None), (5, [2], 8, None),
        (5, [], 5, (0, 5)), (5, [], 6, (0, 6)), (5, [], 4, None),
        (None, [2], 0, (0, 2)), (None, [2], 2, None), (None, [], 6, (0, 6)),
        (0, ["1.2345678901234565"], "1.23456789012346", (1, "1.2345678901234565")),
    ],
)  # fmt: skip
def test_what_a_read_shows_of_a_total_in_doubt(
    held: int | None, values: list[int | str], found: int | str, found_out: tuple[int, int | str] | None
) -> None:
    wanted = None if found_out is None else Judged(found_out[0], Decimal(found_out[1]))
    assert judged(None if held is None else Decimal(held), [*map(Decimal, values)], Decimal(found)) == wanted
