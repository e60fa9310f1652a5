"""Counters of usage for a scrape: each call once, bounded, never smaller."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gateway.observability.usage_metrics import UsageCollector
from gateway.usage.sums import counters
from gateway.usage.sums.counters import OTHERS, Series, UsageCounters
from tests.unit.usage.sums.test_tally import counted, record


def of(model: str, cost: str = "0.5", currency: str = "USD", **changes: Any) -> dict[str, Any]:
    return record(response_model=model, cost={"amount": cost, "currency": currency}, **changes)


def test_sums_count_the_same_before_and_after_they_are_written() -> None:
    made, tally = UsageCounters(), counted(of("a"), of("a"), of("b"))
    before = made.values(tally.sums)
    made.add(tally.sums)
    assert made.values({}) == before
    assert before.counts[Series("openai", "a", "core")][:2] == [2, 0]
    assert before.costs == {(Series("openai", "a", "core"), "USD"): 1.0, (Series("openai", "b", "core"), "USD"): 0.5}


def test_series_beyond_the_bound_are_other_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MAX_SERIES", 2)
    made = UsageCounters()
    for _ in range(2):
        made.add(counted(*(of(f"m{n}") for n in range(5))).sums)
    values = made.values({})
    assert {series.model: counts[0] for series, counts in values.counts.items()} == {"m0": 2, "m1": 2, "(other)": 6}
    assert values.costs[OTHERS, "USD"] == 3


def test_currencies_are_distinguished_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MAX_CURRENCIES", 2)
    made = UsageCounters()
    made.add(counted(of("a"), of("a", currency="EUR"), of("a", currency="ZZZ")).sums)
    values = made.values({})
    assert {currency for _, currency in values.costs} == {"USD", "EUR"}
    assert sum(counts[0] for counts in values.counts.values()) == 3


def test_a_credit_never_makes_a_counter_smaller() -> None:
    made = UsageCounters()
    made.add(counted(of("a", "2")).sums)
    assert cost(made) == 2
    made.add(counted(of("a", "-1.5")).sums)
    assert cost(made) == 2
    made.add(counted(of("a", "4")).sums)
    assert cost(made) == 4.5


def cost(made: UsageCounters) -> float:
    (value,) = made.values({}).costs.values()
    return value


def test_a_scrape_has_calls_tokens_by_type_and_cost_by_currency() -> None:
    made, registry = UsageCounters(), CollectorRegistry()
    made.add(counted(of("a"), record(response_model="a", cost=None, status="error")).sums)
    registry.register(UsageCollector(lambda: made.values({}), lambda: 2.5))
    text = generate_latest(registry).decode()
    labels = 'model="a",provider="openai",team="core"'
    assert f"telemetry_gateway_ai_calls_total{{{labels}}} 2.0" in text
    assert f"telemetry_gateway_ai_failed_calls_total{{{labels}}} 1.0" in text
    assert f"telemetry_gateway_ai_calls_without_cost_total{{{labels}}} 1.0" in text
    assert f'telemetry_gateway_ai_tokens_total{{{labels},type="cache_read"}} 80.0' in text
    assert f'telemetry_gateway_ai_cost_total{{currency="USD",{labels}}} 0.5' in text
    assert 'type="reasoning"' not in text, "unknown is no 0"
