"""Every captured traces payload: what the normaliser alone gives is the truth, but
where the ledger must decide. Each is read once.
"""

from functools import cache

import pytest

from gateway.common.operations import rfc3339
from gateway.read.otlp_json import decode_traces_json
from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.call import LINK_BYTES, Call, Normalised
from gateway.rules.context import Context
from gateway.rules.conventions.choose import MARKED, SCOPES
from gateway.rules.record import record_json
from gateway.rules.traces import normalise_traces
from tests.support.compare import differences
from tests.support.corpus import CANARY, Payload, Scenario, scenarios

RECEIVED_MS = 1_795_160_000_000
CONTEXT = Context(RECEIVED_MS, rfc3339(RECEIVED_MS), key="corpus")
SCENARIOS = list(scenarios("traces"))

TWO_REPORTS_OF_ONE_CALL = {
    # LiteLLM gives the response an id of its own; the span below it has the provider's.
    "gateways/litellm/otel_v1_anthropic": 2,
    "otlp/litellm/messages": 2,
    "otlp/litellm/responses": 2,
    # The Anthropic SDK reports each call by itself; an instrumentation or a framework above reports
    # it again.
    "otlp/agno/anthropic": 2,
    "otlp/langsmith-otel/lc_anthropic": 2,
    "otlp/langsmith-otel/lc_anthropic_stream": 2,
    "otlp/openinference-anthropic/messages": 2,
    "otlp/openinference-anthropic/messages_async": 2,
    "otlp/openinference-anthropic/messages_error429": 2,
    "otlp/openinference-anthropic/messages_error529_stream": 2,
    "otlp/openinference-anthropic/messages_nocache": 2,
    "otlp/openinference-anthropic/messages_stream": 2,
    "otlp/openinference-anthropic/messages_tools": 4,
    "otlp/openllmetry-anthropic/messages": 2,
    "otlp/openllmetry-anthropic/messages_async": 2,
    "otlp/openllmetry-anthropic/messages_error429": 2,
    "otlp/openllmetry-anthropic/messages_error529_stream": 2,
    "otlp/openllmetry-anthropic/messages_gzip": 2,
    "otlp/openllmetry-anthropic/messages_nocache": 2,
    "otlp/openllmetry-anthropic/messages_stream_helper": 2,
    "otlp/openllmetry-langchain/lc_anthropic": 2,
    "otlp/pydantic-ai/anthropic": 2,
    "otlp/traceloop-sdk/messages": 2,
    "otlp/agentops/calls": 15,
    "otlp/langwatch/calls": 6,
    "otlp/ag2-1.2/anthropic": 3,
    "otlp/ag2-1.2/chat": 2,
    "otlp/haystack/own_chat": 2,
    "otlp/langtrace/anthropic": 2,
    # Logfire reports a stream in two spans.
    "otlp/logfire/chat_stream": 2,
    # OpenInference for LangChain and for OpenAI at once.
    "otlp/openinference-langchain-plus-openai/lc_chain": 2,
    "otlp/openinference-langchain-plus-openai/lc_chat": 2,
}
"""Scenario -> reports that the normaliser gives; the ledger makes calls of them."""

BEYOND_THE_PAYLOAD = {
    "gateways/litellm/otel_v1_cache_hit": "the meta file keeps the list price; a gateway's cache hit costs nothing",
    "gateways/litellm/otel_v1_newer_fastapi_no_usage": "the one span that arrives does not name the model asked for",
    "otlp/litellm-1.80/otel": "of a stream LiteLLM names no model but the one asked for",
    "otlp/openinference-anthropic-sdk0/messages_stream": "exclusive input, and the cache counts are not sent",
}

BY_THE_LEDGER = {
    "otlp/openinference-js-langchain-plus-anthropic/chat_stream": "two instrumentations report the call",
    "otlp/openinference-js-langchain-plus-anthropic/agent_stream": "two instrumentations report each call, of which one adds a token",
    "otlp/openinference-langchain-plus-openai/chat_stream_abandoned": "two instrumentations report the call",
    "otlp/openinference-openai-agents-plus-openai/responses_tools": "two instrumentations report each call",
    "otlp/langsmith-otel/lc_error529_stream": "the client reports its calls too",
    "otlp/openllmetry-langchain-plus-openinference/graph": "of several reports of a call one states 0 for what it does not know",
    "otlp/openllmetry-langchain-plus-openinference/agent_stream": "of several reports of a call one states no usage",
    "otlp/openinference-langchain-plus-openllmetry/gather": "of several reports of a call one states no usage",
    "otlp/openinference-langchain-plus-openllmetry/anthropic_stream": "of two reports one states no usage",
    "otlp/monocle/messages_tools": "the client reports its calls too",
    "otlp/langtrace/anthropic": "one of two reports does not name the model asked for",
    "otlp/voltagent/tools": "the agent's span states the sum of its steps, one of which has a span too",
}
"""Scenario -> why its reports are right only together."""

