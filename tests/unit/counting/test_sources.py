"""Whose aggregates repeat calls that were counted."""

import pytest

from gateway.counting.metrics.grouping import Family
from gateway.counting.metrics.sources import CALLS, SourceActivity, family_topic, outcome, since_ms
from gateway.rules.points import MetricSource

CLIENT = Family("meter", 4)
NOBODY: frozenset[str] = frozenset()


def reporter(
    *, sender: str = "key:a", service: str = "app", device: str = "", instance: str = "", session: str = ""
) -> MetricSource:
    return MetricSource(sender, service, device, instance, session)


def seen(calls: MetricSource, *, at_ms: int = 1000) -> SourceActivity:
    sightings = SourceActivity()
    sightings.note(CALLS, calls, at_ms)
    return sightings


@pytest.mark.parametrize(
    ("calls", "metrics"),
    [
        (reporter(), reporter()),
        (reporter(instance="i"), reporter(instance="i")),
        (reporter(instance="i"), reporter()),
        (reporter(), reporter(instance="i")),
        (reporter(session="s", device="d"), reporter(instance="i", session="s")),
        (reporter(session="s", device="d", instance="i"), reporter()),
    ],
)
def test_a_source_is_the_same_where_nothing_that_both_state_differs(calls: MetricSource, metrics: MetricSource) -> None:
    assert outcome(seen(calls), metrics, CLIENT, 1000, NOBODY) == "suppressed.calls_reported"


@pytest.mark.parametrize(
    ("calls", "metrics"),
    [
        (reporter(sender="key:b"), reporter()),
        (reporter(service="other"), reporter()),
        (reporter(service=""), reporter()),
        (reporter(instance="i"), reporter(instance="j")),
        (reporter(session="s"), reporter(session="t")),
        (reporter(device="d"), reporter(device="e")),
        (reporter(device="d", session="s"), reporter(device="e", session="s")),
    ],
)
def test_a_source_is_another_where_both_state_something_else(calls: MetricSource, metrics: MetricSource) -> None:
    assert outcome(seen(calls), metrics, CLIENT, 0, NOBODY) is None


def test_calls_of_before_the_window_do_not_count() -> None:
    assert outcome(seen(reporter(), at_ms=1000), reporter(), CLIENT, 1001, NOBODY) is None


def test_a_long_period_reaches_back_as_far_but_no_further_than_a_day() -> None:
    assert since_ms(10**12, 0, 600_000) == 10**12 - 600_000
    assert since_ms(10**12, 3_600_000, 600_000) == 10**12 - 4_200_000
    assert since_ms(10**12, 10**11, 600_000) == 10**12 - 600_000 - 86_400_000


def test_a_service_that_is_billed_by_metrics_is_not_suppressed_by_its_calls() -> None:
    assert outcome(seen(reporter()), reporter(), CLIENT, 0, frozenset({"app"})) is None
    assert outcome(seen(reporter()), reporter(), CLIENT, 0, frozenset({"other"})) == "suppressed.calls_reported"


def test_a_better_metric_of_the_same_scope_goes_before_a_worse_one() -> None:
    sightings = SourceActivity()
    sightings.note(family_topic(Family("meter", 1)), reporter(session="s"), 1000)
    assert outcome(sightings, reporter(session="s"), CLIENT, 0, NOBODY) == "suppressed.repeated_metric"
    assert outcome(sightings, reporter(session="s"), Family("meter", 1), 0, NOBODY) is None
    assert outcome(sightings, reporter(session="s"), Family("another scope", 4), 0, NOBODY) is None
    assert outcome(sightings, reporter(session="t"), CLIENT, 0, NOBODY) is None


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first() -> None:
    sightings = SourceActivity(most=80)
    for n in range(100):
        sightings.note(CALLS, reporter(service=f"s{n}"), n)
    assert len(sightings) == 80
    assert sightings.seen_since(CALLS, reporter(service="s99"), 0)
    assert not sightings.seen_since(CALLS, reporter(service="s0"), 0)
