"""Binds the gRPC listener, with the standard health service and reflection; stops it in order."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Final

from gateway.common import unix_socket
from gateway.common.contract.errors import not_bound
from gateway.common.http.incoming import BACKLOG, IncomingConnections
from gateway.common.tls import ServerTls
from gateway.config.values import Address, TcpAddress, UnixAddress
from gateway.serve.grpc.connection import GrpcConnection
from gateway.serve.grpc.export import SERVICES, Exports
from gateway.serve.grpc.health import SERVICE as HEALTH_SERVICE
from gateway.serve.grpc.health import Health
from gateway.serve.grpc.reflection import SERVICES as REFLECTION_SERVICES
from gateway.serve.grpc.reflection import Reflection
from gateway.serve.grpc.streams import Begin
from gateway.serve.listen import OWNER_AND_GROUP, SHUTDOWN_S, Closing, bound_unix
from gateway.serve.receiver import Receiver

OPTION: Final = "listen.grpc"
APPEND_S: Final = 2.0
"""How long what calls left to be appended may still take, once the last one has ended."""


class GrpcServer:
    """`gateway.serve.grpc.connection.Server`."""

    def __init__(self, receiver: Receiver, exports: Exports, *, reads_subjects: bool = False) -> None:
        """*reads_subjects*: the certificate of a client may stand for a key."""
        self.receiver = receiver
        self._exports = exports
        self._health = Health(SERVICES.values())
        described = Reflection((*SERVICES.values(), HEALTH_SERVICE, *REFLECTION_SERVICES))
        self.reads_subjects = reads_subjects
        self.routes: Mapping[str, Begin] = {
            **exports.routes,
            **self._health.routes,
            **described.routes,
        }
        self._connections: dict[GrpcConnection, None] = {}
        self._none_left = asyncio.Event()

    def opened(self, connection: GrpcConnection) -> None:
        self._connections[connection] = None

    def closed(self, connection: GrpcConnection) -> None:
        del self._connections[connection]
        if not self._connections:
            self._none_left.set()

    def refused(self, reason: str, peer: str | None) -> None:
        self.receiver.refused_unread(HTTPStatus.BAD_REQUEST, reason, peer)

    def for_http(self, peer: str | None) -> str:
        return self.receiver.for_http(peer)

    async def stop(self) -> None:
        """Take no more calls, and answer those that are under way."""
        self._health.stop()
        self._none_left.clear()
        for connection in list(self._connections):
            connection.stop()
        if self._connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(SHUTDOWN_S):
                    await self._none_left.wait()
        for connection in list(self._connections):
            connection.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(APPEND_S):
                await self._exports.wait_until_taken()


async def bind_grpc(closing: Closing, server: GrpcServer, address: Address, tls: ServerTls | None = None) -> Address:
    """Serve at *address* until *closing* ends it; what was really bound, None when it is off.

    Raises CannotStart.
    """
    if address is None:
        return None
    connections = IncomingConnections(
        partial(GrpcConnection, server), server.receiver, tls=None if tls is None else tls.context
    )
    loop = asyncio.get_running_loop()
    try:
        if isinstance(address, UnixAddress):
            listening: asyncio.Server = await loop.create_unix_server(
                connections, sock=bound_unix(address.path, OWNER_AND_GROUP), backlog=BACKLOG
            )
            bound: TcpAddress | UnixAddress = address
        else:
            listening = await loop.create_server(connections, address.host, address.port, backlog=BACKLOG)
            bound = TcpAddress(address.host, listening.sockets[0].getsockname()[1])
    except OSError as error:
        raise not_bound(OPTION, address, error) from error
    file = unix_socket.id_of(bound.path) if isinstance(bound, UnixAddress) else None
    closing.add(partial(stop, listening, connections, server, bound, file))
    return bound


async def stop(
    listening: asyncio.Server,
    connections: IncomingConnections,
    server: GrpcServer,
    bound: TcpAddress | UnixAddress,
    file: unix_socket.FileId | None,
) -> None:
    """*file*: of a Unix socket."""
    if isinstance(bound, UnixAddress) and file is not None:
        unix_socket.remove(bound.path, file)
    listening.close()
    connections.close()
    await server.stop()