OWN_RESOURCE = {
    "otlp/vercel-ai-v6/messages_tools_stream",
    "otlp/vercel-ai-v6/nested",
    "otlp/openinference-js-langchain-plus-anthropic/chat_stream",
    "otlp/openinference-js-langchain-plus-anthropic/agent_stream",
    "otlp/openinference-langchain-plus-openai/chat_stream_abandoned",
    "otlp/openinference-openai-agents-plus-openai/responses_tools",
    "otlp/langtrace/responses",
    "otlp/logfire-openai-agents/error500",
    "otlp/logfire-openai-agents/chat",
    "otlp/langsmith-otel/wrap_error500_responses",
    "otlp/langsmith-otel/lc_error529_stream",
    "otlp/traceai/messages_tools",
    "otlp/traceai/chat",
    "otlp/haystack/oi_responses",
    "otlp/haystack/oi_embeddings",
    "otlp/mlflow/embeddings",
    "otlp/openllmetry-langchain-plus-openinference/graph",
    "otlp/openllmetry-langchain-plus-openinference/agent_stream",
    "otlp/openinference-langchain-plus-openllmetry/gather",
    "otlp/openinference-langchain-plus-openllmetry/anthropic_stream",
    "otlp/monocle/messages_tools",
    "otlp/voltagent/tools",
    "otlp/monocle/chat",
    "otlp/ax/chat",
    "otlp/agentops/calls",
    "otlp/azure-ai-inference/calls",
    "otlp/effect-ai/calls",
    "otlp/guardrails/calls",
    "otlp/honeyhive/calls",
    "otlp/judgeval/calls",
    "otlp/laminar/calls",
    "otlp/langwatch/calls",
    "otlp/openinference-autogen/calls",
    "otlp/openinference-groq/calls",
    "otlp/openinference-openai-agents/calls",
    "otlp/openllmetry-groq/calls",
    "otlp/openllmetry-openai-agents/calls",
    "otlp/promptflow/calls",
    "otlp/trulens/calls",
}
"""Their libraries make the resource themselves."""


@cache
def read(payload: Payload) -> Normalised:
    decode = decode_traces_json if payload.is_json else decode_traces
    return normalise_traces(decode(payload.body), CONTEXT)


def calls_of(scenario: Scenario) -> list[Call]:
    return [call for payload in scenario.payloads for call in read(payload).calls]


def test_the_corpus_is_there_and_full_of_content_to_leak() -> None:
    assert len(SCENARIOS) > 200
    leaky = [s for s in SCENARIOS if any(CANARY.encode() in payload.body for payload in s.payloads)]
    assert len(leaky) > 150


@pytest.mark.parametrize("scenario", SCENARIOS, ids=repr)
def test_records_are_the_truth_of_the_scenario(scenario: Scenario) -> None:
    calls = calls_of(scenario)
    found = differences(scenario.meta, [call.record for call in calls])
    if scenario.name in TWO_REPORTS_OF_ONE_CALL:
        assert len(calls) == TWO_REPORTS_OF_ONE_CALL[scenario.name]
        found = [difference for difference in found if "calls, should be" not in difference]
    if scenario.name in BEYOND_THE_PAYLOAD or scenario.name in BY_THE_LEDGER:
        assert found
    else:
        assert not found
    for call in calls:
        assert_has_what_the_service_requires(call)
    if scenario.name.startswith("otlp/"):
        assert_response_ids(scenario, calls)
        assert_attribution(scenario, calls)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=repr)
def test_every_span_has_one_outcome_and_none_leaves_content(scenario: Scenario) -> None:
    """Each span that is no call leaves a link."""
    for payload in scenario.payloads:
        out = read(payload)
        assert not out.rejected
        assert out.items == len(out.calls) + sum(out.suppressed.values()) + out.ignored
        assert len(out.links) == out.items - len(out.calls)
        assert {len(link) for link in out.links} <= {LINK_BYTES}
        assert CANARY not in repr(out)
        assert all(CANARY.encode() not in record_json(call.record) for call in out.calls)


def assert_has_what_the_service_requires(call: Call) -> None:
    record = call.record
    assert record["provider"] or record["request_model"]
    assert len(record["record_id"]) == 32
    assert record["kind"] == "call"
    assert record["source"]["format"] == "otlp.traces"
    assert record["operation"]
    assert record["started_at"].endswith("Z")
    assert record["usage"]["status"] in {"reported", "partial", "estimated", "missing", "none"}


def assert_response_ids(scenario: Scenario, calls: list[Call]) -> None:
    """They are found wherever the payload has them: the ledger joins reports by them.

    LiteLLM gives its clients ids of its own, which are kept as they see them.
    """
    if "/litellm" in scenario.name:
        return
    found = {call.record["response_id"] for call in calls}
    for expected in scenario.meta["expected"]:
        absent = [*expected.get("not_in_payload", []), *(scenario.meta.get("not_in_payload") or [])]
        if expected.get("response_id") and expected.get("n_records", 1) and "response_id" not in absent:
            assert expected["response_id"] in found


def assert_attribution(scenario: Scenario, calls: list[Call]) -> None:
    """User and session are those of the call's spans, team and environment are the resource's."""
    marks = scenario.meta.get("observed", {}).get("attribution", {})
    for field, value in (("user", "user-7Q-1"), ("session", "sess-7Q-1")):
        if marks.get(field) and "multi" not in scenario.name and calls:
            assert any(call.record["attribution"].get(field) == value for call in calls)
    for call in calls:
        attribution = call.record["attribution"]
        if scenario.name not in OWN_RESOURCE:
            assert attribution["team"] == "team-7Q"
            assert attribution["environment"] == "staging"
        assert attribution["key"] == "corpus"


NOT_CAPTURED = frozenset({"goose", "vercel"})
"""Conventions that no payload of the corpus has; published semantics hold them."""


def test_every_convention_of_spans_has_a_payload_with_its_true_counts() -> None:
    conventions = {convention.name for convention in (*SCOPES.values(), *MARKED)}
    read = {call.record["source"]["convention"] for scenario in SCENARIOS for call in calls_of(scenario)}
    assert conventions - read == NOT_CAPTURED
