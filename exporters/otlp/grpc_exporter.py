"""Sends records as OTLP spans over gRPC. Imported only where an exporter speaks it: grpcio takes
20 MiB.

| status | outcome |
|---|---|
| OK | as a 200 (`exporters.otlp.answers`) |
| INVALID_ARGUMENT | refused: split until the culprits stand alone |
| RESOURCE_EXHAUSTED that speaks of a size | refused, too large |
| UNAVAILABLE, any other RESOURCE_EXHAUSTED | retry, the lane pauses, for RetryInfo where given |
| CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, DATA_LOSS, INTERNAL, UNKNOWN | retry |
| every other | hold: the data stays until someone has looked |

The specification has INTERNAL and UNKNOWN as final for senders without a disk; here the record
waits on one, so that a fault of the backend costs no data.
"""

import random
import re
import ssl
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import grpc
from grpc import aio

from exporters.accounting import MESSAGE_LONGEST, sent_in
from exporters.answer_body import AnswerNotUnderstood, UnreadableAnswer
from exporters.answer_words import clean
from exporters.attempts import NO_ANSWER, count_answer
from exporters.backoff import RETRY_AFTER_LONGEST_S
from exporters.base import Hold, Outcome, Refused, Retry
from exporters.clock import SystemClock
from exporters.cost_service.answers import leaves_open
from exporters.destination import Destination
from exporters.http_client import PRODUCT
from exporters.otlp.answers import delivered, read_protobuf
from exporters.otlp.exporter import OtlpSettings, SpanEncoder, checked_endpoint
from exporters.otlp.protobuf import fields
from exporters.secret import MASK
from spool.record import Batch

EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
DEFAULT_PORT: Final = 4317
RECONNECT_LONGEST_MS: Final = 10_000
RETRY_INFO: Final = "google.rpc.retryinfo-bin"
STATUS_DETAILS: Final = "grpc-status-details-bin"

Code = grpc.StatusCode
AGAIN: Final = frozenset(
    {
        Code.CANCELLED,
        Code.DEADLINE_EXCEEDED,
        Code.ABORTED,
        Code.OUT_OF_RANGE,
        Code.DATA_LOSS,
        Code.INTERNAL,
        Code.UNKNOWN,
    }
)
_OF_SIZE: Final = re.compile(r"larger than|too large|message size|max(imum)? size|exceeds", re.IGNORECASE)
_NO_GZIP: Final = re.compile(r"compress|gzip|encoding", re.IGNORECASE)
_NS_PER_S: Final = 1e9


class OtlpGrpcExporter:
    """Make it inside a running loop. Raises ValueError for an address that would leak a header,
    OSError for a certificate authority that cannot be read.
    """

    def __init__(self, settings: OtlpSettings) -> None:
        url = urlsplit(checked_endpoint(settings, settings.endpoint).base_url)
        options = [
            ("grpc.enable_http_proxy", 0),
            ("grpc.primary_user_agent", f"{PRODUCT}/{version(PRODUCT)}"),
            ("grpc.max_reconnect_backoff_ms", RECONNECT_LONGEST_MS),
        ]
        host = f"[{url.hostname}]" if url.hostname and ":" in url.hostname else url.hostname
        target = f"{host}:{url.port or DEFAULT_PORT}"
        self._address = target
        if url.scheme == "https":
            roots = None if settings.ca_file is None else roots_with(settings.ca_file)
            self._channel = aio.secure_channel(target, grpc.ssl_channel_credentials(roots), options)
        else:
            self._channel = aio.insecure_channel(target, options)
        self._export = self._channel.unary_unary(EXPORT)
        self.destination = Destination(SystemClock(), random.random, target)
        self._headers = {name.lower(): secret for name, secret in settings.headers.items()}
        self._timeout_s = settings.timeout_s
        self._compression = grpc.Compression.Gzip if settings.packs else grpc.Compression.NoCompression
        self._encoder = SpanEncoder(packs=False)

    async def send(self, batch: Batch) -> Outcome:
        encoded = await self._encoder.encode(batch)
        compression = self._compression
        metadata = tuple((name, secret.reveal()) for name, secret in self._headers.items())
        try:
            answer: bytes = await self._export(
                encoded.body, timeout=self._timeout_s, metadata=metadata, compression=compression
            )
        except aio.AioRpcError as error:
            return self._failed(error, batch, is_packed=compression != grpc.Compression.NoCompression)
        self.destination.answered()
        count_answer(Code.OK.name)
        sent = sent_in(batch, "spans", encoded.order)
        try:
            found = read_protobuf(answer, sent)
        except (UnreadableAnswer, AnswerNotUnderstood) as error:
            return leaves_open("gRPC OK", error)
        return delivered(replace(found, message=self._masked(found.message)), sent, encoded)

    async def close(self) -> None:
        await self._channel.close()

    def _failed(self, error: aio.AioRpcError, batch: Batch, *, is_packed: bool) -> Outcome:
        trailers = dict(error.trailing_metadata() or ())
        code, details = error.code(), clean(self._masked(error.details() or ""), MESSAGE_LONGEST)
        if is_silence(error):
            self.destination.silent()
            count_answer(NO_ANSWER)
            never_sent = code == Code.UNAVAILABLE and "connect" in details.lower()
            return Retry(f"no answer from {self._address}: {code.name}", answered=False, may_be_there=not never_sent)
        self.destination.answered()
        count_answer(code.name)
        if code == Code.UNIMPLEMENTED and is_packed and _NO_GZIP.search(details):
            self._compression = grpc.Compression.NoCompression
            return Retry("the upstream does not read gzip; sent plain from here on", answered=True, after_s=0)
        return outcome_of(code, details, retry_info_s(trailers), batch.lane)

    def _masked(self, text: str) -> str:
        for secret in self._headers.values():
            text = text.replace(secret.reveal(), MASK)
        return text


