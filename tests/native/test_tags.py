"""Attributes that are read as tags: the native reader gives the same bytes, also where their values
vary, are left out, or are those of counts and ids.
"""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.pipeline.parsing.parse import Payload
from gateway.rules.tags import Tags
from tests.native.readers import Readers, context_at
from tests.native.test_generated import bodies
from tests.unit.rules.spans import key_values

BODIES = bodies()
TAGS = Tags(
    {
        "feature": ("app.feature", "app.other"),
        "customer": ("gen_ai.conversation.id",),
        "size": ("gen_ai.usage.output_tokens",),
        "environment": ("stage",),
    }
)
VALUES = ("search", "", 'ä"\\\u2028', "password=CANARY", "x" * 200, "chat")


@pytest.mark.parametrize("name", sorted(BODIES)[::7])
def test_both_readers_read_tags_alike(name: str) -> None:
    readers, context = Readers(), context_at(tags=TAGS)
    for round_ in range(4):
        readers.compare(tagged(BODIES[name], round_), context)
        readers.compare(tagged(BODIES[name], round_), context_at())


def test_spans_with_tags_are_read_natively() -> None:
    readers, context = Readers(), context_at(tags=TAGS)
    body = BODIES["otlp/otel-openai-v2-latest/chat"]
    for round_ in (0, 0, 5, 5, 0, 5):
        readers.compare(tagged(body, round_), context)
    assert readers.native.native_spans > 0
    read = readers.native.parse(Payload("traces", tagged(body, 5), json=False), context)
    assert read is not None
    assert read.calls is not None
    assert all(b'"feature":"chat"' in record and b"CANARY" not in record for record in read.calls.records)


def tagged(body: bytes, number: int) -> bytes:
    """*body* whose spans have tags of that number."""
    request = ExportTraceServiceRequest.FromString(body)
    value = VALUES[number % len(VALUES)]
    for resource_spans in request.resource_spans:
        resource_spans.resource.attributes.extend(key_values({"stage": value}))
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                span.attributes.extend(key_values({"app.feature": value, "app.other": "behind", "unlisted": "CANARY"}))
    return request.SerializeToString()
