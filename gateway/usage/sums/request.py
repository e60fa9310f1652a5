"""A question about usage in the parameters of a request, and its answer in JSON. Pure.

Filters, sorting and pages follow the list conventions; `from`, `to`, `group_by`, `interval` and
`currency` are beside them. A page begins at a number of rows: the rows are sums that change with
every call, and no row is the place of another page.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from gateway.common.lists.conventions import (
    BadListRequest,
    CursorPosition,
    Filterable,
    ListRequest,
    ListShape,
    Page,
    Position,
    Sort,
    envelope,
    read_request,
)
from gateway.usage.sums.figures import COUNTS, Breakdown, Bucket, Group, UsageSums, money_text
from gateway.usage.sums.grains import DIMENSIONS, Dimension
from gateway.usage.sums.names import Absent, Filters, Name
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import Interval, TimeRange

OrderBy = Literal["cost", "calls", "input_tokens", "output_tokens", "name"]
Json = dict[str, Any]

GROUP_BY: Final[tuple[Dimension, ...]] = ("provider", "model")
INTERVALS: Final[tuple[Interval, ...]] = get_args(Interval)
DEFAULT_DAYS: Final = 30
MAX_GROUPED: Final = 3
"""Dimensions of one question."""
OWN: Final = ("from", "to", "group_by", "interval", "currency", "unknown")
_DAY_MS: Final = 24 * HOUR_MS
_LAST_MS: Final = 253_402_214_400_000
"""9999-12-31: the end of its hour and of its day can be written."""
FILTERS: Final = tuple(Filterable(name, (), is_open=True) for name in DIMENSIONS)
GROUPS: Final = ListShape("usage", get_args(OrderBy), Sort("cost", "desc"), FILTERS)
BUCKETS: Final = ListShape("usage", ("start",), Sort("start", "asc"), FILTERS)


class Question(NamedTuple):
    """What a request asks."""

    from_ms: int
    to_ms: int
    group_by: tuple[Dimension, ...]
    """Empty with an interval."""
    interval: Interval | None
    currency: str | None
    unknown: tuple[Dimension, ...]
    """Dimensions whose name is to be unknown."""
    shape: ListShape
    request: ListRequest

    @property
    def within(self) -> TimeRange:
        return TimeRange.of(self.from_ms, self.to_ms)

    @property
    def where(self) -> Filters:
        """The filters."""
        names = {cast("Dimension", name): values for name, values in self.request.filters.items()}
        unknown: dict[Dimension, tuple[Name, ...]] = dict.fromkeys(self.unknown, (Absent.UNKNOWN,))
        return {name: (*names.get(name, ()), *unknown.get(name, ())) for name in (*names, *unknown)}

    @property
    def order_by(self) -> OrderBy:
        return cast("OrderBy", self.request.sort.key)

    @property
    def offset(self) -> int:
        position = self.request.position
        return 0 if position is None else max(0, int(position.place.value))


def read_question(query: Iterable[tuple[str, str]], now_ms: int) -> Question:
    """Raises BadListRequest."""
    pairs = tuple(query)
    own = {name: _single(pairs, name) for name in OWN}
    interval = _interval(own["interval"])
    group_by = () if interval else _group_by(own["group_by"])
    if interval and own["group_by"] is not None:
        raise BadListRequest("interval: it cannot be asked for with group_by; filter by a name instead")
    unknown = () if own["unknown"] is None else _dimensions("unknown", own["unknown"], len(DIMENSIONS))
    to_ms = _time("to", own["to"], now_ms)
    from_ms = _time("from", own["from"], (now_ms // _DAY_MS - DEFAULT_DAYS + 1) * _DAY_MS)
    if from_ms >= to_ms:
        raise BadListRequest("from: a time before `to` is needed")
    own_text = ",".join(str(own[name] or "") for name in OWN)
    shape = (BUCKETS if interval else GROUPS).of(own_text)
    request = read_request(shape, [pair for pair in pairs if pair[0] not in OWN])
    return Question(from_ms, to_ms, group_by, interval, own["currency"], unknown, shape, request)


def groups_json(question: Question, found: Breakdown) -> Json:
    """The answer to a question by dimensions."""
    rows = [group_json(question.group_by, group) for group in found.groups]
    rest = None if found.rest is None else sums_json(found.rest)
    return {**_page(question, rows, found.count), "rest": rest, "totals": sums_json(found.total)}


def group_json(group_by: Sequence[Dimension], group: Group) -> Json:
    """One group: its names, its sums, and of a model its dated names."""
    versions = [{**names_json(("model",), each.names), **sums_json(each.sums)} for each in group.versions]
    row = {**names_json(group_by, group.names), **sums_json(group.sums)}
    return row | {"versions": versions} if versions else row


def buckets_json(question: Question, found: Sequence[Bucket], total: UsageSums) -> Json:
    """The answer to a question by time."""
    ordered = found if question.request.sort.order == "asc" else found[::-1]
    chosen = ordered[question.offset : question.offset + question.request.limit]
    rows = [{"start": time_text(bucket.start_ms), **sums_json(bucket.sums)} for bucket in chosen]
    return {**_page(question, rows, len(found)), "rest": None, "totals": sums_json(total)}


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


def amounts_json(amounts: Mapping[str, Any]) -> Json:
    return {currency: money_text(amount) for currency, amount in sorted(amounts.items())}


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


def _single(pairs: Sequence[tuple[str, str]], name: str) -> str | None:
    values = {value for key, value in pairs if key == name}
    if len(values) > 1:
        raise BadListRequest(f"{name}: one value is needed")
    return next(iter(values), None)


def _interval(text: str | None) -> Interval | None:
    if text is None:
        return None
    for interval in INTERVALS:
        if text == interval:
            return interval
    raise BadListRequest(f"interval: of {', '.join(INTERVALS)}")


def _group_by(text: str | None) -> tuple[Dimension, ...]:
    return GROUP_BY if text is None else _dimensions("group_by", text, MAX_GROUPED)


def _dimensions(parameter: str, text: str, most: int) -> tuple[Dimension, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if not set(names) <= set(DIMENSIONS) or len(names) > most:
        raise BadListRequest(f"{parameter}: up to {most} of {', '.join(DIMENSIONS)}, separated by commas")
    return tuple(cast("Dimension", name) for name in names)


def _time(name: str, text: str | None, default_ms: int) -> int:
    """ISO 8601, a date or a date and time; UTC where it has no offset."""
    if text is None:
        return default_ms
    try:
        time = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        ms = round((time.replace(tzinfo=UTC) if time.tzinfo is None else time).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadListRequest(f"{name}: an ISO 8601 date or time is needed, such as 2026-01-05") from None
    if not 0 <= ms <= _LAST_MS:
        raise BadListRequest(f"{name}: a time since 1970, and no later than 9999-12-31, is needed")
    return ms