def roots_with(ca_file: Path) -> bytes:
    """PEM of the system's authorities and those of *ca_file*, as HTTP trusts them. Raises OSError
    where it is missing or holds none (ssl.SSLError is one).
    """
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=ca_file)
    return "".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(binary_form=True))).encode()


def is_silence(error: aio.AioRpcError) -> bool:
    """Whether the status is our own side's: no server that answers leaves both metadata empty, but
    for the barest.
    """
    ours = {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED}
    return error.code() in ours and not error.initial_metadata() and not error.trailing_metadata()


def outcome_of(code: grpc.StatusCode, details: str, after_s: float | None, lane: str) -> Outcome:
    """The table above for a status that the upstream answered."""
    said = f"gRPC {code.name}: {details}" if details else f"gRPC {code.name}"
    if code == Code.INVALID_ARGUMENT:
        return Refused("invalid_argument", details)
    if code == Code.RESOURCE_EXHAUSTED and after_s is None and _OF_SIZE.search(details):
        return Refused("too_large", said, too_large=True)
    if code in {Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED}:
        return Retry(said, answered=True, after_s=after_s, throttled=True)
    if code in AGAIN:
        return Retry(said, answered=True, after_s=after_s)
    return Hold(f"{lane}: {said}")


def retry_info_s(trailers: dict[str, Any]) -> float | None:
    """Seconds of the google.rpc.RetryInfo in the trailing metadata, by itself or among the details
    of a google.rpc.Status, up to an hour; None without one.
    """
    try:
        if isinstance(info := trailers.get(RETRY_INFO), bytes):
            return _delay_s(info)
        details = trailers.get(STATUS_DETAILS)
        for number, detail in fields(details) if isinstance(details, bytes) else ():
            if number == 3 and isinstance(detail, bytes):  # noqa: PLR2004 - google.rpc.Status.details
                packed = dict(fields(detail))
                if _message(packed.get(1)).endswith(b"google.rpc.RetryInfo"):
                    return _delay_s(_message(packed.get(2)))
    except (IndexError, ValueError, TypeError):
        return None
    return None


def _delay_s(info: bytes) -> float:
    """Of a google.rpc.RetryInfo: its google.protobuf.Duration."""
    duration = dict(fields(_message(dict(fields(info)).get(1))))
    seconds = int(duration.get(1, 0)) + int(duration.get(2, 0)) / _NS_PER_S
    return min(RETRY_AFTER_LONGEST_S, max(0.0, seconds))


def _message(value: bytes | int | None) -> bytes:
    """A field that holds a message or a text; empty where it is missing or a number."""
    return value if isinstance(value, bytes) else b""
