"""The description of the gateway: its senders' port and its admin port.

Served at `/openapi.json` of the admin port.
"""

from functools import cache

import orjson

from gateway.common.lists.conventions import BoundedPagination
from gateway.common.lists.openapi.document import (
    Json,
    document,
    model_schemas,
    read_folder,
    with_answers_to_bodies,
    written_out,
)
from gateway.common.lists.openapi.lists import ENVELOPE
from gateway.common.lists.openapi.record import shared_schemas
from gateway.common.lists.openapi.types import component_schemas
from gateway.operate import budgets, insights
from gateway.operate.keys import OpenSenderJson
from gateway.operate.openapi.operations import answer_schemas, operation_paths
from gateway.operate.openapi.senders_port import senders_part
from gateway.operate.openapi.site import site_paths
from gateway.operate.registry import OPERATIONS
from gateway.operate.site.registry import ACTIONS, VIEWS

TEXT = """The senders' port and the admin port.

Senders (default port 4318) present an inbound key with the scope that the operation names. While no key
was ever created, a gateway on loopback needs none (except to read insights, unit-cost streams and the
state of a budget, and to delete a stream, which always need a key). `http.base_path` precedes their paths. Data of a request that is answered 2xx is on disk. A request
to an unknown path, or one that is no valid HTTP, is answered with OTLP's `RpcStatus`.

The admin port (default 4319) needs the admin token, or a session opened with it; the viewer's token
reads, but no keys. `x-open` marks an operation that needs neither: `everywhere`, or on `loopback`.

Every GET, on either port, is answered to HEAD too: the same status and headers, without the body."""

SENDERS = [{"url": "http://127.0.0.1:4318", "description": "Senders; `listen.http`."}]
ADMIN = [{"url": "http://127.0.0.1:4319", "description": "Operators; `listen.admin`."}]

SENDERS_WAYS = ("key", "bearer", "basic", "xApiKey", "apiKey")
ADMIN_WAYS = ("adminToken", "session")
BODY_ANSWERS: Json = {
    "415": {"$ref": "#/components/responses/AdminMedia"},
    "503": {"$ref": "#/components/responses/AdminUnavailable"},
}
"""Of the admin port, to a body that cannot be decompressed, or does not arrive in time."""


@cache
def gateway_document() -> Json:
    """The OpenAPI 3.1 document of both listeners, as plain JSON types."""
    senders = senders_part()
    admin = read_folder("gateway.operate.openapi", "admin")
    admin["paths"] |= operation_paths(OPERATIONS) | site_paths(VIEWS, ACTIONS)
    # Served to keys on the senders' port too: `gateway.serve.http.forwarded`.
    for shared in (insights.LIST, budgets.STATE):
        admin["paths"][shared.path]["get"]["servers"] = [*ADMIN, *SENDERS]
    admin["components"]["schemas"] |= model_schemas(each.body for each in OPERATIONS if each.body is not None)
    admin["components"]["schemas"] |= answer_schemas(OPERATIONS) | component_schemas(
        [OpenSenderJson, *ENVELOPE, BoundedPagination]
    )
    parts = [
        shared_schemas(),
        written_out(senders, senders_security, SENDERS),
        written_out(with_answers_to_bodies(admin, BODY_ANSWERS), admin_security, ADMIN),
    ]
    return document("AI telemetry gateway", TEXT, parts)


@cache
def gateway_openapi() -> bytes:
    """The document as JSON."""
    return orjson.dumps(gateway_document())


def senders_security(operation: Json) -> list[dict[str, list[str]]]:
    if "x-open" in operation:
        return []
    further = operation.pop("x-ways-in", ())
    return [{way: [operation["x-scope"]]} for way in (*SENDERS_WAYS, *further)]


def admin_security(operation: Json) -> list[dict[str, list[str]]]:
    """Empty where no credential is needed; `{}` first where that holds on
    loopback; a scope adds inbound keys.
    """
    ways: list[dict[str, list[str]]] = [{way: []} for way in ADMIN_WAYS]
    if "x-scope" in operation:
        return [*ways, *({way: [operation["x-scope"]]} for way in SENDERS_WAYS)]
    match operation.get("x-open"):
        case "everywhere":
            return []
        case "loopback":
            return [{}, *ways]
        case _:
            return ways
