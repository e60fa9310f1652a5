"""The wire views of OTLP: protobuf classes that read the same bytes as OTLP's own
messages, made for reading fast.

They differ from the generated classes in three ways, none of which shows on the wire:

1. `attributes` is `map<string, AnyValue>` (a repeated KeyValue and a map entry have identical
   bytes), so a value is a dictionary look-up; of a repeated key the last one wins.
2. `AnyValue` has plain fields instead of a oneof, so a value is read without asking which
   member is set. The numbers keep presence (`?`): an attribute that states 0 is 0, not absent.
3. Fields that no one needs are left out; protobuf skips them.

Each message is one entry of `_SCHEMA`: field number, type, name. `*` repeats, `?` keeps
presence, `map` is rule 1.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from google.protobuf.message import Message

_PACKAGE = "telemetry_gateway.otlp_view"

_SCHEMA = {
    "AnyValue": """
        1 string string_value
        2 bool? bool_value
        3 int64? int_value
        4 double? double_value
        5 ArrayValue array_value
        6 KeyValueList kvlist_value
        7 bytes bytes_value""",
    "ArrayValue": "1 AnyValue* values",
    "KeyValueList": "1 map values",
    "Resource": "1 map attributes",
    "InstrumentationScope": """
        1 string name
        2 string version""",
    # trace
    "ExportTraceServiceRequest": "1 ResourceSpans* resource_spans",
    "ResourceSpans": """
        1 Resource resource
        2 ScopeSpans* scope_spans""",
    "ScopeSpans": """
        1 InstrumentationScope scope
        2 Span* spans""",
    "Span": """
        1 bytes trace_id
        2 bytes span_id
        4 bytes parent_span_id
        5 string name
        6 int32 kind
        7 fixed64 start_time_unix_nano
        8 fixed64 end_time_unix_nano
        9 map attributes
        11 Event* events
        15 Status status""",
    "Event": """
        2 string name
        3 map attributes""",
    "Status": "3 int32 code",
    # logs
    "ExportLogsServiceRequest": "1 ResourceLogs* resource_logs",
    "ResourceLogs": """
        1 Resource resource
        2 ScopeLogs* scope_logs""",
    "ScopeLogs": """
        1 InstrumentationScope scope
        2 LogRecord* log_records""",
    "LogRecord": """
        1 fixed64 time_unix_nano
        2 int32 severity_number
        5 AnyValue body
        6 map attributes
        9 bytes trace_id
        10 bytes span_id
        11 fixed64 observed_time_unix_nano
        12 string event_name""",
    # metrics
    "ExportMetricsServiceRequest": "1 ResourceMetrics* resource_metrics",
    "ResourceMetrics": """
        1 Resource resource
        2 ScopeMetrics* scope_metrics""",
    "ScopeMetrics": """
        1 InstrumentationScope scope
        2 Metric* metrics""",
    "Metric": """
        1 string name
        3 string unit
        5 Gauge gauge
        7 Sum sum
        9 Histogram histogram
        10 ExponentialHistogram exponential_histogram
        11 Summary summary""",
    "Gauge": "1 NumberDataPoint* data_points",
    "Sum": """
        1 NumberDataPoint* data_points
        2 int32 aggregation_temporality
        3 bool is_monotonic""",
    "Histogram": """
        1 HistogramDataPoint* data_points
        2 int32 aggregation_temporality""",
    "ExponentialHistogram": """
        1 ExponentialHistogramDataPoint* data_points
        2 int32 aggregation_temporality""",
    "Summary": "1 SummaryDataPoint* data_points",
    "NumberDataPoint": """
        2 fixed64 start_time_unix_nano
        3 fixed64 time_unix_nano
        4 double? as_double
        6 sfixed64? as_int
        7 map attributes
        8 uint32 flags""",
    "HistogramDataPoint": """
        2 fixed64 start_time_unix_nano
        3 fixed64 time_unix_nano
        4 fixed64 count
        5 double? sum
        9 map attributes
        10 uint32 flags""",
    "ExponentialHistogramDataPoint": """
        1 map attributes
        2 fixed64 start_time_unix_nano
        3 fixed64 time_unix_nano
        4 fixed64 count
        5 double? sum
        10 uint32 flags""",
    "SummaryDataPoint": """
        2 fixed64 start_time_unix_nano
        3 fixed64 time_unix_nano
        4 fixed64 count
        5 double sum
        7 map attributes
        8 uint32 flags""",
}

_SCALARS = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "fixed64": FieldDescriptorProto.TYPE_FIXED64,
    "sfixed64": FieldDescriptorProto.TYPE_SFIXED64,
}


def _add_map(message: DescriptorProto, field: FieldDescriptorProto) -> None:
    """Make *field* `map<string, AnyValue>`: a nested entry type with the
    layout of OTLP's KeyValue.
    """
    entry = message.nested_type.add(name=f"{field.name.capitalize()}Entry")
    entry.options.map_entry = True
    optional = FieldDescriptorProto.LABEL_OPTIONAL
    entry.field.add(name="key", number=1, type=FieldDescriptorProto.TYPE_STRING, label=optional)
    entry.field.add(
        name="value",
        number=2,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        label=optional,
        type_name=f".{_PACKAGE}.AnyValue",
    )
    field.label = FieldDescriptorProto.LABEL_REPEATED
    field.type = FieldDescriptorProto.TYPE_MESSAGE
    field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"


def _add_field(message: DescriptorProto, line: str) -> None:
    """Add one line of the schema to *message*."""
    number, kind, name = line.split()
    field = message.field.add(name=name, number=int(number))
    field.label = FieldDescriptorProto.LABEL_REPEATED if kind.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
    if kind == "map":
        _add_map(message, field)
    elif kind.rstrip("*?") in _SCALARS:
        field.type = _SCALARS[kind.rstrip("*?")]
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind.rstrip('*?')}"
    if kind.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def _pool() -> descriptor_pool.DescriptorPool:
    """A pool of its own, so that these types never meet the
    generated ones of opentelemetry-proto.
    """
    file = descriptor_pb2.FileDescriptorProto(name="otlp_view.proto", package=_PACKAGE, syntax="proto3")
    for name, lines in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for line in lines.strip().splitlines():
            _add_field(message, line)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _classes() -> dict[str, type[Message]]:
    pool = _pool()
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _SCHEMA}


_CLASSES = _classes()

TRACES = _CLASSES["ExportTraceServiceRequest"]
LOGS = _CLASSES["ExportLogsServiceRequest"]
METRICS = _CLASSES["ExportMetricsServiceRequest"]
METRIC = _CLASSES["Metric"]


def class_of(name: str) -> type[Message]:
    """The class of a message of `_SCHEMA`."""
    return _CLASSES[name]
