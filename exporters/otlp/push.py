"""Export requests of OTLP as bytes, to one endpoint, over HTTP or gRPC. Each is sent once: what is
pushed again and again needs no retry.
"""

import gzip
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit

from exporters.base import Hold, Retry
from exporters.http_client import HttpClient
from exporters.otlp.exporter import SPAN_HEADERS, OtlpSettings, checked_endpoint

Signal = Literal["metrics", "traces"]
METHODS: Final[dict[Signal, str]] = {
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
}
HTTP_OK: Final = range(200, 300)


class Push(Protocol):
    async def send(self, signal: Signal, body: bytes) -> str | None:
        """Send *body*, an Export request of *signal*; why it was not taken, None where it was."""

    async def close(self) -> None: ...


class HttpPush:
    """Make it inside a running loop. Raises ValueError for an address that would leak a header."""

    def __init__(self, settings: OtlpSettings) -> None:
        self._client = HttpClient(checked_endpoint(settings, settings.endpoint.rstrip("/")), {})
        self._headers = settings.headers
        self._packs = settings.packs

    async def send(self, signal: Signal, body: bytes) -> str | None:
        headers = SPAN_HEADERS | {name: value.reveal() for name, value in self._headers.items()}
        if self._packs:
            body, headers = gzip.compress(body, 1), {**headers, "Content-Encoding": "gzip"}
        secrets = tuple(self._headers.values())
        answer = await self._client.send("POST", f"/v1/{signal}", headers=headers, secrets=secrets, body=body)
        if isinstance(answer, Retry | Hold):
            return answer.reason
        return None if answer.status in HTTP_OK else f"HTTP {answer.status}"

    async def close(self) -> None:
        await self._client.close()


class GrpcPush:
    """Make it inside a running loop, where grpcio may be imported: it takes 20 MiB."""

    def __init__(self, settings: OtlpSettings) -> None:
        import grpc  # noqa: PLC0415 as above
        from grpc import aio  # noqa: PLC0415 as above

        from exporters.otlp.grpc_exporter import DEFAULT_PORT, roots_with  # noqa: PLC0415 as above

        url = urlsplit(checked_endpoint(settings, settings.endpoint).base_url)
        host = f"[{url.hostname}]" if url.hostname and ":" in url.hostname else url.hostname
        target, options = f"{host}:{url.port or DEFAULT_PORT}", [("grpc.enable_http_proxy", 0)]
        self._error = aio.AioRpcError
        if url.scheme == "https":
            roots = None if settings.ca_file is None else roots_with(settings.ca_file)
            self._channel = aio.secure_channel(target, grpc.ssl_channel_credentials(roots), options)
        else:
            self._channel = aio.insecure_channel(target, options)
        self._compression = grpc.Compression.Gzip if settings.packs else grpc.Compression.NoCompression
        self._metadata = tuple((name.lower(), value.reveal()) for name, value in settings.headers.items())
        self._timeout_s = settings.timeout_s
        self._address = target

    async def send(self, signal: Signal, body: bytes) -> str | None:
        call: Any = self._channel.unary_unary(METHODS[signal])
        try:
            await call(body, timeout=self._timeout_s, metadata=self._metadata, compression=self._compression)
        except self._error as error:
            return f"gRPC {error.code().name} from {self._address}"
        return None

    async def close(self) -> None:
        await self._channel.close()


def push_to(settings: OtlpSettings) -> Push:
    """The client that *settings* ask for. Raises ValueError, OSError for a certificate authority
    that cannot be read.
    """
    return GrpcPush(settings) if settings.protocol == "grpc" else HttpPush(settings)
