"""The benchmark of truth: what was served, how a shown total is judged, the plain sum, and the page
that is made of the stored totals.
"""

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from benchmarks.truth import pages
from benchmarks.truth.pages import Results
from benchmarks.truth.truths import (
    LeftOut,
    Totals,
    Truth,
    is_cost_right,
    plain_sum,
    requests_of,
    rounds,
    summary,
    truth_of,
    verdict,
)
from tests.support.corpus import Payload, Scenario, scenarios

TRUTH = Truth(Totals(3653, 1483, 0.02), Totals(2267, 1483))
ANTHROPIC = {
    "provider": "anthropic", "request_model": "claude-sonnet-4-5", "response_model": None, "input_tokens": 1000,
    "output_tokens": 100, "cache_read_input_tokens": 600, "cache_creation_input_tokens": 200,
}  # fmt: skip


def _request(*spans: dict[str, AnyValue], trace_id: bytes = b"t" * 16) -> ExportTraceServiceRequest:
    made = [
        Span(trace_id=trace_id, attributes=[KeyValue(key=key, value=value) for key, value in span.items()])
        for span in spans
    ]
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=made)])])


def _ints(**counts: int) -> dict[str, AnyValue]:
    return {name.replace("__", "."): AnyValue(int_value=count) for name, count in counts.items()}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ((3653, 1483), "exact"),
        ((2267, 1483), "exact"),
        ((0, 0), "nothing"),
        ((5039, 1483), "too high"),
        ((2267, 1484), "too high"),
        ((3653, 0), "too low"),
        ((3000, 1483), "too low"),
    ],
)
def test_a_total_is_right_where_both_sums_are_those_served_or_both_are_the_native_ones(
    shown: tuple[int, int], expected: str
) -> None:
    assert verdict(TRUTH, Totals(*shown)) == expected


def test_native_numbers_of_one_sum_and_canonical_ones_of_the_other_are_not_right() -> None:
    truth = Truth(Totals(3653, 240), Totals(2267, 150))
    assert verdict(truth, Totals(3653, 150)) == "too low"


def test_a_cost_is_right_within_2_percent() -> None:
    costs = (None, 0.0195, 0.0197, 0.0203, 0.0205)
    assert [cost for cost in costs if is_cost_right(TRUTH, Totals(3653, 1483, cost))] == [0.0197, 0.0203]
    unknown = TRUTH._replace(canonical=Totals(3653, 1483))
    assert not any(is_cost_right(unknown, Totals(3653, 1483, cost)) for cost in costs)


def test_the_native_input_leaves_the_cache_out_and_the_cost_is_the_list_price_of_its_parts() -> None:
    truth = truth_of({"expected": [ANTHROPIC, {**ANTHROPIC, "cost_usd": 0.5}]})
    assert isinstance(truth, Truth)
    assert truth.canonical.tokens == (2000, 200)
    assert truth.native == Totals(400, 200)
    # USD a million tokens: 3 for input, 0.30 for reads, 3.75 for writes, 15 for output
    assert truth.canonical.cost == pytest.approx((200 * 3 + 600 * 0.3 + 200 * 3.75 + 100 * 15) / 1e6 + 0.5)


def test_a_write_that_is_kept_for_an_hour_has_its_own_price() -> None:
    served = {"cache_creation": {"ephemeral_1h_input_tokens": 200}}
    truth = truth_of({"expected": [{**ANTHROPIC, "served_usage": served}]})
    assert isinstance(truth, Truth)
    assert truth.canonical.cost == pytest.approx((200 * 3 + 600 * 0.3 + 200 * 6 + 100 * 15) / 1e6)


def test_the_cost_of_calls_is_known_only_with_the_price_of_each() -> None:
    truth = truth_of({"expected": [ANTHROPIC, {**ANTHROPIC, "request_model": "nobody-sells-this"}]})
    assert isinstance(truth, Truth)
    assert truth.canonical == Totals(2000, 200, None)


@pytest.mark.parametrize(
    "meta",
    [
        {"expected": []},
        {"expected": [{**ANTHROPIC, "input_tokens": None, "output_tokens": None}]},
        {"expected": [ANTHROPIC], "upstream_truth": {"calls": 0}},
        {"expected": [ANTHROPIC], "upstream_truth": {"calls": 2}},
        {"expected": [ANTHROPIC], "deviations": ["call 1: output tokens 100 are on no span"]},
        {"expected": [{**ANTHROPIC, "n_records": 0}]},
        {"expected": [{**ANTHROPIC, "not_in_payload": ["input_tokens"]}]},
        {"expected": [ANTHROPIC], "not_in_payload": ["output_tokens"]},
    ],
)
def test_a_scenario_without_what_was_served_in_its_traces_is_left_out(meta: dict[str, Any]) -> None:
    assert isinstance(truth_of(meta), LeftOut)


def test_a_payload_that_holds_only_the_sum_of_its_calls_counts() -> None:
    calls = [ANTHROPIC, {**ANTHROPIC, "not_in_payload": ["input_tokens", "output_tokens"]}]
    assert isinstance(truth_of({"expected": calls, "sum_only": True}), Truth)


