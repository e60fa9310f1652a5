"""What holds for batches of many records: bisecting, size limits, per-record
rejections, keys that rotate.
"""

import asyncio

import orjson
import pytest

from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.encode import idempotency_key
from exporters.cost_service.lanes import AI_TELEMETRY_SCOPE, AiTelemetryExporter, UsageEventsExporter
from exporters.keyring import Keyring, KeySetting
from exporters.pump import BatchLimits
from exporters.secret import Secret
from tests.conformance.exporters.conftest import CASES, SpoolUnderTest
from tests.support.lane_runs import running_pump, skip_pauses_until, until
from tests.support.manual_clock import ManualClock
from tests.support.upstream import Reply, Seen, Upstream

CASE = CASES["ai_telemetry"]
LANE = CASE.lane


@pytest.fixture
def exporter(client: CostServiceClient) -> AiTelemetryExporter:
    return AiTelemetryExporter(client)


def pending(store: SpoolUnderTest) -> int:
    return store.depth(LANE).pending


async def test_three_bad_records_of_a_thousand_are_found_and_the_997_others_delivered(
    store: SpoolUnderTest, exporter: AiTelemetryExporter, upstream: Upstream, clock: ManualClock
) -> None:
    bad = {3, 500, 997}
    delivered: list[int] = []

    def respond(seen: Seen) -> Reply:
        numbers = CASE.numbers_in(seen)
        if bad & set(numbers):
            return Reply(422, body=b'{"error":{"message":"bad model","type":"invalid_model"}}')
        delivered.extend(numbers)
        return Reply(202)

    upstream.respond = respond
    await store.put(LANE, [CASE.make_record(number) for number in range(1000)])
    async with running_pump(store, exporter, clock) as pump:
        await skip_pauses_until(lambda: pending(store) == 0, pump, clock)
    assert sorted(delivered) == sorted(set(range(1000)) - bad)
    assert sorted(store.dead_letters(LANE)) == [
        (CASE.make_record(number), "invalid_model", "bad model") for number in sorted(bad)
    ]
    assert len(upstream.seen) - 1 <= 2 * len(bad) * 10


async def test_a_body_too_large_is_halved_until_it_passes_and_later_ones_are_smaller(
    store: SpoolUnderTest, exporter: AiTelemetryExporter, upstream: Upstream, clock: ManualClock
) -> None:
    upstream.respond = lambda seen: Reply(413) if len(seen.body) > 40_000 else Reply(202)
    records = [CASE.make_record(number) for number in range(3000)]
    await store.put(LANE, records)
    async with running_pump(store, exporter, clock, limits=BatchLimits(in_flight=1)) as pump:
        await skip_pauses_until(lambda: pending(store) == 0, pump, clock)
    delivered = [n for seen in upstream.seen if len(seen.body) <= 40_000 for n in CASE.numbers_in(seen)]
    assert sorted(delivered) == list(range(3000))
    assert store.dead_letters(LANE) == []
    assert sum(len(seen.body) > 40_000 for seen in upstream.seen) <= 5


async def test_records_that_a_202_rejects_are_buried_and_the_rest_is_not_sent_again(
    store: SpoolUnderTest, exporter: AiTelemetryExporter, upstream: Upstream, clock: ManualClock
) -> None:
    rejected = [{"index": 1, "code": "invalid_model", "message": "no such model"}]
    upstream.script.append(Reply(202, body=orjson.dumps({"accepted": 2, "rejected": rejected})))
    await store.put(LANE, [CASE.make_record(number) for number in range(3)])
    async with running_pump(store, exporter, clock):
        await until(lambda: pending(store) == 0)
    assert len(upstream.seen) == 1
    assert store.dead_letters(LANE) == [(CASE.make_record(1), "invalid_model", "no such model")]
    assert store.depth(LANE).delivered == 2


async def test_a_large_body_arrives_whole(
    store: SpoolUnderTest, exporter: AiTelemetryExporter, upstream: Upstream, clock: ManualClock
) -> None:
    filler = "x" * 3500
    records = [orjson.dumps({"record_id": f"{number:032x}", "filler": filler}) for number in range(1000)]
    await store.put(LANE, records)
    async with running_pump(store, exporter, clock):
        await until(lambda: pending(store) == 0)
    (seen,) = upstream.seen
    assert len(seen.body) > 3_500_000
    assert b",".join(records) in seen.body
    assert seen.headers["Content-Length"] == str(len(seen.body))


