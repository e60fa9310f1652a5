"""What a view of usage asks for: the range and the filters in its query, and links that change
one of them. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.tags import PREFIX, is_tag, tag_of
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.tags import PARAMETER, filter_in, parameter_of
from gateway.usage.sums.timespan import Interval, TimeRange

SHOWN: Final[Mapping[Dimension, str]] = {
    "provider": "Provider",
    "model": "Model",
    "team": "Team",
    "project": "Project",
    "user": "User",
    "device_id": "Device",
    "service_name": "Service",
    "key": "Key",
    "operation": "Operation",
    "source": "Source",
}
"""Dimension -> its name on the page."""
ABSENT: Final = "without"
"""Parameter that keeps the calls without a known name: `without=team`."""


class Range(NamedTuple):
    name: str
    title: str
    interval: Interval
    hours: int
    """0: since midnight, UTC."""

    def within(self, now_ms: int) -> TimeRange:
        if not self.hours:
            return TimeRange.last_days(1, now_ms)
        if self.interval == "hour":
            return TimeRange.last_hours(self.hours, now_ms)
        return TimeRange.last_days(self.hours // 24, now_ms)


RANGES: Final = (
    Range("today", "Today", "hour", 0),
    Range("24h", "24 hours", "hour", 24),
    Range("7d", "7 days", "day", 7 * 24),
    Range("30d", "30 days", "day", 30 * 24),
)
DEFAULT: Final = RANGES[0]


EXPLORED: Final = {"today": "today", "24h": "last_24_hours", "7d": "last_7_days", "30d": "last_30_days"}
"""Name of a range of the overview -> of `GET /v2/usage`."""


class Filter(NamedTuple):
    dimension: Dimension
    name: Name

    @property
    def text(self) -> str:
        shown = self.name if isinstance(self.name, str) else self.name.value
        return f"{title_of(self.dimension)}: {shown}"

    @property
    def parameter(self) -> tuple[str, str]:
        return parameter_of(self.dimension, self.name) if isinstance(self.name, str) else (ABSENT, self.dimension)


class Question(NamedTuple):
    range: Range
    filters: tuple[Filter, ...] = ()

    @property
    def where(self) -> dict[Dimension, list[Name]]:
        return {each.dimension: [each.name] for each in self.filters}

    def path(self, path: str = "/", **more: str | int) -> str:
        """A link with this question, and *more* parameters."""
        parameters = [("range", self.range.name), *(each.parameter for each in self.filters), *more.items()]
        return f"{path}?{urlencode(parameters)}"

    def explored(self, dimension: Dimension) -> str:
        """The path of Explore with this question; days of the overview are of UTC."""
        named = [each.parameter for each in self.filters if isinstance(each.name, str)]
        unknown = [each.dimension for each in self.filters if not isinstance(each.name, str)]
        without = [("unknown", ",".join(unknown))] if unknown else []
        asked = [("range", EXPLORED[self.range.name]), ("time_zone", "UTC"), ("compare", "previous")]
        return f"/usage?{urlencode([*asked, *named, *without, ('group_by', dimension)])}"

    def of_range(self, chosen: Range) -> "Question":
        return self._replace(range=chosen)

    def narrowed(self, dimension: Dimension, name: Name) -> "Question":
        return self._replace(filters=(*self.without(dimension).filters, Filter(dimension, name)))

    def without(self, dimension: Dimension) -> "Question":
        return self._replace(filters=tuple(each for each in self.filters if each.dimension != dimension))


def title_of(dimension: Dimension) -> str:
    """Its name on the page."""
    return f"Tag {tag_of(dimension)}" if is_tag(dimension) else SHOWN[dimension]


def filter_texts(kept: Mapping[Dimension, Sequence[str | None]]) -> list[tuple[str, str]]:
    """Each dimension of a filter that is kept, as shown, and its names."""
    return [
        (title_of(dimension), ", ".join("unknown" if name is None else name for name in names))
        for dimension, names in kept.items()
    ]


def usage_of(dimension: Dimension, name: str) -> str:
    """Path of the overview for what *name* alone used in 30 days."""
    return Question(RANGES[-1], (Filter(dimension, name),)).path()


def question_of(query: Sequence[tuple[str, str]]) -> Question:
    """Parameters that are not of a question are left alone. Raises BadPayload."""
    chosen, filters = DEFAULT, dict[Dimension, Filter]()
    for name, value in query:
        if name == "range":
            chosen = range_of(value)
        elif name in SHOWN or name == PARAMETER:
            dimension, found = filter_in(name, value)
            filters[dimension] = Filter(dimension, found)
        elif name == ABSENT:
            dimension = dimension_of(value)
            filters[dimension] = Filter(dimension, Absent.UNKNOWN)
    return Question(chosen, tuple(filters.values()))


def range_of(name: str) -> Range:
    for each in RANGES:
        if each.name == name:
            return each
    raise BadPayload(f"range: one of {', '.join(each.name for each in RANGES)} is needed")


def dimension_of(name: str) -> Dimension:
    if name in SHOWN or is_tag(name):
        return name
    raise BadPayload(f"one of {', '.join(SHOWN)} or {PREFIX}NAME is needed")
