"""Sends records as OTLP spans to any backend: HTTP with protobuf, gzip first."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal

from exporters.answer_body import answer_bytes
from exporters.base import Hold, Outcome, Retry
from exporters.http_client import Endpoint, HttpAnswer, HttpClient
from exporters.otlp.answers import span_outcome
from exporters.otlp.encode import Encoded, encode_spans
from exporters.secret import Secret
from spool.record import Batch

PROTOBUF: Final = "application/x-protobuf"
SPAN_HEADERS: Final = {"Content-Type": PROTOBUF, "Accept": PROTOBUF}
TRACES_PATH: Final = "/v1/traces"


class SpanEncoder:
    """Encodes batches beside the event loop; without gzip once the upstream would not read it."""

    def __init__(self, *, packs: bool) -> None:
        self._packs = packs

    async def encode(self, batch: Batch) -> Encoded:
        return await asyncio.to_thread(encode_spans, batch.records, packs=self._packs)

    def outcome(self, answer: HttpAnswer, batch: Batch, encoded: Encoded, *, now_unix_s: float) -> Outcome:
        """What *answer* to *encoded* means; another try at once after a 415 that gzip may be the
        reason of.
        """
        if encoded.is_packed and answer.status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
            self._packs = False
            return Retry("HTTP 415: the upstream does not read gzip; sent plain from here on", answered=True, after_s=0)
        return span_outcome(answer, batch, encoded, now_unix_s=now_unix_s)


def headers_of(encoded: Encoded) -> dict[str, str]:
    """What the body needs beside it."""
    return {**SPAN_HEADERS, "Content-Encoding": "gzip"} if encoded.is_packed else dict(SPAN_HEADERS)


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """How to reach a backend, as an operator set it."""

    endpoint: str
    """Base URL; over HTTP `/v1/traces` follows unless it stands there, over gRPC it has no path."""
    protocol: Literal["http/protobuf", "grpc"] = "http/protobuf"
    headers: Mapping[str, Secret] = field(default_factory=dict)
    packs: bool = True
    """gzip."""
    ca_file: Path | None = None
    proxy: Secret | None = None
    timeout_s: float = 60.0


def checked_endpoint(settings: OtlpSettings, base_url: str) -> Endpoint:
    """Raises ValueError for an address that would leak a header."""
    return Endpoint(
        base_url, settings.ca_file, settings.proxy, timeout_s=settings.timeout_s, has_secrets=bool(settings.headers)
    )


class OtlpExporter:
    """Make it inside a running loop. Raises ValueError for an address that would leak a header."""

    def __init__(self, settings: OtlpSettings, *, now_unix_s: Callable[[], float] = time.time) -> None:
        base = settings.endpoint.rstrip("/").removesuffix(TRACES_PATH)
        self.client = HttpClient(checked_endpoint(settings, base), {})
        self.destination = self.client.destination
        self._secrets = tuple(settings.headers.values())
        self._headers = settings.headers
        self._encoder = SpanEncoder(packs=settings.packs)
        self._now_unix_s = now_unix_s

    async def send(self, batch: Batch) -> Outcome:
        encoded = await self._encoder.encode(batch)
        answer = await self.client.send(
            "POST",
            TRACES_PATH,
            headers=headers_of(encoded) | {name: value.reveal() for name, value in self._headers.items()},
            secrets=self._secrets,
            body=encoded.body,
            answer_bytes=answer_bytes(len(batch.records), len(encoded.body)),
        )
        if isinstance(answer, Retry | Hold):
            return answer
        return self._encoder.outcome(answer, batch, encoded, now_unix_s=self._now_unix_s())

    async def close(self) -> None:
        await self.client.close()
