"""Many spans of few shapes, as programs send them: both readers give the same.

NATIVE_SPANS=1000000 python -m pytest tests/native/test_generated.py
"""

import os
from random import Random

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.rules.context import Context
from spool.clock import rfc3339_ms
from tests.native.readers import HASHED, LABELLED, NOW_MS, Readers, context_at
from tests.native.varied import varied
from tests.support.corpus import scenarios

SPANS = int(os.environ.get("NATIVE_SPANS", "12000"))
EACH = 40
"""Spans of a scope."""
SENDERS = (
    "otlp/otel-openai-v2-latest/chat",
    "otlp/otel-openai-v2-latest/embeddings",
    "otlp/anthropic-sdk-native/messages",
    "otlp/openllmetry-openai/chat",
    "otlp/otel-openai-v2-latest/chat_reasoning",
    "otlp/bedrock/converse",
    "otlp/otel-openai-agents-v2/chat_tools",
    "otlp/openlit/chat",
    "otlp/otel-google-genai/generate",
)


def many(body: bytes, random: Random) -> ExportTraceServiceRequest:
    """The payload *body* with so many spans in each scope."""
    request = ExportTraceServiceRequest.FromString(body)
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            kinds = list(scope_spans.spans)
            for _ in range(EACH - len(kinds)):
                scope_spans.spans.add().CopyFrom(random.choice(kinds))
    return request


def bodies() -> dict[str, bytes]:
    return {x.name: x.payloads[0].body for x in scenarios("traces") if x.name in SENDERS}


@pytest.mark.parametrize("context", [context_at(), LABELLED, HASHED], ids=["key", "labels", "hashed"])
def test_many_spans_of_few_shapes_are_read_alike(context: Context, chance: Random) -> None:
    readers, n = Readers(), 0
    found = bodies()
    requests = [many(found[name], chance) for name in SENDERS]
    now_ms = NOW_MS
    while n < SPANS // 3:
        for request in requests:
            now_ms += chance.randrange(600_000)
            at = context._replace(received_at_ms=now_ms, received_at=rfc3339_ms(now_ms))
            payload = varied(request, chance, 0.02)
            n += sum(len(x.spans) for y in payload.resource_spans for x in y.scope_spans)
            readers.compare(payload.SerializeToString(), at)
    assert readers.native.native_spans > n / 5
    assert "differs" not in readers.native.python_payloads
    assert "differs" not in readers.native.python_spans
