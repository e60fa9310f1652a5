"""The answer to a question about usage in JSON. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gateway.common.lists.conventions import CursorPosition, Page, Position, envelope
from gateway.usage.sums.answering import Answer, Before, Line
from gateway.usage.sums.buckets import PERCENTILES, Latency, Percentiles
from gateway.usage.sums.change import Change, Changes, changes
from gateway.usage.sums.figures import COUNTS, Group, UsageSums, money_text
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.request import Question
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import TimeRange

Json = dict[str, Any]


def answer_json(question: Question, answer: Answer) -> Json:
    rows = [line_json(question, line) for line in answer.lines]
    rest = None if answer.rest is None else sums_json(answer.rest)
    totals = {**sums_json(answer.total), **latency_json(answer.latency)}
    found = {**_page(question, rows, answer.count), "rest": rest, "totals": totals}
    return found if question.before is None else {**found, "previous": before_json(answer)}


def line_json(question: Question, line: Line) -> Json:
    if line.start_ms is None:
        row = group_json(question.group_by, Group(line.names, line.sums, line.versions))
    else:
        row = {"start": time_text(line.start_ms), **sums_json(line.sums)}
    row |= latency_json(line.latency)
    return row if question.before is None else {**row, **compared_json(line.sums, line.previous)}


def latency_json(latency: Latency | None) -> Json:
    """Nothing where it was not asked for."""
    if latency is None:
        return {}
    return {"latency": {name: _percentiles_json(each) for name, each in latency._asdict().items()}}


def _percentiles_json(found: Percentiles | None) -> Json | None:
    if found is None:
        return None
    return {"calls": found.calls, **{f"p{of}_ms": ms for of, ms in zip(PERCENTILES, found.ms, strict=True)}}


def compared_json(now: UsageSums, before: UsageSums | None) -> Json:
    """What is beside *now* where it is compared."""
    return {
        "previous": None if before is None else sums_json(before),
        "change": changes_json(changes(now, before)),
    }


def before_json(answer: Answer) -> Json | None:
    """The period before, without its rows; null where its hours are no longer kept."""
    before = answer.before
    return None if before is None else {**range_json(before.within), **_totals_json(answer, before)}


def _totals_json(answer: Answer, before: Before) -> Json:
    return {
        "rest": None if before.rest is None else sums_json(before.rest),
        "totals": None if before.total is None else sums_json(before.total),
        "change": changes_json(changes(answer.total, before.total)),
    }


def changes_json(found: Changes | None) -> Json | None:
    if found is None:
        return None
    counts = {name: _change_json(each, is_count=True) for name, each in found.counts.items()}
    return {**counts, "costs": {name: _change_json(each) for name, each in found.costs.items()}}


def _change_json(change: Change, *, is_count: bool = False) -> Json:
    difference, percent = change
    written = None if difference is None else int(difference) if is_count else money_text(difference)
    return {"difference": written, "percent": None if percent is None else money_text(percent)}


def group_json(group_by: Sequence[Dimension], group: Group) -> Json:
    """One group: its names, its sums, and of a model its dated names."""
    versions = [{**names_json(("model",), each.names), **sums_json(each.sums)} for each in group.versions]
    row = {**names_json(group_by, group.names), **sums_json(group.sums)}
    return row | {"versions": versions} if versions else row


def names_json(group_by: Sequence[Dimension], names: Sequence[Name]) -> Json:
    """Each name by its dimension, null where there is none; `absent` states why."""
    absent = {name: each.value for name, each in zip(group_by, names, strict=True) if isinstance(each, Absent)}
    row: Json = {name: each if isinstance(each, str) else None for name, each in zip(group_by, names, strict=True)}
    if absent:
        row["absent"] = absent
    return row


def sums_json(sums: UsageSums) -> Json:
    """Counts as numbers, amounts of money as text."""
    return {
        **{name: getattr(sums, name) for name in COUNTS},
        "costs": amounts_json(sums.costs),
        "estimated_costs": amounts_json(sums.estimated_costs),
    }


def amounts_json(amounts: Mapping[str, Decimal]) -> Json:
    return {currency: money_text(amount) for currency, amount in sorted(amounts.items())}


def range_json(within: TimeRange) -> Json:
    return {"from": time_text(within.first_hour * HOUR_MS), "to": time_text(within.end_hour * HOUR_MS)}


def time_text(ms: int | None) -> str | None:
    """RFC 3339, UTC, seconds."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _page(question: Question, rows: Sequence[object], count: int) -> Json:
    offset, limit = question.offset, question.request.limit
    previous = _position(max(0, offset - limit)) if offset else None
    following = _position(offset + limit) if offset + limit < count else None
    return envelope(question.shape, question.request, Page(rows, count, previous, following))


def _position(offset: int) -> Position:
    return Position(CursorPosition(offset, 1), backwards=False)
