"""The families of `/metrics` as an OTLP request. Pure.

A metric keeps its name, so that rules and dashboards hold for both ways; one that OpenTelemetry's
semantic conventions name has their name and unit (`CONVENTIONS`). Sums and histograms are
cumulative. A start time is stated for histograms alone: what is kept in the spool goes on after a
restart, and a start of the process beside it would count it again.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, HistogramDataPoint, ScopeMetrics
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as Written
from prometheus_client import Metric
from prometheus_client.samples import Sample

CUMULATIVE: Final = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
SCOPE: Final = "telemetry_gateway"
GENERATION: Final = {"generation": "cpython.gc.generation"}


class Convention(NamedTuple):
    """A metric of the semantic conventions."""

    name: str
    unit: str
    attributes: Mapping[str, str]
    """Label -> attribute."""


CONVENTIONS: Final[Mapping[str, Convention]] = {
    "telemetry_gateway_request_duration_seconds": Convention(
        "http.server.request.duration", "s", {"route": "http.route"}
    ),
    "process_cpu_seconds_total": Convention("process.cpu.time", "s", {}),
    "process_resident_memory_bytes": Convention("process.memory.usage", "By", {}),
    "process_virtual_memory_bytes": Convention("process.memory.virtual", "By", {}),
    "process_open_fds": Convention("process.open_file_descriptor.count", "{file_descriptor}", {}),
    "python_gc_collections_total": Convention("cpython.gc.collections", "{collection}", GENERATION),
    "python_gc_objects_collected_total": Convention("cpython.gc.collected_objects", "{object}", GENERATION),
    "python_gc_objects_uncollectable_total": Convention("cpython.gc.uncollectable_objects", "{object}", GENERATION),
}
"""By the name in `/metrics`. Of requests those over HTTP: calls over gRPC keep their own."""
UNITS: Final = {"_seconds": "s", "_bytes": "By"}


def metrics_request(
    families: Iterable[Metric], resource: Mapping[str, str], *, started_ns: int, now_ns: int
) -> ExportMetricsServiceRequest:
    """All *families* as of *now_ns*; *started_ns*: when the process began."""
    request = ExportMetricsServiceRequest()
    of_resource = request.resource_metrics.add()
    of_resource.resource.attributes.extend(attributes_of(resource))
    scope = of_resource.scope_metrics.add()
    scope.scope.name = SCOPE
    for family in families:
        if family.type == "histogram":
            for part in histograms_of(family):
                add_histogram(scope, part, family, started_ns, now_ns)
        elif family.samples:
            add_numbers(scope, family, now_ns)
    return request


def attributes_of(values: Mapping[str, str]) -> list[KeyValue]:
    found = []
    for name, value in values.items():
        attribute = KeyValue(key=name)
        attribute.value.string_value = value
        found.append(attribute)
    return found


def add_numbers(scope: ScopeMetrics, family: Metric, now_ns: int) -> None:
    """A counter is a sum, all else a gauge."""
    name = family.name + "_total" * (family.type == "counter")
    convention = CONVENTIONS.get(name)
    metric = new_metric(scope, name, family, convention)
    points = metric.gauge.data_points
    if family.type == "counter":
        metric.sum.aggregation_temporality = CUMULATIVE
        metric.sum.is_monotonic = True
        points = metric.sum.data_points
    for sample in family.samples:
        point = points.add()
        point.time_unix_nano = now_ns
        point.as_double = sample.value
        point.attributes.extend(attributes_of(renamed(sample.labels, convention)))


def new_metric(scope: ScopeMetrics, name: str, family: Metric, convention: Convention | None) -> Written:
    metric: Written = scope.metrics.add()
    metric.name = name if convention is None else convention.name
    metric.unit = unit_of(name) if convention is None else convention.unit
    metric.description = family.documentation
    return metric


def unit_of(name: str) -> str:
    bare = name.removesuffix("_total")
    return next((unit for end, unit in UNITS.items() if bare.endswith(end)), "1")


def renamed(labels: Mapping[str, str], convention: Convention | None) -> dict[str, str]:
    names = {} if convention is None else convention.attributes
    return {names.get(label, label): value for label, value in labels.items()}


class Part(NamedTuple):
    """The histograms of a family that share a name, each by its labels."""

    convention: Convention | None
    points: dict[tuple[tuple[str, str], ...], list[Sample]]


def histograms_of(family: Metric) -> list[Part]:
    """Those with a name of the conventions apart from the others."""
    conventional, own = Part(CONVENTIONS.get(family.name), {}), Part(None, {})
    for sample in family.samples:
        is_own = conventional.convention is None or sample.labels.get("transport") == "grpc"
        left_out = {"le"} if is_own else {"le", "transport"}
        labels = tuple((label, value) for label, value in sample.labels.items() if label not in left_out)
        (own if is_own else conventional).points.setdefault(labels, []).append(sample)
    return [part for part in (conventional, own) if part.points]


def add_histogram(scope: ScopeMetrics, part: Part, family: Metric, started_ns: int, now_ns: int) -> None:
    metric = new_metric(scope, family.name, family, part.convention)
    metric.histogram.aggregation_temporality = CUMULATIVE
    for labels, samples in part.points.items():
        point = metric.histogram.data_points.add()
        point.start_time_unix_nano, point.time_unix_nano = started_ns, now_ns
        point.attributes.extend(attributes_of(renamed(dict(labels), part.convention)))
        fill(point, samples)


def fill(point: HistogramDataPoint, samples: Iterable[Sample]) -> None:
    """Bounds, counts by bucket and the sum; Prometheus' counts are cumulative, OTLP's are not."""
    before = 0.0
    for sample in samples:
        if sample.name.endswith("_bucket"):
            if sample.labels["le"] != "+Inf":
                point.explicit_bounds.append(float(sample.labels["le"]))
            point.bucket_counts.append(int(sample.value - before))
            before = sample.value
        elif sample.name.endswith("_sum"):
            point.sum = sample.value
    point.count = int(before)
