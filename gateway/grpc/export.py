"""OTLP/gRPC: the three Export methods, with the keys, quotas, byte budget, pipeline and answers of
OTLP/HTTP.

A call is admitted by its metadata, before a byte of its message is taken; what is refused is
refused unread. Bytes of the message are taken from the budget of all requests as they come.
"""

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, Final

from gateway.contract.errors import BadPayload, Overloaded, Unauthenticated
from gateway.contract.intake import Intake
from gateway.contract.otlp import Signal
from gateway.contract.scopes import INGEST_SCOPE
from gateway.grpc.call import Call
from gateway.grpc.wire import Message, MessageReader, TooLong
from gateway.keys.record import KeyRecord
from gateway.receiver.admission import Admission
from gateway.receiver.answers import TO_COME_AGAIN, Answer
from gateway.receiver.body import Hold, decompressed, too_large
from gateway.receiver.content_encoding import gzip_blocks
from gateway.receiver.otlp import SignalIntake, remark_on
from gateway.receiver.responses import partial_success, retry_info, rpc_status
from gateway.receiver.server import Receiver, sender_with

SERVICES: Final[dict[Signal, str]] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
}

MAX_CALLS: Final = 2000
"""Under way at once, over all connections: a sender with more than one has at most as many as are
still free, so there is always room for another.
"""
MAX_ALL_CALLS: Final = 2 * MAX_CALLS
"""Of however many senders."""

HTTP_OK: Final = 200
"""Calls are counted under the status that HTTP has for the same answer."""

BARE_RETRY_S: Final = 5
"""The Python exporter, which gives up after 10 s, drops its data at once where it is asked for
longer than it has left; without this it tries again by itself."""


