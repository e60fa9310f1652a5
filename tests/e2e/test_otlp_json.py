"""OTLP/JSON by hand, as browsers and JavaScript exporters send it, compressed,
through to the service's totals.
"""

import gzip
import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.canary import files_with_canary
from tests.support.gateway_process import GatewayProcess, broken_identities

pytestmark = pytest.mark.slow


def attribute(key: str, value: str | float) -> dict[str, Any]:
    """A KeyValue; integers as JSON numbers, as JavaScript sends them (Python's
    mapping has them as strings).
    """
    match value:
        case str():
            return {"key": key, "value": {"stringValue": value}}
        case int():
            return {"key": key, "value": {"intValue": value}}
        case float():
            return {"key": key, "value": {"doubleValue": value}}


def span(index: int, input_tokens: int, output_tokens: int) -> dict[str, Any]:
    end_ns = time.time_ns()
    return {
        "traceId": f"5B8EFFF798038103D269B633813FC6{index:02X}",
        "spanId": f"EEE19B7EC3C1B1{index:02X}",
        "name": "chat gpt-4o-mini",
        "kind": 3,
        "startTimeUnixNano": str(end_ns - 800_000_000),
        "endTimeUnixNano": str(end_ns),
        "attributes": [
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.provider.name", "openai"),
            attribute("gen_ai.request.model", "gpt-4o-mini"),
            attribute("gen_ai.response.model", "gpt-4o-mini-2024-07-18"),
            attribute("gen_ai.response.id", f"chatcmpl-json-{index}"),
            attribute("gen_ai.usage.input_tokens", input_tokens),
            attribute("gen_ai.usage.output_tokens", output_tokens),
            attribute("gen_ai.request.temperature", 0.5),
            attribute("gen_ai.input.messages", '[{"role":"user","parts":[{"content":"CANARY-7Q-PROMPT é\\u2028"}]}]'),
        ],
        "status": {},
        "aFieldOfALaterRelease": {"ignored": True},
    }


def export(spans: list[dict[str, Any]]) -> bytes:
    resource = {"attributes": [attribute("service.name", "web-shop")]}
    scope = {"name": "@opentelemetry/instrumentation-openai", "version": "0.21.0"}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}
    return gzip.compress(json.dumps(body, ensure_ascii=False).encode())


def post(gateway: GatewayProcess, body: bytes) -> tuple[int, str, bytes]:
    """(status, Content-Type, body) of the answer."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    request = urllib.request.Request(gateway.intake_url + "/v1/traces", data=body, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, answer.headers.get_content_type(), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get_content_type(), error.read()


def test_compressed_json_is_counted_like_protobuf_and_answered_in_json(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        body = export([span(index, 1000 + index, 100 + index) for index in range(5)])
        status, media, answer = post(gateway, body)
        assert (status, media) == (200, "application/json")
        assert "partialSuccess" not in json.loads(answer)
        assert post(gateway, body)[0] == 200, "a resend is answered like the first"

        after = gateway.wait_until_delivered(at_least=5)
        totals = gateway.summary()["totals"]
        assert (after["edge"]["received"], after["edge"]["kept"], after["edge"]["duplicate"]) == (10, 5, 5)
        assert broken_identities(after) == []
        assert (totals["calls"], totals["input_tokens"], totals["output_tokens"]) == (5, 5010, 510)
        assert files_with_canary(tmp_path) == []


def test_a_body_that_is_cut_short_is_refused_and_keeps_nothing(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        whole = export([span(1, 1000, 100)])
        status, media, answer = post(gateway, whole[: len(whole) // 2])
        assert (status, media) == (400, "application/json")
        assert b"CANARY" not in answer
        assert gateway.status()["edge"]["kept"] == 0
