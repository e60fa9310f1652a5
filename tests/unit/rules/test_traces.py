"""The life of one span: ids, times, status, attribution, identity."""

from typing import Any

import orjson
import pytest

from gateway.common.operations import rfc3339
from gateway.read.otlp_json import decode_traces_json
from gateway.rules.context import Context, UserPolicy
from gateway.rules.record import record_json
from gateway.rules.traces import normalise_traces
from tests.unit.rules.spans import CONTEXT, END_NS, RECEIVED_MS, SPAN_ID, START_NS, TRACE_ID, normalised, record_of

CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o-2024-08-06",
    "gen_ai.response.id": "chatcmpl-1",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 50,
}
FAILED = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"}
DAY_NS = 24 * 3600 * 10**9


def test_a_whole_record_reads_like_this() -> None:
    attributes = CHAT | {"gen_ai.response.finish_reasons": ["stop"], "gen_ai.request.stream": True, "user.id": "u-1"}
    resource = {"service.name": "checkout-bot", "deployment.environment.name": "prod"}
    record = record_of(attributes, scope="a.scope", version="1.2", resource=resource, parent_span_id=b"\x01" * 8)
    assert orjson.loads(record_json(record)) == {
        "schema": "inference/1",
        "record_id": record["record_id"],
        "kind": "call",
        "billed": True,
        "source": {"format": "otlp.traces", "convention": "gen_ai", "library": "a.scope", "library_version": "1.2"},
        "operation": "chat",
        "provider": "openai",
        "request_model": "gpt-4o",
        "response_model": "gpt-4o-2024-08-06",
        "response_id": "chatcmpl-1",
        "finish_reason": "stop",
        "stream": True,
        "started_at": "2026-01-05T10:00:01.250Z",
        "duration_ms": 840,
        "usage": {"status": "reported", "input_tokens": 100, "output_tokens": 50},
        "status": "ok",
        "attribution": {"service_name": "checkout-bot", "environment": "prod", "user": "u-1", "key": "team-key"},
        "trace": {"trace_id": TRACE_ID.hex(), "span_id": SPAN_ID.hex(), "parent_span_id": "01" * 8},
        "received_at": "2026-01-05T10:00:03.000Z",
        "flags": [],
    }