def test_the_plain_sum_takes_one_name_a_span_and_every_span() -> None:
    first = _ints(gen_ai__usage__input_tokens=10, gen_ai__usage__prompt_tokens=10, gen_ai__usage__output_tokens=4)
    second = _ints(llm__token_count__prompt=7, llm__token_count__completion=2)
    double = {"ai.usage.promptTokens": AnyValue(double_value=5.0), "name": AnyValue(string_value="x")}
    assert plain_sum([_request(first, second), _request(double)]) == Totals(10 + 7 + 5, 4 + 2)


def test_scenarios_of_one_trace_or_one_response_are_in_different_rounds() -> None:
    named = {"llm.response.id": AnyValue(string_value="chatcmpl-1")}
    langfuse = {"langfuse.observation.metadata.response_id": AnyValue(string_value="chatcmpl-1")}
    requests = {
        "a": (_request(named, trace_id=b"1"),),
        "same response": (_request(langfuse, trace_id=b"2"),),
        "same trace": (_request({}, trace_id=b"1"),),
        "b": (_request({}, trace_id=b"3"),),
    }
    assert [list(each) for each in rounds(requests)] == [["a", "b"], ["same response", "same trace"]]


def test_json_becomes_the_same_message_as_protobuf() -> None:
    span = b'{"traceId": "0102", "spanId": "03", "parentSpanId": "04", "attributes": [{"key": "a", "value": {"intValue": 5}}]}'
    body = b'{"resourceSpans": [{"scopeSpans": [{"spans": [' + span + b"]}]}]}"
    (request,) = requests_of(Scenario("a", {}, (Payload("traces", is_json=True, body=body),)))
    (found,) = request.resource_spans[0].scope_spans[0].spans
    assert (found.trace_id, found.span_id, found.parent_span_id) == (b"\x01\x02", b"\x03", b"\x04")
    assert found.attributes[0].value.int_value == 5
    again = Scenario("a", {}, (Payload("traces", is_json=False, body=request.SerializeToString()),))
    assert requests_of(again) == (request,)


def test_the_summary_counts_each_verdict_and_takes_the_median_of_what_is_too_high() -> None:
    shown = [
        (3653, 1483, 0.02),
        (2267, 1483, None),
        (7306, 2966, 0.04),
        (10959, 4449, None),
        (1, 0, None),
        (0, 0, None),
    ]
    found = summary((TRUTH, Totals(*each)) for each in shown)
    assert found.scenarios == found.known_costs == 6
    assert found.verdicts == {"exact": 2, "too high": 2, "too low": 1, "nothing": 1}
    assert (found.native, found.costs) == (1, 1)
    assert found.overcount == pytest.approx(2.5)


@pytest.fixture
def results() -> Results:
    truths = dict.fromkeys(("otlp/x/a", "otlp/x/b", "otlp/y/c", "otlp/y/d"), TRUTH)
    right, wrong = Totals(3653, 1483, 0.02), Totals(7306, 2966)
    return Results(
        {"day": "2026-01-05", "python": "3.11", "prices": "0.1", "gateway": "9.9"},
        {"no usage": 4},
        truths,
        {
            "gateway": {"otlp/x/a": right, "otlp/x/b": wrong, "otlp/y/c": right, "otlp/y/d": right},
            "sum": {"otlp/x/a": wrong, "otlp/x/b": right, "otlp/y/c": Totals(0, 0), "otlp/y/d": right},
        },
    )


def test_stored_results_are_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    results.write(tmp_path / "results.json")
    assert Results.read(tmp_path / "results.json") == results


def test_the_page_names_where_another_product_is_right_and_ours_is_not(results: Results) -> None:
    assert pages.better(results).splitlines()[2:] == [
        "| `otlp/x/b` | 3,653 in, 1,483 out | 7,306 in, 2,966 out | sum |"
    ]
    assert pages.better_costs(results).splitlines()[2:] == ["| `otlp/x/b` | 0.020000 USD | - | sum |"]
    results.shown["sum"]["otlp/x/b"] = Totals(1, 1)
    assert pages.better(results).startswith("There is no scenario")


def test_the_tables_have_a_row_for_each_product_and_each_client(results: Results) -> None:
    assert pages.products_table(results).splitlines()[2:] == [
        "| this gateway 9.9 | 4 | 3 (75.0%) | 0 | 1 | 0 | 0 | 2.00 | 3 of 4 |",
        "| sum of all token attributes | 4 | 2 (50.0%) | 0 | 1 | 0 | 1 | 2.00 | - |",
    ]
    assert pages.clients_table(results).splitlines() == [
        "| client | scenarios | gateway | sum |",
        "| --- | ---: | ---: | ---: |",
        "| `x` | 2 | 1 | 1 |",
        "| `y` | 2 | 2 | 1 |",
    ]


def test_the_figures_of_the_page_are_those_of_the_stored_results() -> None:
    page = pages.PAGE.read_text("utf-8")
    assert page.count("<!-- figures:") == len(pages.BLOCKS)
    assert pages.with_blocks(page, Results.read(pages.RESULTS)) == page, (
        "python -m benchmarks.truth --products --write-docs"
    )


def test_most_scenarios_with_traces_count() -> None:
    truths = [truth_of(scenario.meta) for scenario in scenarios("traces")]
    assert sum(isinstance(truth, Truth) for truth in truths) > 200
