"""The contract that every exporter keeps, whatever its target does: through a real pump and a real
spool, pauses skipped, not slept.

`targets.py` has one class a target: how it fails at random, and what it has in the end.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from exporters.base import Delivered, Exporter, Hold, NotUnderstood, Refused, Retry
from exporters.cost_service.client import CostServiceClient
from exporters.pump import BatchLimits
from spool.record import OWN_LANES
from tests.conformance.exporters.targets import TARGETS, Target, TargetName, target_named
from tests.support.durable_spool import DurableSpool
from tests.support.lane_runs import running_pump, skip_pauses_until
from tests.support.manual_clock import ManualClock
from tests.support.spool_rig import SETTINGS, append, assert_balanced, open_spool
from tests.support.upstream import Upstream

RECORDS = 100
TIMES = 3
RESTARTS = 6


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest, client: CostServiceClient, upstream: Upstream, tmp_path: Path) -> Target:
    name: TargetName = request.param
    return target_named(name, client, upstream, tmp_path)


@pytest.fixture
async def spool(target: Target, tmp_path: Path) -> AsyncIterator[DurableSpool]:
    """With a lane for the target, if it is none of the own ones, that follows the AI records."""
    extra = [] if target.lane in OWN_LANES else [target.lane]
    opened = open_spool(tmp_path / "data", settings=SETTINGS, exporters=extra)
    yield opened
    await assert_balanced(opened)
    await opened.close()


async def put(spool: DurableSpool, target: Target, count: int, first: int = 0) -> None:
    own = target.lane if target.lane in OWN_LANES else "ai_telemetry"
    await append(spool, [target.make_record(number) for number in range(first, first + count)], own)


async def drain(
    spool: DurableSpool, target: Target, exporter: Exporter, clock: ManualClock, *, pending: int = 0
) -> None:
    """Run a pump until no more than *pending* are left, then stop it as a shutdown does."""
    limits = BatchLimits(max_records=min(10, target.limits.max_records), in_flight=target.limits.in_flight)
    async with running_pump(spool, exporter, clock, lane=target.lane, limits=limits) as pump:
        await skip_pauses_until(lambda: spool.depth(target.lane).pending <= pending, pump, clock)
    assert spool._leased[target.lane] == set(), "something stays leased after a stop"


async def test_everything_arrives_once_when_nothing_fails(
    spool: DurableSpool, target: Target, clock: ManualClock
) -> None:
    exporter = target.open()
    await put(spool, target, RECORDS)
    await drain(spool, target, exporter, clock)
    await exporter.close()
    assert target.has() == Counter(range(RECORDS))
    assert spool.depth(target.lane).delivered == RECORDS


@pytest.mark.parametrize("_", range(TIMES))
async def test_whatever_the_target_does_everything_arrives_and_nothing_is_buried(
    spool: DurableSpool, target: Target, clock: ManualClock, chance: random.Random, _: int
) -> None:
    exporter = target.open()
    await put(spool, target, RECORDS)
    with target.misbehaving(chance, 0.4):
        await drain(spool, target, exporter, clock)
    await exporter.close()
    depth = spool.depth(target.lane)
    assert (depth.delivered, depth.dead_lettered, depth.expired) == (RECORDS, 0, 0)
    assert target.has() == Counter(range(RECORDS))
    target.assert_repeats_can_be_told()


@pytest.mark.parametrize("_", range(TIMES))
async def test_restarts_in_the_middle_of_it_change_nothing(
    spool: DurableSpool, target: Target, clock: ManualClock, chance: random.Random, _: int
) -> None:
    put_so_far = 0
    with target.misbehaving(chance, 0.4):
        for _ in range(RESTARTS):
            await put(spool, target, 20, put_so_far)
            put_so_far += 20
            exporter = target.open()
            await drain(spool, target, exporter, clock, pending=chance.randrange(15))
            await exporter.close()
    exporter = target.open()
    await drain(spool, target, exporter, clock)
    await exporter.close()
    depth = spool.depth(target.lane)
    assert (depth.delivered, depth.dead_lettered) == (put_so_far, 0)
    assert target.has() == Counter(range(put_so_far))
    target.assert_repeats_can_be_told()


async def test_a_send_ends_in_one_of_the_five_endings_and_raises_nothing(
    spool: DurableSpool, target: Target, clock: ManualClock
) -> None:
    exporter = target.open()
    await put(spool, target, 10)
    with target.misbehaving(random.Random(1), 1.0):
        for _ in range(40):
            batch = await spool.freeze(target.lane, max_records=1, max_bytes=1000)
            assert batch is not None
            outcome = await exporter.send(batch)
            assert isinstance(outcome, Delivered | Retry | Hold | Refused | NotUnderstood)
            assert not isinstance(outcome, Refused), "nothing was wrong with the record"
            await spool.release(batch, answered=True)
    await exporter.close()