def test_the_call_holds_what_the_ledger_compares() -> None:
    call = normalised(CHAT, parent_span_id=b"\x01" * 8).calls[0]
    assert (call.trace_id, call.span_id, call.parent_span_id) == (TRACE_ID, SPAN_ID, b"\x01" * 8)
    assert (call.start_ms, call.end_ms) == (START_NS // 10**6, END_NS // 10**6)
    assert 0 <= call.source < 1 << 63
    assert 0 <= call.scope < 1 << 63


def test_record_id_is_of_the_span_alone() -> None:
    first = record_of(CHAT)["record_id"]
    assert (
        first
        == record_of(CHAT | {"gen_ai.usage.input_tokens": 7}, scope="other", context=CONTEXT._replace(key="k"))[
            "record_id"
        ]
    )
    assert first != record_of(CHAT, span_id=b"\x07" * 8)["record_id"]
    assert first != record_of(CHAT, trace_id=b"\x07" * 16)["record_id"]
    assert first == "bf0c736f9b4f562c50e684961f4c182f"


def test_source_is_service_and_instance_and_scope_is_its_name() -> None:
    def call(scope: str = "s", **resource: Any) -> Any:
        return normalised(CHAT, scope=scope, resource=resource).calls[0]

    base = call(**{"service.name": "a", "service.instance.id": "1"})
    assert base.source == call(**{"service.name": "a", "service.instance.id": "1", "host.name": "h"}).source
    assert base.source != call(**{"service.name": "a", "service.instance.id": "2"}).source
    assert base.source != call(**{"service.name": "b", "service.instance.id": "1"}).source
    assert call(**{"service.name": "a", "session.id": "1"}).source == base.source
    assert call("s").scope == call("s", **{"service.name": "z"}).scope != call("t").scope


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ({"trace_id": b""}, "invalid_trace_id"),
        ({"trace_id": bytes(16)}, "invalid_trace_id"),
        ({"trace_id": b"\x01" * 15}, "invalid_trace_id"),
        ({"span_id": b""}, "invalid_span_id"),
        ({"span_id": bytes(8)}, "invalid_span_id"),
        ({"span_id": b"\x01" * 16}, "invalid_span_id"),
        ({"parent_span_id": b"\x01" * 7}, "invalid_parent_span_id"),
        ({"start_time_unix_nano": 0, "end_time_unix_nano": 0}, "invalid_time"),
        ({"start_time_unix_nano": START_NS // 10**6}, "invalid_time"),
        ({"start_time_unix_nano": 2**64 - 1}, "invalid_time"),
    ],
)
def test_impossible_spans_are_rejected_with_reason_and_position(ids: dict[str, Any], reason: str) -> None:
    out = normalised(CHAT, **ids)
    assert [rejection[:2] for rejection in out.rejected] == [(reason, "resourceSpans[0].scopeSpans[0].spans[0]")]
    assert (out.items, out.calls, out.links) == (1, [], [])


def test_the_decoders_faults_are_the_reasons() -> None:
    good = {"traceId": TRACE_ID.hex(), "spanId": SPAN_ID.hex(), "startTimeUnixNano": str(START_NS)}
    spans = [
        good | {"kind": "SPAN_KIND_CLIENT"},
        good | {"attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]},
    ]
    traces = decode_traces_json(orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    out = normalise_traces(traces, CONTEXT)
    assert [rejection[:2] for rejection in out.rejected] == [
        ("invalid_enum", "resourceSpans[0].scopeSpans[0].spans[0]")
    ]
    assert (out.items, len(out.calls)) == (2, 1)


def test_a_parent_of_zeros_is_no_parent() -> None:
    call = normalised(CHAT, parent_span_id=bytes(8)).calls[0]
    assert call.parent_span_id == b""
    assert call.record["trace"]["parent_span_id"] is None


def test_links_hold_the_three_ids() -> None:
    out = normalised({"gen_ai.operation.name": "invoke_agent"}, parent_span_id=b"\x02" * 8)
    assert out.links == [TRACE_ID + SPAN_ID + b"\x02" * 8]
    assert normalised({}).links == [TRACE_ID + SPAN_ID + bytes(8)]


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "duration_ms", "flags"),
    [
        (START_NS, START_NS, 0, []),
        (START_NS, START_NS + 1_499_999, 1, []),
        (START_NS, START_NS - 1, None, ["clock_skew"]),
        (START_NS, 0, None, []),
        (RECEIVED_MS * 10**6 + 4 * 60 * 10**9, RECEIVED_MS * 10**6 + 5 * 60 * 10**9, 60_000, []),
        (RECEIVED_MS * 10**6 + 6 * 60 * 10**9, RECEIVED_MS * 10**6 + 7 * 60 * 10**9, 60_000, ["clock_skew"]),
        (START_NS - 2 * DAY_NS, START_NS - 2 * DAY_NS + 10**6, 1, ["late"]),
    ],
)
def test_odd_times_are_kept_and_flagged(start_ns: int, end_ns: int, duration_ms: int | None, flags: list[str]) -> None:
    record = record_of(CHAT, start_time_unix_nano=start_ns, end_time_unix_nano=end_ns)
    assert (record["duration_ms"], record["flags"]) == (duration_ms, flags)


@pytest.mark.parametrize(
    ("attributes", "exception", "error_type"),
    [
        ({"error.type": "RateLimitError"}, None, "RateLimitError"),
        ({"error.type": "<class 'openai.RateLimitError'>"}, None, "openai.RateLimitError"),
        ({"error.type": "429"}, "Exception", "429"),
        ({}, "AI_APICallError", "AI_APICallError"),
        ({}, None, "error"),
        ({"error.type": "Request failed for prompt: tell me a secret"}, None, "error"),
        ({}, "a sentence that is no class", "error"),
    ],
)
def test_error_type_is_a_name_and_never_a_message(
    attributes: dict[str, Any], exception: str | None, error_type: str
) -> None:
    record = record_of(FAILED | attributes, status=2, exception=exception)
    assert (record["status"], record["error_type"]) == ("error", error_type)
    assert record["usage"] == {"status": "none"}


@pytest.mark.parametrize(
    ("attributes", "status", "usage"),
    [
        ({"gen_ai.usage.input_tokens": 0, "gen_ai.usage.output_tokens": 0}, 2, {"status": "none"}),
        ({"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 0}, 2, {"status": "reported", "input_tokens": 5, "output_tokens": 0}),
        ({"gen_ai.response.id": "chatcmpl-1"}, 2, {"status": "missing"}),
        ({"gen_ai.response.model": "gpt-4o"}, 0, {"status": "missing"}),
        ({}, 0, {"status": "missing"}),
        ({"gen_ai.usage.output_tokens": 5}, 0, {"status": "partial", "output_tokens": 5}),
        ({"gen_ai.usage.input_tokens": 5}, 0, {"status": "partial", "input_tokens": 5}),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 5}, 0, {"status": "reported", "input_tokens": 5}),
        ({"gen_ai.operation.name": "embeddings", "llm.usage.total_tokens": 5}, 0, {"status": "reported", "input_tokens": 5}),
    ],
)  # fmt: skip
def test_unknown_usage_is_absent_and_its_status_says_why(
    attributes: dict[str, Any], status: int, usage: dict[str, Any]
) -> None:
    assert record_of(FAILED | attributes, status=status)["usage"] == usage


def test_a_failures_cost_of_zero_says_nothing() -> None:
    assert "cost" not in record_of(FAILED | {"litellm.cost.total": 0.0}, status=2)


@pytest.mark.parametrize(
    "extra",
    [
        {"gen_ai.usage.audio.input_tokens": 101},
        {"gen_ai.usage.audio.output_tokens": 51},
    ],
)  # fmt: skip
def test_parts_larger_than_their_whole_are_kept_and_flagged(extra: dict[str, Any]) -> None:
    record = record_of(CHAT | extra, scope="opentelemetry.instrumentation.openai_v2")
    assert record["flags"] == ["inconsistent_usage"]
    assert record["usage"]["input_tokens"] == 100


def test_attribution_goes_record_resource() -> None:
    context = CONTEXT._replace(device_id="dev-1")
    resource = {"service.name": "svc", "team.id": "resource-team", "session.id": "resource-session"}
    attribution = record_of(CHAT | {"session.id": "span-session"}, context=context, resource=resource)["attribution"]
    assert attribution == {
        "service_name": "svc",
        "session": "span-session",
        "team": "resource-team",
        "device_id": "dev-1",
        "key": "team-key",
    }


def test_what_the_key_fixes_no_payload_overrides() -> None:
    context = CONTEXT._replace(key_fixes={"team": "fixed", "user": "fixed-user"}, device_id="dev-1")
    attributes = CHAT | {"team": "mine", "user.id": "mine"}
    resource = {"team.id": "mine", "device.id": "mine"}
    attribution = record_of(attributes, context=context, resource=resource)["attribution"]
    assert (attribution["team"], attribution["user"], attribution["device_id"]) == ("fixed", "fixed-user", "dev-1")


def test_users_are_kept_hashed_or_dropped() -> None:
    def user(policy: UserPolicy) -> str | None:
        out = record_of(CHAT | {"user.id": "ana@example.com"}, context=CONTEXT._replace(users=policy))
        return out["attribution"].get("user")

    assert user(UserPolicy("keep")) == "ana@example.com"
    assert user(UserPolicy("drop")) is None
    hashed = user(UserPolicy("hash", b"secret"))
    assert hashed is not None
    assert len(hashed) == 32
    assert hashed != user(UserPolicy("hash", b"another"))
    assert "secret" not in repr(UserPolicy("hash", b"secret"))
    with pytest.raises(ValueError, match="secret"):
        UserPolicy("hash")


def test_words_for_no_user_are_no_user() -> None:
    assert "user" not in record_of(CHAT | {"user.id": "unknown"})["attribution"]


def test_long_values_are_cut() -> None:
    record = record_of(
        CHAT | {"gen_ai.request.model": "m" * 5000, "user.id": "u" * 5000}, resource={"service.name": "s" * 5000}
    )
    assert len(record["request_model"] or "") == 256
    assert len(record["attribution"]["user"] or "") == 256
    assert len(record["attribution"]["service_name"] or "") == 256


def test_free_text_in_name_fields_is_left_out() -> None:
    attributes = CHAT | {
        "gen_ai.response.id": "a prompt, quoted",
        "gen_ai.response.finish_reasons": ["it said: hello you"],
    }
    record = record_of(attributes)
    assert record["response_id"] is None
    assert "finish_reason" not in record


def test_unmapped_resource_attributes_never_reach_a_record() -> None:
    resource = {
        "process.command_args": ["gemini", "-p", "SECRET"],
        "process.command_line": "SECRET",
        "anything": "SECRET",
    }
    out = normalised(CHAT | {"some.attribute": "SECRET", "gen_ai.input.messages": "SECRET"}, resource=resource)
    assert "SECRET" not in repr(out)


def test_a_call_without_provider_and_model_still_names_a_provider() -> None:
    record = record_of(
        {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1}
    )
    assert record["provider"] == "unknown"


def test_nothing_is_changed_by_normalising_twice() -> None:
    context = Context(RECEIVED_MS, rfc3339(RECEIVED_MS))
    first, second = record_of(CHAT, context=context), record_of(CHAT, context=context)
    assert first == second
    assert first["attribution"] is not second["attribution"]
