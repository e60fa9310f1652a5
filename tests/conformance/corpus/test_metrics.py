"""Captured metrics with known truth: alone they give the sums that were served,
beside calls they add nothing.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from tests.support.compare import differences
from tests.support.corpus import CANARY, Payload, Scenario, scenarios

METRICS = list(scenarios("metrics"))
TRACES = {scenario.name: scenario for scenario in scenarios("traces")}
LOGS = {scenario.name: scenario for scenario in scenarios("logs")}
WHOLES = ("input_tokens", "output_tokens")


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
    for metrics in METRICS:
        folder = Path(metrics.name).parent
        names = [metrics.name, *(str(folder / Path(name).stem) for name in metrics.meta.get("same_calls_as", []))]
        for calls in (found for name in names for found in (TRACES.get(name), LOGS.get(name)) if found is not None):
            yield Together(metrics, calls)


SAME_CALLS = list(same_calls())

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
    "otlp/bedrock/converse": "the metric leaves out the cache, and no attribute tells",
    "otlp/openlit/messages": "the metric leaves out the cache, and no attribute tells",
    "otlp/semantic-kernel/chat": "its metrics are durations",
    "otlp/openllmetry-langchain/lc_anthropic": "the metric leaves out the cache, and no attribute tells",
}
"""Scenario -> why its metrics do not state what was served. Tested as such: one
that is right after all fails."""


def arguments(payload: Payload) -> tuple[bytes, str, str, str]:
    content_type = "application/json" if payload.is_json else "application/x-protobuf"
    return payload.body, f"/v1/{payload.signal}", content_type, ""


async def parsed(payloads: Sequence[Payload]) -> list[dict[str, object]]:
    """The records of *payloads*; what they must never hold, and the identity of their
    items, is checked on the way.
    """
    records, _, outcomes = await records_of_payloads([arguments(payload) for payload in payloads])
    assert not any(CANARY.encode() in record for record in records)
    assert outcomes["received"] == sum(n for outcome, n in outcomes.items() if outcome != "received")
    return [orjson.loads(record) for record in records]


def totals(records: Sequence[dict[str, object]]) -> dict[str, int]:
    return {name: sum(orjson.loads(orjson.dumps(x["usage"])).get(name) or 0 for x in records) for name in WHOLES}


def served(scenario: Scenario) -> dict[str, int]:
    calls = [call for call in scenario.meta["expected"] for _ in range(call.get("n_records", 1))]
    return {name: sum(call.get(name) or 0 for call in calls) for name in WHOLES}


@pytest.mark.parametrize("scenario", METRICS, ids=repr)
async def test_metrics_alone_sum_up_to_what_was_served(scenario: Scenario) -> None:
    records = await parsed(scenario.payloads)
    assert {record["kind"] for record in records} <= {"aggregate"}
    if "expected_totals" in scenario.meta:
        assert differences(scenario.meta, records) == []
    else:
        assert (totals(records) != served(scenario)) == (scenario.name in BEYOND_THE_METRICS)


@pytest.mark.parametrize("scenario", METRICS, ids=repr)
async def test_metrics_that_come_twice_count_once(scenario: Scenario) -> None:
    assert totals(await parsed([*scenario.payloads, *scenario.payloads])) == totals(await parsed(scenario.payloads))


@pytest.mark.parametrize("together", SAME_CALLS, ids=repr)
@pytest.mark.parametrize("metrics_first", [True, False])
async def test_metrics_beside_calls_add_nothing_in_any_order(together: Together, *, metrics_first: bool) -> None:
    calls, metrics = together.calls.payloads, together.metrics.payloads
    alone = await parsed(calls)
    records = await parsed([*metrics, *calls] if metrics_first else [*calls, *metrics])
    reported = [record for record in records if record["kind"] == "call"]
    assert {record["record_id"] for record in reported} == {record["record_id"] for record in alone}
    assert totals(reported) == totals(alone)
    if alone:
        assert len(reported) == len(records)
    else:  # these calls' own signal states no call: the metrics are all there is
        assert totals(records) == totals(await parsed(metrics))


async def test_two_cumulative_exports_count_once_in_any_order_and_with_any_of_them_lost_or_repeated() -> None:
    (scenario,) = (found for found in METRICS if found.name == "otlp/otel-openai-v2/chat_twoexports")
    first, second = scenario.payloads
    for order in ([first, second], [second, first], [second], [first, second, first, second]):
        assert totals(await parsed(order)) == served(scenario)


def test_the_corpus_is_there() -> None:
    assert len(METRICS) > 100
    assert len(SAME_CALLS) > 120
    assert {scenario.name for scenario in METRICS} >= set(BEYOND_THE_METRICS)
