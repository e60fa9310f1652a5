"""Whatever a span carries: one outcome, a record that serialises, parts within wholes or a
flag, no long text, no raise.
"""

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.common.contract.errors import BadPayload
from gateway.read.otlp_json import decode_traces_json
from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.conventions import (
    gateways,
    langfuse,
    langsmith,
    litellm,
    mlflow,
    openinference,
    openllmetry,
    shared,
    vercel_ai,
)
from gateway.rules.record import record_json
from gateway.rules.traces import normalise_traces
from tests.support.corpus import scenarios
from tests.unit.rules.spans import CONTEXT, normalised, request

TABLES = (
    shared.NAMES,
    vercel_ai.NAMES,
    openinference.NAMES,
    openllmetry.NAMES,
    litellm.NAMES,
    langsmith.NAMES,
    langfuse.NAMES,
    mlflow.NAMES,
    gateways.BIFROST.own,
)
NAMES = sorted({name for table in TABLES for names in table.values() for name in names})
SCOPES = ["", "ai", "litellm", "langsmith", "langfuse-sdk", "mlflow.tracing.provider", "openinference.instrumentation.anthropic",
          "@traceloop/instrumentation-anthropic", "com.anthropic.sdk.python", "codex_exec", "gemini-cli", "bifrost", "anything"]  # fmt: skip
COUNTS = st.integers(-5, 5000) | st.integers()
TEXTS = st.sampled_from(
    ["chat", "LLM", "llm", "generation", '"LLM"', "invoke_agent", "ai.embed.doEmbed", "openai", "gpt-4o", "{}", "[]", '["stop"]',
     '{"input": 5, "output": 7, "input_cached_tokens": 9}', "{'prompt_tokens_details': {'cached_tokens': 3}}", '{"id": "x", "model": 5, "usage": []}']
) | st.text(max_size=300)  # fmt: skip
VALUES = (
    COUNTS.filter(lambda n: -(2**63) <= n < 2**63) | st.floats() | st.booleans() | TEXTS | st.lists(TEXTS, max_size=2)
)
ATTRIBUTES = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=30), VALUES, max_size=12)
MARKED = st.fixed_dictionaries(
    {"gen_ai.operation.name": st.sampled_from(["chat", "embeddings", "responses"])},
    optional={name: COUNTS.filter(lambda n: abs(n) < 2**63) for name in NAMES if "token" in name},
)


def longest_text(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return max((longest_text(entry) for pair in value.items() for entry in pair), default=0)
    return max((longest_text(entry) for entry in value), default=0) if isinstance(value, list) else 0


def check_usage(record: dict[str, Any]) -> None:
    usage = record["usage"]
    counts = {key: value for key, value in usage.items() if key.endswith("_tokens")}
    assert all(isinstance(value, int) and value >= 0 for value in counts.values())
    parts_in = counts.get("cache_read_input_tokens", 0) + counts.get("cache_creation_input_tokens", 0)
    fits = parts_in <= counts.get("input_tokens", parts_in)
    fits = fits and counts.get("reasoning_output_tokens", 0) <= counts.get(
        "output_tokens", counts.get("reasoning_output_tokens", 0)
    )
    assert fits or "inconsistent_usage" in record["flags"]
    if usage["status"] in {"none", "missing"}:
        assert not counts
    else:
        assert "input_tokens" in counts or "output_tokens" in counts


@settings(max_examples=150)
@given(ATTRIBUTES | MARKED, st.sampled_from(SCOPES), st.sampled_from([0, 1, 2, 9]), st.text(max_size=20))
def test_any_span_has_one_outcome_and_any_record_holds_the_invariants(
    attributes: dict[str, Any], scope: str, status: int, name: str
) -> None:
    out = normalised(attributes, scope=scope, status=status, name=name)
    assert out.items == 1 == len(out.calls) + sum(out.suppressed.values()) + out.ignored + len(out.rejected)
    for call in out.calls:
        record = orjson.loads(record_json(call.record))
        check_usage(record)
        assert longest_text(record) <= 256
        assert record["provider"] or record["request_model"]
        assert (record["status"] == "error") or "error_type" not in record


@given(ATTRIBUTES, ATTRIBUTES)
def test_any_resource_is_read(attributes: dict[str, Any], resource: dict[str, Any]) -> None:
    out = normalised({"gen_ai.operation.name": "chat"} | attributes, resource=resource, scope="anything")
    assert out.items == 1


@given(st.data())
def test_bytes_near_a_real_body_are_records_or_a_bad_payload(data: st.DataObject) -> None:
    body = bytearray(request({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 300}).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        out = normalise_traces(decode_traces(bytes(body)), CONTEXT)
    except BadPayload:
        return
    assert out.items == len(out.calls) + sum(out.suppressed.values()) + out.ignored + len(out.rejected)
    assert all(record_json(call.record) for call in out.calls)


def test_a_payload_gives_the_same_records_each_time_in_any_order_of_payloads() -> None:
    """The memory of names and shapes never changes what a span becomes."""
    bodies = [(p.body, p.is_json) for s in scenarios("traces") for p in s.payloads]

    def records(body: bytes, is_json: bool) -> list[bytes]:  # noqa: FBT001 - a pair of the list above
        view = (decode_traces_json if is_json else decode_traces)(body)
        return [record_json(call.record) for call in normalise_traces(view, CONTEXT).calls]

    forward = [records(*entry) for entry in bodies]
    backward = [records(*entry) for entry in reversed(bodies)]
    assert forward == backward[::-1]
