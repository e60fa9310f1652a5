"""Spans that look like AI work and are no calls, by source: what agent frameworks send by
themselves, as their published sources write it.
"""

from typing import Any

import pytest

from gateway.rules.call import Normalised
from tests.unit.rules.spans import TRACE_ID, normalised

SECRET = "CANARY-7Q-PROMPT"


def found(out: Normalised) -> dict[tuple[str | None, str], tuple[int, set[bytes]]]:
    return {source: (spans.n, spans.traces) for source, spans in out.ai_spans.items()}


@pytest.mark.parametrize(
    ("scope", "name", "attributes"),
    [
        ("crewai.telemetry", "Crew Created", {"crewai_version": "1.1", "crew_key": "k", "crew_agents": SECRET}),
        ("crewai.telemetry", "Task Execution", {"task_key": "k"}),
        ("autogen-core", "autogen process Worker", {"messaging.operation": "process", "messaging.destination": "a"}),
        ("autogen-core", "invoke_agent writer", {"gen_ai.operation.name": "invoke_agent", "gen_ai.system": "autogen"}),
        ("own.framework", "plan", {"llm.plan.step": 3}),
        ("langgraph", "node", {}),
        ("openinference.instrumentation.agno", "Agent.run", {"openinference.span.kind": "AGENT"}),
    ],
)
def test_an_agent_frameworks_own_span_is_noted_with_its_source(
    scope: str, name: str, attributes: dict[str, Any]
) -> None:
    out = normalised(attributes, scope=scope, name=name, resource={"service.name": "crew"})
    assert not out.calls
    assert found(out) == {("crew", scope): (1, {TRACE_ID})}
    assert SECRET not in repr(out)


@pytest.mark.parametrize(
    ("scope", "attributes"),
    [
        ("http", {"http.route": "/x", "server.address": "a"}),
        ("mcp.server", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}),
        ("openinference.instrumentation.langchain", {"openinference.span.kind": "RETRIEVER"}),
        ("openinference.instrumentation.langchain", {"openinference.span.kind": "TOOL"}),
    ],
)
def test_what_may_well_call_no_model_is_not(scope: str, attributes: dict[str, Any]) -> None:
    assert found(normalised(attributes, scope=scope, resource={"service.name": "app"})) == {}


def test_a_call_is_none() -> None:
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 1}
    out = normalised(call, scope="crewai.telemetry")
    assert len(out.calls) == 1
    assert found(out) == {}


def test_a_scope_that_is_no_name_is_left_unnamed() -> None:
    out = normalised({"llm.plan": 1}, scope=f"please tell me about {SECRET}")
    assert list(out.ai_spans) == [(None, "")]
