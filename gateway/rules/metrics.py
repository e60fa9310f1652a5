"""Metric data points -> usage points, and the outcome of every other point.
Pure: no clock, no I/O, no state.

1. A metric that no table knows is ignored, point by point, unless it has the shape of usage; so
   are gauges, sums that may fall, and points without a value. Of the metrics of one scope that have
   the shape, the first is read: others may count the same tokens in another cut.
2. A point whose time, value or temporality cannot be right is rejected.
3. A total repeats its parts: suppressed (`overlapping_type`).
4. Every other point is usage. What it adds follows from its series
   (`gateway.counting.metrics.series`), then points that belong together become one record
   (`gateway.rules.aggregates`).
"""

import re
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

from gateway.common.contract.outcomes import Rejection
from gateway.common.operations import decimal_string
from gateway.read.limits import Meter, too_many_series
from gateway.read.view import Attributes, Faults, HistogramDataPoint, Metric, Metrics, NumberDataPoint
from gateway.rules import times
from gateway.rules.attribution import ResourceContext, resource_origin
from gateway.rules.context import Context
from gateway.rules.conventions.metric_tables import (
    COST,
    POINT_INTERESTS,
    SHAPE,
    SHAPE_INTERESTS,
    TOTAL,
    MetricTable,
    metric_table,
    table_by_shape,
    token_kind,
)
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted, pick
from gateway.rules.operation import operation
from gateway.rules.points import (
    PICO,
    Labels,
    MetricSource,
    Point,
    UsagePoints,
    attributes_hash,
    cumulative_key,
    delta_key,
    hashed,
)
from gateway.rules.provider import provider
from gateway.rules.record import title

_DELTA, _CUMULATIVE = 1, 2
_NO_VALUE = 1
"""Flag of a point that states only that its series has none."""
_MAX_TOKENS = 1 << 53
_MAX_PICO = 9 * 10**18
"""Nine million of a currency's unit in one series; what is above is another unit."""
_MAX_WHOLE_FLOAT = 1 << 53
_MAX_LABELS = 1_000
_DEFAULT_OPERATION = "chat"
_UNKNOWN_PROVIDER = "unknown"
_DEFAULT_CURRENCY = "USD"
_CURRENCY = re.compile(r"\{?([A-Za-z]{3})\}?")
_NAME = re.compile(r"[\w.:/$#@+=-]{1,64}", re.ASCII)


class _Series(NamedTuple):
    """What the points of one metric share."""

    table: MetricTable
    temporality: int
    currency: str
    scope: str
    scope_version: str
    resource: int
    origin: ResourceContext
    context: Context
    labels: dict[tuple[object, ...], Labels]
    """Those of the points before: points of one metric share a few."""
    identity: bytes
    """Hash of resource, scope, name and kind; the points' attributes come on top."""


def normalise_metrics(metrics: Metrics, context: Context) -> UsagePoints:
    """The usage points and outcomes of one request.

    Raises TooLarge; BadPayload where the view is parsed while it is read.
    """
    out, meter, max_series = UsagePoints(), Meter(context.limits.max_items), context.limits.max_series
    for i, resource_metrics in enumerate(metrics.request.resource_metrics):
        meter.take(1 + len(resource_metrics.scope_metrics))
        made, before = resource_origin(resource_metrics.resource, context), out.items
        out.attributions.append(made.attribution)
        identity = attributes_hash(resource_metrics.resource.attributes)
        for j, scope_metrics in enumerate(resource_metrics.scope_metrics):
            scope, version = scope_metrics.scope.name[:MAX_TEXT_CHARS], scope_metrics.scope.version[:MAX_TEXT_CHARS]
            meter.take(len(scope_metrics.metrics))
            is_shape_found = False
            for k, metric in enumerate(scope_metrics.metrics):
                n, n_before = points(metric), len(out.points)
                meter.take(n)
                table = metric_table(scope, metric.name) or by_shape(metric)
                if table is None or (table.convention == SHAPE and is_shape_found):
                    out.items += n
                    out.ignored += n
                    continue
                at = f"resourceMetrics[{i}].scopeMetrics[{j}].metrics[{k}]"
                series = _Series(
                    table,
                    _temporality(metric),
                    _currency(metric.unit),
                    scope,
                    version,
                    i,
                    made,
                    context,
                    {},
                    hashed(identity, scope.encode("utf-8", "replace"), metric.name.encode("utf-8", "replace")),
                )
                _metric(out, metric, series, at, metrics.faults)
                is_shape_found = is_shape_found or (table.convention == SHAPE and len(out.points) > n_before)
        out.services[made.attribution.get("service_name")] += out.items - before
    if len(out.points) > max_series and len({point.key for point in out.points}) > max_series:
        raise too_many_series(max_series)
    return out


