"""OTLP/gRPC calls of serialised messages, so that a check can send what no stub would."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # the package has no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # the package has no types

if TYPE_CHECKING:
    import grpc.aio

MIB = 2**20
METHODS = {
    signal: f"/opentelemetry.proto.collector.{package}.v1.{service}/Export"
    for signal, package, service in (
        ("traces", "trace", "TraceService"),
        ("logs", "logs", "LogsService"),
        ("metrics", "metrics", "MetricsService"),
    )
}
CALL_TIMEOUT_S = 60.0


class Called(NamedTuple):
    code: str
    """`OK`, `INVALID_ARGUMENT`, …"""
    message: str
    body: bytes
    trailers: dict[str, Any]

    @property
    def status(self) -> Any:
        """The google.rpc.Status of the trailers; None where there is none."""
        raw = self.trailers.get("grpc-status-details-bin")
        return None if raw is None else Status.FromString(raw)

    @property
    def retry_delay_s(self) -> float | None:
        """Of the RetryInfo; None where there is none."""
        for detail in self.status.details if self.status is not None else ():
            info = RetryInfo()
            if detail.Is(RetryInfo.DESCRIPTOR) and detail.Unpack(info):
                delay_s: float = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
                return delay_s
        return None


@dataclass
class Grpc:
    """An OTLP/gRPC address: `host:port`, `https://host:port` for TLS, or `unix:/path`."""

    address: str
    key: str | None = None
    ca_file: str | None = None
    client_cert: tuple[str, str] | None = None
    """Files of certificate and key."""
    codes: Counter[str] = field(default_factory=Counter)
    """Of every call."""

    @asynccontextmanager
    async def connected(self, options: Sequence[tuple[str, Any]] = ()) -> AsyncIterator[grpc.aio.Channel]:
        import grpc  # noqa: PLC0415 - the lines over HTTP are checked without it
        import grpc.aio  # noqa: PLC0415

        unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        alone = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        all_options = [*unlimited, *alone, *options]
        if self.address.startswith("https://"):
            name = self.address.removeprefix("https://")
            channel = grpc.aio.secure_channel(name, self._credentials(), options=all_options)
        else:
            channel = grpc.aio.insecure_channel(self.address.removeprefix("http://"), options=all_options)
        async with channel:
            yield channel

    def _credentials(self) -> Any:
        import grpc  # noqa: PLC0415

        certificate, key = (Path(file).read_bytes() for file in self.client_cert) if self.client_cert else (None, None)
        roots = Path(self.ca_file).read_bytes() if self.ca_file else None
        return grpc.ssl_channel_credentials(roots, key, certificate)

    async def call(
        self,
        method: str,
        body: bytes,
        *,
        channel: grpc.aio.Channel | None = None,
        coding: str = "",
        key: str | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Called:
        """One unary call; *method* is a signal or a full method name; *key* "" sends none."""
        if channel is None:
            async with self.connected() as own:
                return await self.call(method, body, channel=own, coding=coding, key=key, timeout_s=timeout_s)
        import grpc  # noqa: PLC0415
        import grpc.aio  # noqa: PLC0415

        compression = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}.get(coding)
        given = self.key if key is None else key
        metadata = [("authorization", f"Bearer {given}")] if given else []
        sending = channel.unary_unary(METHODS.get(method, method))
        call = sending(body, timeout=timeout_s, metadata=metadata, compression=compression, wait_for_ready=None)
        try:
            answer = await call
            called = Called("OK", "", answer, dict(await call.trailing_metadata() or ()))
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            called = Called(code, error.details() or "", b"", dict(error.trailing_metadata() or ()))
        self.codes[called.code] += 1
        return called
