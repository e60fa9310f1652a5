"""The latency of calls by series and period: what is kept, and the groups of a question. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, cycle, repeat
from typing import Final, NamedTuple, cast

import orjson

from gateway.common.model_versions import model_of
from gateway.usage.sums.buckets import Buckets, add_buckets
from gateway.usage.sums.grains import DAY, DIMENSIONS, FINE, HOUR, MANY, Dimension
from gateway.usage.sums.names import NO_FILTERS, Absent, Filters, Name
from gateway.usage.sums.timespan import SPANS, Interval

KEPT_BY: Final[tuple[Dimension, ...]] = tuple(name for name in DIMENSIONS if name not in MANY)
"""Without users and devices, which have most names."""

Names = tuple[str | None, ...]
"""Of a series, as `KEPT_BY` orders them: "" is unknown, None "other"."""
_FINE: Final = frozenset(KEPT_BY.index(name) for name in FINE if name in KEPT_BY)
MAX_LATENCY_SERIES: Final = {HOUR: 500, DAY: 1000}
"""Series of an hour and of a day."""


# ---- what is kept of a period


class Period(NamedTuple):
    """As it is stored: by columns, which are read several times faster than rows."""

    names: Sequence[str | None]
    columns: Sequence[Sequence[int]]
    """Of each dimension of `KEPT_BY`: the place of each series' name in `names`."""
    buckets: Sequence[Sequence[int]]
    """Of each series: a bucket, its calls, the next bucket, …"""


def encoded(series: Mapping[Names, Buckets]) -> bytes:
    names = [*dict.fromkeys(chain.from_iterable(series))]
    at = {name: place for place, name in enumerate(names)}
    columns = [[*map(at.__getitem__, column)] for column in zip(*series, strict=True)]
    return orjson.dumps([names, columns, [[*chain.from_iterable(buckets.items())] for buckets in series.values()]])


def opened(body: bytes) -> Period:
    """The first form that was stored, by rows, is read too."""
    names, *rest = orjson.loads(body)
    if len(rest) > 1:
        return Period(names, *rest)
    (rows,) = rest
    return Period(names, [*zip(*(places for places, _ in rows), strict=True)], [flat for _, flat in rows])


def decoded(body: bytes) -> Iterator[tuple[Names, Buckets]]:
    names, columns, buckets = opened(body)
    series = zip(*(map(names.__getitem__, column) for column in columns), strict=True)
    return zip(series, (dict(_pairs(flat)) for flat in buckets), strict=True)


def _pairs(flat: Iterable[int]) -> Iterator[tuple[int, int]]:
    one_by_one = iter(flat)
    return zip(one_by_one, one_by_one, strict=True)


def add_series(into: dict[Names, Buckets], series: Iterable[tuple[Names, Buckets]], most: int) -> None:
    """Add *series* to a period of at most *most*. Further ones are folded: their project, service
    and key are "other"; from a quarter above on, every name.
    """
    for names, buckets in series:
        kept = names
        if names not in into and len(into) >= most:
            kept = tuple(None if at in _FINE else name for at, name in enumerate(names))
            if kept not in into and len(into) >= most + most // 4:
                kept = (None,) * len(KEPT_BY)
        add_buckets(into.setdefault(kept, {}), buckets)


# ---- questions


class AskedLatency(NamedTuple):
    """Of calls that *where* keeps, by names; or by hour or UTC day."""

    by: Sequence[Dimension] = ()
    where: Filters = NO_FILTERS
    interval: Interval | None = None


LatencyGroup = tuple[Name | int, ...]
"""Names as `by` orders them; of an interval its first hour."""


KeptGroup = tuple[str | int | None, ...]
"""As `LatencyGroup`, with names as they are stored."""


def add_period(into: dict[KeptGroup, Buckets], hour: int, period: Period, asked: AskedLatency) -> None:
    """Add the series of one period that *asked* keeps."""
    columns = dict(zip(KEPT_BY, period.columns, strict=True))
    series = zip(_groups_of(hour, period.names, columns, asked), period.buckets, strict=False)
    for group, flat in compress(series, _are_kept(period.names, columns, asked.where)):
        buckets = into.get(group)
        if buckets is None:
            buckets = into[group] = {}
        for bucket, calls in _pairs(flat):
            buckets[bucket] = buckets.get(bucket, 0) + calls


def _groups_of(
    hour: int, names: Sequence[str | None], columns: Mapping[Dimension, Sequence[int]], asked: AskedLatency
) -> Iterable[KeptGroup]:
    """That of each series."""
    if asked.interval is not None:
        span = SPANS[asked.interval]
        return repeat((hour // span * span,))
    if not asked.by:
        return repeat(())
    return zip(*(map(names.__getitem__, columns[name]) for name in asked.by), strict=True)


def _are_kept(
    names: Sequence[str | None], columns: Mapping[Dimension, Sequence[int]], where: Filters
) -> Iterable[bool]:
    """Whether *where* keeps it, of each series."""
    flags = []
    for dimension, wanted in where.items():
        column = columns[dimension]
        places = {place for place in {*column} if _is_among(names[place], dimension, wanted)}
        flags.append(map(places.__contains__, column))
    return map(all, zip(*flags, strict=True)) if flags else cycle((True,))


def groups_of(kept: Mapping[KeptGroup, Buckets], asked: AskedLatency) -> dict[LatencyGroup, Buckets]:
    """Dated names of a model are in the model's group."""
    if asked.interval is not None:
        return cast("dict[LatencyGroup, Buckets]", kept)
    groups: dict[LatencyGroup, Buckets] = {}
    for names, buckets in kept.items():
        group = tuple(map(_name_of, cast("Names", names), asked.by))
        add_buckets(groups.setdefault(group, {}), buckets)
    return groups


def _is_among(name: str | None, dimension: Dimension, wanted: Collection[Name]) -> bool:
    known = _absent_or(name)
    return known in wanted or (dimension == "model" and isinstance(known, str) and model_of(known) in wanted)


def _name_of(name: str | None, dimension: Dimension) -> Name:
    known = _absent_or(name)
    return model_of(known) if dimension == "model" and isinstance(known, str) else known


def _absent_or(name: str | None) -> Name:
    return Absent.OTHER if name is None else name or Absent.UNKNOWN
