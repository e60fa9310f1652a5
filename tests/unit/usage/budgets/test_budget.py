"""Periods, forecasts, crossed thresholds: pure."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from gateway.usage.budgets.budget import (
    DAY_MS,
    Budget,
    Period,
    Threshold,
    crossed,
    day_text,
    forecast_of,
    is_to_stop,
    ratio,
    span_of,
    spans_watched,
    spend_of,
)
from gateway.usage.sums.figures import UsageSums

MADE_MS = int(datetime(2025, 12, 1, tzinfo=UTC).timestamp() * 1000)


def day(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def budget(**changes: Any) -> Budget:
    fields: dict[str, Any] = {
        "budget_id": "b", "budget_no": 1, "name": "b", "amount": Decimal(100), "currency": "USD", "period": "month",
        "filter": {}, "thresholds": (), "stop_at": None, "webhook": None, "created_at_ms": MADE_MS, "created_by": "x",
        "updated_at_ms": MADE_MS, "updated_by": "x",
    }  # fmt: skip
    return Budget(**{**fields, **changes})


def sums(usd: str | None = None, eur: str | None = None, calls: int = 1, without: int = 0) -> UsageSums:
    costs = {name: Decimal(cost) for name, cost in (("USD", usd), ("EUR", eur)) if cost is not None}
    return UsageSums(calls=calls, calls_without_cost=without, costs=costs)


@pytest.mark.parametrize(
    ("period", "on", "begins", "ends"),
    [
        ("day", "2026-02-28", "2026-02-28", "2026-03-01"),
        ("week", "2026-01-01", "2025-12-29", "2026-01-05"),
        ("week", "2026-01-05", "2026-01-05", "2026-01-12"),
        ("month", "2024-02-29", "2024-02-01", "2024-03-01"),
        ("month", "2026-12-31", "2026-12-01", "2027-01-01"),
        ("quarter", "2026-11-22", "2026-10-01", "2027-01-01"),
        ("quarter", "2026-06-30", "2026-04-01", "2026-07-01"),
        ("year", "2026-07-01", "2026-01-01", "2027-01-01"),
    ],
)
def test_a_period_is_the_one_of_the_calendar(period: Period, on: str, begins: str, ends: str) -> None:
    span = span_of(period, day(on))
    assert (day_text(span.first_day), day_text(span.end_day)) == (begins, ends)


def test_periods_that_ended_lately_are_watched_unless_they_ended_before_the_budget_was_made() -> None:
    now_ms = day("2026-01-10") * DAY_MS + 5
    watched = spans_watched(budget(period="day"), now_ms)
    assert [day_text(span.first_day) for span in watched] == [f"2026-01-{n:02}" for n in range(3, 11)]
    assert [day_text(span.first_day) for span in spans_watched(budget(), now_ms - 4 * DAY_MS)] == [
        "2025-12-01",
        "2026-01-01",
    ]
    assert len(spans_watched(budget(), now_ms)) == 1, "December ended ten days ago"
    made_now = budget(period="day", created_at_ms=now_ms)
    assert [day_text(span.first_day) for span in spans_watched(made_now, now_ms)] == ["2026-01-10"]


def test_currencies_are_never_added_and_unknown_costs_are_separate() -> None:
    span = span_of("month", day("2026-01-10"))
    days = [(day("2025-12-31"), sums("50")), (day("2026-01-01"), sums("1.000000000000000001", "7")),
            (day("2026-01-31"), sums("2", calls=5, without=3)), (day("2026-02-01"), sums("9"))]  # fmt: skip
    spend = spend_of(budget(), span, days, span.end_ms)
    assert (spend.spent, spend.other_costs) == (Decimal("3.000000000000000001"), {"EUR": Decimal(7)})
    assert (spend.calls, spend.calls_without_cost, spend.forecast) == (6, 3, None)
    assert spend_of(budget(currency="GBP"), span, days, span.end_ms).spent == 0


def test_the_forecast_is_linear_from_a_twentieth_of_the_period_on() -> None:
    span = span_of("day", day("2026-01-10"))
    hour_ms = DAY_MS // 24
    assert forecast_of(span, Decimal(3), span.start_ms + hour_ms) is None
    assert forecast_of(span, Decimal(3), span.start_ms + 6 * hour_ms) == 12
    assert forecast_of(span, Decimal(1), span.start_ms + 7 * hour_ms) == Decimal("3.428571")
    assert forecast_of(span, Decimal(-1), span.start_ms + 6 * hour_ms) == -1
    assert forecast_of(span, Decimal(3), span.end_ms) is None


def test_a_threshold_is_crossed_at_its_percent_exactly() -> None:
    thresholds = (Threshold("actual", 80), Threshold("actual", 81), Threshold("forecast", 100))
    one, span = budget(thresholds=thresholds, stop_at=80), span_of("month", day("2026-01-10"))
    now_ms = span.start_ms + (span.end_ms - span.start_ms) * 9 // 10
    below = spend_of(one, span, [(span.first_day, sums("79.999999999999999999"))], now_ms)
    at = spend_of(one, span, [(span.first_day, sums("80"))], now_ms)
    assert (crossed(one, below), is_to_stop(one, below, now_ms)) == ([], False)
    assert (crossed(one, at), is_to_stop(one, at, now_ms)) == ([Threshold("actual", 80)], True)
    assert not is_to_stop(one, at, span.end_ms), "a period that is over stops nothing"
    assert crossed(one, spend_of(one, span, [(span.first_day, sums("90"))], now_ms)) == list(thresholds)
    assert ratio(Decimal(1), Decimal(3)) == 0.333333
