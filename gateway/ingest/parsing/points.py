"""One payload of metrics -> its usage points, and those as plain types, so that a worker can read it. Pure.

This is the part that needs nothing but the payload; what a point adds to its series comes behind it (`gateway.ingest.metrics`).
What there may be many of travels in pieces, each marshalled by itself: taking one apart keeps nobody waiting.
"""

import marshal
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from gateway.contract.outcomes import Rejection
from gateway.decode.otlp_json import decode_metrics_json
from gateway.decode.otlp_protobuf import decode_metrics
from gateway.normalise.context import Context
from gateway.normalise.conventions.metric_tables import MetricTable
from gateway.normalise.metrics import normalise_metrics
from gateway.normalise.points import Labels, MetricSource, Point, UsagePoints
from gateway.normalise.usage import Basis

PIECE = 2_000
"""Of points that is half a megabyte, and a millisecond to take apart."""
Pieces = list[bytes]
"""Each a marshalled list of up to `PIECE`."""


class ParsedMetrics(NamedTuple):
    """`UsagePoints`, in plain types. Points name their labels and table by position: a payload's points share a few."""

    items: int
    ignored: int
    suppressed: dict[str, int]
    """Reason -> points."""
    tables: list[tuple[Any, ...]]
    rejected: Pieces
    """Reason and position."""
    attributions: Pieces
    labels: Pieces
    points: Pieces


def read_metrics(body: bytes, *, json: bool, context: Context) -> UsagePoints:
    """An ExportMetricsServiceRequest. Raises BadPayload."""
    return normalise_metrics(decode_metrics_json(body) if json else decode_metrics(body), context)


def pack_metrics(body: bytes, *, json: bool, context: Context, **_: object) -> ParsedMetrics:
    """The same for a worker; prices and preferences, which it has for calls, are asked when an aggregate's time is up."""
    return packed(read_metrics(body, json=json, context=context))


def packed(measured: UsagePoints) -> ParsedMetrics:
    """*measured* in plain types."""
    labels: dict[Labels, int] = {}
    tables: dict[MetricTable, int] = {}
    points = [
        (
            *point[:2],
            labels.setdefault(point.labels, len(labels)),
            tables.setdefault(point.table, len(tables)),
            *point[4:],
        )
        for point in measured.points
    ]
    return ParsedMetrics(
        measured.items,
        measured.ignored,
        dict(measured.suppressed),
        [tuple({**x._asdict(), "basis": x.basis.name}.values()) for x in tables],
        _cut([tuple(x) for x in measured.rejected]),
        _cut(measured.attributions),
        _cut([(tuple(x.reporter), *x[1:]) for x in labels]),
        _cut(points),
    )


def measured_in(packed: ParsedMetrics) -> UsagePoints:
    """What `pack_metrics` packed."""
    measured = UsagePoints(items=packed.items, ignored=packed.ignored, attributions=list(_joined(packed.attributions)))
    measured.suppressed.update(packed.suppressed)
    measured.rejected += [Rejection(*x) for x in _joined(packed.rejected)]
    labels = [Labels(MetricSource(*reporter), *rest) for reporter, *rest in _joined(packed.labels)]
    tables = [_table_in(fields) for fields in packed.tables]
    measured.points += [
        Point(key, series, labels[label], tables[table], *rest)
        for key, series, label, table, *rest in _joined(packed.points)
    ]
    return measured


def _table_in(fields: Iterable[Any]) -> MetricTable:
    table = MetricTable(*fields)
    return table._replace(basis=Basis[str(table.basis)])


def _cut(items: Sequence[object]) -> Pieces:
    """*items*, of plain types, in pieces."""
    return [marshal.dumps(list(items[start : start + PIECE])) for start in range(0, len(items), PIECE)]


def _joined(pieces: Pieces) -> Iterator[Any]:
    for piece in pieces:
        yield from marshal.loads(piece)  # noqa: S302 our own worker wrote it
