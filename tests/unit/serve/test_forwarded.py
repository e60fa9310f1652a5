"""What another gateway is answered on the service's own paths, over a real
receiver, spool and devices.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
import pytest
from multidict import CIMultiDict

from exporters.accounting import Sent, accounted
from exporters.cost_service.unit_cost import is_gone
from exporters.http_client import HttpAnswer
from gateway.app import Gateway
from gateway.common.contract.scopes import Fixed
from gateway.config.model import Config
from spool.record import AI_TELEMETRY
from tests.support.keys_beside import BY

ANY_PORT = "127.0.0.1:0"
RECORDS, EVENTS = "/v2/ai-telemetry/records", "/events/v1/events"
SUM = "/unit-cost/v1/telemetry/metric/answers/sum"
DEVICES = "/v2/ai-control-plane/devices"
TODAY = {"records": [{"timestamp": "2026-01-05", "value": "3"}]}


class Told(NamedTuple):
    status: int
    json: Any
    body: bytes


class Forwarder:
    def __init__(self, gateway: Gateway, session: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self._session = session

    async def ask(
        self, path: str, content: object = None, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> Told:
        sent = {"Content-Type": "application/json", **(headers or {})}
        body = None if content is None else orjson.dumps(content)
        url = f"http://{self.gateway.ports.http}{path}"
        async with self._session.request(method, url, data=body, headers=sent) as answer:
            text = await answer.read()
            return Told(answer.status, orjson.loads(text) if text else None, text)

    async def forward(self, *records: object) -> Told:
        return await self.ask(
            RECORDS, {"schema": "ai-telemetry/1", "batch_id": "b", "gateway_id": "g", "records": records}
        )

    async def kept(self) -> list[dict[str, Any]]:
        """The records that it would send on."""
        await self.gateway.settler.settle_due(1 << 60)
        self.gateway.spool.settings = replace(self.gateway.spool.settings, linger_ms=0)
        batch = await self.gateway.spool.freeze(AI_TELEMETRY, max_records=100, max_bytes=1 << 20)
        return [] if batch is None else [orjson.loads(record) for record in batch.records]

    def outcomes(self, lane: str = AI_TELEMETRY) -> tuple[int, int, int]:
        """What the lane kept, and the edge's duplicates and rejections."""
        edge = self.gateway.spool.edge()
        return self.gateway.spool.depth(lane).kept, edge["duplicate"], edge["rejected"]

    async def states(self, device_id: str, state: str) -> None:
        device = await self.gateway.devices.find(device_id)
        await self.gateway.devices.change(lambda kept: kept.save(device, state=state))


@pytest.fixture
async def forwarder(tmp_path: Path) -> AsyncIterator[Forwarder]:
    listen = {"http": ANY_PORT, "grpc": "off", "admin": ANY_PORT}
    nowhere = {"base_url": "http://127.0.0.1:9", "keys": [{"name": "k", "secret": "s3cret", "scopes": ["ai-hub:mcp"]}]}
    counting = {"settle": "1h"}
    gateway = await Gateway.start(
        Config.model_validate(
            {
                "data_dir": tmp_path / "data",
                "listen": listen,
                "workers": "off",
                "counting": counting,
                "upstream": nowhere,
            }
        )
    )
    async with aiohttp.ClientSession() as session:
        yield Forwarder(gateway, session)
    await gateway.stop()


def record(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "schema": "inference/1",
        "record_id": f"{number:032x}",
        "kind": "call",
        "billed": True,
        "source": {"format": "otlp.traces", "convention": "gen_ai"},
        "operation": "chat",
        "provider": "openai",
        "request_model": "gpt-4o-mini",
        "started_at": f"2026-01-05T10:{number % 60:02}:00.000Z",
        "duration_ms": 5,
        "usage": {"status": "reported", "input_tokens": 1000, "output_tokens": 10},
        "status": "ok",
        "attribution": {},
        "received_at": "2026-01-05T10:00:02.000Z",
        "flags": ["unpriced"],
        **changes,
    }


def aggregate(number: int, flags: list[str]) -> dict[str, Any]:
    period = {"start": "2026-01-05T10:00:00.000Z", "end": "2026-01-05T11:00:00.000Z"}
    usage = {"status": "aggregate", "input_tokens": 1000, "output_tokens": 10}
    return record(number, kind="aggregate", period=period, usage=usage, flags=flags)


# ---- records