def by_shape(metric: Metric) -> MetricTable | None:
    """How *metric*, which no table knows, is read where its points have the shape of usage."""
    return table_by_shape(metric.name, metric.unit, is_sum=bool(metric.sum.data_points))


def sender_of(context: Context) -> str:
    """Who sent a payload: the inbound key, else the address."""
    key = context.counted_key
    return f"key:{key}" if key else f"peer:{context.peer}"


def points(metric: Metric) -> int:
    """Data points of *metric*, whatever its kind."""
    return (
        len(metric.gauge.data_points)
        + len(metric.sum.data_points)
        + len(metric.histogram.data_points)
        + len(metric.exponential_histogram.data_points)
        + len(metric.summary.data_points)
    )


@lru_cache(maxsize=1024)
def _currency(unit: str) -> str:
    """ISO 4217 code that a unit names (`USD`, `{USD}`); US dollars where it names none."""
    match = _CURRENCY.fullmatch(unit)
    return match.group(1).upper() if match else _DEFAULT_CURRENCY


# ---- one metric


def _metric(out: UsagePoints, metric: Metric, series: _Series, at: str, faults: Faults) -> None:
    """The points of a metric that counts usage, by its kind."""
    ignored = len(metric.gauge.data_points) + len(metric.summary.data_points)
    sums = metric.sum
    if sums.data_points and not sums.is_monotonic:
        ignored += len(sums.data_points)
    else:
        for n, point in enumerate(sums.data_points):
            value = (
                point.as_int if point.HasField("as_int") else point.as_double if point.HasField("as_double") else None
            )
            _point(out, point, value, None, series, f"{at}.sum.dataPoints[{n}]", faults)
    for field, histogram in (("histogram", metric.histogram), ("exponentialHistogram", metric.exponential_histogram)):
        for n, measured in enumerate(histogram.data_points):
            _point(out, measured, measured.sum, measured.count, series, f"{at}.{field}.dataPoints[{n}]", faults)
    out.items += ignored
    out.ignored += ignored


def _temporality(metric: Metric) -> int:
    for kind in (metric.sum, metric.histogram, metric.exponential_histogram):
        if kind.data_points:
            return kind.aggregation_temporality
    return 0


# ---- one point


def _point(
    out: UsagePoints,
    point: NumberDataPoint | HistogramDataPoint,
    value: float | None,
    count: int | None,
    series: _Series,
    at: str,
    faults: Faults,
) -> None:
    """Put one data point where it belongs in *out*."""
    out.items += 1
    if at in faults:
        out.rejected.append(Rejection(faults[at], at))
        return
    if point.flags & _NO_VALUE or value is None:
        out.ignored += 1
        return
    attributes, is_by_shape = point.attributes, series.table.convention == SHAPE
    picked = pick(attributes, tuple(attributes), SHAPE_INTERESTS if is_by_shape else POINT_INTERESTS)
    kind, is_known = _kind(series.table, picked)
    if is_by_shape and not (is_known and _names_model(picked)):
        out.ignored += 1
        return
    series.context.tags.add_of(picked.who, attributes)
    reason = _fault(point, value, series)
    if reason is not None:
        out.rejected.append(Rejection(reason, at))
        return
    if kind is None:
        out.suppressed["overlapping_type"] += 1
        return
    units = _pico(value) if kind == COST else round(value)
    if not 0 <= units <= (_MAX_PICO if kind == COST else _MAX_TOKENS):
        out.rejected.append(Rejection("invalid_value", at))
        return
    start_ns, time_ns = point.start_time_unix_nano, point.time_unix_nano
    if not times.FIRST_NS <= start_ns <= time_ns:
        start_ns = 0
    identity = _identity(series, attributes, start_ns)
    is_delta = series.temporality == _DELTA
    out.points.append(
        Point(
            delta_key(identity, start_ns, time_ns, units, count) if is_delta else cumulative_key(identity, start_ns),
            identity,
            _labels(series, picked),
            series.table,
            kind,
            is_known,
            units,
            None if count is None else min(count, _MAX_TOKENS),
            start_ns,
            time_ns,
            is_delta,
            series.currency,
        )
    )


