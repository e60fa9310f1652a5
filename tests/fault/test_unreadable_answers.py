"""Answers of the upstream that are long, encoded, or cannot be read whole: nothing that it refused
counts as delivered, nothing is lost, and nothing is sent again beyond the retry.

A real spool, pump and exporter; the upstream on a socket knows its records by id, and repeats its
first answer to an idempotency key. Pauses are skipped by a clock that the test moves.
"""

import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import orjson
import pytest

from exporters.base import Retry
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.devices import SCOPES, DeviceAnswer, DeviceCall, DeviceCalls
from exporters.cost_service.doubts import SAME_KEY_TRIES
from exporters.cost_service.lanes import AI_TELEMETRY_SCOPE, EVENTS_SCOPE, AiTelemetryExporter, UsageEventsExporter
from exporters.cost_service.unit_cost import MANAGE_SCOPE, READ_SCOPE, UnitCostExporter, UnitCostSettings
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.pump import BatchLimits
from exporters.secret import Secret
from spool.record import AI_TELEMETRY, UNIT_COST, USAGE_EVENTS
from tests.support.durable_spool import DurableSpool
from tests.support.lane_runs import is_held_for_good, running_pump, skip_pauses_until
from tests.support.manual_clock import ManualClock
from tests.support.spool_rig import assert_balanced
from tests.support.unit_streams import UnitRig, metered, place
from tests.support.upstream import Reply, Seen, Upstream, running_upstream

REASON_BYTES = 1156
JSON = {"Content-Type": "application/json"}
SCOPES_ALL = {AI_TELEMETRY_SCOPE, EVENTS_SCOPE, MANAGE_SCOPE, READ_SCOPE, *SCOPES.values()}


Shape = Callable[[bytes], Reply]
"""How a whole JSON answer travels."""


def as_json(body: bytes) -> Reply:
    return Reply(202, headers=JSON, body=body)


def encoded(coding: str, body: bytes) -> Reply:
    return Reply(202, headers=JSON | {"Content-Encoding": coding}, body=body)


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


