"""A gateway of a cell whose wall clock is stepped, whose network is cut, and which is replaced by
one of another release.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.processes import Process
from tests.support.gateway_process import GatewayProcess
from tests.support.tcp_proxy import TcpProxy
from tests.support.wrong_clock import WrongClock


class Release(NamedTuple):
    """Another one than that of these tests."""

    checkout: Path
    python: Path


class Network:
    """Between one gateway and the servers of *dsn*, which are on loopback. In the test's own
    loop.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        ports = str(conninfo_to_dict(dsn)["port"]).split(",")
        self._proxies = [TcpProxy(lambda port=int(port): port) for port in ports]  # type: ignore[misc]  # the default binds the round's port
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for proxy in self._proxies:
            await self._open.enter_async_context(proxy)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    @property
    def dsn(self) -> str:
        """Through it."""
        return make_conninfo(self._dsn, port=",".join(str(proxy.port) for proxy in self._proxies))

    async def cut(self, seconds: float) -> None:
        """Connections are reset, and new ones refused."""
        await asyncio.gather(*(proxy.cut() for proxy in self._proxies))
        await self._mend_after(seconds)

    async def swallow(self, seconds: float) -> None:
        """Nothing passes, and no end sees an error."""
        for proxy in self._proxies:
            proxy.hang()
        await self._mend_after(seconds)

    async def _mend_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        for proxy in self._proxies:
            proxy.mend()


class TorturedGateway(GatewayProcess):
    def __init__(
        self, folder: Path, network: Network, other: Release | None, config: Mapping[str, object], settle: str
    ) -> None:
        """*other*: the release that `is_other` chooses."""
        self.clock, self.network, self._other = WrongClock(folder), network, other
        self.is_other = False
        super().__init__(folder, settle=settle, config=config, environ=self.clock.environ)

    def spawn(self) -> Process:
        """Of the other release with a clock that is right: one before the clock of the cell goes by
        its own.
        """
        if self._other is None or not self.is_other:
            return super().spawn()
        environ = {name: value for name, value in self.env.items() if name not in self.clock.environ}
        checkout, python = self._other
        return Process(["env", "-C", str(checkout), str(python), "-m", *self._module()], log=self.log, env=environ)
