"""What each captured scenario served, and which of it its payloads do not report."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.corpus.counting import Counted
from tests.support.compare import differences
from tests.support.corpus import Scenario, scenarios

TRACES = list(scenarios("traces"))
LOGS = list(scenarios("logs"))
METRICS = list(scenarios("metrics"))
WHOLES = ("input_tokens", "output_tokens")

BEYOND_THE_PAYLOAD = {
    "gateways/litellm/otel_v1_cache_hit": "the file keeps the list price of a cache hit; a hit costs nothing here",
    "gateways/litellm/otel_v1_newer_fastapi_no_usage": "the one span that arrives does not name the model asked for",
    "otlp/litellm-1.80/otel": "of a stream LiteLLM names no model but the one asked for",
    "otlp/openinference-anthropic-sdk0/messages_stream": "input without the cache, and no cache counts",
}
"""Scenario -> why what was served cannot be reported from what was sent. Tested as such: one that
is right after all fails."""

CONTENT_ONLY = (
    "otlp/litellm/",
    "otlp/litellm-latest/",
    "otlp/litellm-v2/",
    "otlp/otel-js-openai/",
    "otlp/otel-openai-v2-old/",
)
"""Clients whose logs hold messages and errors, without model or usage: the
calls are in their traces."""

LOST_IN_LOGS = {
    "assistants/qwen-code/chat_logs_2": "the request's event, which names the model asked for, came in the export before",
    "otlp/google-adk/chat": "its details name no model",
    "otlp/google-adk/chat_tools": "its details name no model",
    "otlp/semantic-kernel/chat": "its logs hold messages and functions, without model or usage",
    "otlp/otel-openai-v2-latest/multi": "embeddings have no details event",
    "otlp/otel-openai-v2-latest/multi_grpc": "embeddings have no details event",
}
"""Scenario -> why its logs do not state all of the truth. Tested as such: one
that is right after all fails."""

BEYOND_THE_METRICS = {
    "otlp/mlflow/chat": "MLflow has no metric of tokens",
    "otlp/mlflow/chat_semconv": "MLflow has no metric of tokens",
    "otlp/mlflow/chat_stream": "MLflow has no metric of tokens",
    "otlp/mlflow/messages": "MLflow has no metric of tokens",
    "otlp/mlflow/messages_semconv": "MLflow has no metric of tokens",
    "otlp/openllmetry-anthropic-old/messages_stream": "the library reports no usage of this stream at all",
    "otlp/openllmetry-openai-old/chat_stream": "the library reports no usage of this stream at all",
    "otlp/openllmetry-anthropic/messages_stream_helper": "the library adds one token to the output",
    "otlp/openllmetry-anthropic-sdk0/messages_stream": "the library adds one token to the output",
    "otlp/bedrock/converse": "the metric leaves out the cache, and no attribute says so",
    "otlp/openlit/messages": "the metric leaves out the cache, and no attribute says so",
    "otlp/semantic-kernel/chat": "its metrics are durations",
    "otlp/strands-1.62/anthropic": "its metrics have names of their own and no model",
    "otlp/openllmetry-langchain/lc_anthropic": "the metric leaves out the cache, and no attribute says so",
}
"""Scenario -> why its metrics do not state what was served. Tested as such: one
that is right after all fails."""


def assert_served(scenario: Scenario, counted: Counted) -> None:
    """The records of *scenario* are the calls that were served, or for metrics their sums."""
    match scenario.payloads[0].signal:
        case "traces":
            assert_traces(scenario, counted)
        case "logs":
            assert_logs(scenario, counted)
        case _:
            assert_metrics(scenario, counted)


def assert_traces(scenario: Scenario, counted: Counted) -> None:
    found = differences(scenario.meta, counted.parsed)
    assert bool(found) == (scenario.name in BEYOND_THE_PAYLOAD), found
    assert not counted.rejected


def assert_logs(scenario: Scenario, counted: Counted) -> None:
    assert not counted.rejected
    if scenario.name.startswith(CONTENT_ONLY):
        assert counted.records == []
        assert counted.outcomes["suppressed"] == counted.outcomes["received"]
        return
    found = differences(scenario.meta, counted.parsed)
    assert bool(found) == (scenario.name in LOST_IN_LOGS), found
    assert all("should be" in difference and "tokens" not in difference for difference in found), found


def assert_metrics(scenario: Scenario, counted: Counted) -> None:
    records = counted.parsed
    assert {record["kind"] for record in records} <= {"aggregate"}
    if "expected_totals" in scenario.meta:
        assert differences(scenario.meta, records) == []
    else:
        assert (totals(records) != served(scenario)) == (scenario.name in BEYOND_THE_METRICS)


def totals(records: Sequence[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(x["usage"].get(name) or 0 for x in records) for name in WHOLES}


def served(scenario: Scenario) -> dict[str, int]:
    calls = [call for call in scenario.meta["expected"] for _ in range(call.get("n_records", 1))]
    return {name: sum(call.get(name) or 0 for call in calls) for name in WHOLES}


# ---- metrics of calls that other signals report one by one


class Together(NamedTuple):
    """Metrics, and what reports the same calls one by one."""

    metrics: Scenario
    calls: Scenario

    def __repr__(self) -> str:
        return f"{self.metrics.name}+{self.calls.payloads[0].signal}"


def same_calls() -> Iterator[Together]:
    """Every scenario of metrics with each file of calls that its own files, or
    its `same_calls_as`, name.
    """
    calls_of = [{scenario.name: scenario for scenario in each} for each in (TRACES, LOGS)]
    for metrics in METRICS:
        folder = Path(metrics.name).parent
        names = [metrics.name, *(str(folder / Path(name).stem) for name in metrics.meta.get("same_calls_as", []))]
        for calls in (by_name[name] for name in names for by_name in calls_of if name in by_name):
            yield Together(metrics, calls)


SAME_CALLS = list(same_calls())