class Exports:
    """The Export methods. *receiver* is that of HTTP: its budget, limits, counts and answers are
    those of both transports.
    """

    def __init__(self, receiver: Receiver, admission: Admission, intake: Intake) -> None:
        self.receiver = receiver
        self.admission = admission
        self.calls = 0
        """Under way."""
        self._taking: set[asyncio.Task[None]] = set()
        """Messages on their way to the disk, whether or not their senders still wait."""
        intakes: dict[Signal, SignalIntake] = {
            "traces": intake.traces,
            "logs": intake.logs,
            "metrics": intake.metrics,
        }
        self.routes: dict[str, Callable[[Call], ExportCall | None]] = {
            f"/{service}/Export": self._beginning(signal, intakes[signal]) for signal, service in SERVICES.items()
        }

    def _beginning(self, signal: Signal, intake: SignalIntake) -> "Callable[[Call], ExportCall | None]":
        def begin(call: Call) -> ExportCall | None:
            export = ExportCall(self, call, signal, intake)
            return export if export.is_admitted() else None

        return begin

    def take(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* to its end, whatever becomes of the call."""
        task = asyncio.create_task(work)
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    async def wait_until_taken(self) -> None:
        """Return when nothing is on its way to the disk."""
        while self._taking:
            await asyncio.wait(self._taking)


class ExportCall:
    """One call: `gateway.grpc.call.Handler`."""

    __slots__ = (
        "_began_s", "_call", "_exports", "_hold", "_intake", "_is_gone", "_is_waiting", "_key", "_late", "_message",
        "_reader", "_signal", "_span",
    )  # fmt: skip

    def __init__(self, exports: Exports, call: Call, signal: Signal, intake: SignalIntake) -> None:
        receiver = exports.receiver
        self._exports, self._call, self._signal, self._intake = exports, call, signal, intake
        self._hold = Hold(receiver.budget)
        self._key: KeyRecord | None = None
        self._reader = MessageReader()
        self._message: Message | None = None
        self._is_waiting = True
        """For the message, or the rest of it."""
        self._is_gone = False
        self._late: asyncio.TimerHandle | None = None
        self._began_s = perf_counter()
        self._span = None if receiver.tracer is None else receiver.tracer.begin()
        exports.calls += 1

    def is_admitted(self) -> bool:
        """Whether its message is awaited; it is answered where not."""
        exports, call, hold = self._exports, self._call, self._hold
        try:
            if exports.calls > MAX_ALL_CALLS:
                raise Overloaded("too many calls are under way")
            self._key = exports.admission.admit(call, call.path, INGEST_SCOPE, hold)
            call.is_admitted = True
            if hold.requests > max(1, MAX_CALLS - exports.calls):
                raise Overloaded("too many calls of this sender are under way")
        except Exception as error:  # noqa: BLE001 - becomes an answer in `Receiver.decide`
            self._refuse(error)
            return False
        timeout_s = exports.receiver.limits.body_timeout_s
        self._late = asyncio.get_running_loop().call_later(timeout_s, self._out_of_time)
        return True

    def received(self, data: bytes) -> None:
        limit = self._exports.receiver.limits.max_body_bytes
        try:
            self._hold.take(len(data))
            for message in self._reader.feed(data, limit):
                if self._message is not None:
                    raise BadPayload("the call holds more than one message")
                self._message = message
        except TooLong:
            self._refuse(too_large("the message", limit, "max_body_bytes"))
        except Exception as error:  # noqa: BLE001 - as above
            self._refuse(error)

    def ended(self) -> None:
        message, self._message = self._message, None
        if message is None or not self._reader.is_empty:
            is_cut = not self._reader.is_empty
            self._refuse(BadPayload("the message is cut short" if is_cut else "the call holds no message"))
            return
        self._stop_waiting()
        self._exports.take(self._take(message))

    def gone(self) -> None:
        self._is_gone = True
        self._exports.receiver.counts.gone += 1
        if self._is_waiting:
            self._release()

    def _out_of_time(self) -> None:
        self._refuse(Overloaded("the message did not arrive in time"))

    async def _take(self, message: Message) -> None:
        """From the message to the commit, and the answer."""
        try:
            answer = await self._result(message)
        except Exception as error:  # noqa: BLE001 - as above; unknown ones are retryable
            self._refuse(error)
        else:
            self._release()
            self._count(HTTP_OK)
            self._call.end(last=answer)

    async def _result(self, message: Message) -> bytes:
        """The message of the answer. Raises what becomes an answer."""
        receiver, call, hold, body = self._exports.receiver, self._call, self._hold, message.body
        if message.is_compressed:
            if call.headers.get("grpc-encoding") != "gzip":
                raise BadPayload("the message is compressed, and grpc-encoding does not name gzip")
            sent_bytes = len(body)
            body = await decompressed(body, gzip_blocks, receiver.limits, hold)
            hold.give(sent_bytes)
        del message
        self._exports.admission.ask_again(call, INGEST_SCOPE)  # the key may have been disabled meanwhile
        hold.take_of_quota(len(body))
        receipt = await self._intake(body, json=False, sender=sender_with(self._key, call.headers, call.remote))
        remark = remark_on(receipt)
        return b"" if remark is None else partial_success("protobuf", self._signal, len(receipt.rejected), remark)

    def _refuse(self, error: Exception) -> None:
        """Answer the call with *error*."""
        call = self._call
        answer, text = self._exports.receiver.decide(error, call.path, call.headers, call.remote)
        if isinstance(error, Unauthenticated):
            call.is_admitted = False
            call.protocol.rejected()
        if answer.status in TO_COME_AGAIN:
            self._hold.give_back_quota()
        self._release()
        self._count(answer.status)
        call.end(answer.code, text, details_of(answer, text))

    def _release(self) -> None:
        """Give up what the call holds."""
        self._stop_waiting()
        self._exports.calls -= 1
        self._message, self._reader = None, MessageReader()
        self._exports.receiver.heap.freed(self._hold.release())

    def _stop_waiting(self) -> None:
        self._is_waiting = False
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _count(self, status: int) -> None:
        """Note an answer for which someone waits. *status*: of HTTP."""
        if self._is_gone:
            return
        receiver, path = self._exports.receiver, self._call.path
        receiver.counts.answers[path, status] += 1
        receiver.counts.seconds[path].observe(perf_counter() - self._began_s)
        if receiver.tracer is not None and self._span is not None:
            attributes = {"rpc.system": "grpc", "rpc.method": path[1:]}
            receiver.tracer.end(self._span, self._began_s, path[1:], attributes, status)


def details_of(answer: Answer, message: str) -> list[tuple[bytes, bytes]]:
    """The google.rpc.Status with its details; beside it, where the call may be repeated soon, its
    RetryInfo alone, which the Python exporter looks for.
    """
    status = (b"grpc-status-details-bin", rpc_status("protobuf", answer.code, message, answer.retry_after_s))
    if answer.retry_after_s is None or answer.retry_after_s > BARE_RETRY_S:
        return [status]
    return [status, (b"google.rpc.retryinfo-bin", retry_info(answer.retry_after_s))]
