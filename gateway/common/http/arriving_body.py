"""The body of a request while it arrives: the invitation of a client that waits for one
(`Expect: 100-continue`), the next bytes, and a client that leaves.
"""

from aiohttp import web


def invite(request: web.BaseRequest) -> None:
    """Invite the client to send the body. Call it after every check that needs the head alone."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def invited_by_reader(_: web.Request) -> None:
    """`expect_handler` of aiohttp's routes, whose default invites before any check."""


async def next_bytes(request: web.BaseRequest) -> bytes:
    """What arrived; empty at the end of the body.

    Raises ConnectionError when the client left, RequestPayloadError for a body in chunks of few
    bytes, of which the connection reads no more.
    """
    try:
        data = await request.content.readany()
    except RuntimeError:  # aiohttp's, where the connection was closed before anyone read
        if has_left(request):
            raise ConnectionResetError("the client left") from None
        raise
    if getattr(getattr(request.protocol, "connection", None), "has_small_chunks", False):
        raise web.RequestPayloadError("its chunks are too small")
    return data


def has_left(request: web.BaseRequest) -> bool:
    """Whether the client closed the connection. That is no fault, and no one reads an answer."""
    return request.transport is None or request.transport.is_closing()
