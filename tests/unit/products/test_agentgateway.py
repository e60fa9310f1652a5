"""agentgateway's access log, as JSON and as text."""

from typing import Any

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from gateway.products.agentgateway import read_line
from tests.support.corpus import CORPUS
from tests.support.growth import assert_linear
from tests.support.source_reading import all_text, read, record

JSON_LINE: dict[str, Any] = {
    "level": "info",
    "time": "2026-11-20T07:00:01.526000Z",
    "scope": "request",
    "gateway": "default/agentgateway",
    "route": "default/openai",
    "endpoint": "api.openai.com:443",
    "src.addr": "10.0.4.17:51214",
    "http.method": "POST",
    "http.path": "/v1/chat/completions",
    "http.status": 200,
    "trace.id": "5b8efff798038103d269b633813fc60c",
    "span.id": "eee19b7ec3c1b174",
    "jwt.sub": "user-ana",
    "protocol": "llm",
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
    "gen_ai.usage.input_tokens": 1200,
    "gen_ai.usage.output_tokens": 340,
    "duration": "1526ms",
}


def text_of(line: dict[str, Any], at: str = "2026-11-20T07:00:01.526000Z") -> bytes:
    pairs = " ".join(f"{k}={v}" for k, v in line.items() if k not in {"level", "time", "scope"})
    return f"{at}\tinfo\trequest {pairs}".encode()


def test_a_json_line_is_a_call_that_ended_at_its_time() -> None:
    found = record("agentgateway", JSON_LINE)
    assert (found["started_at"], found["duration_ms"]) == ("2026-11-20T07:00:00.000Z", 1526)
    assert (found["request_model"], found["response_model"]) == ("gpt-4o-mini", "gpt-4o-mini-2024-07-18")
    assert found["usage"] == {"status": "reported", "input_tokens": 1200, "output_tokens": 340}
    assert found["trace"] == {
        "trace_id": "5b8efff798038103d269b633813fc60c",
        "span_id": "eee19b7ec3c1b174",
        "parent_span_id": None,
    }
    assert found["attribution"]["user"] == "user-ana"


def test_a_text_line_says_the_same() -> None:
    assert record("agentgateway", text_of(JSON_LINE)) == record("agentgateway", JSON_LINE)


def test_a_line_that_a_shipper_wrapped_says_the_same() -> None:
    for wrapped in (
        {"log": text_of(JSON_LINE).decode() + "\n"},
        {"message": orjson.dumps(JSON_LINE).decode(), "kubernetes": {"note": "CANARY"}},
    ):
        assert record("agentgateway", wrapped) == record("agentgateway", JSON_LINE)


async def test_a_request_reported_by_its_line_and_by_its_span_is_one_record() -> None:
    span = (CORPUS / "gateways/agentgateway/otlp_request_span.json").read_bytes()
    line = orjson.dumps({**JSON_LINE, "route": "from-the-line"})
    sent = [(span, "/v1/traces", "application/json", ""), (line, "/v1/sources/agentgateway", "application/json", "")]
    for payloads in (sent, sent[::-1]):
        found, _, outcomes = await records_of_payloads(payloads)
        assert (len(found), outcomes["duplicate"]) == (1, 1)
        assert orjson.loads(found[0])["usage"]["input_tokens"] == 1200


def test_lines_of_other_requests_and_of_other_parts_are_ignored() -> None:
    mcp = text_of({"http.path": "/mcp", "mcp.method": "tools/call", "duration": "4ms"})
    started = b"2026-11-20T07:00:00Z info state_manager Watching config file: CANARY.yaml"
    out = read("agentgateway", b"\n".join([mcp, started, text_of(JSON_LINE), b"CANARY"]))
    assert (len(out.calls.calls), out.calls.ignored) == (1, 2)
    assert [(x.reason, x.position) for x in out.calls.rejected] == [("not_json", "line 4")]
    assert "CANARY" not in all_text(out)


def test_a_failure_is_named_by_its_reason_and_a_sentence_is_dropped() -> None:
    line = text_of(
        {
            "http.status": 429,
            "gen_ai.request.model": "m",
            "error": '"CANARY said \\"no\\""',
            "reason": "RateLimit",
            "duration": "1.5s",
        }
    )
    found = record("agentgateway", line)
    assert (found["status"], found["error_type"], found["duration_ms"]) == ("error", "RateLimit", 1500)
    assert "CANARY" not in str(found)


def test_a_line_without_time_has_that_of_its_receipt() -> None:
    assert (
        "received_time"
        in record("agentgateway", b"info request gen_ai.request.model=m gen_ai.usage.input_tokens=4")["flags"]
    )


@pytest.mark.parametrize("piece", ["aaa", 'a="', 'a="\\', "===", " a="])
def test_a_hostile_line_is_read_in_linear_time(piece: str) -> None:
    assert_linear(lambda n: read_line(f"info request {piece * n}"), 15_000)
