"""What an OTLP answer means for a batch of spans. Pure.

| answer | outcome |
|---|---|
| 200 201 202 204, no `partial_success`, or 0 rejected in it | delivered |
| the same that rejects all, or as many as it names by position | those are dead letters |
| the same that rejects some and does not name them | so many dead letters without a record |
| the same that cannot be read whole | retry as after silence, then in halves |
| the same with anything else, any other 2xx | not understood: again, in halves, held |
| any other status | as from the service: 400 is split, 413 halved, 429 and 503 wait, and so on |

OTLP forbids to send again what a `partial_success` rejected. The table of the other statuses is in
`exporters.cost_service.answers`. Errors are a google.rpc.Status in the
request's encoding, or whatever a proxy makes of them.
"""

import re
from typing import Final

import orjson
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from exporters.accounting import MESSAGE_LONGEST, Accounted, Sent, accounted, partial_success, sent_in
from exporters.answer_body import PROTOBUF_TYPES, AnswerNotUnderstood, UnreadableAnswer, media_type
from exporters.answer_words import clean
from exporters.base import Delivered, Outcome
from exporters.cost_service.answers import TAKEN, leaves_open, outcome, whole_document
from exporters.http_client import HttpAnswer
from exporters.otlp.encode import Encoded
from spool.record import Batch
from spool.store import Refusal

CODE: Final = "rejected_span"
UNPLACED: Final = "rejected_span_not_named"
"""Code of the dead letters without a record."""
_RECORD_ID: Final = re.compile(r"\b[0-9a-f]{32}\b")
_POSITION: Final = re.compile(r"resourceSpans\[\d+\]\.scopeSpans\[\d+\]\.spans\[\d+\]")


def span_outcome(answer: HttpAnswer, batch: Batch, encoded: Encoded, *, now_unix_s: float) -> Outcome:
    """The outcome for a *batch* that went as *encoded*."""
    sent = sent_in(batch, "spans", encoded.order)
    if answer.status in TAKEN:
        try:
            return delivered(_accounted(answer, sent), sent, encoded)
        except (UnreadableAnswer, AnswerNotUnderstood) as error:
            return leaves_open(answer.status, error)
    return outcome(
        answer.status,
        answer.headers,
        _error_json(answer),
        batch.lane,
        sent=sent,
        now_unix_s=now_unix_s,
        cut=answer.cut,
    )


def delivered(found: Accounted, sent: Sent, encoded: Encoded) -> Delivered:
    """What an answer that accounts for the spans means, over HTTP and over gRPC."""
    if not found.unplaced:
        return Delivered(found.refused)
    message = clean(found.message, MESSAGE_LONGEST)
    named = _named(found.message, sent, encoded)
    if found.unplaced == sent.records:
        named = list(range(sent.records))
    if len(named) != found.unplaced:
        text = f"{found.unplaced} of {sent.records} spans, and the answer does not name them"
        return Delivered((Refusal(None, UNPLACED, f"{text}: {message}" if message else text, found.unplaced),))
    return Delivered(tuple(Refusal(index, CODE, message) for index in named))


def _named(message: str, sent: Sent, encoded: Encoded) -> list[int]:
    """The records that *message* names, by the position of their span or by their id."""
    places = dict(encoded.positions)
    if _RECORD_ID.search(message):
        places |= {each: index for index, each in enumerate(sent.record_ids()) if each is not None}
    found = (*_POSITION.findall(message), *_RECORD_ID.findall(message))
    return sorted({places[each] for each in found if each in places})


def read_protobuf(body: bytes, sent: Sent) -> Accounted:
    """What an ExportTraceServiceResponse accounts for. Raises UnreadableAnswer,
    AnswerNotUnderstood.
    """
    try:
        response = ExportTraceServiceResponse.FromString(body)
    except DecodeError as error:
        raise UnreadableAnswer("the answer is protobuf that cannot be read") from error
    partial = response.partial_success
    if len(UnknownFieldSet(response)) or len(UnknownFieldSet(partial)):
        raise AnswerNotUnderstood("it is protobuf, and no answer of OTLP")
    return partial_success(partial.rejected_spans, partial.error_message, sent)


def _accounted(answer: HttpAnswer, sent: Sent) -> Accounted:
    if media_type(answer.headers.get("Content-Type", "")) in PROTOBUF_TYPES:
        if answer.cut is not None:
            raise UnreadableAnswer(f"the answer {answer.cut}")
        if not answer.body.startswith((b"<", b"{")):
            return read_protobuf(answer.body, sent)
    return accounted(whole_document(answer.headers, answer.body, answer.cut, sent.records), sent)


def _error_json(answer: HttpAnswer) -> bytes:
    """The body of an error as the service's table reads it."""
    if media_type(answer.headers.get("Content-Type", "")) not in PROTOBUF_TYPES:
        return answer.body
    try:  # a google.rpc.Status has number and text in the same fields
        return orjson.dumps({"message": ExportTracePartialSuccess.FromString(answer.body).error_message})
    except DecodeError:
        return b""
