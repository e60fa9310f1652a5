"""Counts of a library's own tokenizer are estimates, and give way to the provider's."""

from typing import Any

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from tests.unit.rules.spans import record_of, request

MESSAGES = '[{"role":"user","parts":[{"type":"text","content":"tell me about the weather in all large towns"}]}]'
TRACELOOP = "@traceloop/instrumentation-openai"
LANGTRACE_GROQ, LANGTRACE_OLLAMA = (
    f"langtrace_python_sdk.instrumentation.{library}.instrumentation" for library in ("groq", "ollama")
)
STREAM = {"gen_ai.request.stream": True}
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.id": "chatcmpl-1",
}


def counts(given: int, output: int) -> dict[str, int]:
    return {"gen_ai.usage.input_tokens": given, "gen_ai.usage.output_tokens": output}


BEDROCK = {"gen_ai.provider.name": "aws.bedrock", "gen_ai.request.model": "mistral.mistral-7b-instruct-v0:2"}


@pytest.mark.parametrize(
    ("scope", "sent", "status"),
    [
        (TRACELOOP, counts(13, 17) | {"gen_ai.input.messages": MESSAGES}, "estimated"),
        (TRACELOOP, counts(13, 17), "estimated"),
        (TRACELOOP, counts(4211, 1429) | {"gen_ai.input.messages": MESSAGES}, "reported"),
        (TRACELOOP, counts(13, 17) | {"gen_ai.usage.cache_read.input_tokens": 0}, "reported"),
        (TRACELOOP, counts(13, 17) | {"gen_ai.response.finish_reasons": ["tool_call"]}, "reported"),
        (TRACELOOP, {}, "missing"),
        ("openlit.instrumentation.openai", counts(13, 17) | {"gen_ai.request.stream": True}, "estimated"),
        (
            "openlit.instrumentation.openai",
            counts(13, 17) | {"gen_ai.request.stream": True, "gen_ai.usage.cache_read.input_tokens": 0},
            "reported",
        ),
        ("openlit.instrumentation.openai", counts(13, 17) | {"gen_ai.request.stream": False}, "reported"),
        (
            "opentelemetry.instrumentation.botocore.bedrock-runtime",
            counts(13, 17) | BEDROCK | {"rpc.method": "InvokeModel"},
            "estimated",
        ),
        (
            "opentelemetry.instrumentation.botocore.bedrock-runtime",
            counts(13, 17) | BEDROCK | {"rpc.method": "Converse"},
            "reported",
        ),
        (LANGTRACE_GROQ, counts(5, 4) | STREAM, "estimated"),
        (LANGTRACE_GROQ, counts(412, 137), "reported"),
        (LANGTRACE_OLLAMA, counts(0, 4) | STREAM, "estimated"),
        (LANGTRACE_OLLAMA, counts(412, 137) | STREAM, "reported"),
        ("opentelemetry.instrumentation.openai_v2", counts(13, 17), "reported"),
    ],
)
def test_a_known_tokenizers_counts_are_estimates(scope: str, sent: dict[str, Any], status: str) -> None:
    assert record_of(CHAT | sent, scope=scope)["usage"]["status"] == status


@pytest.mark.parametrize("order", [1, -1])
async def test_an_estimate_gives_way_to_the_providers_counts_of_the_same_response(order: int) -> None:
    estimate = request(CHAT | counts(13, 17), scope=TRACELOOP)
    real = request(
        CHAT | counts(4211, 1429), scope="opentelemetry.instrumentation.openai_v2", span_id=b"\x05" * 8
    )  # fmt: skip
    bodies = [estimate.SerializeToString(), real.SerializeToString()][::order]
    records, _, _ = await records_of_payloads([(body, "/v1/traces", "application/x-protobuf", "") for body in bodies])
    (record,) = map(orjson.loads, records)
    assert record["usage"] == {"status": "reported", "input_tokens": 4211, "output_tokens": 1429}
    assert record["flags"] == ["late"] or record["flags"] == []
