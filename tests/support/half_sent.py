"""Requests of which a server has the head and half of the body: something changes, then the rest
is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

LONGEST_S: Final = 20.0
AT_ONCE: Final = 32
"""Fewer than a listener serves of connections on which it admitted no request yet."""


class HalfSent:
    """Make with `begin`. The server admitted its head: it invited the client to send the body."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = rest

    @classmethod
    async def begin(
        cls, port: int, method: str, path: str, headers: Mapping[str, str], body: bytes = b"{}"
    ) -> "HalfSent":
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sent = {
            "Host": f"127.0.0.1:{port}",
            "Content-Length": str(len(body)),
            "Expect": "100-continue",
            "Connection": "close",
            **headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode())
        status = await _status(reader)
        assert status == 100, f"{method} {path} is answered {status} without its body"
        assert await reader.readline() == b"\r\n"
        half = max(1, len(body) // 2)
        writer.write(body[:half])
        await writer.drain()
        return cls(reader, writer, body[half:])

    async def finish(self) -> int:
        """Send the rest; the answer's status."""
        self._writer.write(self._rest)
        try:
            async with asyncio.timeout(LONGEST_S):
                return await _status(self._reader)
        finally:
            self._writer.close()

    async def answer(self) -> tuple[int, bytes]:
        """What the server answers while the rest is not sent, up to the connection's end."""
        try:
            async with asyncio.timeout(LONGEST_S):
                return await _status(self._reader), await self._reader.read()
        finally:
            self._writer.close()


async def begin_all(begin: Sequence[Callable[[], Awaitable[HalfSent]]]) -> list[HalfSent]:
    """Each, `AT_ONCE` at a time."""
    begun: list[HalfSent] = []
    for first in range(0, len(begin), AT_ONCE):
        begun += await asyncio.gather(*(each() for each in begin[first : first + AT_ONCE]))
    return begun


async def _status(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(LONGEST_S):
        line = await reader.readline()
    return int(line.split()[1])


class Untouched:
    """Stands for any part of the gateway behind a server: notes what is asked of it, and fails."""

    def __init__(self, **known: object) -> None:
        """*known*: attributes that may be read."""
        self.__dict__.update(known)
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def fail(*_: object, **__: object) -> None:
            self.asked.append(name)
            raise RuntimeError(name)

        return fail
