"""Captured payloads with known truth, through decoder, normaliser, ledger and spool: exactly
the calls that were served.
"""

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from tests.support.compare import differences
from tests.support.corpus import CANARY, Payload, Scenario, scenarios

TRACES = list(scenarios("traces"))

BEYOND_THE_PAYLOAD = {
    "gateways/litellm/otel_v1_cache_hit": "the file keeps the list price of a cache hit; a hit costs nothing here",
    "gateways/litellm/otel_v1_newer_fastapi_no_usage": "the one span that arrives does not name the model asked for",
    "otlp/litellm-1.80/otel": "of a stream LiteLLM names no model but the one asked for",
    "otlp/openinference-anthropic-sdk0/messages_stream": "input without the cache, and no cache counts",
}
"""Scenario -> why what was served cannot be reported from what was sent. Tested as such: one that
is right after all fails."""


def arguments(payload: Payload) -> tuple[bytes, str, str, str]:
    content_type = "application/json" if payload.is_json else "application/x-protobuf"
    return payload.body, f"/v1/{payload.signal}", content_type, ""


@pytest.mark.parametrize("scenario", TRACES, ids=repr)
async def test_a_captured_payload_gives_exactly_the_calls_that_were_served(scenario: Scenario) -> None:
    records, receipt, outcomes = await records_of_payloads([arguments(payload) for payload in scenario.payloads])
    found = differences(scenario.meta, [orjson.loads(record) for record in records])
    assert bool(found) == (scenario.name in BEYOND_THE_PAYLOAD), found
    assert not any(CANARY.encode() in record for record in records)
    assert not receipt.rejected
    assert outcomes["received"] == sum(n for outcome, n in outcomes.items() if outcome != "received")


@pytest.mark.parametrize("scenario", TRACES, ids=repr)
async def test_a_payload_that_comes_twice_counts_once(scenario: Scenario) -> None:
    once = [arguments(payload) for payload in scenario.payloads]
    first, _, _ = await records_of_payloads(once)
    twice, _, outcomes = await records_of_payloads([*once, *once])
    assert billed(twice) == billed(first)
    assert outcomes["received"] == sum(n for outcome, n in outcomes.items() if outcome != "received")


def billed(records: list[bytes]) -> list[tuple[object, ...]]:
    """What counts of each record, in an order of its own."""
    parsed = [orjson.loads(record) for record in records]
    return sorted((x["record_id"], x["billed"], orjson.dumps(x["usage"])) for x in parsed)


def test_the_corpus_is_there() -> None:
    assert len(TRACES) > 200
    assert {scenario.name for scenario in TRACES} >= set(BEYOND_THE_PAYLOAD)
