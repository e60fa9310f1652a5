"""The unit-cost lane over a real spool, pump and socket: paths, order, what a delete, a read and an
ambiguous answer come to.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from exporters.base import Delivered, Retry
from exporters.clock import SystemClock
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.doubts import SAME_KEY_TRIES
from exporters.cost_service.preset import preset_with
from exporters.cost_service.unit_cost import UnitCostExporter, UnitCostSettings
from exporters.http_client import Endpoint
from exporters.keyring import Keyring
from exporters.pump import BatchLimits
from spool.record import UNIT_COST, Batch
from spool.unit_cost import TotalKey
from tests.support.lane_runs import running_pump, skip_pauses_until, until
from tests.support.manual_clock import ManualClock
from tests.support.unit_streams import SHAPE, UnitRig, metered, place
from tests.support.upstream import Reply, Seen, Upstream

BASE = "/unit-cost/v1/telemetry"
LIMITS = BatchLimits(max_records=3000)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[UnitRig]:
    made = UnitRig.in_folder(tmp_path / "data", can_read=True)
    yield made
    await made.close()


@pytest.fixture
async def summing(tmp_path: Path) -> AsyncIterator[UnitRig]:
    made = UnitRig.in_folder(tmp_path / "data", ships="sum")
    yield made
    await made.close()


def exporter_of(rig: UnitRig, client: CostServiceClient, clock: ManualClock, **settings: object) -> UnitCostExporter:
    return UnitCostExporter(client, UnitCostSettings(rig.lane.learn_base, rig.lane.block, **settings), clock)  # type: ignore[arg-type]


async def ship(rig: UnitRig, exporter: UnitCostExporter, clock: ManualClock) -> None:
    async with running_pump(rig.lane, exporter, clock, lane=UNIT_COST, limits=LIMITS) as pump:
        await skip_pauses_until(lambda: rig.spool.depth(UNIT_COST).pending == 0, pump, clock)


NO_STREAM = Reply(404, body=b'{"error":{"type":"stream_unknown","message":"no stream has this name"}}')


def nothing_there(seen: Seen) -> Reply:
    return NO_STREAM if seen.method == "GET" else Reply(200)


def page_of(*records: dict[str, object], following: str | None = None) -> Reply:
    cursor = {"next_cursor": following}
    return Reply(200, body=orjson.dumps({"records": records, "pagination": {"cursor": cursor}}))


async def test_totals_travel_as_the_contract_has_them(
    rig: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    upstream.respond = nothing_there
    await rig.keep(metered("0.1"), metered("0.2"))
    await ship(rig, exporter_of(rig, client, clock), clock)
    read, sent = upstream.seen
    assert (read.method, read.path) == ("GET", f"{BASE}/tokens/records")
    assert (sent.method, sent.path) == ("POST", f"{BASE}/allocation/tokens/replace")
    assert orjson.loads(sent.body) == {
        "records": [
            {
                "timestamp": "2026-01-05T10:00:00Z",
                "granularity": "HOURLY",
                "element_name": "acme",
                "filter": {"custom:Product": ["chat"]},
                "value": "0.3",
            }
        ]
    }
    assert len(sent.headers["Idempotency-Key"]) == 32


async def test_a_delete_of_what_is_not_there_is_done(
    rig: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    upstream.respond = nothing_there
    await rig.keep(metered(1))
    await rig.keep(metered(operation="delete"))
    upstream.script.extend([NO_STREAM, Reply(400, body=b'{"error":{"type":"x","message":"The stream must exist"}}')])
    await ship(rig, exporter_of(rig, client, clock), clock)
    assert upstream.seen[-1].path == f"{BASE}/allocation/tokens/delete"
    assert b"value" not in upstream.seen[-1].body
    assert rig.spool.depth(UNIT_COST).delivered == 2


async def test_what_the_upstream_holds_is_read_page_by_page_and_added_to(
    rig: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    held = {"granularity": "HOURLY", "filter": {"custom:Product": ["chat"]}, "timestamp": "2026-01-05T10:00:00.000Z"}
    upstream.script.extend(
        [
            page_of(held | {"element_name": "other", "value": "5"}, following="a+b"),
            Reply(503),
            page_of(held | {"element_name": "other", "value": "5"}, following="a+b"),
            page_of(held | {"element_name": "acme", "value": "100.5"}),
        ]
    )
    await rig.keep(metered(1))
    await ship(rig, exporter_of(rig, client, clock), clock)
    assert [seen.path for seen in upstream.seen[:4]] == [
        f"{BASE}/tokens/records",
        f"{BASE}/tokens/records?cursor=a%2Bb",
        f"{BASE}/tokens/records",
        f"{BASE}/tokens/records?cursor=a%2Bb",
    ]
    (record,) = orjson.loads(upstream.seen[-1].body)["records"]
    assert (record["element_name"], record["value"]) == ("acme", "101.5")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(403),
        Reply(400),
        Reply(405),
        Reply(200, body=b'{"items":[]}'),
        Reply(404, body=b'{"message":"Not Found"}'),
        page_of(following="the same for ever"),
        page_of({"timestamp": "2026-01-05", "granularity": "WEEKLY", "element_name": "acme", "filter": {}, "value": 1}),
        page_of({"timestamp": "2026-01-05", "granularity": "DAILY", "filter": {}, "value": 1}),
    ],
)
async def test_a_stream_that_cannot_be_read_begins_with_sums(
    rig: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock, reply: Reply
) -> None:
    upstream.respond = lambda seen: reply if seen.method == "GET" else Reply(200)
    await rig.keep(metered(1), metered(2, place(hour=1)))
    await ship(rig, exporter_of(rig, client, clock), clock)
    posted = [seen for seen in upstream.seen if seen.method == "POST"]
    assert sorted(seen.path.rpartition("/")[2] for seen in posted) == ["replace", "sum"]
    later = next(seen for seen in posted if seen.path.endswith("replace"))
    assert orjson.loads(later.body)["records"][0]["timestamp"] == "2026-01-05T11:00:00Z"


async def test_a_stream_in_whose_place_someone_else_answers_is_read_later(
    rig: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    """Begun with sums, it would go on with them after the login page is gone."""
    upstream.respond = lambda seen: Reply(200, body=b"<html>log in") if len(upstream.seen) < 4 else nothing_there(seen)
    await rig.keep(metered(1))
    async with running_pump(rig.lane, exporter_of(rig, client, clock), clock, lane=UNIT_COST, limits=LIMITS) as pump:
        await skip_pauses_until(lambda: pump.state == "held", pump, clock)
        assert "it is a web page" in (pump.reason or "")
        await skip_pauses_until(lambda: rig.spool.depth(UNIT_COST).pending == 0, pump, clock)
    assert [seen.method for seen in upstream.seen] == ["GET"] * 5 + ["POST"]
    assert upstream.seen[-1].path.endswith("replace")


async def test_an_ambiguous_answer_sets_a_whole_batch_of_sums_aside_and_sends_none_of_it_again(
    summing: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    await summing.keep(*(metered(1, place(element)) for element in "abc"))
    upstream.script.append(Reply(502, body=b"bad gateway"))
    await ship(summing, exporter_of(summing, client, clock), clock)
    assert len(upstream.seen) == 1, "nothing is sent again, whole or in halves"
    depth = summing.spool.depth(UNIT_COST)
    assert (depth.dead_lettered, depth.delivered) == (3, 0)


async def test_a_sum_goes_under_another_key_after_503_and_under_the_same_once_a_try_got_no_answer(
    summing: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    """What the silent try did is only known under its key; a 503, 429 or 403 that comes
    later states nothing of it.
    """
    await summing.keep(metered(1))
    upstream.script.extend([Reply(503), Reply(reset="after_reading"), Reply(503), Reply(403), Reply(429), Reply(200)])
    await ship(summing, exporter_of(summing, client, clock), clock)
    keys = [seen.headers["Idempotency-Key"] for seen in upstream.seen]
    assert keys[0] != keys[1]
    assert len(set(keys[1:])) == 1
    assert len({seen.body for seen in upstream.seen}) == 1
    assert summing.spool.depth(UNIT_COST).delivered == 1


async def test_a_sum_that_may_have_gone_out_before_a_kill_keeps_its_key(
    summing: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    await summing.keep(metered(1))
    assert (
        await exporter_of(summing, client, clock).send(await summing.frozen()) == Delivered()
    )  # and dies before the ack
    await summing.kill()
    upstream.script.extend([Reply(503), Reply(200)])
    await ship(summing, exporter_of(summing, client, clock), clock)
    assert len({seen.headers["Idempotency-Key"] for seen in upstream.seen}) == 1
    assert len(upstream.seen) == 3


async def test_a_sum_whose_key_is_refused_for_ever_after_silence_gets_through_under_another(
    summing: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    """An upstream that keeps its first answer to a key repeats an error that no one heard."""
    await summing.keep(metered(1), metered(1, place("other")))
    answers: dict[str, Reply] = {}
    upstream.script.append(Reply(reset="after_reading"))
    upstream.respond = lambda seen: answers.setdefault(
        seen.headers["Idempotency-Key"], Reply(200) if answers else Reply(429)
    )
    await ship(summing, exporter_of(summing, client, clock), clock)
    keys = [seen.headers["Idempotency-Key"] for seen in upstream.seen]
    assert keys == [keys[0]] * (2 + SAME_KEY_TRIES) + [keys[-1]]
    assert keys[0] != keys[-1]
    assert summing.spool.depth(UNIT_COST).delivered == 2


async def test_a_try_that_never_got_to_the_target_leaves_no_doubt(
    summing: UnitRig, upstream: Upstream, client: CostServiceClient, keyring: Keyring, clock: ManualClock
) -> None:
    nobody = CostServiceClient(Endpoint("http://127.0.0.1:9"), keyring, "gw-7f3a")
    exporter = exporter_of(summing, nobody, clock)
    await summing.keep(metered(1))
    refused = await exporter.send(batch := await summing.frozen())
    assert refused == Retry(refused.reason, answered=False)  # type: ignore[union-attr]  # it is a Retry
    await nobody.close()
    await summing.lane.release(batch, answered=False)
    exporter._client = client
    upstream.script.append(Reply(503))
    answered = await exporter.send(await summing.frozen())
    assert isinstance(answered, Retry)
    assert answered.answered
    summing.lane.forget_leases(UNIT_COST)


async def test_what_the_upstream_says_in_its_own_way_is_found_at_its_place(
    rig: UnitRig,
    client: CostServiceClient,
    upstream: Upstream,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A place that is not recognised would be taken for empty, and what it holds be replaced."""
    told = {"granularity": "HOURLY", "filter": {"custom:Product": ["chat"]}}
    upstream.script.append(
        page_of(
            told | {"timestamp": "2026-01-05 10:20:00", "element_name": "acme", "value": 100},
            told | {"timestamp": "2026-01-05T12:00:00+02:00", "element-name": "acme", "value": "20"},
        )
    )
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        await rig.keep(metered(3))
        await ship(rig, exporter_of(rig, client, clock), clock)
    finally:
        monkeypatch.undo()
        time.tzset()
    (record,) = orjson.loads(upstream.seen[-1].body)["records"]
    assert (record["timestamp"], record["value"]) == ("2026-01-05T10:00:00Z", "123")


