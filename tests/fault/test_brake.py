"""An upstream that refuses every record: how many dead letters that makes, over any number of
restarts. A real spool, pump and exporter; pauses are skipped.
"""

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import orjson
import pytest

from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.lanes import AI_TELEMETRY_SCOPE, AiTelemetryExporter
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.pacing import BRAKE_RECORDS
from exporters.pump import BatchLimits, Pump
from exporters.secret import Secret
from spool.dead_letters import Chosen
from spool.record import AI_TELEMETRY
from tests.support.durable_spool import DurableSpool
from tests.support.lane_runs import running_pump, skip_pauses_until
from tests.support.manual_clock import ManualClock
from tests.support.spool_rig import assert_balanced
from tests.support.upstream import Reply, Seen, Upstream, running_upstream

BACKLOG = 140
RESTARTS = 8


def records(count: int) -> list[bytes]:
    return [orjson.dumps({"schema": "inference/1", "record_id": f"{n:032x}"}) for n in range(count)]


def sent_in(seen: Seen) -> int:
    return len(orjson.loads(seen.body)["records"])


def refuse_the_request(seen: Seen) -> Reply:
    return Reply(400, body=b'{"error":{"type":"schema","message":"inference/2 is needed"}}')


def refuse_each_record(seen: Seen) -> Reply:
    rejected = [{"index": index, "code": "schema"} for index in range(sent_in(seen))]
    return Reply(202, body=orjson.dumps({"accepted": 0, "rejected": rejected}))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with running_upstream() as running:
        yield running


@pytest.fixture
async def exporter(upstream: Upstream) -> AsyncIterator[AiTelemetryExporter]:
    key = KeySetting("all", Secret("key-4711"), {AI_TELEMETRY_SCOPE}.__contains__)
    client = CostServiceClient(Endpoint(upstream.base_url), Keyring([key]), "gw-1")
    yield AiTelemetryExporter(client)
    await client.close()


async def until_braked(pump: Pump, clock: ManualClock) -> None:
    await skip_pauses_until(lambda: pump.state == "held" and not pump.in_flight, pump, clock)
    assert "the upstream refuses every record: schema" in (pump.reason or "")


@pytest.mark.parametrize(
    ("respond", "max_records", "most_dead"),
    [
        (refuse_the_request, 1000, BRAKE_RECORDS - 1),
        (refuse_the_request, 7, BRAKE_RECORDS - 1),
        (refuse_the_request, 1, BRAKE_RECORDS - 1),
        (refuse_each_record, 20, 40),
        (refuse_each_record, 1, BRAKE_RECORDS - 1),
    ],
)
async def test_restarts_add_no_dead_letter_to_those_before_the_brake(
    tmp_path: Path,
    upstream: Upstream,
    exporter: AiTelemetryExporter,
    clock: ManualClock,
    respond: Callable[[Seen], Reply],
    max_records: int,
    most_dead: int,
) -> None:
    upstream.respond = respond
    chance = random.Random(max_records)
    limits = BatchLimits(max_records=max_records, in_flight=1)
    for n in range(RESTARTS):
        store = DurableSpool(tmp_path / "data")
        if n == 0:
            await store.put(AI_TELEMETRY, records(BACKLOG))
        async with running_pump(store, exporter, clock, limits=limits, brake=store) as pump:
            probes = len(upstream.seen) + chance.randrange(1, 4)
            await skip_pauses_until(lambda n=probes: len(upstream.seen) >= n, pump, clock)  # type: ignore[misc]  # the default binds the loop's count
            await until_braked(pump, clock)
        depth = store.depth(AI_TELEMETRY)
        assert depth.dead_lettered == most_dead
        assert (depth.delivered, depth.pending) == (0, BACKLOG - most_dead)
        await assert_balanced(store)
        await store.close()
    upstream.respond = lambda seen: Reply(202)
    store = DurableSpool(tmp_path / "data")
    now_s = clock.now_s
    async with running_pump(store, exporter, clock, limits=limits, brake=store) as pump:
        await skip_pauses_until(lambda: store.depth(AI_TELEMETRY).pending == 0, pump, clock)
    assert clock.now_s == now_s, "the first probe after a start goes at once"
    assert await store.brake_reason(AI_TELEMETRY) is None
    assert store.depth(AI_TELEMETRY).delivered == BACKLOG - most_dead
    await assert_balanced(store)
    await store.close()


async def test_what_is_refused_comes_back_as_dead_letters_that_can_be_replayed(
    tmp_path: Path, upstream: Upstream, exporter: AiTelemetryExporter, clock: ManualClock
) -> None:
    upstream.respond = refuse_the_request
    store = DurableSpool(tmp_path / "data")
    await store.put(AI_TELEMETRY, records(BACKLOG))
    async with running_pump(store, exporter, clock, brake=store) as pump:
        await until_braked(pump, clock)
        assert pump.set_aside(store.depth(AI_TELEMETRY).pending)
        await skip_pauses_until(lambda: store.depth(AI_TELEMETRY).pending == 0, pump, clock)
        assert store.depth(AI_TELEMETRY).dead_lettered == BACKLOG
        upstream.respond = lambda seen: Reply(202)
        requeued = await store.operator().replay_dead_letters(Chosen())
        assert requeued.replayed == {AI_TELEMETRY: BACKLOG}
        await skip_pauses_until(lambda: store.depth(AI_TELEMETRY).pending == 0, pump, clock)
    assert store.depth(AI_TELEMETRY).delivered == BACKLOG
    await assert_balanced(store)
    await store.close()
