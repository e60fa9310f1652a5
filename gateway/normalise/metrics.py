"""Metric points -> aggregates. Pure. No table reads metrics yet: each point is counted as `ignored`."""

from gateway.decode.view import Metric, Metrics
from gateway.normalise.call import Normalised
from gateway.normalise.context import Context


def normalise_metrics(metrics: Metrics, context: Context) -> Normalised:
    items = sum(
        points(metric)
        for resource in metrics.request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    )
    return Normalised(items=items, ignored=items)


def points(metric: Metric) -> int:
    """Data points of *metric*, whatever its kind."""
    return (
        len(metric.gauge.data_points)
        + len(metric.sum.data_points)
        + len(metric.histogram.data_points)
        + len(metric.exponential_histogram.data_points)
        + len(metric.summary.data_points)
    )
