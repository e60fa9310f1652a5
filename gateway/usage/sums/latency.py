"""The latency of calls by series and period: what is kept, and the groups of a question. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

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
MOST_OF: Final = {HOUR: 500, DAY: 1000}
"""Series of an hour and of a day."""


# ---- what is kept of a period


def encoded(series: Mapping[Names, Buckets]) -> bytes:
    names = [*dict.fromkeys(name for of_series in series for name in of_series)]
    at = {name: place for place, name in enumerate(names)}
    rows = [
        [[at[name] for name in of_series], [*chain.from_iterable(buckets.items())]]
        for of_series, buckets in series.items()
    ]
    return orjson.dumps([names, rows])


def decoded(body: bytes) -> Iterator[tuple[Names, Buckets]]:
    names, rows = orjson.loads(body)
    for places, flat in rows:
        yield tuple([names[place] for place in places]), dict(zip(flat[::2], flat[1::2], strict=True))


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


def add_groups(
    into: dict[LatencyGroup, Buckets], hour: int, series: Iterable[tuple[Names, Buckets]], asked: AskedLatency
) -> None:
    """Add the *series* of one period to the groups of *asked*. Dated names of a model are in the
    model's group.
    """
    span = None if asked.interval is None else SPANS[asked.interval]
    for names, buckets in series:
        if all(_is_among(names[KEPT_BY.index(name)], name, wanted) for name, wanted in asked.where.items()):
            group: LatencyGroup = (
                tuple([_name_of(names[KEPT_BY.index(name)], name) for name in asked.by])
                if span is None
                else (hour // span * span,)
            )
            add_buckets(into.setdefault(group, {}), buckets)


def _is_among(name: str | None, dimension: Dimension, wanted: Collection[Name]) -> bool:
    known = _absent_or(name)
    return known in wanted or (dimension == "model" and isinstance(known, str) and model_of(known) in wanted)


def _name_of(name: str | None, dimension: Dimension) -> Name:
    known = _absent_or(name)
    return model_of(known) if dimension == "model" and isinstance(known, str) else known


def _absent_or(name: str | None) -> Name:
    return Absent.OTHER if name is None else name or Absent.UNKNOWN
