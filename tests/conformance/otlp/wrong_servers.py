"""Servers that are wrong on purpose: each line of the checklist fails with one of them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

MISCOUNTED = b"\n\x02\x08\x63"
"""A response whose partial success has 99 rejected items."""
SET_AND_EMPTY = b'{"partialSuccess": {}}'
YES = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: br\r\nAccess-Control-Allow-Origin: *\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(SET_AND_EMPTY), SET_AND_EMPTY)
)
NO = b"HTTP/1.1 408 No\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno"
"""Whatever is asked; the connection closes behind it without a word."""


class WrongHttp:
    """Gives one answer to everything; `/v2/status` counts up by seven; what it is posted it posts
    on three times at once, each on a connection of its own.
    """

    def __init__(self, answer: bytes, forward_to: tuple[str, int] | None) -> None:
        self._answer = answer
        self._forward_to = forward_to
        self._kept: Iterator[int] = count(0, 7)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/v2/status" in head:
            body = b'{"edge":{"kept":%d}}' % next(self._kept)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        else:
            if self._forward_to is not None:
                await asyncio.gather(*(self._forward(self._forward_to) for _ in range(3)))
            writer.write(self._answer)
        writer.close()

    async def _forward(self, address: tuple[str, int]) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # no one listens until B70
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
            await reader.readuntil(b"\r\n\r\n")
            writer.close()


@asynccontextmanager
async def wrong_http(answer: bytes, forward_to: tuple[str, int] | None = None) -> AsyncIterator[str]:
    """Its base URL."""
    server = await asyncio.start_server(WrongHttp(answer, forward_to).serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def wrong_grpc(code: str) -> AsyncIterator[str]:
    """The address of a server that ends every call of any method with *code*; with OK it
    rejects 99 items without a word.
    """
    import grpc  # noqa: PLC0415
    import grpc.aio  # noqa: PLC0415

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(answered)

    async def answered(request: bytes, context: Any) -> bytes:
        if code != "OK":
            await context.abort(grpc.StatusCode[code], "no")
        return MISCOUNTED

    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
