"""docs/scopes.md from the code: `python -m tests.support.scopes_table` writes it again.

Which route has which scope is read from the two OpenAPI documents, which tests hold to the routes.
"""

import re
from collections.abc import Collection, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from gateway.common.contract.scopes import CATALOGUE, Scope
from gateway.common.lists.openapi.document import operations
from gateway.local_service.openapi.document import service_document
from gateway.operate.openapi.document import gateway_document
from gateway.products.catalogue import SOURCES

PAGE = Path(__file__).parents[2] / "docs" / "scopes.md"
TEXT = """# Scopes

This page lists every scope of the catalogue and what it allows here. At the gateway that is for an
inbound key, on the senders' port and the admin port. The admin token needs no scope. *Opens nothing*
means: a key can have the scope, but no path there needs it. `keys scopes` and the page's form of a key
mark such scopes for the gateway. The gateway's own keys to the upstream:
[configuration.md](configuration.md#keys-to-the-service).

Paths of AI gateways are listed as `/v1/sources/…`. The few paths that clients choose themselves
([formats.md](formats.md)) need the same scope. A GET takes HEAD too. No scope includes another one. A
fixed key has the scopes that it lists. A managed key has the current scopes of its use cases. A first
heartbeat enrols its device only if the key also has `ai-control-plane:enroll-device`. A ping enrols no
device ([devices.md](devices.md#what-enrols)).
"""
NAMES = """
## What else is a name

These statements of the published interface have no effect here. All others have a test each
(`tests/conformance/service_interface`).

| part | statement | here |
|---|---|---|
| 1 | manage cost-allocation namespaces and publish jobs | keys may have the scopes; definitions are [rules of the gateway](allocation.md) |
| 1 | upload container metrics from a cluster agent and manage cluster configuration | keys may have the scopes; the agent's check of its key is answered (`GET /v2/insights`) |
| 1 | manage roles and read permission sets | keys may have the scopes; who may change keys is [configured](keys.md#operators) |
| 1, 5.6 | savings recommendations with their comments | keys may have the scopes |
| 5 | ai-hub:mcp: a person's sign-in | the tools work under a key; those that write need their own scopes, too |
| 2.3, 4.3, 6, 7, 8, 9 | what the text calls "not shown" | chosen here: [lists.md](lists.md), [api.md](api.md) |
"""
NONE = "*opens nothing*"
NATIVE = {path for path in gateway_document()["paths"] if path.startswith("/api/")} | {
    path for source in SOURCES.values() for path in source.native_paths
}


def table() -> dict[str, tuple[list[str], list[str]]]:
    """Scope -> its routes at the gateway, and at the local service; `GET /v2/insights`."""
    of_gateway, of_service = routes_of(gateway_document(), NATIVE), routes_of(service_document())
    return {scope.name: (of_gateway.get(scope.name, []), of_service.get(scope.name, [])) for scope in CATALOGUE}


def routes_of(document: dict[str, Any], left_out: Collection[str] = ()) -> dict[str, list[str]]:
    """Scope -> its routes, by path."""
    found: dict[str, list[str]] = {}
    for method, path, operation in operations(document):
        if "x-scope" in operation and path not in left_out:
            shown = re.sub(r"^/v1/sources/.*", "/v1/sources/…", path)
            found.setdefault(operation["x-scope"], []).append(f"{method} {shown}")
    return {scope: sorted(set(routes), key=route_order) for scope, routes in found.items()}


def route_order(route: str) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    return path, method


def page() -> str:
    """The whole page."""
    routes = table()
    parts = [TEXT]
    for category, scopes in groupby(CATALOGUE, key=lambda scope: scope.category):
        parts.append(f"\n## {category}\n\n| scope | at the gateway | at the local service |\n|---|---|---|\n")
        parts += [row(scope, *routes[scope.name]) for scope in scopes]
    return "".join([*parts, NAMES])


def row(scope: Scope, of_gateway: list[str], of_service: list[str]) -> str:
    managed = "" if scope.use_case is None else f" (`{scope.use_case}`)"
    return f"| `{scope.name}`{managed} | {cell(of_gateway)} | {cell(of_service)} |\n"


def cell(routes: Iterable[str]) -> str:
    return "<br>".join(f"`{route}`" for route in routes) or NONE


if __name__ == "__main__":
    PAGE.write_text(page())
