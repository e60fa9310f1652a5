"""Captured payloads with known truth, through decoder, normaliser, ledger and spool: exactly the
calls that were served, however often they come, explained as they are counted, and the same when a
gateway hands them on.
"""

import pytest

from tests.conformance.corpus.coming_again import assert_come_through
from tests.conformance.corpus.counting import billed, counted, explained, sent
from tests.conformance.corpus.explaining import assert_like, assert_names, check
from tests.conformance.corpus.truths import (
    BEYOND_THE_METRICS,
    BEYOND_THE_PAYLOAD,
    CONTENT_ONLY,
    LOGS,
    LOST_IN_LOGS,
    METRICS,
    SAME_CALLS,
    TRACES,
    Together,
    assert_served,
    served,
    totals,
)
from tests.support.compare import differences
from tests.support.corpus import Scenario

ALL = [*TRACES, *LOGS, *METRICS]
each_scenario = pytest.mark.parametrize("scenario", ALL, ids=lambda x: f"{x.name}.{x.payloads[0].signal}")


@each_scenario
async def test_a_captured_payload_gives_exactly_what_was_served_also_when_it_comes_twice(scenario: Scenario) -> None:
    payloads = [sent(payload) for payload in scenario.payloads]
    once = await counted(*payloads)
    assert_served(scenario, once)
    twice = await counted(*payloads, *payloads)
    if scenario.payloads[0].signal == "metrics":
        assert totals(twice.parsed) == totals(once.parsed)
    else:
        assert billed(twice.records) == billed(once.records)


@each_scenario
async def test_an_explanation_says_what_the_record_and_the_count_say(scenario: Scenario) -> None:
    payloads = [sent(payload) for payload in scenario.payloads]
    found = await explained(*payloads)
    check(found)
    assert_like(found, await counted(*payloads))
    if scenario.payloads[0].signal == "traces":
        assert_names(scenario, found)


@each_scenario
async def test_records_that_come_again_are_as_they_were(scenario: Scenario) -> None:
    first = await counted(*(sent(payload) for payload in scenario.payloads))
    await assert_come_through(first.records)


@pytest.mark.parametrize("together", SAME_CALLS, ids=repr)
@pytest.mark.parametrize("metrics_first", [True, False])
async def test_metrics_of_reported_calls_add_nothing_in_any_order(together: Together, *, metrics_first: bool) -> None:
    calls, metrics = (
        [sent(payload) for payload in scenario.payloads] for scenario in (together.calls, together.metrics)
    )
    alone = (await counted(*calls)).parsed
    records = (await counted(*metrics, *calls) if metrics_first else await counted(*calls, *metrics)).parsed
    reported = [record for record in records if record["kind"] == "call"]
    assert {record["record_id"] for record in reported} == {record["record_id"] for record in alone}
    assert totals(reported) == totals(alone)
    if alone:
        assert len(reported) == len(records)
    else:  # these calls' own signal states no call: the metrics are all there is
        assert totals(records) == totals((await counted(*metrics)).parsed)


async def test_two_cumulative_exports_count_once_in_any_order_and_with_any_of_them_lost_or_repeated() -> None:
    (scenario,) = (found for found in METRICS if found.name == "otlp/otel-openai-v2/chat_twoexports")
    first, second = (sent(payload) for payload in scenario.payloads)
    for order in ([first, second], [second, first], [second], [first, second, first, second]):
        assert totals((await counted(*order)).parsed) == served(scenario)


async def test_one_event_in_both_of_its_shapes_is_one_call() -> None:
    """Claude Code sent its numbers as texts before it sent them as numbers; the request id is the
    same.
    """
    shapes = [s for s in LOGS if s.name.startswith("assistants/claude-code/api_request")]
    assert len(shapes) == 2
    found = await counted(*(sent(payload) for scenario in shapes for payload in scenario.payloads))
    assert differences(shapes[0].meta, found.parsed) == []


def test_the_corpus_is_there() -> None:
    assert (len(TRACES) > 200, len(LOGS) > 45, len(METRICS) > 100, len(SAME_CALLS) > 120) == (True,) * 4
    assert {scenario.name for scenario in TRACES} >= set(BEYOND_THE_PAYLOAD)
    assert {scenario.name for scenario in LOGS} >= set(LOST_IN_LOGS)
    assert {scenario.name for scenario in METRICS} >= set(BEYOND_THE_METRICS)
    assert sum(scenario.name.startswith(CONTENT_ONLY) for scenario in LOGS) > 15
