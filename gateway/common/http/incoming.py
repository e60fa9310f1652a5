"""The connections of one listener, and what those hold on which no request was admitted yet.

A connection is *admitted* with the first request whose key is accepted (or that needs none). Until
then it is one of at most `MAX_SERVED` that are served at once. The others wait, and hold no more
than their first bytes; while some wait, one that sent something `PATIENCE_S` ago, and nothing that
was admitted, is closed. The one that came last is served first: it is the one whose client still
waits. What those that are served send is read in small pieces, the first of each before further
ones, and takes a quarter of the event loop's time. So connections without a key hold a bounded
amount of memory, and leave the others their time.

TLS handshakes begin here too, for which a connection must be served.
"""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, Protocol, cast

from gateway.common.heap import TRIM_AFTER_BYTES, Heap

MAX_SERVED: Final = 128
MAX_WAITING: Final = 1024
PATIENCE_S: Final = 0.5
PATIENCE_TLS_S: Final = 2.0
"""With its handshake."""
MAX_BYTES: Final = 1024 * 1024
"""That a connection which is not admitted may send within `COUNTED_S`; then it is closed."""
COUNTED_S: Final = 60.0
PIECE_BYTES: Final = 2048
"""Of what is not admitted, worked on at once."""
AHEAD_BYTES: Final = 128 * 1024
"""Of one that is served, read ahead of that: what is left unread when a connection is closed takes
the answer with it.
"""
READ_BYTES: Final = 256 * 1024
"""Of what is admitted."""
TURN_S: Final = 0.001
"""For pieces in one turn of the event loop."""
PAUSE_FACTOR: Final = 3
"""So many times as long as a turn took, nothing of connections that are not admitted is worked on.
"""
MAX_TURN_S: Final = 0.01
"""What a turn counts at most: other work of the loop is in it."""
SILENT_S: Final = 30.0
"""Until the first byte. Clients without a key could take every connection and keep it."""
LINGER_S: Final = 5.0
"""For what is still to be written when a connection that is not admitted is closed."""
LOOK_S: Final = 0.25
BACKLOG: Final = 1024
HANDSHAKE_S: Final = 10.0
"""Of TLS; asyncio waits a minute."""


def peer_of(transport: asyncio.BaseTransport | None) -> str | None:
    """Address without port; None on a Unix socket."""
    peer = None if transport is None else transport.get_extra_info("peername")
    return peer[0] if isinstance(peer, tuple) else None


