"""OTLP/gRPC: the three Export services, on the pipeline, the keys, the quotas and the table of
answers of HTTP.

A method is served as a stream of requests of which one is read. So a call is admitted before its
message is taken from the connection, and what can be refused by the metadata is refused unread. The
message comes as it was sent, compressed or not, and is decompressed within the limits
(`gateway.receiver.body`).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import grpc
from multidict import CIMultiDict

from gateway.contract.errors import Overloaded
from gateway.contract.intake import Intake
from gateway.contract.otlp import Signal
from gateway.contract.scopes import INGEST_SCOPE
from gateway.grpc.arrival import Arrivals, Arrived, read_message
from gateway.grpc.connections import Connections
from gateway.keys.record import KeyRecord
from gateway.receiver.admission import Admission, no_subject
from gateway.receiver.answers import TO_COME_AGAIN, Answer, answer_for
from gateway.receiver.authenticator import Headers
from gateway.receiver.body import INLINE_BYTES, Hold, decompressed
from gateway.receiver.content_encoding import gzip_blocks
from gateway.receiver.otlp import SignalIntake, remark_on
from gateway.receiver.responses import partial_success, retry_info, rpc_status
from gateway.receiver.server import Receiver, sender_with

SERVICES: Final[dict[Signal, str]] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
}

GZIP_BEGINS: Final = b"\x1f\x8b"
"""As no protobuf message does: its first byte would be a field of wire type 7, which there is not.
grpcio keeps the header `grpc-encoding` to itself."""

MAX_CALLS: Final = 2000
"""Under way at once, over all connections: a sender with more than one has at most as many as are
still free, so there is always room for another.
"""
MOST_CALLS: Final = 2 * MAX_CALLS
"""Of however many senders."""

CODES: Final[dict[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}
HTTP_OK: Final = 200
"""Calls are counted under the status that HTTP has for the same answer."""

BARE_RETRY_S: Final = 5
"""The Python exporter, which gives up after 10 s, drops its data at once where it is asked for
longer than it has left; without this it tries again by itself."""

_TCP_PEER: Final = re.compile(r"ipv[46]:\[?([^\]]+)\]?:\d+")

Result = bytes | Exception
"""The message of the answer, or what was wrong."""


class Call(NamedTuple):
    """A call as admission sees it."""

    headers: Headers
    remote: str | None
    subject: str | None = None
    """The name in the certificate of its client; None where it showed none."""
    content_length: int | None = None
    """Nothing announces it."""


class GrpcReceiver:
    """Takes calls; give `handlers()` to a server.

    *receiver* is that of HTTP: its budget, limits, counts and answers are those of all transports.
    """

    def __init__(
        self, receiver: Receiver, admission: Admission, intake: Intake, *, reads_subjects: bool = False
    ) -> None:
        """*reads_subjects*: the certificate of a client may stand for a key."""
        self._subject_in = subject_in if reads_subjects else no_subject
        self._receiver = receiver
        self._admission = admission
        self._intakes: dict[Signal, SignalIntake] = {
            "traces": intake.traces,
            "logs": intake.logs,
            "metrics": intake.metrics,
        }
        self._arrivals = Arrivals(Connections())
        self._calls = 0
        self._taking: set[asyncio.Task[Result]] = set()
        """Messages on their way to the disk, whether or not their senders still wait."""

    def handlers(self) -> list[Any]:
        """A handler for each service."""
        return [
            grpc.method_handlers_generic_handler(
                service, {"Export": grpc.stream_unary_rpc_method_handler(self._export_of(signal, f"/{service}/Export"))}
            )
            for signal, service in SERVICES.items()
        ]

    async def wait_until_taken(self) -> None:
        """Return when nothing is on its way to the disk."""
        while self._taking:
            await asyncio.wait(self._taking)

    def _export_of(self, signal: Signal, path: str) -> Callable[[Any, Any], Awaitable[bytes]]:
        async def export(_: Any, context: Any) -> bytes:
            """One call, from its metadata to its answer."""
            call = Call(headers_of(context.invocation_metadata()), peer_of(context.peer()), self._subject_in(context))
            self._calls += 1
            began_s, tracer = perf_counter(), self._receiver.tracer
            span = None if tracer is None else tracer.begin()
            try:
                result = await self._result(signal, path, call, context)
            except asyncio.CancelledError:  # by its sender, at its deadline, or by the transport
                self._receiver.counts.gone += 1
                raise
            finally:
                self._calls -= 1
            self._receiver.counts.seconds[path].observe(perf_counter() - began_s)
            if tracer is not None and span is not None:
                status = HTTP_OK if isinstance(result, bytes) else answer_for(result).status
                tracer.end(span, began_s, path[1:], {"rpc.system": "grpc", "rpc.method": path[1:]}, status)
            return await self._answer(result, path, call, context)

        return export

    async def _answer(self, result: Result, path: str, call: Call, context: Any) -> bytes:
        """Raises what ends a call that is refused."""
        if isinstance(result, bytes):
            self._receiver.counts.answers[path, HTTP_OK] += 1
            return result
        answer, message = self._receiver.decide(result, path, call.headers, call.remote)
        # grpc keeps how a call was ended, in a cycle, and so the frames of this error: its message.
        result.__traceback__ = result.__context__ = result.__cause__ = None
        self._receiver.counts.answers[path, answer.status] += 1
        await context.abort(CODES[answer.code], message, trailers_of(answer, message))
        raise AssertionError("abort raises")

    async def _result(self, signal: Signal, path: str, call: Call, context: Any) -> Result:
        """Raises CancelledError alone."""
        hold = Hold(self._receiver.budget)
        is_begun = is_read = False
        try:
            if self._calls > MOST_CALLS:
                raise Overloaded("too many calls are under way")
            key = self._admission.admit(call, path, INGEST_SCOPE, hold)
            if hold.requests > max(1, MAX_CALLS - self._calls):
                raise Overloaded("too many calls of this sender are under way")
            is_begun = True
            arrived = await read_message(context, self._arrivals, self._receiver.limits, hold)
            is_read = True
        except Exception as error:  # noqa: BLE001 - becomes an answer in `Receiver.decide`
            return refused(error, hold)
        finally:
            if not is_read:
                hold.release()
                # What came of it is freed with the call, in a moment.
                self._receiver.heap.freed(self._receiver.limits.max_body_bytes if is_begun else 0)
        # A sender that goes away now ends its call, and not the append.
        taking = asyncio.create_task(self._take(signal, call, key, arrived, hold))
        del arrived  # the message as it was sent is freed once it is decompressed
        self._taking.add(taking)
        taking.add_done_callback(self._taking.discard)
        return await asyncio.shield(taking)

    async def _take(self, signal: Signal, call: Call, key: KeyRecord | None, arrived: Arrived, hold: Hold) -> Result:
        """From the message to the commit. *hold* ends with it."""
        try:
            body, is_late = arrived
            del arrived
            if body.startswith(GZIP_BEGINS):
                sent_bytes = len(body)
                body = await decompressed(body, gzip_blocks, self._receiver.limits, hold)
                hold.give(sent_bytes)
            if is_late or len(body) > INLINE_BYTES:  # the key may have been disabled meanwhile
                self._admission.ask_again(call, INGEST_SCOPE)
            hold.take_of_quota(len(body))
            receipt = await self._intakes[signal](body, json=False, sender=sender_with(key, call.headers, call.remote))
            remark = remark_on(receipt)
            return b"" if remark is None else partial_success("protobuf", signal, len(receipt.rejected), remark)
        except Exception as error:  # noqa: BLE001 - as above; unknown ones are retryable
            return refused(error, hold)
        finally:
            self._receiver.heap.freed(hold.release())


def refused(error: Exception, hold: Hold) -> Exception:
    """*error*; what the sender is to send once more, it is not charged for now."""
    if answer_for(error).status in TO_COME_AGAIN:
        hold.give_back_quota()
    return error


def trailers_of(answer: Answer, message: str) -> tuple[tuple[str, bytes], ...]:
    """The google.rpc.Status with its details; beside it, where the call may be repeated soon, its
    RetryInfo alone, which the Python exporter looks for.
    """
    status = ("grpc-status-details-bin", rpc_status("protobuf", answer.code, message, answer.retry_after_s))
    if answer.retry_after_s is None or answer.retry_after_s > BARE_RETRY_S:
        return (status,)
    return status, ("google.rpc.retryinfo-bin", retry_info(answer.retry_after_s))


def headers_of(metadata: Iterable[tuple[str, str | bytes]]) -> CIMultiDict[str]:
    """The metadata that is text; what is binary is none of the headers that we read."""
    return CIMultiDict((name, value) for name, value in metadata if isinstance(value, str))


def subject_in(context: Any) -> str | None:
    """As `gateway.common.tls.subject_of` has it."""
    shown = context.auth_context()
    names = [*shown.get("x509_common_name", ()), *shown.get("peer_uri", ()), *shown.get("peer_dns", ())]
    return next((name.decode("utf-8", "replace") for name in names if name), None)


@lru_cache(maxsize=256)
def peer_of(peer: str) -> str | None:
    """The address of `ipv4:127.0.0.1:4317` or `ipv6:%5B::1%5D:4317`; None for a unix socket."""
    found = _TCP_PEER.fullmatch(unquote(peer))
    return None if found is None else found[1]
