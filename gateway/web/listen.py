"""Binds a server to an address of the configuration, and says what it became."""

from aiohttp import web

from gateway.config_values import Address, TcpAddress, UnixAddress
from gateway.quiet_http import QuietRunner
from gateway.web.answers import json_error
from gateway.web.ready import SERVER

SHUTDOWN_S = 10.0
"""How long requests that are under way may still take when the gateway stops."""


def runner_for(served: web.Server | web.Application) -> web.BaseRunner:
    """Without access log: one line for each request would cost more than the request."""
    if isinstance(served, web.Application):
        return QuietRunner(served, malformed, shutdown_timeout=SHUTDOWN_S)
    return web.ServerRunner(served, shutdown_timeout=SHUTDOWN_S)


def malformed(request: web.BaseRequest, status: int) -> web.Response:
    """What the HTTP parser refused."""
    body = json_error("the HTTP request is malformed or its headers are too large", "bad_request")
    return web.Response(status=status, body=body, headers={"Content-Type": "application/json", "Server": SERVER})


class Listener:
    """A bound server; `close` lets running requests end."""

    def __init__(self, runner: web.BaseRunner, address: TcpAddress | UnixAddress) -> None:
        self._runner = runner
        self.address = address
        """With the port that was really bound."""

    async def close(self) -> None:
        await self._runner.cleanup()
        if isinstance(self.address, UnixAddress):
            self.address.path.unlink(missing_ok=True)


async def listen(runner: web.BaseRunner, address: Address) -> Listener | None:
    """Set *runner* up and bind it; None when the address is off. Raises OSError when it cannot be bound."""
    if address is None:
        return None
    await runner.setup()
    try:
        match address:
            case UnixAddress(path):
                await bind_unix(runner, address)
                return Listener(runner, UnixAddress(path))
            case TcpAddress(host, port):
                await web.TCPSite(runner, host, port, backlog=1024).start()
                return Listener(runner, TcpAddress(host, bound_port(runner)))
    except OSError:
        await runner.cleanup()
        raise


async def bind_unix(runner: web.BaseRunner, address: UnixAddress) -> None:
    """A socket file that a killed process left behind is replaced; anything else at that path is left alone."""
    if address.path.is_socket():
        address.path.unlink()
    await web.UnixSite(runner, str(address.path), backlog=1024).start()


def bound_port(runner: web.BaseRunner) -> int:
    """The port of the runner's first socket."""
    port: int = runner.addresses[0][1]
    return port
