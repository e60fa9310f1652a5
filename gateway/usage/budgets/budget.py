"""A budget, its periods, and what its spend means: crossed thresholds, forecast, stop. Pure.

A period is whole UTC days, so that the sums of a day are never split.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, Literal, NamedTuple, get_args

from gateway.common.contract.budgets import Measure
from gateway.usage.sums.figures import EXACT, UsageSums
from gateway.usage.sums.saved_filter import Kept

Period = Literal["day", "week", "month", "quarter", "year"]
PERIODS: Final[tuple[Period, ...]] = get_args(Period)
MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)
DAY_MS: Final = 86_400_000
FORECAST_FROM: Final = 20
"""A forecast is made from this part of the period on: a twentieth, 72 minutes of a day and a day
and a half of a month. Earlier one call would decide it.
"""
LATE_DAYS: Final = 7
"""Records that come so late still cross the thresholds of the period in which they began: as long
as a spool keeps them, where nothing else is set (`spool.max_age`).
"""
_EPOCH = date(1970, 1, 1)
_MONTHS: Final[Mapping[Period, int]] = {"month": 1, "quarter": 3, "year": 12}


class Threshold(NamedTuple):
    of: Measure
    percent: int
    """Of the amount."""


class Span(NamedTuple):
    """One period of a budget, in days since 1970, UTC."""

    first_day: int
    end_day: int
    """Not included."""

    @property
    def start_ms(self) -> int:
        return self.first_day * DAY_MS

    @property
    def end_ms(self) -> int:
        return self.end_day * DAY_MS


@dataclass(frozen=True, slots=True)
class Budget:
    budget_id: str
    budget_no: int
    """In the order in which they were made."""
    name: str
    amount: Decimal
    currency: str
    period: Period
    filter: Kept
    thresholds: tuple[Threshold, ...]
    stop_at: int | None
    """Percent of the amount; None: calls are never to be stopped."""
    webhook: str | None
    """Name of one of `budgets.webhooks`; None: `budgets.webhook`."""
    created_at_ms: int
    created_by: str
    updated_at_ms: int
    updated_by: str

    @property
    def what_is_counted(self) -> tuple[object, ...]:
        """What decides whether a threshold is crossed."""
        return self.amount, self.currency, self.period, dict(self.filter)


@dataclass(frozen=True, slots=True)
class Spend:
    """What the calls of one period cost, as far as they are counted."""

    span: Span
    spent: Decimal = Decimal(0)
    """In the budget's currency."""
    other_costs: Mapping[str, Decimal] = field(default_factory=dict)
    """In each other currency: counted by no budget but their own."""
    calls: int = 0
    calls_without_cost: int = 0
    forecast: Decimal | None = None
    """For the whole period; None where it is over, or too young."""


def span_of(period: Period, day: int) -> Span:
    """The period that *day* is in; a week begins on Monday."""
    on = _EPOCH + timedelta(days=day)
    if period == "day":
        return Span(day, day + 1)
    if period == "week":
        return Span(day - on.weekday(), day - on.weekday() + 7)
    months = _MONTHS[period]
    first = on.replace(month=(on.month - 1) // months * months + 1, day=1)
    end_month = first.month - 1 + months
    end = first.replace(year=first.year + end_month // 12, month=end_month % 12 + 1)
    return Span((first - _EPOCH).days, (end - _EPOCH).days)


def spans_watched(budget: Budget, now_ms: int) -> list[Span]:
    """The current period, and before it those that ended in the last `LATE_DAYS` and after the
    budget was made; the oldest first.
    """
    today = now_ms // DAY_MS
    spans = [span_of(budget.period, today)]
    while spans[0].end_day > today - LATE_DAYS:
        before = span_of(budget.period, spans[0].first_day - 1)
        if before.end_day <= today - LATE_DAYS or before.end_ms <= budget.created_at_ms:
            break
        spans.insert(0, before)
    return spans


def spend_of(budget: Budget, span: Span, days: Iterable[tuple[int, UsageSums]], now_ms: int) -> Spend:
    """What *span* holds of *days*: (day since 1970, its sums)."""
    costs: dict[str, Decimal] = {}
    calls = without_cost = 0
    for day, sums in days:
        if span.first_day <= day < span.end_day:
            calls += sums.calls
            without_cost += sums.calls_without_cost
            for currency, cost in sums.costs.items():
                costs[currency] = EXACT.add(costs.get(currency, Decimal(0)), cost)
    spent = costs.pop(budget.currency, Decimal(0))
    return Spend(span, spent, costs, calls, without_cost, forecast_of(span, spent, now_ms))


def forecast_of(span: Span, spent: Decimal, now_ms: int) -> Decimal | None:
    """*spent* as if the rest of the period went on like its part until now; to 1e-6."""
    whole_ms, passed_ms = span.end_ms - span.start_ms, now_ms - span.start_ms
    if passed_ms >= whole_ms or passed_ms * FORECAST_FROM < whole_ms:
        return None
    rate = EXACT.divide(EXACT.multiply(spent, Decimal(whole_ms)), Decimal(passed_ms))
    return max(spent, rate.quantize(Decimal("1e-6"), context=EXACT))


def is_crossed(budget: Budget, threshold: Threshold, spend: Spend) -> bool:
    figure = spend.spent if threshold.of == "actual" else spend.forecast
    return figure is not None and figure * 100 >= threshold.percent * budget.amount


def crossed(budget: Budget, spend: Spend) -> list[Threshold]:
    return [each for each in budget.thresholds if is_crossed(budget, each, spend)]


def is_to_stop(budget: Budget, spend: Spend, now_ms: int) -> bool:
    """Whether calls are to be stopped; never after the end of the period that was counted."""
    if budget.stop_at is None or now_ms >= spend.span.end_ms:
        return False
    return spend.spent * 100 >= budget.stop_at * budget.amount


def ratio(part: Decimal, whole: Decimal) -> float:
    """To six digits."""
    return float(EXACT.divide(part, whole).quantize(Decimal("1e-6"), context=EXACT))


def period_text(period: Period, span: Span) -> str:
    """`month from 2026-01-01`"""
    return f"{period} from {day_text(span.first_day)}"


def day_text(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).isoformat()


def next_day_ms(now_ms: int) -> int:
    """How long until the next UTC day, when periods end."""
    return DAY_MS - now_ms % DAY_MS


def thresholds_of(given: Sequence[Mapping[str, object]]) -> tuple[Threshold, ...]:
    """Each once, in the order in which they were given; *given* is checked."""
    return tuple(dict.fromkeys(Threshold(**each) for each in given))  # type: ignore[arg-type]  # checked by the body


def time_of(ms: int) -> str:
    """RFC 3339, UTC, seconds: of the boundaries of periods."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
