"""Request bodies of the suite, and raw HTTP/1.1."""

import asyncio
from urllib.parse import urlsplit

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.support.otlp_bytes import field
from tests.support.polling import HANGS_S

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
SIGNALS = ("traces", "logs", "metrics")

TRACE_ID = bytes(range(16))
START_NS = 1_767_607_200_000_000_000


def traces_request(*trace_ids: bytes, name: str = "chat m-small") -> ExportTraceServiceRequest:
    """One span for each trace id."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for n, trace_id in enumerate(trace_ids or (TRACE_ID,), start=1):
        span = scope.spans.add(trace_id=trace_id, span_id=n.to_bytes(8, "big"), name=name)
        span.start_time_unix_nano = START_NS
        span.end_time_unix_nano = START_NS + 10**9
    return request


def protobuf_body(signal: str) -> bytes:
    match signal:
        case "traces":
            return traces_request().SerializeToString()
        case "logs":
            logs = ExportLogsServiceRequest()
            logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=START_NS)
            return logs.SerializeToString()
        case _:
            metrics = ExportMetricsServiceRequest()
            metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
            metric.gauge.data_points.add(time_unix_nano=START_NS, as_int=1)
            return metrics.SerializeToString()


def json_traces_body(*trace_ids: str) -> bytes:
    spans = ",".join(
        f'{{"traceId":"{trace_id}","spanId":"{n:016x}","name":"chat","startTimeUnixNano":"{START_NS}","endTimeUnixNano":"{START_NS + 1}"}}'
        for n, trace_id in enumerate(trace_ids, start=1)
    )
    return f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}'.encode()


def nested_body(depth: int) -> bytes:
    """A span attribute of arrays within arrays."""
    value = AnyValue(int_value=1).SerializeToString()
    for _ in range(depth):
        array = field(1, value)  # ArrayValue.values
        value = field(5, array)  # AnyValue.array_value
    attribute = field(1, b"k") + field(2, value)
    span = field(1, TRACE_ID) + field(2, bytes(range(1, 9))) + field(9, attribute)
    return field(1, field(2, field(2, span)))


class Raw:
    """One HTTP/1.1 connection, written and read by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, base_url: str) -> "Raw":
        url = urlsplit(base_url)
        return cls(*await asyncio.open_connection(url.hostname, url.port))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        """The next answer's status line and headers."""
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), HANGS_S)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        lines = (await self.head()).decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
        body = await asyncio.wait_for(self.reader.readexactly(int(headers.get("content-length", "0"))), HANGS_S)
        return int(lines[0].split()[1]), headers, body

    async def closed(self) -> bool:
        """Whether the other side closes the connection, with nothing more to read."""
        try:
            return await asyncio.wait_for(self.reader.read(), HANGS_S) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()


def post(
    path: str, body: bytes = b"", *, content_type: str = PROTOBUF, host: str = "127.0.0.1", extra: str = ""
) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body
