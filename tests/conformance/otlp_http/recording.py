"""An intake that parses what it is given with the published
message types, and keeps it in memory.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.event_form import OWN_FORM, EventForm
from gateway.common.contract.intake import Receipt, Sender
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.unit_cost import Target
from gateway.products.documents import documents_in
from spool.unit_cost import StreamState


@dataclass(frozen=True, slots=True)
class Kept:
    """One payload that reached the intake."""

    what: str
    body: bytes
    json: bool
    sender: Sender


@dataclass(slots=True)
class RecordingIntake:
    kept: list[Kept] = field(default_factory=list)
    fail_with: Exception | None = None
    """Raised instead of keeping anything."""
    warning: str | None = None
    takes_together: bool = False

    async def traces(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        return self._take("traces", body, sender, json_trace_ids if json else protobuf_trace_ids, json=json)

    def traces_together(self, bodies: Sequence[bytes], *, sender: Sender) -> None:
        """Each is to be taken by itself."""

    async def logs(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        return self._take("logs", body, sender, no_ids(ExportLogsServiceRequest, json=json), json=json)

    async def metrics(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        return self._take("metrics", body, sender, no_ids(ExportMetricsServiceRequest, json=json), json=json)

    async def events(self, body: bytes, *, sender: Sender, form: EventForm = OWN_FORM) -> Receipt:
        events = [parsed_json(line) for line in body.splitlines()]
        receipt = self._take("events", body, sender, lambda _: [], json=True)
        return Receipt(len(events), receipt.rejected)

    async def source(self, name: str, body: bytes, *, sender: Sender, first_line: int = 1) -> Receipt:
        documents = documents_in(body, first_line=first_line)
        self._take(f"{name} {first_line}", body, sender, lambda _: [], json=True)
        return Receipt(len(documents.found) + len(documents.rejected), tuple(documents.rejected))

    async def unit_cost(self, target: Target | None, body: bytes, *, sender: Sender) -> Receipt:
        records = parsed_json(body)["records"]
        self._take(f"unit_cost {'/'.join(target or ('post',))}", body, sender, lambda _: [], json=True)
        return Receipt(len(records), ())

    async def create_stream(self, stream: str, body: bytes, *, sender: Sender) -> Receipt:
        self._take(f"create {stream}", body, sender, lambda _: [], json=True)
        return Receipt(1, ())

    async def delete_stream(self, stream: str, *, forced: bool, sender: Sender) -> Receipt:
        self._take(f"delete {stream} {forced}", b"{}", sender, lambda _: [], json=True)
        return Receipt(1, ())

    async def streams(self) -> list[StreamState]:
        return []

    async def heartbeat(self, device_id: str, body: bytes, *, sender: Sender) -> Receipt:
        parsed_json(body)
        self._take(f"heartbeat {device_id}", body, sender, lambda _: [], json=True)
        return Receipt(1, ())

    async def ping(self, device_id: str, body: bytes, *, sender: Sender) -> Receipt:
        self._take(f"ping {device_id}", body, sender, lambda _: [], json=True)
        return Receipt(1, ())

    async def enroll(self, body: bytes, *, sender: Sender) -> Receipt:
        parsed_json(body)
        self._take("enroll", body, sender, lambda _: [], json=True)
        return Receipt(1, ())

    def _take(
        self, what: str, body: bytes, sender: Sender, trace_ids: Callable[[bytes], Iterable[bytes]], *, json: bool
    ) -> Receipt:
        if self.fail_with is not None:
            raise self.fail_with
        ids = list(trace_ids(body))
        self.kept.append(Kept(what, body, json, sender))
        rejected = [
            Rejection("invalid_trace_id", f"spans[{n}]") for n, i in enumerate(ids) if len(i) != 16 or not any(i)
        ]
        return Receipt(len(ids), tuple(rejected), self.warning)


def protobuf_trace_ids(body: bytes) -> list[bytes]:
    request = ExportTraceServiceRequest()
    parse(request, body)
    return [span.trace_id for r in request.resource_spans for s in r.scope_spans for span in s.spans]


def json_trace_ids(body: bytes) -> list[bytes]:
    payload = parsed_json(body)
    try:
        spans = [span for r in payload.get("resourceSpans", []) for s in r["scopeSpans"] for span in s["spans"]]
        return [bytes.fromhex(span["traceId"]) for span in spans]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadPayload("not the shape of a trace request") from error


def no_ids(message: type[Message], *, json: bool) -> Callable[[bytes], list[bytes]]:
    def read(body: bytes) -> list[bytes]:
        if json:
            parsed_json(body)
        else:
            parse(message(), body)
        return []

    return read


def parse(message: Message, body: bytes) -> None:
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise BadPayload("the body is not the protobuf message it should be") from error


def parsed_json(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadPayload("the body is not JSON") from error
    if not isinstance(value, dict):
        raise BadPayload("the body is not a JSON object")
    return value
