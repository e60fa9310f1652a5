"""`Expect: 100-continue`: a client that sends its body only after it was invited."""

from aiohttp import web


def invite(request: web.BaseRequest) -> None:
    """Invite the client to send the body. Call it after every check that needs the head alone."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def invited_by_reader(_: web.Request) -> None:
    """`expect_handler` of aiohttp's routes, whose default invites before any check."""
