"""Rows of one answer about usage, as a file has them: groups beside the period before. Pure.

As in `rows`, a group whose calls cost several currencies has a row for each, and its counts stand
in the first. What is in no group is the last row, so that columns add up to the totals.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from gateway.common.contract.currencies import is_currency
from gateway.usage.export.rows import MAIN_CURRENCY, Row
from gateway.usage.sums.answer_json import names_json, range_json
from gateway.usage.sums.answering import Answer, Line
from gateway.usage.sums.buckets import PERCENTILES, Latency
from gateway.usage.sums.change import CHANGED, changes
from gateway.usage.sums.figures import COUNTS, NO_USAGE, UsageSums, less
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Name

REST: Final = "rest"
"""`absent` of the last row."""
COMPARED: Final = (*(f"previous_{name}" for name in CHANGED), "previous_cost", "cost_difference", "cost_percent")


LATENCY: Final = tuple(
    f"{kind}_{name}" for kind in Latency._fields for name in ("calls", *(f"p{each}_ms" for each in PERCENTILES))
)


def columns(group_by: Sequence[str], *, compares: bool, has_latency: bool = False) -> list[str]:
    found = ["period_start", "period_end", *group_by, "absent", *COUNTS, "cost", "currency", "estimated_cost"]
    return [*found, *(LATENCY if has_latency else ()), *(COMPARED if compares else ())]


def compared_rows(answer: Answer, lines: Sequence[Line], group_by: Sequence[Dimension]) -> Iterator[Row]:
    """*lines*: those of all pages of *answer*."""
    period = range_json(answer.within)
    head: Row = {"period_start": period["from"], "period_end": period["to"]}
    for line in lines:
        names = names_json(group_by, line.names)
        absent = " ".join(f"{name}={reason}" for name, reason in names.pop("absent", {}).items())
        named = {**head, **names, "absent": absent or None}
        for at, row in enumerate(_by_currency(named, line.sums, line.previous)):
            yield row if at else row | _latency_row(line.latency)
    total_before = None if answer.before is None else answer.before.total
    now = less(answer.total, (line.sums for line in lines))
    before = None if total_before is None else less(total_before, _previous(lines))
    if now is not None or before is not None:
        yield from _by_currency({**head, **dict.fromkeys(group_by), "absent": REST}, now or UsageSums(), before)


def _latency_row(latency: Latency | None) -> Row:
    """Nothing where it was not asked for; null where no call states it."""
    if latency is None:
        return {}
    figures = [figure for each in latency for figure in ((None,) * 4 if each is None else (each.calls, *each.ms))]
    return dict(zip(LATENCY, figures, strict=True))


def course_rows(
    periods: Sequence[tuple[str, str]],
    courses: Iterable[tuple[Sequence[Name] | None, Sequence[UsageSums]]],
    group_by: Sequence[Dimension],
) -> Iterator[Row]:
    """Groups over time: *courses* have their names (None: what is in no other course) and their
    sums of each of *periods*. Periods without a call are left out.
    """
    for names, sums in courses:
        named: Row = dict.fromkeys(group_by) if names is None else names_json(group_by, names)
        absent = " ".join(f"{name}={reason}" for name, reason in (named.pop("absent", None) or {}).items())
        for (start, end), each in zip(periods, sums, strict=True):
            if each != NO_USAGE:
                head: Row = {"period_start": start, "period_end": end, **named}
                yield from _by_currency({**head, "absent": REST if names is None else absent or None}, each, None)


def _previous(lines: Iterable[Line]) -> Iterator[UsageSums]:
    return (line.previous for line in lines if line.previous is not None)


def _by_currency(head: Row, now: UsageSums, before: UsageSums | None) -> Iterator[Row]:
    changed = changes(now, before)
    known = {*now.costs, *(() if before is None else before.costs)}
    currencies: list[str | None] = [
        *sorted(known, key=lambda name: (name != MAIN_CURRENCY, not is_currency(name), name))
    ]
    counts: Row = {name: getattr(now, name) for name in COUNTS}
    counts |= {f"previous_{name}": None if before is None else getattr(before, name) for name in CHANGED}
    for currency in currencies or [None]:
        change = None if changed is None or currency is None else changed.costs[currency]
        yield {
            **head,
            **counts,
            "cost": _amount(now.costs, currency),
            "currency": currency,
            "estimated_cost": _amount(now.estimated_costs, currency),
            "previous_cost": None if before is None else _amount(before.costs, currency),
            "cost_difference": None if change is None else change.difference,
            "cost_percent": None if change is None else change.percent,
        }
        counts = dict.fromkeys(counts)


def _amount(amounts: Mapping[str, Decimal], currency: str | None) -> Decimal | None:
    return None if currency is None else amounts.get(currency)