def _names_model(picked: Extracted) -> bool:
    return "request_model" in picked.texts or "response_model" in picked.texts


def _fault(point: NumberDataPoint | HistogramDataPoint, value: float, series: _Series) -> str | None:
    """Why the point cannot be counted; None when it can."""
    if not times.FIRST_NS <= point.time_unix_nano < times.LAST_NS:
        return "invalid_time"
    if series.temporality not in {_DELTA, _CUMULATIVE}:
        return "unspecified_temporality"
    if not isfinite(value) or value < 0:
        return "invalid_value"
    return None


def _kind(table: MetricTable, picked: Extracted) -> tuple[str | None, bool]:
    """What the point counts, and whether a table knows it; None for a total."""
    if table.kind is not None:
        return table.kind, True
    sent = picked.texts.get("kind", "")
    kind = token_kind(sent)
    if kind == TOTAL:
        return None, True
    if kind is not None:
        return kind, True
    return f"{table.convention}.usage.{sent if _NAME.fullmatch(sent) else 'unknown'}", False


def _pico(amount: float) -> int:
    """Picounits; without the binary noise that a double has beyond its 15th digit."""
    if isinstance(amount, int) or amount > _MAX_WHOLE_FLOAT:
        return int(amount) * PICO
    return int((Decimal(decimal_string(amount)) * PICO).to_integral_value())


def _identity(series: _Series, attributes: Attributes, start_ns: int) -> bytes:
    """The series. Senders are distinguished by key or address only where no start time does it.

    A start time does it better: keys are rotated and addresses change while a process goes on
    counting, and each change would count all of it again.
    """
    sender = "" if start_ns else sender_of(series.context)
    return hashed(
        sender.encode("utf-8", "replace"), series.identity, bytes((series.temporality,)), attributes_hash(attributes)
    )


def _labels(series: _Series, picked: Extracted) -> Labels:
    """What of the point's attributes is kept."""
    said = (*picked.texts.items(), None, *picked.who.items())
    known = series.labels.get(said)
    if known is None:
        if len(series.labels) >= _MAX_LABELS:
            series.labels.clear()
        known = series.labels[said] = _new_labels(series, picked)
    return known


def _new_labels(series: _Series, picked: Extracted) -> Labels:
    texts, who = picked.texts, picked.who
    request_model, response_model = title(texts.get("request_model")), title(texts.get("response_model"))
    service_tier = texts.get("service_tier", "")
    operation_name, served_by = _called(
        texts.get("operation"), texts.get("provider"), response_model or request_model, texts.get("address")
    )
    if served_by is None:
        served_by = series.table.default_provider or (None if request_model else _UNKNOWN_PROVIDER)
    attribution = series.origin.attribution
    reporter = MetricSource(
        sender_of(series.context),
        attribution.get("service_name") or "",
        attribution.get("device_id") or "",
        str(series.origin.instance or ""),
        who.get("session", ""),
    )
    return Labels(
        reporter,
        title(series.scope) or "",
        title(series.scope_version) or "",
        served_by,
        request_model,
        response_model,
        operation_name,
        service_tier if _NAME.fullmatch(service_tier) else None,
        tuple(sorted(who.items())),
        series.resource,
    )


@lru_cache(maxsize=4096)
def _called(
    sent_operation: str | None, sent_provider: str | None, model: str | None, address: str | None
) -> tuple[str, str | None]:
    """The operation and its provider."""
    name = _DEFAULT_OPERATION if sent_operation is None else operation(sent_operation).name
    return name if _NAME.fullmatch(name) else _DEFAULT_OPERATION, provider(sent_provider, model, address)
