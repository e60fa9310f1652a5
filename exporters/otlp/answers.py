"""What an OTLP answer means for a batch of spans. Pure.

| answer | outcome |
|---|---|
| 2xx, no `partial_success`, or 0 rejected in it | delivered |
| 2xx that rejects all of them, or those that it names | delivered, but for those: dead letters |
| 2xx that rejects some and does not name them | delivered, and counted apart |
| 2xx with a web page | hold: a login or a proxy answers |
| 2xx that cannot be read whole | retry as after silence, then in halves |
| any other status | as from the service: 400 is split, 413 halved, 429 and 503 wait, and so on |

OTLP forbids to send again what a `partial_success` rejected. The table of the other statuses is in
`exporters.cost_service.answers`. Errors are a google.rpc.Status in the
request's encoding, or whatever a proxy makes of them.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import orjson
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from exporters.answer_body import PROTOBUF_TYPES, UnreadableAnswer, media_type
from exporters.base import Delivered, Outcome
from exporters.cost_service.answers import clean, is_web_page, outcome, unreadable, web_page, whole_document
from exporters.http_client import Answer
from spool.record import Batch
from spool.store import Refusal

CODE: Final = "rejected_span"
MESSAGE_LONGEST: Final = 512
_POSITION: Final = re.compile(r"resourceSpans\[\d+\]\.scopeSpans\[\d+\]\.spans\[\d+\]")


def span_outcome(answer: Answer, batch: Batch, positions: Mapping[str, int], *, now_unix_s: float) -> Outcome:
    """The outcome for a batch whose spans stand at *positions* of the request."""
    if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        if is_web_page(answer.headers, answer.body):
            return web_page(answer.status, batch.lane)
        try:
            rejected, message = _partial_success(answer, len(batch.records))
        except UnreadableAnswer as error:
            return unreadable(answer.status, error)
        return delivered(rejected, clean(message, MESSAGE_LONGEST), len(batch.records), positions)
    return outcome(
        answer.status,
        answer.headers,
        _error_json(answer),
        batch.lane,
        records=len(batch.records),
        now_unix_s=now_unix_s,
        cut=answer.cut,
    )


def delivered(rejected: int, message: str, records: int, positions: Mapping[str, int]) -> Delivered:
    """What a `partial_success` means, of HTTP and of gRPC."""
    named = sorted({positions[found] for found in _POSITION.findall(message) if found in positions})
    if rejected >= records:
        named = list(range(records))
    elif len(named) != rejected:
        return Delivered(unnamed=max(0, rejected), message=message)
    return Delivered(tuple(Refusal(index, CODE, message) for index in named))


def _partial_success(answer: Answer, records: int) -> tuple[int, str]:
    """How many spans were rejected, and why. Raises UnreadableAnswer."""
    if media_type(answer.headers.get("Content-Type", "")) in PROTOBUF_TYPES:
        if answer.cut is not None:
            raise UnreadableAnswer(f"the answer {answer.cut}")
        try:
            partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
        except DecodeError as error:
            raise UnreadableAnswer("the answer is protobuf that cannot be read") from error
        return partial.rejected_spans, partial.error_message
    document = whole_document(answer.headers, answer.body, answer.cut, records)
    partial_json = document.get("partialSuccess") if isinstance(document, dict) else None
    if not isinstance(partial_json, dict):
        return 0, ""
    count, message = partial_json.get("rejectedSpans"), partial_json.get("errorMessage")
    is_count = isinstance(count, int | str) and str(count).isascii() and str(count).isdecimal()
    return int(count) if is_count and count is not None else 0, message if isinstance(message, str) else ""


def _error_json(answer: Answer) -> bytes:
    """The body of an error as the service's table reads it."""
    if media_type(answer.headers.get("Content-Type", "")) not in PROTOBUF_TYPES:
        return answer.body
    try:  # a google.rpc.Status has number and text in the same fields
        return orjson.dumps({"message": ExportTracePartialSuccess.FromString(answer.body).error_message})
    except DecodeError:
        return b""
