"""One record out of several reports: completed, never added."""

import copy
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from gateway.counting.calls.merge import merge
from spool.record import Record
from tests.support.calls import call

WHOLES = {
    "cache_read_input_tokens": "input_tokens",
    "cache_creation_input_tokens": "input_tokens",
    "cache_creation_1h_input_tokens": "cache_creation_input_tokens",
    "audio_input_tokens": "input_tokens",
    "reasoning_output_tokens": "output_tokens",
    "audio_output_tokens": "output_tokens",
}
COUNTS = ("input_tokens", "output_tokens", *WHOLES)


def record(span: str, **rest: Any) -> Record:
    return call(span, **rest).record


@st.composite
def reports(draw: st.DrawFn) -> Record:
    """A record whose parts lie within its wholes, each count known or not."""
    made = copy.deepcopy(record("x", cost=draw(st.sampled_from([None, "0.1"])), hit=draw(st.booleans())))
    usage: dict[str, Any] = {"status": "reported"}
    for whole, parts in (
        ("input_tokens", ("cache_read_input_tokens", "cache_creation_input_tokens")),
        ("output_tokens", ("reasoning_output_tokens", "audio_output_tokens")),
    ):
        left = draw(st.integers(0, 50))
        usage[whole] = left
        for part in parts:
            usage[part] = draw(st.integers(0, left))
            left -= usage[part]
    usage["cache_creation_1h_input_tokens"] = draw(st.integers(0, usage["cache_creation_input_tokens"]))
    usage["audio_input_tokens"] = draw(st.integers(0, usage["input_tokens"]))
    for name in COUNTS:
        if draw(st.booleans()):
            del usage[name]
    made["usage"] = cast("Any", usage)
    return made


@given(st.lists(reports(), min_size=1, max_size=4))
def test_tokens_are_some_reports_own_and_parts_never_pass_their_whole(found: list[Record]) -> None:
    before = copy.deepcopy(found)
    merged = cast("dict[str, Any]", merge(found, "id")["usage"])
    assert found == before, "the reports are left as they are"
    first = cast("dict[str, Any]", found[0]["usage"])
    for name in COUNTS:
        stated = {report["usage"].get(name) for report in found}
        assert merged.get(name) in stated | {None}, "never added, never invented"
        if first.get(name) or (name not in WHOLES and first.get(name) is not None):
            assert merged[name] == first[name], "the fullest report is believed"
    for name in set(merged) - set(first) - {"status"}:
        whole = WHOLES.get(name)
        if whole is not None:
            assert merged[name] <= merged[whole], name
    for parts, whole in (
        (("cache_read_input_tokens", "cache_creation_input_tokens"), "input_tokens"),
        (("reasoning_output_tokens", "audio_output_tokens"), "output_tokens"),
    ):
        if any(part not in first and merged.get(part) is not None for part in parts):
            assert sum(merged.get(part) or 0 for part in parts) <= merged[whole]


@given(st.lists(reports(), min_size=1, max_size=4))
def test_a_cache_hit_makes_the_call_unbilled_no_matter_who_says_so(found: list[Record]) -> None:
    assert merge(found, "id")["billed"] == all(report["billed"] for report in found)


def test_the_first_reports_id_is_kept_and_unknown_values_are_filled() -> None:
    full = record("a", response="r", cache_read=30)
    other = record("b", trace="u", response_model="gpt-4o-2024-08-06", cost="0.5", team="blue", reasoning=7)
    merged = merge([full, other], "first")
    assert merged["record_id"] == "first"
    assert (merged["response_id"], merged["response_model"]) == ("r", "gpt-4o-2024-08-06")
    assert merged["attribution"]["team"] == "blue"
    cost = merged.get("cost")
    assert cost is not None
    assert cost["amount"] == "0.5"
    assert (merged["usage"]["cache_read_input_tokens"], merged["usage"]["reasoning_output_tokens"]) == (30, 7)


def test_a_hits_own_cost_goes_before_the_price_of_a_call() -> None:
    merged = merge([record("a", cost="0.5"), record("b", hit=True, cost="0")], "id")
    cost = merged.get("cost")
    assert cost is not None
    assert cost["amount"] == "0"
    assert merged["flags"] == ["gateway_cache_hit"]


def test_usage_that_only_the_other_one_states_comes_with_its_status() -> None:
    merged = merge([record("a", tokens=(None, None), response="r"), record("b", tokens=(9, 4))], "id")
    assert (merged["usage"]["status"], merged["usage"]["input_tokens"]) == ("reported", 9)


def test_labels_and_unknown_counts_are_joined_and_the_first_one_is_believed() -> None:
    first, second = record("a"), record("b")
    first["attribution"]["labels"] = {"x": "1"}
    second["attribution"]["labels"] = {"x": "2", "y": "3"}
    first["usage"]["other"] = {"gen_ai.usage.p": 1}
    second["usage"]["other"] = {"gen_ai.usage.p": 2, "gen_ai.usage.q": 3}
    merged = merge([first, second], "id")
    assert merged["attribution"]["labels"] == {"x": "1", "y": "3"}
    assert merged["usage"]["other"] == {"gen_ai.usage.p": 1, "gen_ai.usage.q": 3}


def test_a_part_of_0_gives_way_to_what_another_report_states_and_so_does_its_estimate() -> None:
    first, second = record("a", cost="0.5"), record("b", cost="0.6", cache_read=30)
    first["usage"]["cache_read_input_tokens"] = 0
    for report in (first, second):
        assert report["cost"] is not None
        report["cost"]["source"] = "estimated"
    merged = merge([first, second], "id")
    assert merged["usage"]["cache_read_input_tokens"] == 30
    assert merged["cost"] is not None
    assert merged["cost"]["amount"] == "0.6"


def test_a_version_in_the_place_of_the_model_asked_for_is_the_one_that_answered() -> None:
    dated, asked = record("a", model="gpt-4o-2024-08-06"), record("b", model="gpt-4o")
    for reports in ([dated, asked], [asked, dated]):
        merged = merge(reports, "id")
        assert (merged["request_model"], merged["response_model"]) == ("gpt-4o", "gpt-4o-2024-08-06")


def test_a_version_goes_before_the_name_that_it_is_one_of() -> None:
    copied, answered = record("a", response_model="gpt-4o"), record("b", response_model="gpt-4o-2024-08-06")
    for reports in ([copied, answered], [answered, copied]):
        assert merge(reports, "id")["response_model"] == "gpt-4o-2024-08-06"
