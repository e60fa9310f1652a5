"""Twelve mixtures of two instrumentations over one call, as each of them writes its spans: one
call, together or apart, in either order.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.common.contract.intake import Sender
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.parsing.parse import ParseRules, Payload
from gateway.pipeline.parsing.parser import Parser
from gateway.usage.pricing.prices import Prices
from tests.support.calls import EPOCH_MS, span_id, trace_id
from tests.support.metrics import attributes
from tests.support.spool_rig import Rig


class Span(NamedTuple):
    scope: str
    name: str
    stated: dict[str, Any]
    at: tuple[int, int] = (0, 1000)
    above: str = ""
    """Name of the span above it, in whose trace it is."""
    trace: str = ""


GEN_AI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o-2024-08-06",
}
USED = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
ID = {"gen_ai.response.id": "chatcmpl-1"}
ASKED = {
    "gen_ai.operation.name": "chat",
    "gen_ai.system": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o",
    "logfire.span_type": "span",
}


def logfire_stream(open_ms: int = 300) -> list[Span]:
    read = ASKED | USED | {"logfire.span_type": "log", "duration": (1000 - open_ms) / 1000}
    return [
        Span("logfire.openai", "Chat Completion with {request_data[model]!r}", ASKED, (0, open_ms), trace="lf1"),
        Span("logfire.openai", "streaming response from {request_data[model]!r}", read, (1000, 1000), trace="lf2"),
    ]


OTEL = Span("opentelemetry.instrumentation.openai_v2", "chat gpt-4o", GEN_AI | USED | ID, (1, 999), trace="otel")
SDK = Span("com.example.sdk", "messages.create", GEN_AI | USED | ID, (5, 995), trace="sdk")
OPENLLMETRY = Span(
    "opentelemetry.instrumentation.openai.v1",
    "openai.chat",
    GEN_AI | USED | {"llm.request.type": "chat"},
    (0, 1000),
    trace="ollm",
)
OPENINFERENCE = Span(
    "openinference.instrumentation.openai",
    "ChatCompletion",
    {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.model_name": "gpt-4o-2024-08-06",
        "llm.token_count.prompt": 100,
        "llm.token_count.completion": 20,
    },
    (2, 998),
    trace="oi",
)
AGNO = OPENINFERENCE._replace(
    scope="openinference.instrumentation.agno",
    name="OpenAIChat.invoke",
    stated={**OPENINFERENCE.stated, "llm.model_name": "gpt-4o"},
    at=(0, 1000),
    trace="agno",
)
MASTRA = Span(
    "@mastra/otel-exporter", "chat gpt-4o", {**GEN_AI, **USED, "mastra.span.type": "model_generation"}, trace="m"
)
LANGFUSE = Span(
    "langfuse-sdk",
    "generation",
    {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "gpt-4o-2024-08-06",
        "langfuse.observation.usage_details": '{"input": 100, "output": 20}',
    },
    (3, 997),
    trace="langfuse",
)
LITELLM = Span("litellm", "litellm_request", GEN_AI | USED | ID, (0, 1000), trace="litellm")


def below(inner: Span, outer: Span) -> list[Span]:
    return [outer, inner._replace(above=outer.name, trace=outer.trace)]


MIXTURES: dict[str, list[Span]] = {
    "openllmetry beside openinference": [OPENLLMETRY, OPENINFERENCE],
    "openllmetry beside otel": [OPENLLMETRY, OTEL],
    "openinference beside otel": [OPENINFERENCE, OTEL],
    "langfuse beside otel": [LANGFUSE, OTEL],
    "openinference above the sdk": below(SDK, OPENINFERENCE),
    "agno above otel": below(OTEL, AGNO),
    "mastra above openinference": below(OPENINFERENCE, MASTRA),
    "litellm above otel": below(OTEL, LITELLM),
    "logfire's stream beside otel": [*logfire_stream(), OTEL],
    "logfire's stream beside openinference": [*logfire_stream(), OPENINFERENCE],
    "logfire's stream beside openllmetry": [*logfire_stream(700), OPENLLMETRY],
    "logfire's stream above the sdk": [*logfire_stream(), below(SDK, logfire_stream()[0])[1]],
}


def body(*spans: Span) -> bytes:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.extend(attributes({"service.name": "app", "service.instance.id": "i-1"}))
    for span in spans:
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = span.scope
        scope_spans.spans.add(
            trace_id=trace_id(span.trace),
            span_id=span_id(span.scope + span.name),
            parent_span_id=b"",
            name=span.name,
            start_time_unix_nano=(EPOCH_MS + span.at[0]) * 1_000_000,
            end_time_unix_nano=(EPOCH_MS + span.at[1]) * 1_000_000,
            attributes=attributes(span.stated),
        )
        if span.above:
            above = next(scope for scope in (*spans, *_ALL) if scope.name == span.above)
            scope_spans.spans[0].parent_span_id = span_id(above.scope + above.name)
    return request.SerializeToString()


_ALL = [span for spans in MIXTURES.values() for span in spans]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = await Rig.opened(tmp_path / "data")
    yield rig
    await rig.close()


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("spans", MIXTURES.values(), ids=MIXTURES)
async def test_one_call_is_billed_once(rig: Rig, spans: list[Span], *, together: bool, backwards: bool) -> None:
    front = Front(rig.spool, Core(rig.spool, rig.counting), Parser(ParseRules(Prices())), now_ms=rig.clock)
    ordered = spans[::-1] if backwards else spans
    for part in [ordered] if together else [[span] for span in ordered]:
        await front.put(Payload("traces", body(*part), json=False), Sender("k", "peer"))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (100, 20)
    assert record["request_model"] in {"gpt-4o", None}
    assert "conflict" not in record["flags"]
    assert "unfinished" not in record["flags"]
