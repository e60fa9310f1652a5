"""Calls of the Export services over raw channels: bytes out, bytes or a refusal back."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status

from tests.support.polling import HANGS_S

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

Metadata = Sequence[tuple[str, str]]
Detail = TypeVar("Detail", bound=Message)


class Refusal(NamedTuple):
    """What a call that failed was answered."""

    code: grpc.StatusCode
    text: str
    status: Status | None
    """Of `grpc-status-details-bin`."""
    retry_info: RetryInfo | None
    """Of `google.rpc.retryinfo-bin`."""

    @property
    def retry_after_s(self) -> int | None:
        """By the details of the status; None where the call is not to be repeated."""
        detail = self._detail(RetryInfo())
        assert self.retry_info is None or self.retry_info == detail
        return None if detail is None else detail.retry_delay.seconds

    @property
    def bad_fields(self) -> list[str]:
        detail = self._detail(BadRequest())
        return [] if detail is None else [violation.field for violation in detail.field_violations]

    def _detail(self, into: Detail) -> Detail | None:
        for detail in self.status.details if self.status is not None else ():
            if detail.Unpack(into):
                return into
        return None


def refusal_of(error: Any) -> Refusal:
    """Of a grpc.RpcError."""
    trailers = dict(error.trailing_metadata() or ())
    status, retry = trailers.get("grpc-status-details-bin"), trailers.get("google.rpc.retryinfo-bin")
    return Refusal(
        error.code(),
        error.details() or "",
        None if status is None else Status.FromString(status),
        None if retry is None else RetryInfo.FromString(retry),
    )


async def called(
    channel: Any,
    body: bytes,
    method: str = TRACES,
    *,
    metadata: Metadata = (),
    gzip: bool = False,
    timeout_s: float = HANGS_S,
) -> bytes | Refusal:
    """One call over an aio *channel*."""
    compression = grpc.Compression.Gzip if gzip else None
    try:
        answer: bytes = await channel.unary_unary(method)(
            body, metadata=metadata, compression=compression, timeout=timeout_s
        )
    except grpc.RpcError as error:
        return refusal_of(error)
    return answer


async def refused(channel: Any, body: bytes, method: str = TRACES, **how: Any) -> Refusal:
    """The same, where it must be refused."""
    answer = await called(channel, body, method, **how)
    assert isinstance(answer, Refusal), "it was taken"
    return answer
