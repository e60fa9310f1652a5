"""One call on a connection: what came with its headers, and the way back to its client."""

from collections.abc import Iterable
from typing import Protocol

from multidict import CIMultiDict

from gateway.serve.grpc.wire import Fields, framed, status_fields

RESPONSE_HEADERS: Fields = [
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity, gzip"),
]


class Handler(Protocol):
    """What serves one call. None of its methods raises."""

    def received(self, data: bytes) -> None:
        """Further bytes of the request's messages came."""

    def ended(self) -> None:
        """The client has sent everything."""

    def gone(self) -> None:
        """The client, its connection or its deadline ended the call: no one waits for an answer."""


class Channel(Protocol):
    """The connection, as far as a call needs it."""

    def send(self, call: "GrpcCall") -> None:
        """Send what *call* has to send, as far as its client takes it; the rest later."""

    def admitted(self) -> None:
        """A call of this connection was admitted."""

    def rejected(self) -> None:
        """A call of this connection showed no key that is accepted."""


class GrpcCall:
    """`gateway.serve.admission.Request` of gRPC."""

    __slots__ = (
        "content_length",
        "has_headers",
        "headers",
        "is_admitted",
        "is_half_closed",
        "is_over",
        "path",
        "protocol",
        "remote",
        "stream_id",
        "subject",
        "trailers",
        "unsent",
    )

    def __init__(
        self,
        stream_id: int,
        path: str,
        headers: CIMultiDict[str],
        remote: str | None,
        subject: str | None,
        protocol: Channel,
    ) -> None:
        self.stream_id = stream_id
        self.path = path
        self.headers = headers
        self.remote = remote
        """Address without port; None on a Unix socket."""
        self.subject = subject
        """The name in the certificate of its client; None where it showed none."""
        self.content_length: int | None = None
        """Nothing announces it."""
        self.protocol = protocol
        self.is_admitted = False
        """It showed a key that is accepted, or none is needed."""
        self.is_half_closed = False
        """The client has sent everything."""
        self.is_over = False
        """It was answered, or no one waits for an answer."""
        self.has_headers = False
        """Those of the answer were sent."""
        self.unsent = bytearray()
        """Messages that the client does not take yet."""
        self.trailers: Fields | None = None
        """They follow what is unsent."""

    def answer(self, message: bytes) -> None:
        """Send *message*; further ones, or `end`, may follow."""
        if self.trailers is None and not self.is_over:
            self.unsent += framed(message)
            self.protocol.send(self)

    def end(
        self,
        code: int = 0,
        text: str = "",
        details: Iterable[tuple[bytes, bytes]] = (),
        last: bytes | None = None,
    ) -> None:
        """End the call with a status, and *last* as the message before it. A call that has ended
        stays as it is.
        """
        if self.trailers is None and not self.is_over:
            if last is not None:
                self.unsent += framed(last)
            self.trailers = status_fields(code, text, details)
            self.protocol.send(self)