async def test_the_idempotency_key_on_the_wire_is_the_contracts_hash(
    store: SpoolUnderTest, exporter: AiTelemetryExporter, upstream: Upstream
) -> None:
    await store.put(LANE, [CASE.make_record(1)])
    batch = await store.freeze(LANE, max_records=1, max_bytes=1000)
    assert batch is not None
    await exporter.send(batch)
    assert upstream.seen[0].headers["Idempotency-Key"] == idempotency_key(batch, "gw-7f3a")
    assert orjson.loads(upstream.seen[0].body)["batch_id"] == batch.batch_id


async def test_two_keys_on_one_lane_rotate_with_no_gap(
    store: SpoolUnderTest, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    grants = frozenset({AI_TELEMETRY_SCOPE}).__contains__
    client.keyring = Keyring(
        [KeySetting("current", Secret("old-key"), grants), KeySetting("next", Secret("new-key"), grants)]
    )
    valid = {"old-key"}

    def respond(seen: Seen) -> Reply:
        return Reply(202) if seen.headers["Authorization"] in valid else Reply(401)

    upstream.respond = respond
    started_s = clock.now_s
    async with running_pump(store, AiTelemetryExporter(client), clock) as pump:
        await store.put(LANE, [CASE.make_record(1)])
        await until(lambda: pending(store) == 0)
        valid.clear()
        valid.add("new-key")
        await store.put(LANE, [CASE.make_record(2)])
        await skip_pauses_until(lambda: pending(store) == 0, pump, clock)
        await store.put(LANE, [CASE.make_record(3)])
        await until(lambda: pending(store) == 0)
        assert pump.counts.holds == 0
    assert clock.now_s == started_s, "nobody waited"
    assert [seen.headers["Authorization"] for seen in upstream.seen] == ["old-key", "old-key", "new-key", "new-key"]
    keys = [seen.headers["Idempotency-Key"] for seen in upstream.seen]
    assert keys[1] != keys[2], "the upstream may replay its 401 under the first one"


@pytest.mark.parametrize("repeatable", [True, False])
async def test_an_event_keeps_its_key_after_silence_where_nothing_else_shows_it_is_a_repeat(
    store: SpoolUnderTest,
    client: CostServiceClient,
    upstream: Upstream,
    clock: ManualClock,
    repeatable: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    events = CASES["usage_events"]
    upstream.script.extend([Reply(503), Reply(reset="after_reading"), Reply(503), Reply(429), Reply(202)])
    await store.put(events.lane, [events.make_record(1)])
    exporter = UsageEventsExporter(client, repeatable=repeatable)
    async with running_pump(store, exporter, clock, lane=events.lane, limits=BatchLimits(max_records=1)) as pump:
        await skip_pauses_until(lambda: store.depth(events.lane).pending == 0, pump, clock)
    keys = [seen.headers["Idempotency-Key"] for seen in upstream.seen]
    assert len(keys) == 5
    assert keys[0] != keys[1] == keys[2]
    assert len(set(keys[2:])) == (3 if repeatable else 1)
    assert store.depth(events.lane).delivered == 1


async def test_an_event_keeps_its_key_after_a_try_whose_pump_did_not_live_to_hear_of_it(
    store: SpoolUnderTest, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    events = CASES["usage_events"]
    exporter = UsageEventsExporter(client, repeatable=False)
    upstream.script.extend([Reply(503), Reply(202, until=asyncio.Event()), Reply(503), Reply(202)])
    await store.put(events.lane, [events.make_record(1)])
    for requests in (2, 4):
        async with running_pump(store, exporter, clock, lane=events.lane, limits=BatchLimits(max_records=1)) as pump:
            await skip_pauses_until(lambda: len(upstream.seen) == requests, pump, clock)  # noqa: B023 - awaited here
    keys = [seen.headers["Idempotency-Key"] for seen in upstream.seen]
    assert keys[0] != keys[1] == keys[2] == keys[3]


async def test_an_event_that_cannot_be_repeated_is_set_aside_after_an_ambiguous_error(
    store: SpoolUnderTest, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    events = CASES["usage_events"]
    upstream.script.append(Reply(502, body=b"bad gateway"))
    await store.put(events.lane, [events.make_record(1), events.make_record(2)])
    exporter = UsageEventsExporter(client, repeatable=False)
    limits = BatchLimits(max_records=1, in_flight=1)
    async with running_pump(store, exporter, clock, lane=events.lane, limits=limits) as pump:
        await until(lambda: store.depth(events.lane).dead_lettered == 1)
        assert pump.state == "retrying", "an upstream in trouble is given a pause, so that not all of it ends like this"
        await skip_pauses_until(lambda: store.depth(events.lane).pending == 0, pump, clock)
    assert store.dead_letters(events.lane) == [(events.make_record(1), "ambiguous_answer", "HTTP 502: bad gateway")]
    assert store.depth(events.lane).delivered == 1
