"""The calls of one HTTP/2 connection: from the events of `h2` to handlers, and their answers back.

Nothing here reads or writes a socket: `h2` collects what is to be written.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings
from hpack import HeaderTuple, NeverIndexedHeaderTuple
from multidict import CIMultiDict

from gateway.common.contract.errors import BadPayload
from gateway.serve.grpc.call import RESPONSE_HEADERS, GrpcCall, Handler
from gateway.serve.grpc.frame_guard import MAX_FRAME_BYTES
from gateway.serve.grpc.wire import SUCCESS, Fields, metadata_in, timeout_s

MAX_STREAMS: Final = 100
"""Calls of one connection at once. A further one is refused as a stream, which clients repeat."""
MAX_KNOWN_STREAMS: Final = 1000
"""Beyond it `h2` ends the connection: its client passes over what it was announced."""
MAX_CLOSED_STREAMS: Final = 256
"""Of which is remembered how they ended, for frames that were under way."""
MAX_HEADER_LIST_BYTES: Final = 16 * 1024
HEADER_TABLE_BYTES: Final = 4096
STREAM_WINDOW_BYTES: Final = 1024 * 1024
"""What a client may send of a call ahead of what was read: most messages are no larger."""
CONNECTION_WINDOW_BYTES: Final = 8 * 1024 * 1024
MAX_UNSENT_BYTES: Final = 256 * 1024
"""Of the answers to one call: it is reset with more."""
UNREAD_S: Final = 20.0
"""Answers that wait for the client to read end its call, or its connection, after so long."""

UNIMPLEMENTED, INVALID_ARGUMENT, DEADLINE_EXCEEDED = 12, 3, 4
ENCODINGS: Final = ("identity", "gzip")
INDEXED: Final = frozenset({b":status", b"content-type", b"grpc-accept-encoding", b"grpc-status"})
"""Fields whose few values the client's table of headers may keep. Others would grow it."""

CONFIG: Final = H2Configuration(
    client_side=False,
    header_encoding=None,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)

Begin = Callable[[GrpcCall], Handler | None]
"""Begins to serve a call; None where it is answered already."""


class Http2(H2Connection):
    """`h2` with less memory of streams that ended."""

    MAX_CLOSED_STREAMS = MAX_CLOSED_STREAMS


def begun() -> H2Connection:
    """A connection whose settings are to be sent."""
    made = Http2(CONFIG)
    announced = {
        SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
        SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST_BYTES,
        SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
        SettingCodes.MAX_FRAME_SIZE: MAX_FRAME_BYTES,
    }
    made.local_settings = Settings(client=False, initial_values=announced)
    made.decoder.max_header_list_size = MAX_HEADER_LIST_BYTES
    made.max_inbound_frame_size = MAX_FRAME_BYTES
    made.initiate_connection()
    made.increment_flow_control_window(CONNECTION_WINDOW_BYTES)
    # `h2` ends a connection that opens more streams than was announced, with all of its calls.
    enforced = {**announced, SettingCodes.MAX_CONCURRENT_STREAMS: MAX_KNOWN_STREAMS}
    made.local_settings = Settings(client=False, initial_values=enforced)
    return made


