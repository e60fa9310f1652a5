"""Builders of OTLP metrics; every value that a test does not name is an ordinary one.

Times are seconds after `EPOCH_MS`.
"""

from collections.abc import Mapping
from typing import Literal

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, ScopeMetrics

from tests.support.calls import EPOCH_MS

TOKENS = "gen_ai.client.token.usage"
LABELS = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o", "gen_ai.operation.name": "chat"}
RESOURCE = {"service.name": "app"}

Kind = Literal["sum", "histogram", "exponential", "gauge", "up_down"]
Temporality = Literal["delta", "cumulative", "unspecified"]

_TEMPORALITY = {
    "delta": AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA,
    "cumulative": AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE,
    "unspecified": AggregationTemporality.AGGREGATION_TEMPORALITY_UNSPECIFIED,
}


def at_ns(seconds: float) -> int:
    return EPOCH_MS * 10**6 + round(seconds * 10**9)


def attributes(values: Mapping[str, object]) -> list[KeyValue]:
    found = []
    for key, value in values.items():
        pair = KeyValue(key=key)
        if isinstance(value, bool):
            pair.value.bool_value = value
        elif isinstance(value, int):
            pair.value.int_value = value
        elif isinstance(value, float):
            pair.value.double_value = value
        else:
            pair.value.string_value = str(value)
        found.append(pair)
    return found


class Export:
    """One payload in the making: `point` as often as wanted, then `body`."""

    def __init__(
        self, *, resource: Mapping[str, object] = RESOURCE, scope: str = "meter", start: float = 0, at: float = 60
    ) -> None:
        self.request = ExportMetricsServiceRequest()
        self._resource, self._scope, self._start, self._at = resource, scope, start, at
        self._scopes: dict[str, ScopeMetrics] = {}
        self._metrics: dict[tuple[str, str], Metric] = {}

    def point(
        self,
        value: float,
        token_type: str | None = "input",
        *,
        name: str = TOKENS,
        kind: Kind = "histogram",
        temporality: Temporality = "cumulative",
        calls: int = 1,
        labels: Mapping[str, object] = LABELS,
        more: Mapping[str, object] | None = None,
        scope: str | None = None,
        start: float | None = None,
        at: float | None = None,
        type_name: str = "gen_ai.token.type",
        unit: str = "{token}",
    ) -> "Export":
        """Add one data point; *start* 0 ns is said by `start=-1`."""
        metric = self._metric(scope or self._scope, name, unit)
        given = {**labels, **(more or {}), **({} if token_type is None else {type_name: token_type})}
        start_s = self._start if start is None else start
        times = {
            "start_time_unix_nano": 0 if start_s < 0 else at_ns(start_s),
            "time_unix_nano": at_ns(self._at if at is None else at),
        }
        if kind in {"histogram", "exponential"}:
            histogram = metric.histogram if kind == "histogram" else metric.exponential_histogram
            histogram.aggregation_temporality = _TEMPORALITY[temporality]
            histogram.data_points.add(attributes=attributes(given), sum=value, count=calls, **times)
        else:
            numbers = metric.gauge if kind == "gauge" else metric.sum
            if kind != "gauge":
                metric.sum.aggregation_temporality = _TEMPORALITY[temporality]
                metric.sum.is_monotonic = kind == "sum"
            point = numbers.data_points.add(attributes=attributes(given), **times)
            if isinstance(value, int):
                point.as_int = value
            else:
                point.as_double = value
        return self

    def _metric(self, scope: str, name: str, unit: str) -> Metric:
        if scope not in self._scopes:
            if not self.request.resource_metrics:
                self.request.resource_metrics.add().resource.attributes.extend(attributes(self._resource))
            self._scopes[scope] = self.request.resource_metrics[0].scope_metrics.add()
            self._scopes[scope].scope.name = scope
        if (scope, name) not in self._metrics:
            self._metrics[scope, name] = self._scopes[scope].metrics.add(name=name, unit=unit)
        return self._metrics[scope, name]

    @property
    def body(self) -> bytes:
        return self.request.SerializeToString()


def export(input_tokens: float, output_tokens: float, *, calls: int = 1, **times: float) -> Export:
    """A payload of `gen_ai.client.token.usage`, cumulative, that states these two sums."""
    return Export(**times).point(input_tokens, "input", calls=calls).point(output_tokens, "output", calls=calls)  # type: ignore[arg-type] # times are start and at
