"""OTLP into the local service: of a gateway, and of any other exporter."""

import gzip
from typing import Any

import orjson
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from exporters.otlp.encode import encode_spans
from tests.conformance.exporters.test_otlp import FULL
from tests.unit.rules import log_records, spans

from .conftest import Client, ai_envelope, ai_record

TRACES, LOGS = "/v2/ai-telemetry/otlp/v1/traces", "/v2/ai-telemetry/otlp/v1/logs"
RECORDS = "/v2/ai-telemetry/records"
PROTOBUF = {"Content-Type": "application/x-protobuf"}
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 120,
    "gen_ai.usage.output_tokens": 30,
}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


async def records(client: Client) -> list[Any]:
    return [without_nulls(record) for record in (await client.get(RECORDS)).json["records"]]


async def test_a_gateways_spans_are_its_records_and_count_once_over_either_path(client: Client) -> None:
    given = [FULL, {**FULL, "record_id": "f" * 32, "trace": None}]
    body = encode_spans([orjson.dumps(each) for each in given], packs=True).body
    for _ in range(2):
        reply = await client.post(TRACES, body, PROTOBUF | {"Content-Encoding": "gzip", "X-Gateway-Id": "gw-1"})
        assert (reply.status, reply.body, reply.headers["Content-Type"]) == (200, b"", PROTOBUF["Content-Type"])
    assert (await client.post(RECORDS, ai_envelope(*given))).json["accepted"] == 2
    assert sorted(await records(client), key=lambda x: x["record_id"]) == [without_nulls(each) for each in given]


@pytest.mark.parametrize("media", ["application/x-protobuf", "Application/Protobuf; charset=utf-8"])
async def test_spans_and_logs_of_any_exporter_are_records(client: Client, media: str) -> None:
    assert (await client.post(TRACES, spans.request(CALL).SerializeToString(), {"Content-Type": media})).status == 200
    logged = log_records.request({"event.name": "gen_ai.client.inference.operation.details", **CALL})
    assert (await client.post(LOGS, logged.SerializeToString(), PROTOBUF)).status == 200
    found = await records(client)
    assert [(x["provider"], x["usage"]["input_tokens"]) for x in found] == [("openai", 120)] * 2
    assert {x["source"]["format"] for x in found} == {"otlp.traces", "otlp.logs"}


async def test_what_states_no_sound_record_is_rejected_and_the_rest_is_taken(client: Client) -> None:
    request = ExportTraceServiceRequest.FromString(encode_spans([orjson.dumps(FULL)] * 2, packs=False).body)
    del request.resource_spans[0].scope_spans[0].spans[1].attributes[:]
    reply = await client.post(TRACES, request.SerializeToString(), PROTOBUF)
    partial = ExportTraceServiceResponse.FromString(reply.body).partial_success
    assert (reply.status, partial.rejected_spans) == (200, 1)
    assert partial.error_message.startswith("1 of 2 items rejected: ")
    assert "missing_field (1, first at resourceSpans[0].scopeSpans[0].spans[1].record_id)" in partial.error_message
    assert partial.error_message.endswith("; all of them: resourceSpans[0].scopeSpans[0].spans[1].record_id")
    assert len(await records(client)) == 1


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        (PROTOBUF, b"\xff", 400, 3),
        ({"Content-Type": "application/json"}, b"{", 400, 3),
        ({"Content-Type": "text/plain"}, b"{}", 415, 3),
        (PROTOBUF | {"Content-Encoding": "gzip"}, b"no gzip", 400, 3),
        (PROTOBUF | {"Content-Encoding": "gzip"}, gzip.compress(bytes(17 << 20)), 413, 8),
    ],
)
async def test_a_refusal_is_a_status_in_the_encoding_of_the_request(
    client: Client, headers: dict[str, str], body: bytes, status: int, code: int
) -> None:
    reply = await client.post(TRACES, body, headers)
    assert reply.status == status
    if headers["Content-Type"] == PROTOBUF["Content-Type"]:
        assert reply.body.startswith(bytes([8, code]))
        assert reply.headers["Content-Type"] == PROTOBUF["Content-Type"]
    else:
        assert (reply.json["code"], bool(reply.json["message"])) == (code, True)


async def test_keys_and_scopes_hold_on_this_path_too(client: Client) -> None:
    unscoped = await client.with_scopes("other", "billing:read_costs")
    for each, status, code in ((unscoped, 403, 7), (client.with_authorization("nonsense"), 401, 16)):
        reply = await each.post(TRACES, b"", PROTOBUF)
        assert (reply.status, reply.body[:2]) == (status, bytes([8, code]))


async def test_a_repeated_idempotency_key_gets_the_first_answer_again(client: Client) -> None:
    bad = spans.request(CALL, trace_id=bytes(16)).SerializeToString()
    headers = PROTOBUF | {"Idempotency-Key": "k"}
    first = await client.post(TRACES, bad, headers)
    assert ExportTraceServiceResponse.FromString(first.body).partial_success.rejected_spans == 1
    assert (await client.post(TRACES, b"", headers)).body == first.body
    assert (await client.post(RECORDS, ai_envelope(ai_record("a")))).status == 202