async def test_sums_are_sent_again_where_the_operator_says_so(
    summing: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    await summing.keep(metered(1))
    upstream.script.append(Reply(500))
    await ship(summing, exporter_of(summing, client, clock, repeatable_sums=True), clock)
    assert len(upstream.seen) == 2


async def test_a_bad_record_is_found_by_halves_and_the_others_arrive(
    rig: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    def respond(seen: Seen) -> Reply:
        if seen.method == "GET":
            return NO_STREAM
        bad = b'"e7"' in seen.body
        return Reply(400, body=b'{"error":{"type":"unrecognized_filter","message":"m"}}') if bad else Reply(200)

    upstream.respond = respond
    await rig.keep(*(metered(1, place(f"e{number}")) for number in range(16)))
    await ship(rig, exporter_of(rig, client, clock), clock)
    depth = rig.spool.depth(UNIT_COST)
    assert (depth.delivered, depth.dead_lettered) == (15, 1)


async def test_a_stream_has_one_request_under_way_while_others_go_on(
    rig: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    upstream.respond = nothing_there
    await rig.keep(metered(1), metered(1, place(hour=1)))
    await rig.keep(metered(1, stream="second"))
    await ship(rig, exporter_of(rig, client, clock), clock)
    open_first = Reply(200, until=(gate := asyncio.Event()))
    upstream.respond = lambda seen: open_first if "/tokens/" in seen.path else Reply(200)
    before = len(upstream.seen)
    await rig.keep(metered(1))
    async with running_pump(rig.lane, exporter_of(rig, client, clock), clock, lane=UNIT_COST, limits=LIMITS):
        await until(lambda: len(upstream.seen) == before + 1)
        await rig.keep(metered(5))
        await rig.keep(metered(1, stream="second"))
        await until(lambda: len(upstream.seen) == before + 2)
        assert upstream.seen[-1].path == f"{BASE}/allocation/second/replace"
        gate.set()
        await until(lambda: rig.spool.depth(UNIT_COST).pending == 0)
    assert [seen.path.split("/")[5] for seen in upstream.seen[before:]].count("tokens") == 2
    assert orjson.loads(upstream.seen[-1].body)["records"][0]["value"] == "7"


async def test_more_records_than_the_rate_allows_wait(
    rig: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporters.cost_service.unit_cost.RECORDS_BURST", 1)
    exporter = exporter_of(rig, client, clock, records_per_s=10)
    items = tuple(
        orjson.dumps({"stream": "s", "kind": "metric", "operation": "replace", "record": {"n": n}}) for n in range(21)
    )
    began_s = clock.now_s
    sending = asyncio.ensure_future(exporter.send(Batch("b", UNIT_COST, 0, 0, "", items)))
    await until(lambda: clock.next_due_s() is not None)
    assert not upstream.seen
    clock.advance(2.0)
    assert isinstance(await sending, Delivered)
    assert clock.now_s - began_s == 2.0


async def test_a_suffix_and_other_names_are_the_operators(rig: UnitRig, upstream: Upstream, keyring: Keyring) -> None:
    preset = preset_with(
        "document", {"unit_cost_element": "element-name", "unit_cost_records": "/t/{kind}/{stream}/{operation}"}
    )
    client = CostServiceClient(Endpoint(upstream.base_url), keyring, "gw", preset=preset)
    exporter = UnitCostExporter(
        client, UnitCostSettings(rig.lane.learn_base, rig.lane.block, suffix="-a"), SystemClock()
    )
    await rig.keep(metered(1))
    await rig.lane.learn_base("tokens", [])
    assert isinstance(await exporter.send(await rig.frozen()), Delivered)
    await client.close()
    assert upstream.seen[0].path == "/t/allocation/tokens-a/replace"
    assert b'"element-name":"acme"' in upstream.seen[0].body
    rig.lane.forget_leases(UNIT_COST)


async def test_without_an_upstream_nothing_is_decided(rig: UnitRig, keyring: Keyring) -> None:
    client = CostServiceClient(Endpoint("http://127.0.0.1:9"), keyring, "gw")
    exporter = UnitCostExporter(client, UnitCostSettings(rig.lane.learn_base, rig.lane.block), SystemClock())
    await rig.keep(metered(1))
    batch = await rig.frozen()
    assert isinstance(await exporter.send(batch), Retry)
    await client.close()
    await rig.lane.release(batch, answered=False)
    assert (await rig.lane.streams())[0].whole_from_ms is None


def test_a_place_is_wide_when_it_leaves_something_out() -> None:
    assert TotalKey(0, "", "{}").is_wide("allocation")
    assert not TotalKey(0, "", "{}").is_wide("metric")
    assert TotalKey(0, "", "").is_wide("metric")
    assert SHAPE.kind == "allocation"


SPOKEN = {"kind": "allocation", "granularity": "HOURLY", "dimensions": ["custom:Product"]}


async def test_a_stream_is_made_and_deleted_as_the_contract_has_it(
    summing: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    await summing.store.create_stream("tokens", SHAPE)
    await ship(summing, exporter_of(summing, client, clock), clock)
    await summing.keep(metered(1))
    await summing.store.delete_stream("tokens", None, forced=True)
    upstream.script.append(NO_STREAM)
    await ship(summing, exporter_of(summing, client, clock, suffix="-a"), clock)
    made, deleted = upstream.seen
    assert (made.method, made.path, orjson.loads(made.body)) == ("PUT", f"{BASE}/tokens", SPOKEN)
    assert (deleted.method, deleted.path) == ("DELETE", f"{BASE}/tokens-a?force=true")
    assert all(len(seen.headers["Idempotency-Key"]) == 32 for seen in upstream.seen)
    assert summing.spool.depth(UNIT_COST).delivered == 3


async def test_an_upstream_that_makes_no_streams_gets_the_records_alone(
    summing: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    upstream.respond = lambda seen: Reply(405 if seen.method == "PUT" else 200)
    await summing.store.create_stream("tokens", SHAPE)
    await ship(summing, exporter_of(summing, client, clock), clock)
    await summing.keep(metered(1))
    await ship(summing, exporter_of(summing, client, clock), clock)
    assert [seen.method for seen in upstream.seen] == ["PUT", "POST"]
    assert summing.spool.depth(UNIT_COST).delivered == 2


BLOCKED = Reply(409, {"Retry-After": "90"}, b'{"error":{"type":"stream_blocked","message":"the name is blocked"}}')


async def test_a_blocked_name_delays_its_stream_alone_and_loses_nothing(
    summing: UnitRig, client: CostServiceClient, upstream: Upstream, clock: ManualClock
) -> None:
    await summing.keep(metered(1))
    upstream.respond = lambda seen: BLOCKED if "tokens" in seen.path else Reply(200)
    async with running_pump(summing.lane, exporter_of(summing, client, clock), clock, lane=UNIT_COST, limits=LIMITS):
        await until(lambda: len(upstream.seen) == 1)
        await summing.keep(metered(2, stream="another"))
        await until(lambda: summing.spool.depth(UNIT_COST).delivered == 1)
    assert [seen.path.rsplit("/", 2)[1] for seen in upstream.seen] == ["tokens", "another"]
    assert summing.spool.depth(UNIT_COST).dead_lettered == 0
    upstream.respond = lambda _: Reply(200)
    summing.clock.now_ms += 90_000
    await ship(summing, exporter_of(summing, client, clock), clock)
    assert summing.spool.depth(UNIT_COST).delivered == 2
