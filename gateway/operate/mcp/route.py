"""The route of MCP on the admin listener. The SDK is imported only where MCP is on."""

from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final

from aiohttp import web

from gateway.common.contract.errors import CannotStart
from gateway.common.contract.scopes import MCP_SCOPE
from gateway.operate.mcp.tools import tools_of
from gateway.operate.openapi.document import gateway_document
from gateway.operate.operation import AnyOperation
from gateway.operate.pages import PageRoute
from gateway.operate.parts import AdminParts
from gateway.operate.role import Role

ANSWER: Final = web.AppKey[Callable[[web.Request], Awaitable[web.StreamResponse]]]("mcp")


async def mcp(request: web.Request) -> web.StreamResponse:
    return await request.app[ANSWER](request)


async def no_stream(request: web.Request) -> web.StreamResponse:
    """Answer 405: no stream of the server's own messages (GET), no session to end (DELETE). Clients
    go on without them; after a 401 they would look for OAuth.
    """
    raise web.HTTPMethodNotAllowed(request.method, ("POST",))


PATH: Final = "/mcp"
MCP_ROUTES: Final = (
    PageRoute("POST", PATH, mcp, Role.VIEWER, scope=MCP_SCOPE, honours_limits=True),
    PageRoute("GET", PATH, no_stream, Role.VIEWER, scope=MCP_SCOPE),
    PageRoute("DELETE", PATH, no_stream, Role.VIEWER, scope=MCP_SCOPE),
)


def refuse_without_sdk() -> None:
    """Raise CannotStart where the MCP SDK is not installed."""
    if find_spec("mcp") is None:
        raise CannotStart("mcp: on needs the MCP SDK: pip install 'ai-telemetry-gateway[mcp]'")


def add_mcp(app: web.Application, parts: AdminParts, served: Sequence[tuple[AnyOperation, Any]]) -> None:
    """Serve *served* as tools. Raises CannotStart where the SDK is not installed."""
    refuse_without_sdk()
    from gateway.operate.mcp.server import McpEndpoint  # noqa: PLC0415 - 30 MiB that are spared where it is off

    endpoint = McpEndpoint(lambda: tools_of(served, gateway_document()), parts.note_unforeseen)
    app.cleanup_ctx.append(endpoint.running)
    app[ANSWER] = endpoint.answer