WHOLE: dict[str, Shape] = {
    "plain": as_json,
    "without a content type": lambda body: Reply(202, body=body),
    "text/plain": lambda body: Reply(202, headers={"Content-Type": "text/plain"}, body=body),
    "blank before": lambda body: as_json(b"\r\n \t" + body),
    "BOM": lambda body: as_json(b"\xef\xbb\xbf" + body),
    "gzip": lambda body: encoded("gzip", gzip.compress(body)),
    "x-gzip": lambda body: encoded("x-gzip", gzip.compress(body)),
    "gzip of two members": lambda body: encoded("gzip", gzip.compress(body[:100]) + gzip.compress(body[100:])),
    "deflate": lambda body: encoded("deflate", zlib.compress(body)),
    "raw deflate": lambda body: encoded("deflate", raw_deflate(body)),
    "gzip twice": lambda body: encoded("gzip, gzip", gzip.compress(gzip.compress(body))),
    "identity": lambda body: encoded("identity", body),
    "BOM in gzip": lambda body: encoded("gzip", gzip.compress(b"\xef\xbb\xbf" + body)),
    "UTF-16 with BOM": lambda body: as_json(body.decode().encode("utf-16")),
    "UTF-16, declared": lambda body: Reply(
        202, headers={"Content-Type": "application/json; charset=UTF-16LE"}, body=body.decode().encode("utf-16-le")
    ),
    "UTF-16 declared, UTF-8 sent": lambda body: Reply(
        202, headers={"Content-Type": "application/json; charset=utf-16"}, body=body
    ),
    "Latin-1": lambda body: Reply(
        202,
        headers={"Content-Type": "application/json; charset=iso-8859-1"},
        body=body.replace(b"such", "sûch".encode("latin-1")),
    ),
    "Latin-1, undeclared": lambda body: as_json(body.replace(b"such", "sûch".encode("latin-1"))),
    "BOM, Latin-1 inside": lambda body: Reply(
        202,
        headers={"Content-Type": "application/json; charset=iso-8859-1"},
        body=b"\xef\xbb\xbf" + body.replace(b"such", "sûch".encode("latin-1")),
    ),
    "half an emoji": lambda body: as_json(body.replace(b"such", rb"such \ud83d")),
    "a raw line break": lambda body: as_json(body.replace(b"such", b"su\nch")),
    "not a number": lambda body: as_json(body.replace(b'{"accepted"', b'{"cost":NaN,"accepted"')),
    "an escaped name": lambda body: as_json(body.replace(b'"rejected"', rb'"rej\u0065cted"')),
}
UNREADABLE: dict[str, Shape] = {
    "cut": lambda body: as_json(body[: len(body) // 2]),
    "cut, without a content type": lambda body: Reply(202, body=body[: len(body) // 2]),
    "cut, in an array": lambda body: Reply(202, body=b"[" + body[: len(body) // 2]),
    "cut to a word": lambda body: as_json(b"acce"),
    "damaged": lambda body: as_json(body.replace(b'":', b'"\x00', 1)),
    "cut by the connection": lambda body: Reply(202, headers=JSON, body=body[: len(body) // 2], reset="mid_body"),
    "nothing but its length": lambda body: Reply(202, headers=JSON, body=b"", reset="mid_body"),
    "cut gzip": lambda body: encoded("gzip", gzip.compress(body)[:-40]),
    "gzip of no bytes yet": lambda body: encoded("gzip", gzip.compress(body)[:12]),
    "gzip without its end": lambda body: encoded("gzip", gzip.compress(body)[:-8]),
    "broken gzip": lambda body: encoded("gzip", gzip.compress(body)[:40] + b"broken" + gzip.compress(body)[46:]),
    "gzip by name only": lambda body: encoded("gzip", body),
    "cut deflate": lambda body: encoded("deflate", zlib.compress(body)[:-40]),
    "unknown coding": lambda body: encoded("br", b"\x8b\x04\x80" + body),
    "cut, with a BOM": lambda body: Reply(202, body=b"\xef\xbb\xbf" + body[: len(body) // 2]),
    "cut UTF-16": lambda body: as_json(body.decode().encode("utf-16")[: len(body)]),
    "nested beyond reading": lambda body: as_json(b"[" * 20_000 + b"]" * 20_000),
    "longer than any answer": lambda body: as_json(body[:-1] + b" " * 32 * 1024 * 1024 + b"}"),
    "longer than any answer, packed": lambda body: encoded(
        "gzip", gzip.compress(body[:-1] + b" " * 32 * 1024 * 1024 + b"}")
    ),
}


def record(number: int) -> bytes:
    return orjson.dumps({"schema": "inference/1", "record_id": f"{number:032x}", "kind": "call"})


def numbers_in(seen: Seen) -> list[int]:
    return [int(each["record_id"], 16) for each in orjson.loads(seen.body)["records"]]


def rejection(index: int, size_bytes: int = 0) -> dict[str, object]:
    entry: dict[str, object] = {"index": index, "code": "invalid_model", "message": "no such model"}
    entry["input"] = "x" * max(0, size_bytes - len(orjson.dumps(entry | {"input": ""})))
    return entry


class Service:
    """Takes each record once, refuses some, and answers in the shape that *shaped* gives."""

    def __init__(self, refuses: Callable[[int], bool], shaped: Callable[[int, int], Shape]) -> None:
        """*shaped* states the shape of an answer by how many requests came before and how
        many records it is about.
        """
        self.refuses = refuses
        self.shaped = shaped
        self.reason_bytes = 0
        self.taken: list[int] = []
        """Each record once, however often it came."""
        self.came: list[int] = []
        self._answers: dict[str, bytes] = {}
        self._requests = 0

    def respond(self, seen: Seen) -> Reply:
        numbers = numbers_in(seen)
        self.came += numbers
        body = self._answers.setdefault(seen.headers["Idempotency-Key"], self._answer(numbers))
        self.taken += [number for number in dict.fromkeys(numbers) if not self.refuses(number)]
        self.taken = list(dict.fromkeys(self.taken))
        self._requests += 1
        return self.shaped(self._requests - 1, len(numbers))(body)

    def _answer(self, numbers: list[int]) -> bytes:
        rejected = [rejection(index, self.reason_bytes) for index, number in enumerate(numbers) if self.refuses(number)]
        return json.dumps({"accepted": len(numbers) - len(rejected), "rejected": rejected}).encode()


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
async def client(upstream: Upstream) -> AsyncIterator[CostServiceClient]:
    keyring = Keyring([KeySetting("all", Secret("key-4711"), SCOPES_ALL.__contains__)])
    made = CostServiceClient(Endpoint(upstream.base_url), keyring, "gw-1")
    yield made
    await made.close()


class Run:
    """The lane of AI records, from full to empty."""

    def __init__(self, store: DurableSpool, upstream: Upstream, client: CostServiceClient, clock: ManualClock) -> None:
        self.store = store
        self.upstream = upstream
        self._client = client
        self._clock = clock

    async def drain(self, count: int, service: Service) -> None:
        self.upstream.respond = service.respond
        await self.store.put(AI_TELEMETRY, [record(number) for number in range(count)])
        async with running_pump(self.store, AiTelemetryExporter(self._client), self._clock) as pump:
            await skip_pauses_until(lambda: self.store.depth(AI_TELEMETRY).pending == 0, pump, self._clock)
        self._assert_true(count, service)

    def _assert_true(self, count: int, service: Service) -> None:
        refused = [number for number in range(count) if service.refuses(number)]
        depth = self.store.depth(AI_TELEMETRY)
        assert depth.delivered == len(service.taken), "what counts as delivered is what the upstream has"
        assert sorted(service.taken) == [number for number in range(count) if not service.refuses(number)]
        dead = self.store.dead_letters(AI_TELEMETRY)
        assert sorted(each[0] for each in dead) == sorted(map(record, refused))
        assert {each[1] for each in dead} <= {"invalid_model"}


@pytest.fixture
def run(store: DurableSpool, upstream: Upstream, client: CostServiceClient, clock: ManualClock) -> Run:
    return Run(store, upstream, client, clock)


async def test_a_thousand_refusals_of_more_than_a_mebibyte_are_read_to_their_end(run: Run) -> None:
    service = Service(lambda number: True, lambda came, records: as_json)
    service.reason_bytes = REASON_BYTES
    await run.drain(1000, service)
    assert len(run.upstream.seen) == 1
    assert run.store.depth(AI_TELEMETRY).dead_lettered == 1000


@pytest.mark.parametrize("shape", WHOLE)
async def test_a_whole_answer_is_read_however_it_travels(run: Run, shape: str) -> None:
    service = Service(lambda number: number % 3 == 0, lambda came, records: WHOLE[shape])
    await run.drain(30, service)
    assert len(run.upstream.seen) == 1


@pytest.mark.parametrize("shape", UNREADABLE)
async def test_an_answer_that_cannot_be_read_whole_is_asked_for_again_under_the_same_key(run: Run, shape: str) -> None:
    service = Service(lambda number: number % 3 == 0, lambda came, records: as_json if came else UNREADABLE[shape])
    await run.drain(30, service)
    first, second = run.upstream.seen
    assert first.body == second.body
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


@pytest.mark.parametrize("shape", UNREADABLE)
async def test_a_batch_whose_answer_is_never_whole_is_halved_until_it_is(run: Run, shape: str) -> None:
    service = Service(
        lambda number: number in {3, 17}, lambda came, records: UNREADABLE[shape] if records > 8 else as_json
    )
    await run.drain(32, service)
    assert len(run.upstream.seen) == 2 * (1 + 2) + 4, "each size is tried twice before it is halved"
    assert max(service.came.count(number) for number in range(32)) == 5


async def test_reasons_beyond_the_bound_of_a_batch_are_read_of_its_halves(run: Run) -> None:
    service = Service(lambda number: number % 2 == 0, lambda came, records: as_json)
    service.reason_bytes = 24 * 1024
    await run.drain(64, service)
    assert len(run.upstream.seen) > 1
    assert run.store.depth(AI_TELEMETRY).dead_lettered == 32


@pytest.mark.parametrize(
    "reply",
    [
        Reply(202),
        Reply(202, headers=JSON),
        Reply(202, headers=JSON, body=b" \r\n"),
        Reply(204),
        Reply(200, headers={"Content-Encoding": "gzip"}),
    ],
)
async def test_no_body_takes_the_whole_batch(run: Run, reply: Reply) -> None:
    service = Service(lambda number: False, lambda came, records: lambda body: reply)
    await run.drain(30, service)
    assert len(run.upstream.seen) == 1


# ---- the other lanes


@pytest.mark.parametrize("shape", UNREADABLE)
async def test_an_event_that_is_refused_in_an_answer_not_read_whole_is_no_delivery(
    store: DurableSpool, upstream: Upstream, client: CostServiceClient, clock: ManualClock, shape: str
) -> None:
    refusal = orjson.dumps({"accepted": 0, "rejected": [rejection(0)], "trace": "t" * 200})
    upstream.script.extend([UNREADABLE[shape](refusal)] * 3 + [as_json(refusal)])
    event = orjson.dumps({"title": "t", "source": "s", "metadata": {"event_id": "evt-1"}})
    await store.put(USAGE_EVENTS, [event])
    exporter = UsageEventsExporter(client, repeatable=True)
    async with running_pump(store, exporter, clock, lane=USAGE_EVENTS, limits=BatchLimits(max_records=1)) as pump:
        await skip_pauses_until(lambda: store.depth(USAGE_EVENTS).pending == 0, pump, clock)
    assert [dead[1] for dead in store.dead_letters(USAGE_EVENTS)] == ["invalid_model"]
    assert store.depth(USAGE_EVENTS).delivered == 0
    assert len({seen.headers["Idempotency-Key"] for seen in upstream.seen}) == 1
    assert len({seen.body for seen in upstream.seen}) == 1


async def test_an_event_that_cannot_be_repeated_is_set_aside_when_no_answer_to_it_can_be_read(
    store: DurableSpool, upstream: Upstream, client: CostServiceClient, clock: ManualClock
) -> None:
    upstream.respond = lambda seen: as_json(b'{"accepted":')
    await store.put(USAGE_EVENTS, [orjson.dumps({"title": "t", "source": "s"})])
    exporter = UsageEventsExporter(client, repeatable=False)
    async with running_pump(store, exporter, clock, lane=USAGE_EVENTS, limits=BatchLimits(max_records=1)) as pump:
        await skip_pauses_until(lambda: store.depth(USAGE_EVENTS).pending == 0, pump, clock)
    assert [dead[1] for dead in store.dead_letters(USAGE_EVENTS)] == ["ambiguous_answer"]
    assert len(upstream.seen) == 1 + SAME_KEY_TRIES
    assert len({seen.headers["Idempotency-Key"] for seen in upstream.seen}) == 1


async def unit_cost_run(
    rig: UnitRig, client: CostServiceClient, clock: ManualClock, *, repeatable_sums: bool = False
) -> None:
    settings = UnitCostSettings(rig.lane.learn_base, rig.lane.block, repeatable_sums=repeatable_sums)
    exporter = UnitCostExporter(client, settings, clock)
    async with running_pump(rig.lane, exporter, clock, lane=UNIT_COST, limits=BatchLimits(max_records=3000)) as pump:
        await skip_pauses_until(lambda: rig.spool.depth(UNIT_COST).pending == 0, pump, clock)


async def test_totals_whose_answer_is_never_whole_are_halved_and_the_refused_ones_found(
    tmp_path: Path, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    def respond(seen: Seen) -> Reply:
        if seen.method == "GET":
            return Reply(404, body=b'{"error":{"type":"stream_unknown","message":"no stream has this name"}}')
        elements = [each["element_name"] for each in orjson.loads(seen.body)["records"]]
        rejected = [rejection(index) for index, element in enumerate(elements) if element == "e5"]
        body = orjson.dumps({"accepted": len(elements) - len(rejected), "rejected": rejected})
        return as_json(body if len(elements) <= 4 else body[:-1])

    rig = UnitRig.in_folder(tmp_path / "data", can_read=True)
    upstream.respond = respond
    await rig.keep(*(metered(1, place(f"e{number}")) for number in range(16)))
    await unit_cost_run(rig, client, clock)
    depth = rig.spool.depth(UNIT_COST)
    await rig.close()
    assert (depth.delivered, depth.dead_lettered) == (15, 1)


@pytest.mark.parametrize("repeatable_sums", [False, True])
async def test_a_batch_of_sums_is_never_halved(
    tmp_path: Path, client: CostServiceClient, upstream: Upstream, clock: ManualClock, *, repeatable_sums: bool
) -> None:
    """A half would go under an id of its own, and its sums be added twice."""
    rig = UnitRig.in_folder(tmp_path / "data", ships="sum")
    unreadable = as_json(b'{"accepted":3,"rejected":[')
    upstream.script.extend([unreadable] * SAME_KEY_TRIES)
    upstream.respond = lambda seen: as_json(b'{"accepted":3,"rejected":[]}')
    await rig.keep(*(metered(1, place(element)) for element in "abc"))
    await unit_cost_run(rig, client, clock, repeatable_sums=repeatable_sums)
    depth = rig.spool.depth(UNIT_COST)
    await rig.close()
    assert (depth.delivered, depth.dead_lettered) == (3, 0)
    assert len({seen.body for seen in upstream.seen}) == 1
    assert len({seen.headers["Idempotency-Key"] for seen in upstream.seen}) == 1


async def test_sums_whose_answer_is_never_whole_are_set_aside_and_not_sent_again(
    tmp_path: Path, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    rig = UnitRig.in_folder(tmp_path / "data", ships="sum")
    upstream.respond = lambda seen: as_json(b'{"accepted":3,"rejected":[')
    await rig.keep(*(metered(1, place(element)) for element in "abc"))
    await unit_cost_run(rig, client, clock)
    depth = rig.spool.depth(UNIT_COST)
    await rig.close()
    assert (depth.delivered, depth.dead_lettered) == (0, 3)
    assert len(upstream.seen) == 1 + SAME_KEY_TRIES


@pytest.mark.parametrize("repeatable_sums", [False, True])
async def test_sums_whose_answer_is_not_understood_hold_the_lane_whole_and_under_one_key(
    tmp_path: Path, client: CostServiceClient, upstream: Upstream, clock: ManualClock, *, repeatable_sums: bool
) -> None:
    """Also after an answered failure: that may come from someone who knows no keys."""
    rig = UnitRig.in_folder(tmp_path / "data", ships="sum")
    upstream.script.extend([as_json(b'{"accepted":0}')] * 6 + [Reply(429)])
    upstream.respond = lambda seen: as_json(b'{"accepted":3,"rejected":[]}')
    await rig.keep(*(metered(1, place(element)) for element in "abc"))
    settings = UnitCostSettings(rig.lane.learn_base, rig.lane.block, repeatable_sums=repeatable_sums)
    exporter = UnitCostExporter(client, settings, clock)
    async with running_pump(rig.lane, exporter, clock, lane=UNIT_COST, limits=BatchLimits(max_records=3000)) as pump:
        await skip_pauses_until(lambda: is_held_for_good(pump), pump, clock)
        assert "it names 0 accepted and 0 rejected of 3 records" in (pump.reason or "")
        await skip_pauses_until(lambda: rig.spool.depth(UNIT_COST).pending == 0, pump, clock)
    depth = rig.spool.depth(UNIT_COST)
    await rig.close()
    assert (depth.delivered, depth.dead_lettered, len(upstream.seen)) == (3, 0, 8)
    assert len({seen.body for seen in upstream.seen}) == 1
    keys = [seen.headers["Idempotency-Key"] for seen in upstream.seen]
    assert len(set(keys)) == (2 if repeatable_sums else 1)


async def test_streams_whose_answers_are_not_understood_are_probed_and_go_on_when_one_is(
    tmp_path: Path, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    """A store of streams has no one order: another stream may be what is probed."""
    rig = UnitRig.in_folder(tmp_path / "data", ships="sum")
    upstream.respond = lambda seen: as_json(b'{"accepted":0}')
    for stream in ("one", "two", "three"):
        await rig.keep(*(metered(1, place(element), stream=stream) for element in "abcd"))
    exporter = UnitCostExporter(client, UnitCostSettings(rig.lane.learn_base, rig.lane.block), clock)
    async with running_pump(rig.lane, exporter, clock, lane=UNIT_COST, limits=BatchLimits(max_records=3000)) as pump:
        await skip_pauses_until(lambda: is_held_for_good(pump), pump, clock)
        asked, began_s = len(upstream.seen), clock.now_s
        await skip_pauses_until(lambda: clock.now_s - began_s > 86_400, pump, clock)
        assert len(upstream.seen) - asked < 110, "one request a probe, at most every quarter of an hour"
        assert rig.spool.depth(UNIT_COST).pending == 12
        upstream.respond = lambda seen: as_json(b'{"accepted":4}')
        await skip_pauses_until(lambda: rig.spool.depth(UNIT_COST).pending == 0, pump, clock)
    depth = rig.spool.depth(UNIT_COST)
    await rig.close()
    assert (depth.delivered, depth.dead_lettered) == (12, 0)


@pytest.mark.parametrize("repeatable", [False, True])
async def test_events_whose_answers_are_not_understood_wait_under_their_keys_in_order(
    store: DurableSpool, upstream: Upstream, client: CostServiceClient, clock: ManualClock, *, repeatable: bool
) -> None:
    upstream.respond = lambda seen: as_json(b'{"accepted":0}')
    events = [{"title": "t", "source": "s", "metadata": {"event_id": f"evt-{n}"}} for n in range(20)]
    await store.put(USAGE_EVENTS, [orjson.dumps(event) for event in events])
    exporter, limits = UsageEventsExporter(client, repeatable=repeatable), BatchLimits(max_records=1, in_flight=8)
    async with running_pump(store, exporter, clock, lane=USAGE_EVENTS, limits=limits) as pump:
        await skip_pauses_until(lambda: is_held_for_good(pump), pump, clock)
        asked = len(upstream.seen)
        assert asked <= 8 + 2, "those under way, and two of them again"
        assert store.depth(USAGE_EVENTS).pending == 20
        upstream.respond = lambda seen: as_json(b'{"accepted":1,"rejected":[]}')
        await skip_pauses_until(lambda: store.depth(USAGE_EVENTS).pending == 0, pump, clock)
    assert store.depth(USAGE_EVENTS).delivered == 20
    assert len({seen.headers["Idempotency-Key"] for seen in upstream.seen}) == 20


async def test_a_page_of_totals_that_is_not_whole_is_read_again_and_not_taken_for_empty(
    tmp_path: Path, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    held = {"granularity": "HOURLY", "filter": {"custom:Product": ["chat"]}, "timestamp": "2026-01-05T10:00:00Z"}
    page = orjson.dumps({"records": [held | {"element_name": "acme", "value": "100"}], "pagination": {}})
    rig = UnitRig.in_folder(tmp_path / "data", can_read=True)
    upstream.script.extend(
        [as_json(page[:-1]), encoded("gzip", gzip.compress(page)[:-9]), as_json(b"\xef\xbb\xbf" + page)]
    )
    upstream.respond = lambda seen: Reply(200)
    await rig.keep(metered(1))
    await unit_cost_run(rig, client, clock)
    await rig.close()
    assert [seen.method for seen in upstream.seen] == ["GET", "GET", "GET", "POST"]
    assert orjson.loads(upstream.seen[-1].body)["records"][0]["value"] == "101"


@pytest.mark.parametrize("shape", UNREADABLE)
async def test_an_enrolment_whose_answer_is_not_whole_is_made_again_under_the_same_key(
    client: CostServiceClient, upstream: Upstream, shape: str
) -> None:
    blocked = orjson.dumps({"device_id": "theirs", "status": "blocked", "note": "n" * 200})
    upstream.script.extend([UNREADABLE[shape](blocked), as_json(b"\xef\xbb\xbf" + blocked)])
    call = DeviceCall("enroll", "dev-1", b'{"device_id":"dev-1"}', "enr-1")
    first = await DeviceCalls(client).send(call)
    assert isinstance(first, Retry)
    assert (first.answered, first.may_be_there) == (False, True)
    assert await DeviceCalls(client).send(call) == DeviceAnswer("enroll", "dev-1", "blocked", adopted_id="theirs")
    assert [seen.headers["Idempotency-Key"] for seen in upstream.seen] == ["enr-1", "enr-1"]


@pytest.mark.parametrize("shape", UNREADABLE)
async def test_a_heartbeat_whose_answer_is_not_whole_is_sent_again(
    client: CostServiceClient, upstream: Upstream, shape: str
) -> None:
    blocked = orjson.dumps({"status": "blocked", "note": list(range(100))})
    upstream.script.append(UNREADABLE[shape](blocked))
    reply = await DeviceCalls(client).send(DeviceCall("heartbeat", "dev-1", b"{}"))
    assert isinstance(reply, Retry)
    assert not reply.answered
