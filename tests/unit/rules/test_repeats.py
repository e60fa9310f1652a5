"""Spans that repeat the call above them: each is compared with the call, not with the others."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.traces import normalise_traces
from tests.support.steps import steps_of
from tests.unit.rules.spans import CONTEXT, END_NS, START_NS, TRACE_ID, key_values

CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.system": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 5,
    "gen_ai.usage.output_tokens": 6,
}


def repeated(n: int) -> bytes:
    """A call of LiteLLM, and below it so many answers of its provider, each another one's."""
    request = ExportTraceServiceRequest()
    scope_spans = request.resource_spans.add().scope_spans.add()
    scope_spans.scope.name = "litellm"
    for number in range(n + 1):
        answer = {
            "llm.openai.id": f"r{number}",
            "llm.openai.usage": f"{{'prompt_tokens': {number}, 'completion_tokens': 3}}",
        }
        scope_spans.spans.add(
            name="raw_gen_ai_request" if number else "litellm_request",
            trace_id=TRACE_ID,
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=(1).to_bytes(8, "big") if number else b"",
            start_time_unix_nano=START_NS,
            end_time_unix_nano=END_NS,
            attributes=key_values({**CALL, **(answer if number else {})}),
        )
    return request.SerializeToString()


def test_many_spans_that_repeat_one_call_are_read_in_linear_time() -> None:
    def work(n: int) -> int:
        body = repeated(n)
        return steps_of(lambda: normalise_traces(decode_traces(body), CONTEXT))

    work(10)
    assert work(400) < 6 * work(100)


def test_only_the_answer_that_fits_best_is_the_calls_own() -> None:
    found = normalise_traces(decode_traces(repeated(9)), CONTEXT)
    assert [each.record["response_id"] for each in found.calls] == [None, *(f"r{n}" for n in range(2, 10))]