async def test_a_record_that_cannot_be_kept_is_reported_by_its_index_and_the_others_are_kept(
    forwarder: Forwarder,
) -> None:
    bad = record(2, usage={"status": "reported", "input_tokens": -7})
    told = await forwarder.forward(record(1), bad, "no record", record(3))
    assert told.status == 202
    assert told.json["accepted"] == 2
    assert [(each["index"], each["code"]) for each in told.json["rejected"]] == [
        (1, "invalid_field"),
        (2, "not_an_object"),
    ]
    assert "input_tokens" in told.json["rejected"][0]["message"]
    assert "-7" not in told.body.decode()
    assert [refusal.index for refusal in accounted(told.json, Sent(4)).refused] == [1, 2]
    assert {each["record_id"] for each in await forwarder.kept()} == {f"{n:032x}" for n in (1, 3)}


async def test_a_batch_that_comes_again_is_accepted_and_counted_once(forwarder: Forwarder) -> None:
    for _ in range(3):
        assert (await forwarder.forward(record(1), record(2))).json == {"accepted": 2, "rejected": []}
    assert forwarder.outcomes() == (2, 4, 0)


@pytest.mark.parametrize(
    "content", [{"schema": "ai-telemetry/2", "records": []}, {"id": 1}, [1], {"schema": "inference/1"}, 7]
)
async def test_what_is_no_envelope_is_refused_whole(forwarder: Forwarder, content: object) -> None:
    told = await forwarder.ask(RECORDS, content)
    assert (told.status, told.json["error"]["type"]) == (400, "bad_payload")
    assert forwarder.outcomes() == (0, 0, 0)


async def test_an_envelope_whose_records_are_no_list_is_refused(forwarder: Forwarder) -> None:
    told = await forwarder.ask(RECORDS, {"schema": "ai-telemetry/1", "records": {"0": record(1)}})
    assert told.status == 400


async def test_records_of_a_blocked_device_are_reported_by_their_index_among_bad_ones(forwarder: Forwarder) -> None:
    blocked = {"attribution": {"device_id": "bad"}}
    assert (await forwarder.ask(DEVICES, {"device_id": "bad"})).status == 200
    await forwarder.states("bad", "blocked")
    told = await forwarder.forward(
        {}, record(1), record(2, **blocked), record(3), record(4, **blocked), record(2, **blocked)
    )
    assert {(each["index"], each["code"]) for each in told.json["rejected"]} == {
        (0, "unknown_schema"), (2, "device_blocked"), (4, "device_blocked"), (5, "device_blocked")
    }  # fmt: skip
    assert told.json["accepted"] == 2
    assert (await forwarder.forward(record(5, **blocked))).status == 202, "the lane of its gateway must go on"
    assert {each["record_id"] for each in await forwarder.kept()} == {f"{n:032x}" for n in (1, 3)}


async def test_what_the_first_gateway_had_no_price_for_is_priced_here_and_nothing_else(forwarder: Forwarder) -> None:
    said = {"amount": "7", "currency": "EUR", "source": "reported", "price_version": None}
    await forwarder.forward(
        record(1), record(2, cost=said, flags=[]), aggregate(3, ["unpriced"]), aggregate(4, ["late"]), record(5, request_model="own")
    )  # fmt: skip
    found = {int(each["record_id"], 16): each for each in await forwarder.kept()}
    assert {n: (each.get("cost") or {}).get("source") for n, each in found.items()} == {
        1: "estimated", 2: "reported", 3: "estimated", 4: None, 5: None
    }  # fmt: skip
    assert {n: each["flags"] for n, each in found.items()} == {1: [], 2: [], 3: [], 4: ["late"], 5: ["unpriced"]}


# ---- events and unit cost


async def test_a_metered_event_goes_into_no_total_for_its_gateway_did_that(forwarder: Forwarder) -> None:
    event = {"title": "t", "source": "s", "metadata": {"event_id": "e", "stream": "answers", "value": "3"}}
    assert (await forwarder.ask(EVENTS, event)).json == {"accepted": 1, "rejected": [], "duplicate": 0}
    assert (await forwarder.ask(EVENTS, event)).json == {"accepted": 1, "rejected": [], "duplicate": 1}
    assert forwarder.outcomes("usage_events") == (1, 1, 0)
    assert forwarder.outcomes("unit_cost")[0] == 0


async def test_an_event_that_is_not_sound_is_reported_by_its_index(forwarder: Forwarder) -> None:
    told = await forwarder.ask(EVENTS, {"title": "no source"})
    assert (told.status, told.json["rejected"][0]["index"], told.json["rejected"][0]["code"]) == (
        202,
        0,
        "source_missing",
    )


