"""Mastra's exporter, as its published source writes spans: the generation is the call, its steps
and chunks are not.
"""

from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.call import Normalised
from gateway.rules.traces import normalise_traces
from tests.unit.rules.spans import CONTEXT, END_NS, START_NS, TRACE_ID, key_values

AGENT, GENERATION, STEP, CHUNK = (bytes([n]) * 8 for n in range(1, 5))
WHO = {"mastra.metadata.userId": "u-1", "mastra.metadata.threadId": "s-1"}
CALL = {
    "gen_ai.operation.name": "chat",
    "mastra.span.type": "model_generation",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.provider.name": "openai",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.response.finish_reasons": '["stop"]',
}


def exported(*spans: tuple[bytes, bytes, dict[str, Any]]) -> Normalised:
    request = ExportTraceServiceRequest()
    scope_spans = request.resource_spans.add().scope_spans.add()
    scope_spans.scope.name = "@mastra/otel-exporter"
    for own, above, attributes in spans:
        scope_spans.spans.add(
            trace_id=TRACE_ID,
            span_id=own,
            parent_span_id=above,
            name=f"{attributes['gen_ai.operation.name']} x",
            start_time_unix_nano=START_NS,
            end_time_unix_nano=END_NS,
            attributes=key_values(attributes),
        )
    return normalise_traces(decode_traces(request.SerializeToString()), CONTEXT)


@pytest.mark.parametrize("name", ["gen_ai.response.model", "mastra.metadata.modelId", "modelId"])
def test_a_steps_model_is_that_of_the_generation_above_it(name: str) -> None:
    out = exported(
        (AGENT, b"", {"gen_ai.operation.name": "invoke_agent", "mastra.span.type": "agent_run", **WHO}),
        (GENERATION, AGENT, CALL),
        (STEP, GENERATION, {"gen_ai.operation.name": "model_step", name: "gpt-4o-2024-08-06"}),
        (CHUNK, STEP, {"gen_ai.operation.name": "model_chunk", name: "gpt-4o-2024-08-06"}),
    )
    (call,) = out.calls
    assert (call.record["request_model"], call.record["response_model"]) == ("gpt-4o", "gpt-4o-2024-08-06")
    assert (call.record["attribution"]["user"], call.record["attribution"]["session"]) == ("u-1", "s-1")


def test_steps_that_name_several_models_name_none() -> None:
    steps = [
        (bytes([9, n]) * 4, GENERATION, {"gen_ai.operation.name": "model_step", "gen_ai.response.model": f"gpt-{n}"})
        for n in (4, 5)
    ]
    (call,) = exported((GENERATION, b"", CALL), *steps).calls
    assert call.record["response_model"] is None


def test_the_older_exporter_has_bare_names_and_a_word_of_its_own() -> None:
    older = CALL | {"gen_ai.operation.name": "tool_selection", "userId": "u-1", "threadId": "s-1"}
    (call,) = exported((GENERATION, b"", older)).calls
    assert (call.record["operation"], call.record["attribution"]["user"]) == ("chat", "u-1")
