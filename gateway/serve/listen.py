"""Binds a server to an address of the configuration, and returns the address that it got."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from gateway.common import unix_socket
from gateway.common.contract.errors import not_bound
from gateway.common.http.connection_limits import OperatorLimits
from gateway.common.http.http_server import QuietRunner, QuietServer, Runner, TcpSite, UnixSocketSite
from gateway.common.http.incoming import ConnectionLimits
from gateway.config.values import Address, TcpAddress, UnixAddress
from gateway.serve.ready_response import SERVER
from gateway.serve.responses import json_error

OWNER_ONLY: Final = 0o600
OWNER_AND_GROUP: Final = 0o660
"""Rights to a Unix socket: the right to write is the right to connect."""
SHUTDOWN_S = 10.0
"""How long requests that are under way may still take when the gateway stops."""


def runner_for(served: QuietServer | web.Application) -> Runner:
    """Without access log: one line for each request would cost more than the request."""
    if isinstance(served, web.Application):
        return QuietRunner(served, malformed, shutdown_timeout=SHUTDOWN_S, auto_decompress=False)
    return Runner(served, shutdown_timeout=SHUTDOWN_S)


def malformed(request: web.BaseRequest, status: int) -> web.Response:
    """What the HTTP parser refused."""
    body = json_error("the HTTP request is malformed or its headers are too large", "bad_request")
    return web.Response(status=status, body=body, headers={"Content-Type": "application/json", "Server": SERVER})


class Closing:
    """What closes the listeners: all at once, so that none takes requests while another one waits
    for those that are under way.
    """

    def __init__(self) -> None:
        self._closes: list[Callable[[], Awaitable[None]]] = []

    def add(self, close: Callable[[], Awaitable[None]]) -> None:
        self._closes.append(close)

    async def close(self) -> None:
        """Return when each is closed; then raise what the first one raised."""
        found = await asyncio.gather(*(close() for close in self._closes), return_exceptions=True)
        for fault in found:
            if fault is not None:
                raise fault


class Listener:
    """A bound server; `close` lets running requests end."""

    def __init__(self, runner: Runner, address: TcpAddress | UnixAddress) -> None:
        self._runner = runner
        self.address = address
        """With the port that was really bound."""
        self._file = unix_socket.id_of(address.path) if isinstance(address, UnixAddress) else None

    async def close(self) -> None:
        if isinstance(self.address, UnixAddress) and self._file is not None:
            unix_socket.remove(self.address.path, self._file)
        await self._runner.cleanup()


async def listen(
    runner: Runner,
    address: Address,
    limits: ConnectionLimits | None = None,
    *,
    option: str = "listen",
    socket_mode: int = OWNER_ONLY,
    tls: ssl.SSLContext | None = None,
) -> Listener | None:
    """Set *runner* up and bind it; None when the address is off. Raises
    CannotStart, which names *option*.

    *limits*: of its connections; None is those of a listener for operators. *socket_mode*: the
    rights to a Unix socket, whatever the umask is.
    """
    if address is None:
        return None
    limits = limits or OperatorLimits(option)
    try:
        await runner.setup()
        match address:
            case UnixAddress(path):
                await UnixSocketSite(runner, bound_unix(path, socket_mode), limits, tls).start()
                return Listener(runner, UnixAddress(path))
            case TcpAddress(host, port):
                await TcpSite(runner, host, port, limits, tls).start()
                return Listener(runner, TcpAddress(host, bound_port(runner)))
    except OSError as error:
        await runner.cleanup()
        raise not_bound(option, address, error) from error


async def bind(
    closing: Closing,
    option: str,
    served: QuietServer | web.Application,
    address: Address,
    limits: ConnectionLimits | None,
    socket_mode: int,
    tls: ssl.SSLContext | None = None,
) -> Address:
    """Serve at *address* until *closing* ends it; what was really bound, None when it is off.

    Raises CannotStart.
    """
    runner = runner_for(served)
    listener = await listen(runner, address, limits, option=option, socket_mode=socket_mode, tls=tls)
    if listener is None:
        return None
    closing.add(listener.close)
    return listener.address


def bound_unix(path: Path, mode: int) -> socket.socket:
    """A socket file that a killed process left behind is replaced; anything
    else at that path is left alone. Raises OSError.

    No one can connect before the file has its rights: that begins with listening.
    """
    unix_socket.clear(path)
    bound = unix_socket.new()
    try:
        bound.bind(str(path))
        path.chmod(mode)
    except BaseException:
        bound.close()
        raise
    return bound


def bound_port(runner: Runner) -> int:
    """The port of the runner's first socket."""
    port: int = runner.addresses[0][1]
    return port