class Streams:
    """*write*: called when there is something to be written; *earn*: when a call that was admitted,
    or needs no key, is answered.
    """

    def __init__(
        self,
        routes: Mapping[str, Begin],
        new_call: Callable[[int, str, CIMultiDict[str]], GrpcCall],
        write: Callable[[], None],
        earn: Callable[[], None],
    ) -> None:
        self.h2 = begun()
        self.is_stopping = False
        """Further calls are refused."""
        self.is_terminated = False
        """The client ended the connection."""
        self._routes = routes
        self._new_call = new_call
        self._write = write
        self._earn = earn
        self._calls: dict[int, tuple[GrpcCall, Handler | None]] = {}
        """By stream, until they are answered; without handler once no one serves them any more."""
        self._timers: dict[int, asyncio.TimerHandle] = {}
        """Of deadlines, then of answers that are not read."""

    def __len__(self) -> int:
        """Calls that are under way."""
        return len(self._calls)

    @property
    def has_admitted(self) -> bool:
        """Whether one of them showed a key that is accepted."""
        return any(call.is_admitted for call, _ in self._calls.values())

    def receive(self, data: bytes) -> None:
        """Work on the next bytes of the client. Raises H2Error."""
        for event in self.h2.receive_data(data):
            self._work(event)

    def drop_all(self) -> None:
        """No one waits for an answer any more."""
        for stream_id in list(self._calls):
            self._drop(stream_id)

    def close(self) -> None:
        """The connection ended. `h2` refers to itself, and would wait for the garbage collector."""
        self.drop_all()
        vars(self.h2).clear()

    def send(self, call: GrpcCall) -> None:
        """As `gateway.serve.grpc.call.Channel`."""
        if call.stream_id not in self._calls:
            return
        try:
            self._send(call)
        except H2Error:  # the stream was reset, or the connection ended, at the same time
            self._drop(call.stream_id)
        self._write()

    # ---- what the client does

    def _work(self, event: Event) -> None:
        match event:
            case DataReceived():
                self._data(event)
            case RequestReceived():
                self._requested(event)
            case StreamEnded():
                self._half_closed(event.stream_id)
            case StreamReset():
                self._drop(event.stream_id)
            case WindowUpdated():
                self._send_unsent()
            case RemoteSettingsChanged():
                self._settings_changed()
            case ConnectionTerminated():  # `h2` sends nothing more: the client repeats what is unanswered
                self.is_terminated = True
                self.drop_all()
            case _:
                pass

    def _requested(self, event: RequestReceived) -> None:
        stream_id = event.stream_id
        if self.is_stopping or len(self._calls) >= MAX_STREAMS:
            self.h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        headers = metadata_in(event.headers)
        if headers.get(":method") != "POST" or not headers.get("content-type", "").startswith("application/grpc"):
            self.h2.send_headers(stream_id, [(b":status", b"415")], end_stream=True)
            self._pass_over(stream_id)
            return
        call = self._new_call(stream_id, headers.get(":path", ""), headers)
        self._calls[stream_id] = call, None
        begin = self._routes.get(call.path)
        if begin is None:
            call.end(UNIMPLEMENTED, "no such method; served are the Export methods of OTLP, health and reflection")
        elif headers.get("grpc-encoding", "identity") not in ENCODINGS:
            call.end(UNIMPLEMENTED, "grpc-encoding must be gzip or identity")
        else:
            self._begin(call, begin)

    def _begin(self, call: GrpcCall, begin: Begin) -> None:
        try:
            left_s = timeout_s(call.headers.get("grpc-timeout"))
        except BadPayload as error:
            call.end(INVALID_ARGUMENT, str(error))
            return
        handler = begin(call)
        if handler is not None:
            self._calls[call.stream_id] = call, handler
            if left_s is not None:
                self._set_timer(call.stream_id, left_s, self._out_of_time)

    def _data(self, event: DataReceived) -> None:
        stream_id = event.stream_id
        if event.flow_controlled_length:
            self.h2.acknowledge_received_data(event.flow_controlled_length, stream_id)
        if (found := self._served(stream_id)) is not None:
            found[1].received(event.data)

    def _half_closed(self, stream_id: int) -> None:
        if stream_id in self._calls:
            self._calls[stream_id][0].is_half_closed = True
        if (found := self._served(stream_id)) is not None:
            found[1].ended()

    def _served(self, stream_id: int) -> tuple[GrpcCall, Handler] | None:
        """A call that is not answered yet, and its handler."""
        call, handler = self._calls.get(stream_id, (None, None))
        return None if call is None or handler is None or call.trailers is not None else (call, handler)

    def _settings_changed(self) -> None:
        """Forget settings that no one knows; keep no larger table of headers than our own."""
        settings, encoder = self.h2.remote_settings, self.h2.encoder
        for name in [name for name in settings if not isinstance(name, SettingCodes)]:
            del settings[name]
        encoder.header_table_size = min(encoder.header_table_size, HEADER_TABLE_BYTES)
        self._send_unsent()

    # ---- answers

    def _send_unsent(self) -> None:
        for call, _ in list(self._calls.values()):
            if call.unsent:
                self.send(call)

    def _send(self, call: GrpcCall) -> None:
        stream_id, trailers = call.stream_id, call.trailers
        if not call.has_headers:
            call.has_headers = True
            if trailers is not None and not call.unsent:
                self._send_last(call, [*RESPONSE_HEADERS, *trailers])
                return
            self.h2.send_headers(stream_id, fields_of(RESPONSE_HEADERS))
        while call.unsent:
            room = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
            if room <= 0:
                self._wait_for_window(call)
                return
            self.h2.send_data(stream_id, bytes(call.unsent[:room]))
            del call.unsent[:room]
        if trailers is not None:
            self._send_last(call, trailers)

    def _send_last(self, call: GrpcCall, fields: Fields) -> None:
        self.h2.send_headers(call.stream_id, fields_of(fields), end_stream=True)
        if not call.is_half_closed:
            self._pass_over(call.stream_id)
        if fields[0] == SUCCESS or call.is_admitted:
            self._earn()
        self._forget(call.stream_id)

    def _pass_over(self, stream_id: int) -> None:
        """What the client still sends of an answered call is not needed."""
        with suppress(H2Error):  # it has sent all
            self.h2.reset_stream(stream_id, ErrorCodes.NO_ERROR)

    def _wait_for_window(self, call: GrpcCall) -> None:
        if len(call.unsent) > MAX_UNSENT_BYTES:
            self._give_up(call.stream_id)
        elif call.trailers is not None:
            self._set_timer(call.stream_id, UNREAD_S, self._give_up)

    # ---- ends of calls

    def _set_timer(self, stream_id: int, in_s: float, act: Callable[[int], None]) -> None:
        if (before := self._timers.pop(stream_id, None)) is not None:
            before.cancel()
        self._timers[stream_id] = asyncio.get_running_loop().call_later(in_s, act, stream_id)

    def _out_of_time(self, stream_id: int) -> None:
        call, handler = self._calls[stream_id]
        self._calls[stream_id] = call, None
        if handler is not None:
            handler.gone()
        call.end(DEADLINE_EXCEEDED, "the call's deadline passed")

    def _give_up(self, stream_id: int) -> None:
        """The client does not take an answer."""
        with suppress(H2Error):  # the client ended it at the same time
            self.h2.reset_stream(stream_id, ErrorCodes.CANCEL)
        self._drop(stream_id)
        self._write()

    def _drop(self, stream_id: int) -> None:
        """No one waits for an answer to the call any more."""
        _, handler = self._forget(stream_id)
        if handler is not None:
            handler.gone()

    def _forget(self, stream_id: int) -> tuple[GrpcCall | None, Handler | None]:
        call, handler = self._calls.pop(stream_id, (None, None))
        if call is not None:
            call.is_over = True
        if (timer := self._timers.pop(stream_id, None)) is not None:
            timer.cancel()
        return call, handler


def fields_of(fields: Fields) -> list[HeaderTuple]:
    """*fields* as HPACK is to encode them."""
    return [(HeaderTuple if name in INDEXED else NeverIndexedHeaderTuple)(name, value) for name, value in fields]
