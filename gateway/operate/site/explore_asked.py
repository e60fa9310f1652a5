"""What the page Explore is asked, and links that change one thing of it. Pure.

Its parameters are those of `GET /v2/usage`, so that the address of a page is a question to the API
too. The page's own are `first` (a number of rows), `chart`, and what its forms send: `then` is the
second dimension, and `range=own` means from and to.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, get_args
from urllib.parse import urlencode

from gateway.common.contract.errors import BadPayload
from gateway.common.lists.conventions import CursorPosition, Position
from gateway.operate.site.usage_question import dimension_of, title_of
from gateway.usage.sums.grains import DIMENSIONS, Dimension
from gateway.usage.sums.latency import KEPT_BY
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.request import Question, read_question
from gateway.usage.sums.tags import PARAMETER, filter_in, parameter_of

PATH: Final = "/usage"
PER_PAGE: Final = 50
MAX_DIGITS: Final = 9
OWN_RANGE: Final = "own"
Pairs = tuple[tuple[str, str], ...]
Step = Literal["auto", "hour", "day"]
STEPS: Final[tuple[Step, ...]] = get_args(Step)
DEFAULTS: Final[Pairs] = (("range", "last_7_days"), ("compare", "previous"))
GROUP_BY: Final[Dimension] = "team"
DRILL: Final[tuple[Dimension, ...]] = ("team", "model")
DRILL_AFTER_TAGS: Final[tuple[Dimension, ...]] = (
    "project", "user", "service_name", "key", "device_id", "operation", "source", "provider",
)  # fmt: skip
"""What a group is looked at by, once its name was clicked: the first that is no filter yet. Tags
are between both, as they were listed to be asked for.
"""


class Filter(NamedTuple):
    dimension: Dimension
    name: Name

    @property
    def text(self) -> str:
        return f"{title_of(self.dimension)}: {name_text(self.name)}"


class Asked(NamedTuple):
    pairs: Pairs
    """Parameters of `GET /v2/usage`, without a page."""
    step: Step = "auto"
    """Of the chart."""
    first: int = 0
    tags: tuple[Dimension, ...] = ()
    """All there are."""

    def question(self, now_ms: int, *, limit: int = PER_PAGE) -> Question:
        """Raises BadListRequest."""
        question = read_question([*self.pairs, ("limit", str(limit))], now_ms)
        return at_row(question, self.first) if self.first else question

    def value(self, name: str) -> str:
        """Empty where it was not asked for."""
        return dict(self.pairs).get(name, "")

    @property
    def group_by(self) -> tuple[Dimension, ...]:
        return tuple(dimension_of(name) for name in self.value("group_by").split(","))

    @property
    def filters(self) -> list[Filter]:
        named = [Filter(*filter_in(*pair)) for pair in self.pairs if is_filter(pair[0])]
        unknown = [dimension_of(name) for name in self.value("unknown").split(",") if name]
        return [*named, *(Filter(dimension, Absent.UNKNOWN) for dimension in unknown)]

    @property
    def can_have_latency(self) -> bool:
        return {*self.group_by, *(each.dimension for each in self.filters)} <= set(KEPT_BY)

    def body(self, name: str) -> dict[str, Any]:
        """Of a view that keeps the question."""
        moving = self.value("range") or f"{self.value('from')}/{self.value('to')}"
        kept: dict[str, list[str | None]] = {}
        for each in self.filters:
            kept.setdefault(each.dimension, []).append(each.name if isinstance(each.name, str) else None)
        chosen = {each: self.value(each) for each in ("sort_key", "sort_order", "time_zone", "compare", "search")}
        body: dict[str, Any] = {"name": name, "filter": kept, "group_by": list(self.group_by), "range": moving}
        return body | {each: text for each, text in chosen.items() if text}

    # ---- links

    def path(self, path: str = PATH, **changed: str | None) -> str:
        """With *changed* parameters, None for one that goes; from the first row on, unless that is
        among them.
        """
        pairs = [pair for pair in self.pairs if pair[0] not in changed]
        own = {} if self.step == "auto" else {"chart": self.step}
        pairs += [(name, value) for name, value in {**own, **changed}.items() if value]
        return f"{path}?{urlencode(pairs)}"

    def of_range(self, name: str) -> str:
        moving = tuple(pair for pair in self.pairs if pair[0] not in {"from", "to"})
        return self._replace(pairs=moving).path(range=name)

    def without(self, *names: str) -> list[tuple[str, str]]:
        """The parameters that a form keeps, which has fields for *names*."""
        own = () if self.step == "auto" else (("chart", self.step),)
        return [pair for pair in (*self.pairs, *own) if pair[0] not in names]

    def with_filters(self, filters: Iterable[Filter]) -> "Asked":
        pairs = [pair for pair in self.pairs if not is_filter(pair[0]) and pair[0] != "unknown"]
        kept = list(filters)
        pairs += [parameter_of(each.dimension, each.name) for each in kept if isinstance(each.name, str)]
        if unknown := [each.dimension for each in kept if each.name is Absent.UNKNOWN]:
            pairs.append(("unknown", ",".join(unknown)))
        return self._replace(pairs=tuple(pairs))

    def less(self, gone: Filter) -> str:
        return self.with_filters(each for each in self.filters if each != gone).path()

    def narrowed(self, dimension: Dimension, name: Name) -> str:
        """The groups inside *name*."""
        kept = [each for each in self.filters if each.dimension != dimension]
        inside = self.with_filters([*kept, Filter(dimension, name)])
        others = [each for each in self.group_by if each != dimension]
        by = ",".join(others) or next_dimension({each.dimension for each in inside.filters}, self.tags)
        return inside.path(group_by=by, search=None)


def is_filter(parameter: str) -> bool:
    return parameter in DIMENSIONS or parameter == PARAMETER


def next_dimension(filtered: set[Dimension], tags: Sequence[Dimension] = ()) -> Dimension:
    return next((each for each in (*DRILL, *tags, *DRILL_AFTER_TAGS) if each not in filtered), GROUP_BY)


def name_text(name: Name) -> str:
    return name if isinstance(name, str) else name.value


def at_row(question: Question, first: int) -> Question:
    """The page of *question* that begins with this row."""
    position = Position(CursorPosition(first, 1), backwards=False)
    return question._replace(request=replace(question.request, position=position))


def asked_of(query: Sequence[tuple[str, str]]) -> Asked:
    """Raises BadPayload; faults of other parameters are of `Asked.question`."""
    given = dict(query)
    pairs = [(name, value) for name, value in query if value and name not in {"first", "chart", "then"}]
    if not {name for name, _ in pairs} - {"time_zone"}:
        pairs = [*DEFAULTS, *pairs]
    if given.get("range") == OWN_RANGE:
        pairs = [pair for pair in pairs if pair[0] != "range"]
    elif given.get("range"):
        pairs = [pair for pair in pairs if pair[0] not in {"from", "to"}]
    by = ",".join(_groups(given))
    pairs = [*(pair for pair in pairs if pair[0] not in {"group_by", "interval"}), ("group_by", by)]
    asked = Asked(tuple(pairs))
    if not asked.can_have_latency:
        pairs = [pair for pair in pairs if pair[0] != "latency"]
    return Asked(tuple(pairs), step_of(given.get("chart", "auto")), first_of(given.get("first", "0")))


def _groups(given: Mapping[str, str]) -> list[Dimension]:
    """Raises BadPayload."""
    by = [dimension_of(name) for name in (given.get("group_by") or GROUP_BY).split(",")]
    if "then" in given:
        by = [by[0], *([dimension_of(given["then"])] if given["then"] else [])]
    return list(dict.fromkeys(by))


def step_of(name: str) -> Step:
    for each in STEPS:
        if each == name:
            return each
    raise BadPayload(f"chart: one of {', '.join(STEPS)} is needed")


def first_of(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS:
        raise BadPayload("first: the number of the first row, from 0, is needed")
    return int(text)
