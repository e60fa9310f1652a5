"""OTLP in: spans and log records of any exporter become AI records, and the answers are OTLP's
(wire contract 6.1).

What `gateway.rules` makes a call of is one record; another gateway's spans state whole records.
Reports of one call are related by gateways alone: here a repeat is known by its record id. Metrics
are not taken: a point states a sum so far, and only a gateway keeps what its series had before and
which calls it repeats.
"""

import sqlite3
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, Literal

import orjson
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from gateway.common.contract import errors as contract
from gateway.common.contract.otlp import REJECTED_FIELD, Media, media_of, rejection_message
from gateway.common.contract.outcomes import Rejection
from gateway.local_service.ai_records import RecordRow, record_row
from gateway.local_service.ai_telemetry import store_rows
from gateway.local_service.call import Operation, ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.errors import Invalid, TooLarge
from gateway.products.records.source import read_stated
from gateway.read.otlp_json import decode_logs_json, decode_traces_json
from gateway.read.otlp_protobuf import decode_logs, decode_traces
from gateway.rules.call import Normalised
from gateway.rules.context import Context
from gateway.rules.logs import normalise_logs
from gateway.rules.traces import normalise_traces
from spool.clock import rfc3339_ms

Taken = Literal["traces", "logs"]
"""The signals that are taken."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""A record is longer as a span than in JSON."""
RESPONSES: Final[dict[Taken, type[Message]]] = {
    "traces": ExportTraceServiceResponse,
    "logs": ExportLogsServiceResponse,
}
CODES: Final = {400: 3, 401: 16, 403: 7, 404: 5, 413: 8, 415: 3, 429: 8, 503: 14}
"""HTTP status -> google.rpc.Code; 13 (internal) for any other."""
NO_GATEWAY: Final = "otlp"
"""In place of a gateway's id, of what another exporter sent."""


def ingest(signal: Taken) -> Operation:
    """The operation of one signal. Its answer is JSON; `encoded` puts it into the request's
    encoding.
    """

    def take(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
        normalised = _normalised(signal, call)
        rows, rejected = _rows(normalised)
        store_rows(connection, rows, call, (call.gateway_id or NO_GATEWAY, call.idempotency_key or call.request_id))
        if not rejected:
            return json_answer(200, {})
        partial = {REJECTED_FIELD[signal]: str(len(rejected)), "errorMessage": _message(len(rows), rejected)}
        return json_answer(200, {"partialSuccess": partial})

    return take


def _message(taken: int, rejected: Sequence[Rejection]) -> str:
    """Names each item that was rejected, so that its sender knows what was taken."""
    places = ", ".join(each.position for each in rejected)
    return f"{rejection_message(taken + len(rejected), rejected)}; all of them: {places}"


def encoded(signal: Taken, media: Media, answer: ServiceAnswer) -> bytes:
    """The body of *answer*: the signal's response, or a google.rpc.Status."""
    content = orjson.loads(answer.body) if answer.body else {}
    if answer.status == HTTPStatus.OK:
        return answer.body if media == "json" else ParseDict(content, RESPONSES[signal]()).SerializeToString()
    code = CODES.get(answer.status, 13)
    message = str(content.get("message") or content.get("error", {}).get("message", ""))
    if media == "json":
        return orjson.dumps({"code": code, "message": message})
    # a google.rpc.Status has its code and its message in the same fields
    return ExportTracePartialSuccess(rejected_spans=code, error_message=message).SerializeToString()


def _normalised(signal: Taken, call: ServiceCall) -> Normalised:
    """Raises Invalid, TooLarge."""
    media = media_of(call.content_type)
    if media is None:
        words = "Content-Type: application/x-protobuf or application/json is needed"
        raise Invalid("unsupported_media", words, status=415)
    context = Context(call.now_ms, rfc3339_ms(call.now_ms))
    try:
        if signal == "logs":
            return normalise_logs(decode_logs_json(call.body) if media == "json" else decode_logs(call.body), context)
        traces = decode_traces_json(call.body) if media == "json" else decode_traces(call.body)
        return read_stated(normalise_traces(traces, context), context)
    except contract.BadPayload as error:
        raise Invalid("invalid_otlp", str(error)) from error
    except contract.TooLarge as error:
        raise TooLarge(str(error)) from error


def _rows(normalised: Normalised) -> tuple[list[RecordRow], list[Rejection]]:
    rows, rejected = [], list(normalised.rejected)
    for call in normalised.calls:
        try:
            rows.append(record_row(call.record))
        except Invalid as error:
            rejected.append(Rejection(error.code, call.record["record_id"]))
    return rows, rejected
