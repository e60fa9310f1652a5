"""A stretch of network between two processes that a test can cut, let hang and remedy.

Loopback, in the test's own loop.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, Self

State = Literal["up", "cut", "hanging", "losing answers"]
_PIECE_BYTES = 64 * 1024


class TcpProxy:
    """Listens on a free port; connects each client to the port that *target* names at that
    moment.
    """

    def __init__(self, target: Callable[[], int | None]) -> None:
        self.state: State = "up"
        self.cuts = 0
        self.accepted = 0
        """Connections, since the start."""
        self._target = target
        self._up = asyncio.Event()
        self._up.set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def mend(self) -> None:
        """Everything passes again, also what hung."""
        self.state = "up"
        self._up.set()

    def hang(self) -> None:
        """Nothing passes any more, and no one is reported."""
        self.state = "hanging"
        self._up.clear()

    def lose_answers(self) -> None:
        """What is asked passes, what is answered is gone; `cut` it before it is fixed, for every
        connection lacks a piece by then.
        """
        self.state = "losing answers"

    async def cut(self) -> None:
        """Reset every connection, and refuse new ones until `remedy`."""
        self.state = "cut"
        self.cuts += 1
        self._up.set()
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        connection = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_writer: asyncio.StreamWriter | None = None
        try:
            port = self._target()
            if self.state == "cut" or port is None:
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            passing = [
                asyncio.create_task(self._pass_on(reader, far_writer, are_answers=False)),
                asyncio.create_task(self._pass_on(far_reader, writer, are_answers=True)),
            ]
            try:
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in passing:
                    task.cancel()
                await asyncio.gather(*passing, return_exceptions=True)
        except OSError:
            pass  # the upstream is down: so is the connection
        finally:
            for end in (writer, far_writer):
                if end is not None:
                    end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_answers: bool) -> None:
        with suppress(OSError):
            while piece := await reader.read(_PIECE_BYTES):
                await self._up.wait()
                if are_answers and self.state == "losing answers":
                    continue
                writer.write(piece)
                await writer.drain()
