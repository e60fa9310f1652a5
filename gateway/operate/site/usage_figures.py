"""Usage as the page shows it: figures of one group, and charts over time. Pure.

Each currency is a figure of its own; amounts of two are never added. What no call states is
unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from gateway.operate.site import words
from gateway.operate.site.allocation_links import GiveLink
from gateway.operate.site.budget_links import BudgetLink
from gateway.operate.site.charts import Chart, Series, Value, bar_chart
from gateway.operate.site.usage_question import Question
from gateway.usage.sums.change import cost_in
from gateway.usage.sums.figures import COUNTS, Bucket, Group, UsageSums
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import SPANS, Interval, TimeRange

MAX_CURRENCIES: Final = 6
"""Of one figure: senders may make up any."""
MAX_COST_CHARTS: Final = 3
_NOTHING: Final[dict[str, Any]] = dict.fromkeys(COUNTS, 0)
NO_CALL: Final = UsageSums(**_NOTHING)
"""Of an hour without a call: what it used is known."""


class Amount(NamedTuple):
    currency: str
    amount: Decimal
    estimated: Decimal
    """Part of it, by the price list."""


class Cost(NamedTuple):
    amounts: tuple[Amount, ...]
    """Empty where no cost is known."""
    further: int
    """Currencies that are left out."""


def cost_of(sums: UsageSums) -> Cost:
    """US dollars first, then by name."""
    names = sorted(sums.costs, key=lambda name: (name != "USD", name))
    amounts = [
        Amount(name, sums.costs[name], sums.estimated_costs.get(name, Decimal(0))) for name in names[:MAX_CURRENCIES]
    ]
    return Cost(tuple(amounts), len(names) - len(amounts))


class Row(NamedTuple):
    """One group in a table."""

    names: tuple[str, ...]
    path: str
    """Leads to the overview of this group alone; empty for what has no name."""
    sums: UsageSums
    cost: Cost
    versions: tuple["Row", ...] = ()
    """Of a model its dated names."""
    budget: BudgetLink | None = None
    give: GiveLink | None = None
    """To the rules that give its calls a team; None where they have what rules give."""


def row_of_group(question: Question, dimension: Dimension, group: Group) -> Row:
    """The row of a group of one dimension."""
    versions = [row_of(question, dimension, version.names[0], version.sums) for version in group.versions]
    return row_of(question, dimension, group.names[0], group.sums)._replace(versions=tuple(versions))


def row_of(question: Question, dimension: Dimension, name: Name, sums: UsageSums) -> Row:
    shown = name if isinstance(name, str) else name.value
    is_known = isinstance(name, str) or name is Absent.UNKNOWN
    path = question.narrowed(dimension, name).path() if is_known else ""
    return Row((shown,), path, sums, cost_of(sums))


def every_bucket(buckets: Sequence[Bucket], within: TimeRange, interval: Interval, now_ms: int) -> list[Bucket]:
    """*buckets* with those without a call, up to now."""
    span_ms, there = SPANS[interval] * HOUR_MS, {bucket.start_ms: bucket for bucket in buckets}
    end_ms = min(within.end_hour * HOUR_MS, now_ms + 1)
    starts = range(within.first_hour * HOUR_MS, end_ms, span_ms)
    return [there.get(start_ms) or Bucket(start_ms, NO_CALL) for start_ms in starts]


def charts_of(buckets: Sequence[Bucket], total: UsageSums, interval: Interval) -> list[Chart]:
    """Cost by currency, tokens, calls."""
    times = [time_of(bucket.start_ms, interval) for bucket in buckets]
    sums = [bucket.sums for bucket in buckets]
    costs = [cost_chart(amount, times, sums) for amount in cost_of(total).amounts[:MAX_COST_CHARTS]]
    return [*costs, token_chart(total, times, sums), call_chart(total, times, sums)]


def cost_chart(total: Amount, times: Sequence[str], sums: Sequence[UsageSums]) -> Chart:
    currency = total.currency
    series = Series("cost", "c1", [cost_in(each, currency) for each in sums])
    written = f"{currency} {words.money(total.amount)}"
    return bar_chart(f"cost-{currency}", f"Cost in {currency}", written, times, [series], money_value)


def token_chart(total: UsageSums, times: Sequence[str], sums: Sequence[UsageSums]) -> Chart:
    series = [
        Series("input", "c1", [input_beside_cache(each) for each in sums]),
        Series("cache reads", "c2", [each.cache_read_tokens for each in sums]),
        Series("output", "c3", [each.output_tokens for each in sums]),
    ]
    written = short_value(added([total.input_tokens, total.output_tokens]))
    return bar_chart("tokens", "Tokens", written, times, series, short_value)


def call_chart(total: UsageSums, times: Sequence[str], sums: Sequence[UsageSums]) -> Chart:
    series = [
        Series("answered", "c1", [each.calls - each.failed_calls for each in sums]),
        Series("failed", "c3", [each.failed_calls for each in sums]),
    ]
    return bar_chart("calls", "Calls", words.number(total.calls), times, series, short_value)


def input_beside_cache(sums: UsageSums) -> int | None:
    if sums.input_tokens is None:
        return None
    return max(0, sums.input_tokens - (sums.cache_read_tokens or 0))


def added(values: Iterable[int | None]) -> int | None:
    """None where none of *values* is known."""
    there = [value for value in values if value is not None]
    return sum(there) if there else None


def money_value(value: Value) -> str:
    return words.money(None if value is None else Decimal(value))


def short_value(value: Value) -> str:
    return words.short(value)


def time_of(start_ms: int, interval: Interval) -> str:
    """`14:00` for an hour, `Jan 05` for a day; UTC."""
    return f"{datetime.fromtimestamp(start_ms / 1000, UTC):{'%H:%M' if interval == 'hour' else '%b %d'}}"


class Figure(NamedTuple):
    """One of the headline."""

    title: str
    value: str
    exact: str
    """What a program reads; empty for unknown."""
    note: str = ""


def headline(sums: UsageSums) -> list[Figure]:
    """Calls, tokens, and the shares that show how far the figures can be trusted."""
    calls = sums.calls
    return [
        Figure("Calls", words.number(calls), str(calls)),
        tokens("Input tokens", sums.input_tokens),
        tokens("Output tokens", sums.output_tokens),
        cache_share(sums),
        of_calls("Failed calls", sums.failed_calls, calls),
        of_calls("Calls without a price", sums.calls_without_price, calls, "no price is known for their tokens"),
        of_calls("Calls without usage", sums.calls_without_usage, calls, "their tokens are unknown"),
    ]


def tokens(title: str, count: int | None) -> Figure:
    return Figure(title, words.number(count), "" if count is None else str(count))


def of_calls(title: str, part: int, calls: int, note: str = "") -> Figure:
    about = f"{words.share(part, calls)} of calls"
    return Figure(title, words.number(part), str(part), f"{about}; {note}" if note and part else about)


def cache_share(sums: UsageSums) -> Figure:
    if not sums.cacheable_tokens:
        return Figure("Input read from cache", words.UNKNOWN, "", "no call reports its cache reads")
    share = words.share(sums.cached_tokens or 0, sums.cacheable_tokens)
    return Figure("Input read from cache", share, "", f"{words.number(sums.cache_read_tokens)} tokens")


def table_of(buckets: Sequence[Bucket]) -> list[Mapping[str, object]]:
    """The charts' figures, the latest last."""
    return [{"start_ms": each.start_ms, "sums": each.sums, "cost": cost_of(each.sums)} for each in buckets]
