"""One HTTP/2 connection of gRPC clients: an asyncio protocol on `h2`.

What a client can make it hold is bounded before any key is shown: a frame and a header block of
16 KiB each (`frame_guard`), a list of header fields of 16 KiB (`h2` stops while it decodes), 100
calls, and answers that it does not read. The body of a call is read within the flow control that
`h2` grants, and its handler takes each byte from the budget of all requests, or refuses it.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol, cast

from h2.errors import ErrorCodes
from h2.exceptions import DenialOfServiceError, FrameTooLargeError, H2Error
from hyperframe.frame import GoAwayFrame
from multidict import CIMultiDict

from gateway.common.http.http2_refusal import PREFACE
from gateway.common.http.incoming import IncomingConnection, peer_of
from gateway.common.tls import subject_of
from gateway.serve.grpc.call import GrpcCall
from gateway.serve.grpc.frame_guard import FrameGuard, TooMuch
from gateway.serve.grpc.streams import MAX_HEADER_LIST_BYTES, UNREAD_S, Begin, Streams

LOOK_S: Final = 10.0
FIRST_CALL_S: Final = 30.0
"""Until a connection without an admitted call has one, or the headers of one are whole."""
PING_AFTER_S: Final = 60.0
PONG_S: Final = 20.0
IDLE_S: Final = 300.0
"""Without a call; a client that has one connects again."""
LINGER_S: Final = 2.0
"""For what is still to be written when a connection is closed."""

NOT_HTTP_1: Final = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b"
)


class Server(Protocol):
    """What all connections of one listener share."""

    @property
    def routes(self) -> Mapping[str, Begin]:
        """By path."""

    @property
    def reads_subjects(self) -> bool:
        """Whether the certificate of a client may stand for a key."""

    def opened(self, connection: "GrpcConnection") -> None:
        """Note one more connection."""

    def closed(self, connection: "GrpcConnection") -> None:
        """Note one less."""

    def refused(self, reason: str, peer: str | None) -> None:
        """A connection was ended for what it sent."""

    def for_http(self, peer: str | None) -> str:
        """The text for a client that speaks HTTP/1.1 here; noted as refused."""


class GrpcConnection(asyncio.Protocol):
    incoming: IncomingConnection | None = None

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._guard = FrameGuard(self._loop.time)
        self._first = b""
        """Bytes, until they are known to be of HTTP/2."""
        self._streams: Streams | None = None
        """From then on."""
        self._transport: asyncio.Transport | None = None
        self._peer: str | None = None
        self._subject: str | None = None
        self._pieces: deque[bytes] = deque()
        """What came and was not worked on yet."""
        self._is_paused = self._is_closing = self._is_admitted = False
        self._unread_s: float | None = None
        """Since when the client does not read what is written."""
        self._received_s = self._called_s = self._loop.time()
        self._pinged_s: float | None = None
        self._looking = self._loop.call_later(LOOK_S, self._look)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._peer = peer_of(transport)
        if self._server.reads_subjects:
            self._subject = subject_of(transport.get_extra_info("peercert"))
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport, streams = None, self._streams
        self._streams = None
        self._pieces.clear()
        self._looking.cancel()
        if streams is not None:
            streams.close()
        self._server.closed(self)

    def stop(self) -> None:
        """Take no further calls; the connection ends with those that are under way."""
        if self._streams is None or not self._streams:
            self._close(ErrorCodes.NO_ERROR)
        else:
            self._streams.is_stopping = True
            self._send_goaway(ErrorCodes.NO_ERROR)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def admitted(self) -> None:
        """A call was admitted."""
        self._is_admitted = True
        if self.incoming is not None:
            self.incoming.admitted()

    def rejected(self) -> None:
        """A call showed no key that is accepted. A proxy's connection has calls of others, too."""
        if self.incoming is not None and not (self._streams is not None and self._streams.has_admitted):
            self.incoming.rejected()

    # ---- reading

    def data_received(self, data: bytes) -> None:
        self._received_s, self._pinged_s = self._loop.time(), None
        if self._is_closing:
            return
        if self._streams is None:
            self._first += data
            if not PREFACE.startswith(self._first[: len(PREFACE)]):
                self._answer_http()
                return
            if len(self._first) < len(PREFACE):
                return
            data, self._first = self._first, b""
            self._streams = Streams(self._server.routes, self._new_call, self._write, self._guard.earn)
        is_working = bool(self._pieces)
        try:
            self._pieces.extend(self._guard.pieces(data))
        except TooMuch as error:
            self._refuse(error.code, str(error), error.reason)
            return
        if not is_working:
            self._work()

    def _work(self) -> None:
        """Read the next piece; the others in further turns of the loop."""
        if self._pieces:
            self._read(self._pieces[0])
        if self._pieces:
            self._pieces.popleft()
        if self._pieces:
            self._loop.call_soon(self._work)
        self._read_or_pause()

    def _read(self, piece: bytes) -> None:
        if self._streams is None:
            return
        try:
            self._streams.receive(piece)
        except FrameTooLargeError:
            self._refuse(ErrorCodes.FRAME_SIZE_ERROR, "a frame is too large", "frame_too_large")
        except DenialOfServiceError:
            text = f"the headers have more than {MAX_HEADER_LIST_BYTES} bytes"
            self._refuse(ErrorCodes.ENHANCE_YOUR_CALM, text, "headers_too_large")
        except H2Error:
            self._refuse(ErrorCodes.PROTOCOL_ERROR, "no valid HTTP/2", "malformed_http2")
        if self._streams is not None and self._streams.is_terminated:
            self._close()
        self._write()

    def _new_call(self, stream_id: int, path: str, headers: CIMultiDict[str]) -> GrpcCall:
        return GrpcCall(stream_id, path, headers, self._peer, self._subject, self)

    def _read_or_pause(self) -> None:
        was_paused, self._is_paused = self._is_paused, bool(self._pieces) or self._unread_s is not None
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_paused:
            self._transport.pause_reading()  # again: handing on what came before resumes it
        elif was_paused:
            self._transport.resume_reading()

    # ---- writing

    def send(self, call: GrpcCall) -> None:
        """As `gateway.serve.grpc.call.Channel`."""
        if self._streams is not None:
            self._streams.send(call)

    def _write(self) -> None:
        streams, transport = self._streams, self._transport
        if streams is None or transport is None or self._is_closing:
            return
        data = streams.h2.data_to_send()
        if data:
            transport.write(data)
        if streams.is_stopping and not streams:
            self._close()

    def pause_writing(self) -> None:
        self._unread_s = self._loop.time()
        self._read_or_pause()

    def resume_writing(self) -> None:
        self._unread_s = None
        self._read_or_pause()

    def _answer_http(self) -> None:
        text = self._server.for_http(self._peer).encode()
        if self._transport is not None:
            self._transport.write(NOT_HTTP_1 % (len(text), text))
        self._close()

    def _send_goaway(self, code: ErrorCodes, text: str = "") -> None:
        if self._streams is not None and self._transport is not None and not self._is_closing:
            frame = GoAwayFrame(0)
            frame.last_stream_id = self._streams.h2.highest_inbound_stream_id
            frame.error_code, frame.additional_data = code, text.encode()
            self._transport.write(frame.serialize())

    # ---- the end

    def _refuse(self, code: ErrorCodes, text: str, reason: str) -> None:
        """Close the connection for what it sent."""
        if not self._is_closing:
            self._server.refused(reason, self._peer)
            self._close(code, text)

    def _close(self, code: ErrorCodes | None = None, text: str = "") -> None:
        """Close when all is written, but soon; with a GOAWAY where *code* is given."""
        if self._is_closing:
            return
        if code is not None:
            self._send_goaway(code, text)
        self._is_closing = True
        self._pieces.clear()
        if self._transport is not None:
            self._transport.close()
            self._loop.call_later(LINGER_S, self.abort)

    def _look(self) -> None:
        """Ping a client that is silent; close a connection that no one needs."""
        self._looking = self._loop.call_later(LOOK_S, self._look)
        now_s = self._loop.time()
        if self._streams:
            self._called_s = now_s
        if is_over(self._unread_s, UNREAD_S, now_s) or is_over(self._pinged_s, PONG_S, now_s):
            self.abort()
        elif is_over(self._called_s, IDLE_S if self._is_admitted and not self._guard.in_block else FIRST_CALL_S, now_s):
            self._close(ErrorCodes.NO_ERROR)
        elif self._streams is not None and self._pinged_s is None and is_over(self._received_s, PING_AFTER_S, now_s):
            self._pinged_s = now_s
            self._streams.h2.ping(bytes(8))
            self._write()


def is_over(since_s: float | None, limit_s: float, now_s: float) -> bool:
    """Whether more than *limit_s* have passed; never where nothing began."""
    return since_s is not None and now_s - since_s > limit_s
