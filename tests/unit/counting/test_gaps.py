"""Where metrics state more than calls do, and where they only seem to."""

import pytest

from gateway.counting.metrics.gaps import MAX_TOTALS, Gap, Totals
from tests.support.retained import largest

APP = ("key:a", "app")


def gap(model: str, calls: int, metrics: int) -> Gap:
    return Gap(sender="key:a", service_name="app", model=model, tokens_by_calls=calls, tokens_by_metrics=metrics)


def totals(calls: dict[str, int], metrics: dict[str, int], *, is_left_out: bool = True) -> Totals:
    """Of one source, by model."""
    made = Totals(0)
    for model, tokens in calls.items():
        made.add_calls(*APP, model, tokens)
    for model, tokens in metrics.items():
        made.add_metrics(*APP, model, tokens, 1, is_left_out=is_left_out)
    return made


def test_metrics_beyond_the_tolerance_are_a_gap() -> None:
    assert totals({"m": 100}, {"m": 105}).gaps() == []
    assert totals({"m": 100}, {"m": 106}).gaps() == [gap("m", 100, 106)]


def test_a_model_without_any_call_at_a_source_that_reports_calls_is_lost_wholly() -> None:
    found = totals({"a": 100, "b": 10}, {"a": 100, "b": 50, "lost": 500}).gaps()
    assert found == [gap("lost", 0, 500), gap("b", 10, 50)], "the widest first"


def test_metrics_that_are_billed_leave_no_gap() -> None:
    assert totals({}, {"m": 500}, is_left_out=False).gaps() == []


@pytest.mark.parametrize("calls", [500, 5000])
def test_a_model_that_calls_and_metrics_name_differently_is_not_lost(calls: int) -> None:
    assert totals({"named-so": calls}, {"named-otherwise": 500}).gaps() == []


def test_models_without_metrics_that_state_too_little_do_not_explain_a_loss() -> None:
    assert totals({"small": 100}, {"lost": 500}).gaps() == [gap("lost", 0, 500)]


def test_another_source_explains_nothing() -> None:
    made = totals({"a": 10}, {"a": 10, "lost": 500})
    made.add_calls("key:b", "app", "other", 9_999)
    assert made.gaps() == [gap("lost", 0, 500)]


def test_calls_that_state_no_tokens_are_calls_and_no_model_is_no_name() -> None:
    assert totals({"a": 10, "silent": 0}, {"a": 10, "silent": 500, "": 500}).gaps() == []


def test_what_was_used_before_the_start_is_left_out() -> None:
    made = Totals(since_ms=1000)
    made.add_calls(*APP, "a", 10)
    made.add_metrics(*APP, "lost", 500, 999, is_left_out=True)
    assert made.gaps() == []
    made.add_metrics(*APP, "lost", 500, 1000, is_left_out=True)
    assert made.gaps() == [gap("lost", 0, 500)]


def test_the_memory_is_bounded() -> None:
    made = Totals(0)
    for n in range(2 * MAX_TOTALS):
        made.add_calls("key:a", f"app {n}", "m", 1)
    assert largest(made) <= MAX_TOTALS