class Served(Protocol):
    """The protocol that serves a connection: aiohttp's, or that of gRPC."""

    incoming: "IncomingConnection | None"
    """Set before its connection is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class ConnectionLimits(Protocol):
    """How many connections a listener may have, and what is noted of those that are closed."""

    def max_connections(self) -> int:
        """Of the listener, at once."""

    def too_many(self, peer: str | None) -> None:
        """A connection was refused, as there are as many as may be."""

    def not_admitted(self, peer: str | None) -> None:
        """A connection was closed, as no request of it was admitted: it sent `MAX_BYTES`, or others
        waited.
        """


class IncomingConnections:
    """Of one listener; the factory of its protocols, given to asyncio's servers.

    *serve* makes what serves a connection; *full* is what one too many is sent.
    """

    def __init__(
        self,
        serve: Callable[[], Served],
        limits: ConnectionLimits,
        *,
        full: bytes = b"",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.serve = serve
        self.tls = tls
        self._limits = limits
        self._full = full
        self._loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(READ_BYTES))
        """Shared by all: what is read is taken out at once."""
        self._patience_s = PATIENCE_S if tls is None else PATIENCE_TLS_S
        self._open: dict[IncomingConnection, None] = {}
        self._silent: dict[IncomingConnection, float] = {}
        """Those of which nothing came, and since when; oldest first."""
        self._waiting: dict[IncomingConnection, None] = {}
        """Those that are to be served; the last one first, as of the next."""
        self._first: dict[IncomingConnection, None] = {}
        """Those whose first bytes are to be worked on."""
        self._served: dict[IncomingConnection, float] = {}
        """Those whose first bytes were, and when; oldest first. None of all these is admitted."""
        self._further: OrderedDict[IncomingConnection, None] = OrderedDict()
        """Of those, with bytes to be worked on."""
        self._fed: list[IncomingConnection] = []
        """Those that were worked on in the last turn."""
        self._fed_s = 0.0
        """When that began."""
        self._heap = Heap()
        self._ended = 0
        """Connections without an admitted request, since the heap was given back."""
        self._turning: asyncio.Handle | None = None
        self._looking: asyncio.TimerHandle | None = None

    def __call__(self) -> asyncio.BaseProtocol:
        return IncomingConnection(self)

    def __len__(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Close what is served by no one yet. To be called when the listener is closed."""
        for each in [each for each in self._open if not each.is_begun]:
            each.abort()
        if self._looking is not None:
            self._looking.cancel()

    # ---- what connections note

    def opened(self, connection: "IncomingConnection") -> bool:
        """Whether there is room for it."""
        if len(self._open) >= self._limits.max_connections() and not self._make_room():
            self._limits.too_many(connection.peer)
            connection.refuse(self._full)
            return False
        self._open[connection] = None
        self._silent[connection] = monotonic()
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_S, self._look)
        return True

    def closed(self, connection: "IncomingConnection") -> None:
        self._open.pop(connection, None)
        if not connection.is_admitted:
            self._ended += 1
            if self._ended >= MAX_SERVED:
                self._ended = 0
                self._heap.freed(TRIM_AFTER_BYTES)
        self._silent.pop(connection, None)
        self._waiting.pop(connection, None)
        self._first.pop(connection, None)
        self._served.pop(connection, None)
        self._further.pop(connection, None)
        self._serve_waiting()

    def came(self, connection: "IncomingConnection") -> None:
        """Bytes of a connection that is not admitted are to be worked on."""
        if connection in self._served:
            self._further[connection] = None
            self._begin_turn()
        elif connection not in self._first:
            self._silent.pop(connection, None)
            self._waiting[connection] = None
            self._serve_waiting()
            if len(self._waiting) > MAX_WAITING:
                self._close(next(iter(self._waiting)))

    def admitted(self, connection: "IncomingConnection") -> None:
        if self._served.pop(connection, None) is not None:
            self._serve_waiting()

    def sent_too_much(self, connection: "IncomingConnection") -> None:
        self._limits.not_admitted(connection.peer)

    def rejected(self, connection: "IncomingConnection") -> None:
        """An admitted one showed a key that is not accepted."""
        if connection in self._open:
            self._served[connection] = monotonic()

    # ---- connections that are not admitted

    def _serve_waiting(self) -> None:
        while self._waiting and len(self._first) + len(self._served) < MAX_SERVED:
            connection, _ = self._waiting.popitem()
            self._first[connection] = None
            self._begin_turn()

    def _begin_turn(self) -> None:
        if self._turning is None:
            self._turning = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Work on some pieces, after a pause that is longer the more the last ones took."""
        self._turning = None
        now_s, fed, self._fed = monotonic(), self._fed, []
        if fed and not all(connection.is_admitted for connection in fed):
            spent_s = min(now_s - self._fed_s, MAX_TURN_S)
            self._turning = self._loop.call_later(PAUSE_FACTOR * spent_s, self._turn)
            return
        self._fed_s = now_s
        while (connection := self._next()) is not None:
            if connection.has_work:
                self._fed.append(connection)
                connection.feed()
            if monotonic() - now_s >= TURN_S:
                break
        self._further.update((connection, None) for connection in self._fed if connection.has_work)
        if self._fed or self._first or self._further:
            self._turning = self._loop.call_soon(self._turn)  # behind the tasks that `feed` woke

    def _next(self) -> "IncomingConnection | None":
        if self._first:
            connection, _ = self._first.popitem()
            self._served[connection] = monotonic()
            return connection
        return self._further.popitem(last=False)[0] if self._further else None

    def _look(self) -> None:
        """Close connections of which nothing comes, and those that others wait for."""
        self._looking = self._loop.call_later(LOOK_S, self._look) if self._open else None
        silent_s = monotonic() - SILENT_S
        while self._silent and next(iter(self._silent.values())) < silent_s:
            next(iter(self._silent)).abort()
        for _ in range(len(self._waiting)):
            if not self._close_oldest(self._served):
                break
        lingering_s = monotonic() - LINGER_S
        for connection in [each for each, since_s in self._served.items() if since_s < lingering_s]:
            connection.abort_where_closed()

    def _make_room(self) -> bool:
        """Close the oldest connection that is not admitted, where it had its time."""
        return self._close_oldest(self._served) or self._close_oldest(self._silent)

    def _close_oldest(self, connections: "dict[IncomingConnection, float]") -> bool:
        oldest, since_s = next(iter(connections.items()), (None, 0.0))
        if oldest is None or monotonic() - since_s < self._patience_s:
            return False
        self._close(oldest)
        return True

    def _close(self, connection: "IncomingConnection") -> None:
        self._limits.not_admitted(connection.peer)
        connection.abort()


class IncomingConnection(asyncio.BufferedProtocol):
    """One connection: it reads, and hands on what came to what serves it."""

    __slots__ = (
        "_connections", "_counted_s", "_held", "_is_unread", "_n_bytes", "_served", "_shaking", "_transport", "is_admitted", "is_open", "peer",
    )  # fmt: skip

    def __init__(self, connections: IncomingConnections) -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._served: Served | None = None
        self._held = b""
        """What came and was not handed on yet."""
        self._n_bytes = 0
        """What came of late, while it was not admitted."""
        self._counted_s = 0.0
        """Since when."""
        self._is_unread = False
        """Its client does not read what is written."""
        self._shaking: asyncio.Task[None] | None = None
        """Of the TLS handshake; None before it, and without TLS."""
        self.is_admitted = self.is_open = False
        self.peer: str | None = None

    # ---- asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport)
        self.is_open = True
        if self._connections.opened(self) and self._connections.tls is not None:
            self._pause_reading()  # uvloop begins to read all the same
            self._connections.came(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer = self._connections.buffer
        return buffer if self.is_admitted else buffer[: max(1, self._room_bytes)]

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._connections.buffer[:nbytes])
        if self._shaking is None and self._connections.tls is not None:
            self._held += data
            self._pause_reading()
            return
        if self.is_admitted and self._served is not None and not self._held:
            self._served.data_received(data)
            return
        is_first = not self._held
        self._held += data
        if self._is_shaking or self._transport is None:
            return
        if self._is_too_much(nbytes):
            self._connections.sent_too_much(self)
            self._transport.close()
            return
        if self._room_bytes <= 0:  # until then it is read: only so the end of it is noticed
            self._pause_reading()
        if is_first and not self._is_unread:
            self._connections.came(self)

    @property
    def _room_bytes(self) -> int:
        """For what comes and is not handed on yet."""
        return (AHEAD_BYTES if self.is_begun else PIECE_BYTES) - len(self._held)

    def _is_too_much(self, n_bytes: int) -> bool:
        """Whether it sent more than it may with *n_bytes* more."""
        now_s = monotonic()
        if now_s - self._counted_s > COUNTED_S:
            self._counted_s, self._n_bytes = now_s, 0
        self._n_bytes += n_bytes
        return self._n_bytes > MAX_BYTES

    def eof_received(self) -> bool | None:
        return None if self._served is None else self._served.eof_received()

    def pause_writing(self) -> None:
        self._is_unread = True
        if self._served is not None:
            self._served.pause_writing()

    def resume_writing(self) -> None:
        self._is_unread = False
        if self._served is not None:
            self._served.resume_writing()
        if self._held and self.is_admitted:
            self.feed()
        elif self._held:
            self._connections.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open, self._held = False, b""
        self._connections.closed(self)
        served, self._served = self._served, None
        if served is not None:
            served.connection_lost(exc)
            served.incoming = None

    # ---- called by its listener

    @property
    def is_begun(self) -> bool:
        """Whether it is served."""
        return self._served is not None

    @property
    def has_work(self) -> bool:
        """Whether `feed` has something to do."""
        if not self.is_open or self._is_unread or self._transport is None or self._transport.is_closing():
            return False
        if self._connections.tls is not None and self._shaking is None:
            return True
        return bool(self._held) and not self._is_shaking  # what serves it would write beside TLS

    def feed(self) -> None:
        """Hand on what came; begin what it needs first."""
        transport, tls = self._transport, self._connections.tls
        if transport is None:
            return
        if tls is not None and self._shaking is None:
            self._pause_reading()
            self._shaking = asyncio.get_running_loop().create_task(self._shake_hands(tls))
            return
        if self._served is None:
            self._served = self._connections.serve()
            self._served.incoming = self
            self._served.connection_made(transport)
        n_bytes = len(self._held) if self.is_admitted else PIECE_BYTES
        piece, self._held = self._held[:n_bytes], self._held[n_bytes:]
        transport.resume_reading()  # what serves it may pause it again
        self._served.data_received(piece)

    def refuse(self, answer: bytes) -> None:
        """Close it with *answer*, unread."""
        if self._transport is not None:
            if answer and self._connections.tls is None:
                self._transport.write(answer)
            self._transport.close()

    def abort_where_closed(self) -> None:
        """Do not wait longer for its client to read what is left."""
        if self._transport is not None and self._transport.is_closing():
            self.abort()

    def abort(self) -> None:
        self._connections.closed(self)
        if self._shaking is not None:
            self._shaking.cancel()
        if self._transport is not None:
            self._transport.abort()

    # ---- called by what serves it

    def admitted(self) -> None:
        """A request of it was admitted."""
        if self.is_open and not self.is_admitted:
            self.is_admitted = True
            self._connections.admitted(self)
            if self.has_work:
                self.feed()

    def rejected(self) -> None:
        """A request of it showed no key that is accepted."""
        if self.is_admitted:
            self.is_admitted = False
            self._connections.rejected(self)

    # ---- TLS

    @property
    def _is_shaking(self) -> bool:
        return self._shaking is not None and not self._shaking.done()

    async def _shake_hands(self, tls: ssl.SSLContext) -> None:
        loop, plain = asyncio.get_running_loop(), cast("asyncio.Transport", self._transport)
        came, self._held = self._held, b""
        handshake: asyncio.Task[Any] = loop.create_task(
            loop.start_tls(plain, self, tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_S)
        )
        if came:  # given when TLS has begun, which takes the task above two turns of the loop
            loop.call_soon(loop.call_soon, self._begin_handshake, plain, came)
        try:
            self._transport = await handshake
        except (OSError, asyncio.CancelledError):  # ssl.SSLError and a timeout are OSErrors
            with suppress(RuntimeError):  # it is closed
                plain.abort()
            self._connections.closed(self)
            return
        loop.call_soon(self._shaken)

    def _begin_handshake(self, plain: asyncio.Transport, came: bytes) -> None:
        """Give what *came* before TLS began to what does TLS now."""
        protocol: Any = plain.get_protocol()
        if protocol is not self and not plain.is_closing():
            protocol.get_buffer(len(came))[: len(came)] = came
            protocol.buffer_updated(len(came))

    def _shaken(self) -> None:
        if self._held and self.is_open:
            self._pause_reading()
            self._connections.came(self)

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()
