"""OTLP/gRPC: the three Export methods, with the keys, quotas, byte budget, pipeline and answers of
OTLP/HTTP.

A call is admitted by its metadata, before a byte of its message is taken; what is refused is
refused unread. Bytes of the message are taken from the budget of all requests as they come.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from itertools import chain
from typing import Any, Final

from gateway.common.contract.errors import BadPayload, Overloaded, Unauthenticated
from gateway.common.contract.intake import Intake
from gateway.common.contract.otlp import Signal
from gateway.common.contract.scopes import INGEST_SCOPE
from gateway.serve.admission import Admission
from gateway.serve.answers import ErrorAnswer
from gateway.serve.body import decompressed, too_large
from gateway.serve.content_encoding import gzip_blocks
from gateway.serve.grpc.call import GrpcCall
from gateway.serve.grpc.wire import Message, MessageReader, TooLong
from gateway.serve.otlp import SignalIntake, remark_on
from gateway.serve.receiver import Receiver
from gateway.serve.responses import partial_success, retry_info, rpc_status
from gateway.serve.steps import Exchange, steps_of

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
    """The Export methods, with the budget, limits, counts and answers of *receiver*."""

    def __init__(self, receiver: Receiver, admission: Admission, intake: Intake) -> None:
        self.receiver = receiver
        self.admission = admission
        self.calls = 0
        """Under way."""
        self._taking: set[asyncio.Task[None]] = set()
        """Messages on their way to the disk, whether or not their senders still wait."""
        taking: list[SignalIntake] = [intake.traces, intake.logs, intake.metrics]
        self.routes: dict[str, Callable[[GrpcCall], ExportCall | None]] = {
            f"/{service}/Export": partial(self._begin, signal, take)
            for (signal, service), take in zip(SERVICES.items(), taking, strict=True)
        }

    def _begin(self, signal: Signal, intake: SignalIntake, call: GrpcCall) -> "ExportCall | None":
        export = ExportCall(self, call, signal, intake)
        return export if export.is_admitted() else None

    def take(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* to its end, whatever becomes of the call."""
        task = asyncio.create_task(work)
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    async def wait_until_taken(self) -> None:
        """Return when nothing is on its way to the disk."""
        while self._taking:
            await asyncio.wait(self._taking)


class ExportCall(Exchange):
    """One call: `gateway.serve.grpc.call.Handler`. Awaited for its body when the message is
    whole.
    """

    def __init__(self, exports: Exports, call: GrpcCall, signal: Signal, intake: SignalIntake) -> None:
        super().__init__(exports.receiver, call, call.path, INGEST_SCOPE, exports.admission)
        self._exports, self._call, self._signal, self._intake = exports, call, signal, intake
        self._steps = steps_of(self)
        self._reader = MessageReader()
        self._message: Message | None = None
        self._answer = b""
        self._is_waiting = True
        """For the message, or the rest of it."""
        self._is_gone = False
        self._late: asyncio.TimerHandle | None = None
        exports.calls += 1

    def is_admitted(self) -> bool:
        """Whether its message is awaited; it is answered where not."""
        try:
            if self._exports.calls > MAX_ALL_CALLS:
                raise Overloaded("too many calls are under way")
            next(self._steps)  # up to the body
        except Exception as error:  # noqa: BLE001 - becomes an answer
            self._refuse(error)
            return False
        timeout_s = self.receiver.limits.body_timeout_s
        self._late = asyncio.get_running_loop().call_later(timeout_s, self._out_of_time)
        return True

    # ---- what the client does

    def received(self, data: bytes) -> None:
        limit = self.receiver.limits.max_body_bytes
        try:
            self.hold.take(len(data))
            for message in self._reader.feed(data, limit):
                if self._message is not None:
                    raise BadPayload("the call holds more than one message")
                self._message = message
        except TooLong:
            self._refuse(too_large("the message", limit, "max_body_bytes"))
        except Exception as error:  # noqa: BLE001 - as above
            self._refuse(error)

    def ended(self) -> None:
        if self._message is None or not self._reader.is_empty:
            is_cut = not self._reader.is_empty
            self._refuse(BadPayload("the message is cut short" if is_cut else "the call holds no message"))
            return
        self._stop_waiting()
        self._exports.take(self._take())

    def gone(self) -> None:
        self._is_gone = True
        if self._is_waiting:
            self._end(None)

    def _out_of_time(self) -> None:
        self._refuse(Overloaded("the message did not arrive in time"))

    # ---- its steps

    def admit(self) -> None:
        super().admit()
        self._call.is_admitted = True
        if self.hold.requests > max(1, MAX_CALLS - self._exports.calls):
            raise Overloaded("too many calls of this sender are under way")

    def read_body(self) -> Awaitable[None]:
        return self

    def __await__(self) -> Generator[Any, Any, None]:
        return self._read().__await__()

    async def _read(self) -> None:
        message, self._message = self._message, None
        assert message is not None  # noqa: S101 since `ended`
        self.body = message.body
        if message.is_compressed:
            if self._call.headers.get("grpc-encoding") != "gzip":
                raise BadPayload("the message is compressed, and grpc-encoding does not name gzip")
            self.body = await decompressed(message.body, gzip_blocks, self.receiver.limits, self.hold)
            self.hold.give(len(message.body))

    async def call(self) -> None:
        assert self.body is not None and self.sender is not None  # noqa: S101, PT018 since `admit` and `read`
        self.receipt = await self._intake(self.body, json=False, sender=self.sender)

    def answer(self) -> None:
        assert self.receipt is not None  # noqa: S101 since `call`
        remark = remark_on(self.receipt)
        if remark is not None:
            self._answer = partial_success("protobuf", self._signal, len(self.receipt.rejected), remark)

    def span_name(self) -> tuple[float, str, dict[str, str]]:
        return self.began_s, self.path[1:], {"rpc.system": "grpc", "rpc.method": self.path[1:]}

    async def _take(self) -> None:
        """From the message to the commit, and the answer."""
        try:
            for waits_for in chain((self,), self._steps):
                if waits_for is not None:
                    await waits_for
        except Exception as error:  # noqa: BLE001 - as above; unknown ones are retryable
            self._refuse(error)
        else:
            self._end(HTTP_OK)
            self._call.end(last=self._answer)

    def _refuse(self, error: Exception) -> None:
        """Answer the call with *error*."""
        call = self._call
        answer, text = self.refuse(error)
        if isinstance(error, Unauthenticated):
            call.is_admitted = False
            call.protocol.rejected()
        self._end(answer.status, error)
        call.end(answer.code, text, details_of(answer, text))

    def _end(self, status: int | None, error: Exception | None = None) -> None:
        """Give up what the call holds; *status*: of HTTP."""
        self._stop_waiting()
        self._exports.calls -= 1
        self._steps.close()
        self._message, self._reader, self.body = None, MessageReader(), None
        self.end(None if self._is_gone else status, error)

    def _stop_waiting(self) -> None:
        self._is_waiting = False
        if self._late is not None:
            self._late.cancel()
            self._late = None


def details_of(answer: ErrorAnswer, message: str) -> list[tuple[bytes, bytes]]:
    """The google.rpc.Status with its details; beside it, where the call may be repeated soon, its
    RetryInfo alone, which the Python exporter looks for.
    """
    status = (b"grpc-status-details-bin", rpc_status("protobuf", answer.code, message, answer.retry_after_s))
    if answer.retry_after_s is None or answer.retry_after_s > BARE_RETRY_S:
        return [status]
    return [status, (b"google.rpc.retryinfo-bin", retry_info(answer.retry_after_s))]
