"""An upstream that is down for days (C06), refuses the key or one batch (C09), some records (C10);
lanes beside a dead one (C11), and order (C12).

A real spool, a real pump, the real exporter over real sockets; pauses are skipped by a clock that
the test moves. OUTAGE_TEST_SCALE=20 makes the queues as large as the promises state (100 000).
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from math import ceil, log2
from pathlib import Path
from random import Random

import orjson
import pytest

from exporters.base import Delivered, Outcome, Retry
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.lanes import AI_TELEMETRY_SCOPE, AiTelemetryExporter
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.pump import BatchLimits, Pump
from exporters.secret import Secret
from spool.record import AI_TELEMETRY, Batch
from spool.settings import SpoolSettings
from tests.support.durable_spool import DurableSpool
from tests.support.lane_runs import running_pump, skip_pauses_until, until
from tests.support.manual_clock import ManualClock
from tests.support.spool_rig import Clock, append, assert_balanced, open_spool
from tests.support.upstream import Reply, Seen, Upstream, running_upstream

SCALE = int(os.environ.get("OUTAGE_TEST_SCALE", "1"))
HOUR_S = 3600
DAY_MS = 86_400_000


def record(number: int) -> bytes:
    return orjson.dumps({"schema": "inference/1", "record_id": f"{number:032x}", "kind": "call"})


def number_of(record: bytes) -> int:
    return int(orjson.loads(record)["record_id"], 16)


def numbers_in(seen: Seen) -> list[int]:
    return [int(record["record_id"], 16) for record in orjson.loads(seen.body)["records"]]


@dataclass(slots=True)
class Target:
    """An exporter that keeps what it took, while it is up."""

    is_up: bool = True
    tries: int = 0
    sent: list[int] = field(default_factory=list)
    """In the order of the first try of each batch."""
    taken: list[int] = field(default_factory=list)
    hangs: asyncio.Event | None = None
    _batches: set[str] = field(default_factory=set)

    async def send(self, batch: Batch) -> Outcome:
        self.tries += 1
        if batch.batch_id not in self._batches:
            self._batches.add(batch.batch_id)
            self.sent += map(number_of, batch.records)
        if self.hangs is not None:
            await self.hangs.wait()
        if not self.is_up:
            return Retry("down", answered=False)
        self.taken += map(number_of, batch.records)
        return Delivered()

    async def close(self) -> None: ...


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DurableSpool]:
    spool = DurableSpool(tmp_path / "data")
    yield spool
    await assert_balanced(spool)
    await spool.close()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with running_upstream() as running:
        yield running


@pytest.fixture
async def exporter(upstream: Upstream) -> AsyncIterator[AiTelemetryExporter]:
    keyring = Keyring([KeySetting("all", Secret("key-4711"), AI_TELEMETRY_SCOPE.__eq__)])
    client = CostServiceClient(Endpoint(upstream.base_url), keyring, "gw-1")
    yield AiTelemetryExporter(client)
    await client.close()


async def put(spool: DurableSpool, count: int) -> None:
    for first in range(0, count, 5000):
        await spool.put(AI_TELEMETRY, [record(number) for number in range(first, min(first + 5000, count))])


def drained(spool: DurableSpool) -> bool:
    return spool.depth(AI_TELEMETRY).pending == 0


@pytest.mark.parametrize("max_age_days", [7, 30])
async def test_c06_an_outage_of_ten_days_ends_no_record_before_its_age_does(
    tmp_path: Path, clock: ManualClock, max_age_days: int
) -> None:
    wall = Clock()
    settings = SpoolSettings(linger_ms=0, reserve_bytes=0, max_age_ms=max_age_days * DAY_MS)
    spool = open_spool(tmp_path / "data", wall, settings=settings)
    target = Target(is_up=False)
    kept = 0
    async with running_pump(spool, target, clock, limits=BatchLimits(max_records=40)) as pump:
        for _ in range(10 * 24):
            await append(spool, [record(kept + index) for index in range(5)])
            kept += 5
            tries = target.tries
            wall.now_ms += HOUR_S * 1000
            clock.advance(HOUR_S)
            await skip_pauses_until(lambda tries=tries: target.tries > tries and not pump.in_flight, pump, clock)  # type: ignore[misc]  # the default binds the loop's count
            await spool.run_maintenance()
            await assert_balanced(spool)
        down = spool.depth(AI_TELEMETRY)
        target.is_up = True
        await skip_pauses_until(lambda: spool.depth(AI_TELEMETRY).pending == 0, pump, clock)
    depth = spool.depth(AI_TELEMETRY)
    sys.stderr.write(f"{max_age_days} d: {target.tries} tries, {depth}\n")
    assert down.delivered == down.dead_lettered == 0
    assert down.pending + down.expired == kept == depth.kept
    assert depth.delivered + depth.expired == kept
    assert len(target.taken) == len(set(target.taken)) == depth.delivered
    assert set(range(kept - depth.delivered, kept)) == set(target.taken), "the oldest expired, the others arrived"
    if max_age_days > 10:
        assert depth.expired == 0
    else:
        # What travels in one batch with younger records expires with them, not before.
        assert 0 <= 3 * 24 * 5 - depth.expired <= 40 + 5
    await spool.close()


async def test_c09_an_hour_of_401_changes_nothing_in_a_queue_that_then_arrives_once(
    store: DurableSpool, upstream: Upstream, exporter: AiTelemetryExporter, clock: ManualClock
) -> None:
    queued = 5000 * SCALE
    await put(store, queued)
    upstream.respond = lambda seen: Reply(401, body=b'{"message":"Unauthorized"}')
    async with running_pump(store, exporter, clock) as pump:
        started_s = clock.now_s
        while clock.now_s - started_s < HOUR_S:
            asked = len(upstream.seen)
            await skip_pauses_until(lambda asked=asked: len(upstream.seen) > asked and not pump.in_flight, pump, clock)  # type: ignore[misc]  # as above
            depth = store.depth(AI_TELEMETRY)
            assert (depth.pending, depth.delivered, depth.dead_lettered, depth.expired) == (queued, 0, 0, 0)
            assert pump.state == "held"
        asked = len(upstream.seen)
        upstream.respond = lambda seen: Reply(202)
        await skip_pauses_until(lambda: drained(store), pump, clock)
        assert pump.state == "ok"
    arrived = Counter(number for seen in upstream.seen[asked:] for number in numbers_in(seen))
    sys.stderr.write(f"{queued} queued, {asked} requests in an hour of 401\n")
    assert arrived == Counter(range(queued))
    assert asked < 20, "the lane probes, it does not hammer"


async def test_c09_a_500_that_follows_one_record_isolates_it_and_ends_nothing_by_attempts(
    store: DurableSpool, upstream: Upstream, exporter: AiTelemetryExporter, clock: ManualClock
) -> None:
    def respond(seen: Seen) -> Reply:
        return Reply(500) if 777 in numbers_in(seen) else Reply(202)

    upstream.respond = respond
    await put(store, 2000)
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=20)) as pump:
        put_later = 2000
        started_s = clock.now_s
        while store.depth(AI_TELEMETRY).pending > 1:
            assert clock.now_s - started_s < HOUR_S, "the record that fails keeps others with it"
            await skip_pauses_until(lambda: not pump.in_flight, pump, clock)
            if store.depth(AI_TELEMETRY).pending <= 40:  # others that pass are what makes it a suspect
                await store.put(AI_TELEMETRY, [record(put_later)])
                put_later += 1
            clock.advance(1.0)
            await asyncio.sleep(0.001)
        assert store.dead_letters(AI_TELEMETRY) == []
        upstream.respond = lambda seen: Reply(202)
        clock.advance(300.0)
        await skip_pauses_until(lambda: drained(store), pump, clock)
    accepted = {number for seen in upstream.seen for number in numbers_in(seen)}
    assert accepted == set(range(put_later))
    assert store.depth(AI_TELEMETRY).delivered == put_later


@pytest.mark.parametrize("_", range(3))
async def test_c10_three_poison_records_of_a_thousand_are_found_and_only_they_are_buried(
    store: DurableSpool, upstream: Upstream, exporter: AiTelemetryExporter, clock: ManualClock, chance: Random, _: int
) -> None:
    poison = set(chance.sample(range(1000), 3))

    def respond(seen: Seen) -> Reply:
        bad = poison & set(numbers_in(seen))
        return Reply(400, body=b'{"error":{"type":"invalid_model","message":"no such model"}}') if bad else Reply(202)

    upstream.respond = respond
    await put(store, 1000)
    async with running_pump(store, exporter, clock) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
    extra = len(upstream.seen) - 1
    sys.stderr.write(f"{extra} extra requests for 3 poison records of 1000\n")
    assert extra <= 2 * 3 * ceil(log2(1000))
    buried = store.dead_letters(AI_TELEMETRY)
    assert {number_of(record) for record, _, _ in buried} == poison
    assert {(code, message) for _, code, message in buried} == {("invalid_model", "no such model")}
    assert store.depth(AI_TELEMETRY).delivered == 997


async def test_c10_a_413_splits_and_the_size_that_passes_is_remembered(
    store: DurableSpool, upstream: Upstream, exporter: AiTelemetryExporter, clock: ManualClock
) -> None:
    largest_bytes = 20_000
    upstream.respond = lambda seen: Reply(413 if len(seen.body) > largest_bytes else 202)
    await put(store, 5000)
    async with running_pump(store, exporter, clock, limits=BatchLimits(in_flight=1)) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
        first = sum(len(seen.body) > largest_bytes for seen in upstream.seen)
        await store.put(AI_TELEMETRY, [record(number) for number in range(5000, 6000)])
        await skip_pauses_until(lambda: drained(store), pump, clock)
    later = sum(len(seen.body) > largest_bytes for seen in upstream.seen) - first
    assert store.dead_letters(AI_TELEMETRY) == []
    assert first <= 2 * ceil(log2(5000 * 90 / largest_bytes)) + 3
    assert later <= 1, "the size was learnt again"
    assert store.depth(AI_TELEMETRY).delivered == 6000


async def test_c11_a_dead_lane_costs_the_nine_others_nothing(tmp_path: Path, clock: ManualClock) -> None:
    lanes = [f"lane-{number}" for number in range(10)]
    spool = open_spool(tmp_path / "data", exporters=lanes)
    targets = {lane: Target() for lane in lanes}
    targets["lane-0"].hangs = asyncio.Event()
    limits = BatchLimits(max_records=50)
    queued = 2000 * SCALE
    for first in range(0, queued, 500):
        await append(spool, [record(number) for number in range(first, first + 500)])
    pumps = [Pump(lane, spool, targets[lane], limits=limits, clock=clock, chance=lambda: 0.5) for lane in lanes]
    running = [asyncio.create_task(pump.run()) for pump in pumps]
    await until(lambda: max(len(targets[lane].taken) for lane in lanes[1:]) >= queued)
    behind = {lane: queued - len(targets[lane].taken) for lane in lanes[1:]}
    await until(lambda: all(spool.depth(lane).pending == 0 for lane in lanes[1:]))
    dead = spool.depth("lane-0")
    assert dead.pending == queued
    assert targets["lane-0"].tries <= limits.in_flight, "a blocked lane holds its own slots only"
    assert max(behind.values()) <= queued * 0.05 + limits.max_records * limits.in_flight, "one lane fell behind"
    assert all(targets[lane].taken == sorted(targets[lane].taken) for lane in lanes[1:])
    targets["lane-0"].hangs.set()
    await until(lambda: spool.depth("lane-0").pending == 0)
    for pump in pumps:
        await pump.stop(0.0)
    await asyncio.gather(*running)
    await assert_balanced(spool)
    await spool.close()


@pytest.mark.parametrize("in_flight", [1, 4])
async def test_c12_a_lane_sends_in_the_order_of_acceptance_with_a_backlog_and_live_load(
    store: DurableSpool, clock: ManualClock, in_flight: int
) -> None:
    backlog = 5000 * SCALE
    target = Target(is_up=False)
    await put(store, backlog)
    async with running_pump(store, target, clock, limits=BatchLimits(max_records=100, in_flight=in_flight)) as pump:
        await until(lambda: target.tries > 0 and not pump.in_flight)
        target.is_up = True
        put_so_far = backlog
        while store.depth(AI_TELEMETRY).pending > 100:
            await store.put(AI_TELEMETRY, [record(number) for number in range(put_so_far, put_so_far + 7)])
            put_so_far += 7
            tries = target.tries
            await skip_pauses_until(lambda tries=tries: target.tries > tries, pump, clock)  # type: ignore[misc]  # as above
        await skip_pauses_until(lambda: drained(store), pump, clock)
    assert target.sent == list(range(put_so_far)), "frozen and first sent in another order than accepted"
    assert Counter(target.taken) == Counter(range(put_so_far))
