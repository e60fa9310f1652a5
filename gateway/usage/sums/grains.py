"""Which sums are kept of an hour and of a day, and how many series of each. Pure.

A grain keeps some dimensions and sums over the others, so that a question about one dimension reads
few rows. Bounds limit the series of one grain in one hour or day. A series beyond
them is folded step by step: into one whose dimensions of `FINE` are "other", then into one whose
dimensions are all "other", then into one whose currency is "other", whose cost is then unknown. So
every count and every sum of tokens stays exact, and every sum of money up to the last step.
"""

from collections.abc import Collection, Iterator, Mapping
from operator import mul
from typing import Final, Literal, NamedTuple, get_args

from gateway.usage.sums.tally import CALLS, COST, COST_WORDS, FAILED_COSTS_BY, WITHOUT_COST, Sums

_Own = Literal[
    "provider", "model", "team", "project", "user", "device_id", "service_name", "key", "operation", "source"
]
DIMENSIONS: Final[tuple[str, ...]] = get_args(_Own)
Dimension = str
"""One of `DIMENSIONS`, a tag (`gateway.usage.sums.tags`), or `TAGS`."""
TAGS: Final = "tags"
"""All tags of a call together: their set represents them."""
COLUMNS: Final[tuple[str, ...]] = (*DIMENSIONS, *COST_WORDS)
"""What a row of a grain is of."""
TAGGED_COLUMNS: Final[tuple[str, ...]] = (*COLUMNS, TAGS)
"""The same, of a grain that keeps tags."""
CURRENCY: Final = len(DIMENSIONS)

HOUR: Final = 1
DAY: Final = 24
UNKNOWN_ID: Final = 0
OTHER_ID: Final = 1
FORGOTTEN_ID: Final = 2
"""Ids that are no names; those of names begin above 15."""

Ids = tuple[int, ...]
"""Of names, as `COLUMNS` or `TAGGED_COLUMNS` has them; 0 for a dimension that the grain sums
over."""

MANY: Final = frozenset[Dimension]({"user", "device_id"})
FINE: Final = frozenset[Dimension]({"project", "user", "device_id", "service_name", "key", TAGS})


class Grain(NamedTuple):
    id: int
    """On disk: never changes."""
    dimensions: frozenset[Dimension]
    max_of_day: int
    """Series of one day. Folded series come on top, half as many at most."""
    max_of_hour: int

    def max_series(self, span: int) -> int:
        return self.max_of_hour if span == HOUR else self.max_of_day


def _of(grain_id: int, *dimensions: Dimension, day: int, hour: int) -> Grain:
    return Grain(grain_id, frozenset(dimensions), day, hour)


SERIES: Final = _of(0, *DIMENSIONS, day=4000, hour=1000)
TOTAL: Final = _of(1, day=1000, hour=1000)
GRAINS: Final = (
    TOTAL,
    _of(2, "provider", day=200, hour=100),
    _of(3, "provider", "model", day=1000, hour=300),
    _of(4, "team", day=1000, hour=300),
    _of(5, "project", day=1000, hour=300),
    _of(6, "user", day=2000, hour=500),
    _of(7, "device_id", day=2000, hour=500),
    _of(8, "service_name", day=1000, hour=300),
    _of(9, "key", day=1000, hour=300),
    _of(10, "operation", day=100, hour=50),
    _of(11, "source", day=100, hour=50),
    SERIES,
)
"""From the coarsest to the finest."""
FAILED_COSTS: Final = _of(12, *FAILED_COSTS_BY, day=1000, hour=0)
"""Days of failed calls that cost something: their number and cost alone. The other grains have them
among all calls, so this one answers no other question.
"""
KEPT: Final = (*GRAINS, FAILED_COSTS)
AT_ONCE: Final = frozenset({TOTAL.id, SERIES.id})
"""Grains of an hour that calls are added to while it lasts. The others are summed from its series
when it is over: they are read often, and written once.
"""
TAGGED: Final = _of(0, *DIMENSIONS, TAGS, day=4000, hour=1000)
"""Every series with its tags."""
_FIRST_TAG_GRAIN: Final = 100


def tag_grain(number: int) -> Grain:
    """Of one tag, whose value represents the set: values beyond the bound of a day are "other"."""
    return _of(_FIRST_TAG_GRAIN + number, TAGS, day=1000, hour=0)


