"""Captured logs with known truth, through decoder, normaliser, ledger and spool: the calls
that the logs alone report.
"""

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from tests.conformance.corpus.test_traces import arguments, billed
from tests.support.compare import differences
from tests.support.corpus import CANARY, Scenario, scenarios

LOGS = list(scenarios("logs"))

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


@pytest.mark.parametrize("scenario", LOGS, ids=repr)
async def test_captured_logs_give_exactly_the_calls_that_they_tell_of(scenario: Scenario) -> None:
    records, receipt, outcomes = await records_of_payloads([arguments(payload) for payload in scenario.payloads])
    assert not any(CANARY.encode() in record for record in records)
    assert not receipt.rejected
    assert outcomes["received"] == sum(n for outcome, n in outcomes.items() if outcome != "received")
    if scenario.name.startswith(CONTENT_ONLY):
        assert records == []
        assert outcomes["suppressed"] == outcomes["received"]
        return
    found = differences(scenario.meta, [orjson.loads(record) for record in records])
    assert bool(found) == (scenario.name in LOST_IN_LOGS), found
    assert all("should be" in difference and "tokens" not in difference for difference in found), found


@pytest.mark.parametrize("scenario", LOGS, ids=repr)
async def test_logs_that_come_twice_count_once(scenario: Scenario) -> None:
    once = [arguments(payload) for payload in scenario.payloads]
    first, _, _ = await records_of_payloads(once)
    twice, _, outcomes = await records_of_payloads([*once, *once])
    assert billed(twice) == billed(first)
    assert outcomes["received"] == sum(n for outcome, n in outcomes.items() if outcome != "received")


async def test_one_event_in_both_of_its_shapes_is_one_call() -> None:
    """Claude Code sent its numbers as texts before it sent them as
    numbers; the request id is the same.
    """
    shapes = [s for s in LOGS if s.name.startswith("assistants/claude-code/api_request")]
    assert len(shapes) == 2
    records, _, _ = await records_of_payloads([arguments(p) for s in shapes for p in s.payloads])
    assert differences(shapes[0].meta, [orjson.loads(record) for record in records]) == []


def test_the_corpus_is_there() -> None:
    assert len(LOGS) > 45
    assert {scenario.name for scenario in LOGS} >= set(LOST_IN_LOGS)
    assert sum(scenario.name.startswith(CONTENT_ONLY) for scenario in LOGS) > 15
