"""What a decoder gives: the shapes of the wire views, and what they hold besides. Types only.

Protobuf and OTLP/JSON both end in these, so there is one normaliser a signal. The
messages are read, never written.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol


class AnyValue(Protocol):
    """One attribute value.

    Several members may be read; the one that was not sent has its zero value.
    """

    @property
    def string_value(self) -> str: ...
    @property
    def bool_value(self) -> bool: ...
    @property
    def int_value(self) -> int: ...
    @property
    def double_value(self) -> float: ...
    @property
    def bytes_value(self) -> bytes: ...
    @property
    def array_value(self) -> "ArrayValue": ...
    @property
    def kvlist_value(self) -> "KeyValueList": ...
    def HasField(self, field_name: str, /) -> bool:  # noqa: N802 - protobuf's own name
        """Whether a number, a boolean or a nested value was sent
        (strings and bytes keep no presence).
        """


Attributes = Mapping[str, AnyValue]
"""Look up with `in` or `.get`: subscribing to a missing key would add it to the message."""


class ArrayValue(Protocol):
    @property
    def values(self) -> Sequence[AnyValue]: ...


class KeyValueList(Protocol):
    @property
    def values(self) -> Attributes: ...


class Resource(Protocol):
    @property
    def attributes(self) -> Attributes: ...
    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's own name
        """Equal bytes mean equal attributes; equal attributes may come as other bytes,
        since a map has no order.
        """


class Scope(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...


class Event(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def attributes(self) -> Attributes: ...


class Status(Protocol):
    @property
    def code(self) -> int: ...


class HasAttributesAndEvents(Protocol):
    """What a span states besides its envelope."""

    @property
    def attributes(self) -> Attributes: ...
    @property
    def events(self) -> Collection[Event]: ...


class Span(Protocol):
    @property
    def trace_id(self) -> bytes: ...
    @property
    def span_id(self) -> bytes: ...
    @property
    def parent_span_id(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> int: ...
    @property
    def start_time_unix_nano(self) -> int: ...
    @property
    def end_time_unix_nano(self) -> int: ...
    @property
    def attributes(self) -> Attributes: ...
    @property
    def events(self) -> Collection[Event]: ...
    @property
    def status(self) -> Status: ...


class ScopeSpans(Protocol):
    @property
    def scope(self) -> Scope: ...
    @property
    def spans(self) -> Sequence[Span]: ...


class ResourceSpans(Protocol):
    @property
    def resource(self) -> Resource: ...
    @property
    def scope_spans(self) -> Sequence[ScopeSpans]: ...


class TracesRequest(Protocol):
    @property
    def resource_spans(self) -> Sequence[ResourceSpans]: ...


class LogRecord(Protocol):
    @property
    def time_unix_nano(self) -> int: ...
    @property
    def observed_time_unix_nano(self) -> int: ...
    @property
    def severity_number(self) -> int: ...
    @property
    def body(self) -> AnyValue: ...
    @property
    def attributes(self) -> Attributes: ...
    @property
    def trace_id(self) -> bytes: ...
    @property
    def span_id(self) -> bytes: ...
    @property
    def event_name(self) -> str: ...


class ScopeLogs(Protocol):
    @property
    def scope(self) -> Scope: ...
    @property
    def log_records(self) -> Sequence[LogRecord]: ...


class ResourceLogs(Protocol):
    @property
    def resource(self) -> Resource: ...
    @property
    def scope_logs(self) -> Sequence[ScopeLogs]: ...


class LogsRequest(Protocol):
    @property
    def resource_logs(self) -> Sequence[ResourceLogs]: ...


class NumberDataPoint(Protocol):
    @property
    def start_time_unix_nano(self) -> int: ...
    @property
    def time_unix_nano(self) -> int: ...
    @property
    def as_double(self) -> float: ...
    @property
    def as_int(self) -> int: ...
    @property
    def attributes(self) -> Attributes: ...
    @property
    def flags(self) -> int: ...
    def HasField(self, field_name: str, /) -> bool:  # noqa: N802 - protobuf's own name
        """For `as_double` and `as_int`."""


class HistogramDataPoint(Protocol):
    """Of a histogram, an exponential histogram or a summary."""

    @property
    def start_time_unix_nano(self) -> int: ...
    @property
    def time_unix_nano(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def sum(self) -> float: ...
    @property
    def attributes(self) -> Attributes: ...
    @property
    def flags(self) -> int: ...


class Gauge(Protocol):
    @property
    def data_points(self) -> Sequence[NumberDataPoint]: ...


class Sum(Protocol):
    @property
    def data_points(self) -> Sequence[NumberDataPoint]: ...
    @property
    def aggregation_temporality(self) -> int: ...
    @property
    def is_monotonic(self) -> bool: ...


class Histogram(Protocol):
    """A histogram or an exponential histogram."""

    @property
    def data_points(self) -> Sequence[HistogramDataPoint]: ...
    @property
    def aggregation_temporality(self) -> int: ...


class Summary(Protocol):
    @property
    def data_points(self) -> Sequence[HistogramDataPoint]: ...


class Metric(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def gauge(self) -> Gauge: ...
    @property
    def sum(self) -> Sum: ...
    @property
    def histogram(self) -> Histogram: ...
    @property
    def exponential_histogram(self) -> Histogram: ...
    @property
    def summary(self) -> Summary: ...
    def HasField(self, field_name: str, /) -> bool:  # noqa: N802 - protobuf's own name
        """Which kind of metric it is."""


class ScopeMetrics(Protocol):
    @property
    def scope(self) -> Scope: ...
    @property
    def metrics(self) -> Sequence[Metric]: ...


class ResourceMetrics(Protocol):
    @property
    def resource(self) -> Resource: ...
    @property
    def scope_metrics(self) -> Sequence[ScopeMetrics]: ...


class MetricsRequest(Protocol):
    @property
    def resource_metrics(self) -> Sequence[ResourceMetrics]: ...


Faults = Mapping[str, str]
"""Position of an item -> reason. The decoder could not read the item and left an empty one in its
place, so that the positions of the others hold. Positions read
`resourceSpans[0].scopeSpans[1].spans[4]`."""

NO_FAULTS: Faults = {}


class Traces(NamedTuple):
    request: TracesRequest
    faults: Faults = NO_FAULTS

    def __repr__(self) -> str:
        """No content: the request holds prompts."""
        return f"Traces(<{len(self.request.resource_spans)} resources>)"


class Logs(NamedTuple):
    request: LogsRequest
    faults: Faults = NO_FAULTS

    def __repr__(self) -> str:
        """No content: the request holds prompts."""
        return f"Logs(<{len(self.request.resource_logs)} resources>)"


class Metrics(NamedTuple):
    request: MetricsRequest
    faults: Faults = NO_FAULTS

    def __repr__(self) -> str:
        """No content."""
        return f"Metrics(<{len(self.request.resource_metrics)} resources>)"