def grain_for(dimensions: Collection[Dimension], *, has_all: bool) -> Grain:
    """The coarsest grain that keeps *dimensions*; of those of `AT_ONCE` where a period does not
    have all.
    """
    return next(
        grain for grain in GRAINS if (has_all or grain.id in AT_ONCE) and grain.dimensions.issuperset(dimensions)
    )


def by_grain(series: Mapping[Ids, Sums], *, has_all: bool) -> Iterator[tuple[Grain, Mapping[Ids, Sums]]]:
    """The full *series* of one period, by each of its grains. Coarse grains are added up from few
    series: without user and device, which have most names.
    """
    few = projected(series, frozenset(DIMENSIONS) - MANY)
    for grain in GRAINS:
        if has_all or grain.id in AT_ONCE:
            is_fine = grain.dimensions & MANY
            yield grain, projected(series if is_fine else few, grain.dimensions)


def projected(series: Mapping[Ids, Sums], dimensions: Collection[Dimension]) -> Mapping[Ids, Sums]:
    """*series* added up by *dimensions*; the ids of the others are 0."""
    if len(dimensions) == len(DIMENSIONS):
        return series
    mask = (*(int(name in dimensions) for name in DIMENSIONS), 1, 1)
    found: dict[Ids, Sums] = {}
    for ids, sums in series.items():
        add_up(found, tuple(map(mul, ids, mask)), sums)
    return found


def without_tags(series: Mapping[Ids, Sums]) -> dict[Ids, Sums]:
    """*series* with tags, added up without them."""
    found: dict[Ids, Sums] = {}
    for ids, sums in series.items():
        add_up(found, ids[:-1], sums)
    return found


def with_value(series: Mapping[Ids, Sums], values: Mapping[int, int]) -> dict[Ids, Sums]:
    """*series* with tags, added up by one tag; *values*: set -> its value of that tag. Where a set
    is no name, the value is none either.
    """
    found: dict[Ids, Sums] = {}
    for ids, sums in series.items():
        *_, currency, source, tags = ids
        value = tags if tags <= FORGOTTEN_ID else values.get(tags, UNKNOWN_ID)
        add_up(found, (*_SUMMED, currency, source, value), sums)
    return found


_SUMMED: Final = (UNKNOWN_ID,) * len(DIMENSIONS)


def folds(grain: Grain, span: int) -> Iterator[tuple[Collection[str], int]]:
    """The steps by which series beyond the bound are folded: the columns that become "other", and
    how many series the period may have then.
    """
    most = grain.max_series(span)
    yield (), most
    if 0 < len(grain.dimensions & FINE) < len(grain.dimensions):
        yield grain.dimensions & FINE, most + most // 4
    elif "model" in grain.dimensions:
        yield ("model",), most + most // 4
    yield grain.dimensions, most + most // 2
    yield (*grain.dimensions, "currency"), 1 << 62


def within_bounds(grain: Grain, span: int, held: Collection[Ids], series: Mapping[Ids, Sums]) -> dict[Ids, Sums]:
    """*series* as one period that has those of *held* takes them: folded where they are beyond its
    bound.
    """
    has = set(held)
    kept: dict[Ids, Sums] = {}
    beyond: dict[Ids, Sums] = dict(series)
    for columns, most in folds(grain, span):
        waiting, beyond = beyond, {}
        for ids, sums in waiting.items():
            key = folded(ids, columns)
            fits = key in has or len(has) < most
            add_up(kept if fits else beyond, key, without_cost(sums) if "currency" in columns else sums)
            if fits:
                has.add(key)
    return kept


def folded(ids: Ids, columns: Collection[str]) -> Ids:
    """*ids* with "other" in *columns*."""
    return tuple(OTHER_ID if name in columns else each for name, each in zip(TAGGED_COLUMNS, ids, strict=False))


def without_cost(sums: Sums) -> Sums:
    """*sums* of an unknown cost."""
    changed = [*sums]
    changed[COST], changed[WITHOUT_COST] = 0, sums[CALLS]
    return changed


def add_up(into: dict[Ids, Sums], ids: Ids, sums: Sums) -> None:
    """Add *sums* to those of *ids*; unknown adds nothing, and unknown to unknown stays unknown."""
    mine = into.get(ids)
    if mine is None:
        into[ids] = [*sums]
        return
    for column, value in enumerate(sums):
        if value:
            mine[column] = value + (mine[column] or 0)
        elif value is not None and mine[column] is None:
            mine[column] = 0