async def test_a_batch_of_unit_cost_counts_once_whatever_key_it_comes_under(forwarder: Forwarder) -> None:
    def headers(batch: str, key: str, gateway: str = "gw-1") -> dict[str, str]:
        return {"Idempotency-Key": key, "X-Gateway-Id": gateway, "X-Batch-Id": batch}

    for sent, duplicate in (
        (headers("b1", "k1"), 0),
        (headers("b1", "k1"), 1),
        (headers("b1", "k2"), 1),
        (headers("b2", "k1"), 0),
        (headers("b1", "k1", "gw-2"), 0),
    ):
        told = await forwarder.ask(SUM, TODAY, sent)
        assert (told.status, told.json) == (202, {"accepted": 1, "rejected": [], "duplicate": duplicate})
    assert forwarder.outcomes("unit_cost")[:2] == (3, 2)


async def test_a_batch_that_says_something_else_under_its_id_is_refused_for_good_and_counted_rejected(
    forwarder: Forwarder,
) -> None:
    headers = {"Idempotency-Key": "k", "X-Gateway-Id": "gw-1", "X-Batch-Id": "b"}
    assert (await forwarder.ask(SUM, TODAY, headers)).status == 202
    told = await forwarder.ask(SUM, {"records": TODAY["records"] * 2}, headers)
    assert (told.status, told.json["error"]["type"]) == (422, "idempotency_key_reused")
    assert forwarder.outcomes("unit_cost") == (1, 0, 2)


async def test_a_delete_of_a_stream_that_is_not_here_is_done_for_the_gateway_that_sends_it(
    forwarder: Forwarder,
) -> None:
    told = await forwarder.ask(SUM.replace("sum", "delete"), {"records": [{"timestamp": "2026-01-05"}]})
    assert (told.status, told.json["error"]["type"]) == (422, "stream_unknown")
    assert is_gone(HttpAnswer(told.status, CIMultiDict(), told.body))


# ---- devices and liveness


async def test_a_heartbeat_enrols_nobody_but_asks_for_the_enrolment(forwarder: Forwarder) -> None:
    beat = {"instance_id": "i", "sequence": 1, "observed_at": "2026-01-05T10:00:00Z", "status": "healthy"}
    for path in ("laptop/heartbeat", "laptop/ping"):
        told = await forwarder.ask(f"{DEVICES}/{path}", beat)
        assert (told.status, told.json["error"]["type"]) == (404, "device_unknown")
    enrolment = {"enrollment_id": "x", "epoch": 1, "device_id": "laptop", "kind": "server", "labels": {"team": "core"}}
    told = await forwarder.ask(DEVICES, enrolment)
    assert (told.status, told.json) == (200, {"status": "pending", "heartbeat_interval_s": 60.0})
    assert (await forwarder.ask(f"{DEVICES}/laptop/heartbeat", beat)).json["status"] == "pending"
    assert (await forwarder.ask(f"{DEVICES}/laptop/ping")).status == 204
    await forwarder.states("laptop", "enrolled")
    assert (await forwarder.ask(DEVICES, enrolment)).json["status"] == "active"


@pytest.mark.parametrize(
    ("state", "answer"), [("blocked", (403, "device_blocked")), ("quarantined", (422, "enrolment_refused"))]
)
async def test_a_device_that_is_refused_is_distinguished_from_a_key_that_is(
    forwarder: Forwarder, state: str, answer: tuple[int, str]
) -> None:
    await forwarder.ask(DEVICES, {"device_id": "odd"})
    await forwarder.states("odd", state)
    told = await forwarder.ask(DEVICES, {"device_id": "odd"})
    assert (told.status, told.json["error"]["type"]) == answer


async def test_liveness_needs_a_key_with_its_scope_also_where_intake_is_open(forwarder: Forwarder) -> None:
    keys = forwarder.gateway.keys
    assert (await forwarder.ask("/v2/insights?limit=1", method="GET")).status == 401
    reads = await keys.create("reads", Fixed(frozenset({"insights:read_insights"})), by=BY)
    sends = await keys.create("sends", Fixed(frozenset({"events_v1:create_event"})), by=BY)
    for key, status in ((reads, 200), (sends, 403)):
        headers = {"Authorization": key.secret.reveal()}
        assert (await forwarder.ask("/v2/insights?limit=1", None, headers, "GET")).status == status
        assert (await forwarder.ask("/v2/insights?limit=1", None, headers, "HEAD")).status == status
    told = await forwarder.ask("/v2/insights?limit=1", None, {"Authorization": reads.secret.reveal()}, "GET")
    assert set(told.json) == {"insights", "pagination", "filtering", "sorting"}
    assert (
        await forwarder.ask("/v2/insights?limit=0", None, {"Authorization": reads.secret.reveal()}, "GET")
    ).status == 400
