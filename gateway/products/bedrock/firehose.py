"""Data Firehose and CloudWatch around Bedrock's logs: envelopes -> the log
entries in them. Pure, and bounded.

Amazon Data Firehose posts `{"requestId", "timestamp", "records": [{"data": base64}]}` (its HTTP
endpoint delivery specification). A record is a CloudWatch Logs envelope, gzipped or not,
`{"messageType", "logGroup", "logEvents": [{"id", "timestamp", "message": JSON text}]}`; with
message extraction it is the entry itself, and several may stand in it, one a line.
`CONTROL_MESSAGE` tests the connection and holds no entry. What could not be delivered is written to
S3 as `{"attemptsMade", "errorCode", …, "rawData": base64}`, one record a line.

What a payload's records may grow to together is bounded: `MAX_PLAIN_BYTES`.
"""

import re
import zlib
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gateway.common.contract.errors import BadPayload
from gateway.products.documents import documents_in
from gateway.products.items import at, ignore, reject
from gateway.products.source import SourceRead
from gateway.rules.texts import Json

MAX_PLAIN_BYTES: Final = 64 * 1024 * 1024
"""Of all records of one payload, after decompression."""
_GZIP = b"\x1f\x8b"
_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_MAX_MEMBERS: Final = 64
"""Of one record: CloudWatch writes one, an aggregated stream a few."""
_ID: Final = re.compile(r"[\w:.-]{1,128}", re.ASCII)
_DEPTH: Final = 3
"""Envelopes in one another: a delivery, its CloudWatch envelope, an entry."""


class Entry(NamedTuple):
    position: str
    value: dict[str, Json]


class _TooLarge(Exception):
    pass


class Budget:
    """What may still be decompressed."""

    __slots__ = ("left",)

    def __init__(self, limit: int = MAX_PLAIN_BYTES) -> None:
        self.left = limit


def entries(value: Json, position: str, out: SourceRead, budget: Budget, depth: int = _DEPTH) -> Iterator[Entry]:
    """The log entries in *value*, whatever stands around them.

    What can hold none is counted in *out*.
    """
    if not isinstance(value, dict):
        reject(out, "not_an_object", position)
    elif depth and isinstance(value.get("records"), list):
        yield from _delivered(value, position, out, budget, depth)
    elif depth and isinstance(value.get("logEvents"), list):
        yield from _cloudwatch(value, position, out, budget, depth)
    elif depth and isinstance(value.get("rawData"), str):
        yield from _record(value["rawData"], at(position, "rawData"), out, budget, depth)
    elif depth and isinstance(value.get("awslogs"), dict):  # as a Lambda subscription gets it
        awslogs = value["awslogs"]
        data = awslogs.get("data") if isinstance(awslogs, dict) else None
        yield from _record(data, at(position, "awslogs"), out, budget, depth)
    else:
        yield Entry(position, value)


def _delivered(
    value: Mapping[str, Json], position: str, out: SourceRead, budget: Budget, depth: int
) -> Iterator[Entry]:
    request_id = value.get("requestId")
    if isinstance(request_id, str) and _ID.fullmatch(request_id):
        out.answer.setdefault("requestId", request_id)
    records = value["records"]
    for n, record in enumerate(records if isinstance(records, list) else ()):
        data = record.get("data") if isinstance(record, dict) else None
        yield from _record(data, at(position, f"records[{n}]"), out, budget, depth)


def _record(data: Json, position: str, out: SourceRead, budget: Budget, depth: int) -> Iterator[Entry]:
    """What one record's base64 holds: a document, or one a line."""
    try:
        text = _plain(b64decode(data, validate=True), budget) if isinstance(data, str) else None
        documents = documents_in(text) if text else None
    except _TooLarge:
        reject(out, "too_large", position)
        return
    except (Base64Error, ValueError, zlib.error, BadPayload):
        documents = None
    if documents is None:
        reject(out, "unreadable_record", position)
        return
    for rejection in documents.rejected:
        reject(out, rejection.reason, at(position, rejection.position))
    for document in documents.found:
        yield from entries(document.value, at(position, document.position).rstrip("."), out, budget, depth - 1)


def _cloudwatch(
    value: Mapping[str, Json], position: str, out: SourceRead, budget: Budget, depth: int
) -> Iterator[Entry]:
    events = value["logEvents"]
    if value.get("messageType") == "CONTROL_MESSAGE" or not isinstance(events, list):
        ignore(out, position)
        return
    for n, event in enumerate(events):
        where = at(position, f"logEvents[{n}]")
        message = event.get("message") if isinstance(event, dict) else None
        if isinstance(message, dict):
            yield Entry(where, message)
        elif isinstance(message, str):
            yield from _message(message, where, out, budget, depth)
        else:
            reject(out, "not_an_object", where)


def _message(message: str, position: str, out: SourceRead, budget: Budget, depth: int) -> Iterator[Entry]:
    """A log line that is no JSON, such as another service's in the same group, is no AI usage."""
    try:
        found = documents_in(message.encode("utf-8", "replace")).found
    except BadPayload:
        found = ()
    if not found:
        ignore(out, position)
    for document in found:
        yield from entries(document.value, position, out, budget, depth - 1)


def _plain(data: bytes, budget: Budget) -> bytes:
    """The record's text, decompressed where it is gzip.

    Raises zlib.error, ValueError and _TooLarge.
    """
    if not data.startswith(_GZIP):
        return _spent(data, budget)
    plain = b""
    for _ in range(_MAX_MEMBERS):
        inflate = zlib.decompressobj(_GZIP_WBITS)
        plain += _spent(inflate.decompress(data, budget.left + 1), budget)
        if not inflate.eof:
            raise ValueError("cut short")
        data = inflate.unused_data
        if not data:
            return plain
    raise ValueError("too many members")


def _spent(plain: bytes, budget: Budget) -> bytes:
    if len(plain) > budget.left:
        budget.left = 0
        raise _TooLarge
    budget.left -= len(plain)
    return plain
