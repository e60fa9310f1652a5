"""A question about usage in the parameters of a request. Pure.

Filters, sorting and pages follow the list conventions; those of `OWN` are beside them. A page
begins at a number of rows: the rows are sums that change with every call, and no row is the place
of another page.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, NamedTuple, cast, get_args

from gateway.common.contract.tags import MAX_TAGS, PREFIX, is_tag
from gateway.common.lists.conventions import (
    BadListRequest,
    Filterable,
    ListRequest,
    ListShape,
    Sort,
    read_request,
)
from gateway.usage.sums.grains import DIMENSIONS, TAGS, Dimension
from gateway.usage.sums.latency import KEPT_BY
from gateway.usage.sums.names import Absent, Filters, Name
from gateway.usage.sums.ranges import midnight, ms_of, period_before, range_of, times_of, whole_end, zone_of
from gateway.usage.sums.tags import PARAMETER, by_dimension
from gateway.usage.sums.timespan import Interval, TimeRange

OrderBy = Literal["cost", "calls", "input_tokens", "output_tokens", "name"]

GROUP_BY: Final[tuple[Dimension, ...]] = ("provider", "model")
INTERVALS: Final[tuple[Interval, ...]] = get_args(Interval)
DEFAULT_DAYS: Final = 30
MAX_GROUPED: Final = 3
"""Dimensions of one question."""
MAX_UNKNOWN: Final = len(DIMENSIONS) + MAX_TAGS
OWN: Final = (
    "from", "to", "range", "time_zone", "group_by", "interval", "currency", "unknown", "compare", "search",
    "allocation", "latency",
)  # fmt: skip
Compare = Literal["previous"]
PREVIOUS: Final[Compare] = "previous"
NOT_ALLOCATED: Final = "none"
ALLOCATIONS: Final = ("applied", NOT_ALLOCATED)
MAX_SEARCH_CHARS: Final = 100
_LAST_MS: Final = 253_402_214_400_000
"""9999-12-31: the end of its hour and of its day can be written."""
FILTERS: Final = tuple(Filterable(name, (), is_open=True) for name in (*DIMENSIONS, PARAMETER))
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
    zone: tzinfo = UTC
    """In which days begin."""
    before: tuple[int, int] | None = None
    """From and to of the period before, where rows are compared with it."""
    is_allocated: bool = True
    """Whether the rules of allocation are applied."""
    search: str | None = None
    """Kept are groups whose first name holds it."""
    latency: bool = False
    """Whether each row has how long its calls took."""

    @property
    def within(self) -> TimeRange:
        return TimeRange.of(self.from_ms, self.to_ms)

    @property
    def within_before(self) -> TimeRange | None:
        """No hour of it is in `within`."""
        if self.before is None:
            return None
        covered = TimeRange.of(*self.before)
        return covered._replace(end_hour=min(covered.end_hour, self.within.first_hour))

    @property
    def where(self) -> Filters:
        """The filters."""
        names = by_dimension(self.request.filters)
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
    unknown = () if own["unknown"] is None else _dimensions("unknown", own["unknown"], MAX_UNKNOWN)
    zone = UTC if own["time_zone"] is None else zone_of(own["time_zone"])
    period = _period(own, now_ms, zone)
    own_text = ",".join(str(own[name] or "") for name in OWN)
    shape = (BUCKETS if interval else GROUPS).of(own_text)
    request = read_request(shape, [pair for pair in pairs if pair[0] not in OWN])
    by_dimension(request.filters)  # faults are found here
    question = Question(
        ms_of(period.start), ms_of(period.end), group_by, interval, own["currency"], unknown, shape, request, zone,
        _before(own["compare"], period, now_ms), _is_allocated(own["allocation"]), _search(own["search"], interval),
        _latency(own["latency"]),
    )  # fmt: skip
    if question.latency and not {*group_by, *question.where} <= set(KEPT_BY):
        raise BadListRequest(f"latency: it is kept by {', '.join(KEPT_BY[:-1])} and {KEPT_BY[-1]} only")
    return question


def _latency(text: str | None) -> bool:
    """Raises BadListRequest."""
    if text not in {None, "true", "false"}:
        raise BadListRequest("latency: true or false is needed")
    return text == "true"


class _Period(NamedTuple):
    start: datetime
    end: datetime
    whole_end: datetime
    """Of one that goes on: when it will be over."""


def _period(own: Mapping[str, str | None], now_ms: int, zone: tzinfo) -> _Period:
    """Raises BadListRequest."""
    since, until, name = own["from"], own["to"], own["range"]
    if name is not None:
        if since is not None or until is not None:
            raise BadListRequest("range: it cannot be asked for with from or to")
        word = range_of(name)
        start, end = times_of(word, now_ms, zone)
        return _Period(start, end, whole_end(word, start, end))
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    today = midnight(now)
    start = today - timedelta(days=DEFAULT_DAYS - 1) if since is None else read_time("from", since, zone)
    end = now if until is None else read_time("to", until, zone)
    if start >= end:
        raise BadListRequest("from: a time before `to` is needed")
    return _Period(start, end, today + timedelta(days=1) if until is None else end)


def _before(compare: str | None, period: _Period, now_ms: int) -> tuple[int, int] | None:
    """Raises BadListRequest."""
    if compare is None:
        return None
    if compare != PREVIOUS:
        raise BadListRequest(f"compare: only {PREVIOUS} is known")
    start, end = (ms_of(time) for time in period_before(period.start, period.whole_end, now_ms))
    if start < 0:
        raise BadListRequest("compare: the period before begins before 1970")
    return start, end


def _is_allocated(word: str | None) -> bool:
    if word not in (None, *ALLOCATIONS):
        raise BadListRequest(f"allocation: {' or '.join(ALLOCATIONS)} is needed")
    return word != NOT_ALLOCATED


def _search(text: str | None, interval: Interval | None) -> str | None:
    """Raises BadListRequest."""
    if text is None or not text.strip():
        return None
    if interval is not None:
        raise BadListRequest("search: it is among the names of groups, and cannot be asked for with interval")
    if len(text) > MAX_SEARCH_CHARS:
        raise BadListRequest(f"search: at most {MAX_SEARCH_CHARS} characters are possible")
    return text.strip()


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
    if not all(map(is_dimension, names)) or len({*names} - {TAGS}) > most:
        raise BadListRequest(f"{parameter}: up to {most} of {', '.join(DIMENSIONS)}, {PREFIX}NAME, separated by commas")
    return names


def is_dimension(name: str) -> bool:
    """Whether a question may name it."""
    return name in DIMENSIONS or is_tag(name) or name == TAGS


def read_time(name: str, text: str, zone: tzinfo) -> datetime:
    """ISO 8601, a date or a date and time, in *zone*; of it where it has no offset."""
    try:
        time = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        found = time.replace(tzinfo=zone) if time.tzinfo is None else time.astimezone(zone)
        ms = ms_of(found)
    except (ValueError, OverflowError):
        raise BadListRequest(f"{name}: an ISO 8601 date or time is needed, such as 2026-01-05") from None
    if not 0 <= ms <= _LAST_MS:
        raise BadListRequest(f"{name}: a time since 1970, and no later than 9999-12-31, is needed")
    return found
