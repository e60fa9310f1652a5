"""The description of the gateway: its senders' port and its admin port. Served at `/openapi.json` of the admin port."""

from functools import cache

import orjson

from gateway.admin.dead_letters import list_shape
from gateway.admin.devices import DEVICE_LIST
from gateway.admin.insight_routes import LIST_PATH
from gateway.admin.keys import INBOUND_PATH, SERVICE_PATH
from gateway.admin.openapi.sources import source_paths
from gateway.insights.finding import INSIGHT_LIST
from gateway.insights.listing import comments_list
from gateway.keys.listing import KEY_LIST
from gateway.lists.openapi.document import Json, document, read_folder, written_out
from gateway.sources.catalogue import SOURCES

TEXT = """What senders post, and what operators ask.

Senders (default port 4318) show an inbound key with the scope that an operation names. While no key was ever created, a gateway that
listens on loopback takes them without one (but for `GET /v2/insights`, which always needs a key). `http.base_path` stands before their paths. What is answered 2xx is on disk. A request that
no path takes is answered as OTLP has it (`RpcStatus`), also one that is no HTTP.

The admin port (default 4319) takes the admin token, or a session opened with it. `x-open` says what needs neither: `everywhere`, or on
`loopback`. Every GET is served as HEAD too."""

SENDERS = [{"url": "http://127.0.0.1:4318", "description": "Senders; `listen.http`."}]
ADMIN = [{"url": "http://127.0.0.1:4319", "description": "Operators; `listen.admin`."}]

SENDERS_WAYS = ("key", "bearer", "basic", "xApiKey", "apiKey")
ADMIN_WAYS = ("adminToken", "session")

SHAPES = {
    "insights": INSIGHT_LIST,
    "comments": comments_list("").shape,
    "keys": KEY_LIST,
    "dead_letters": list_shape([], []),
    "devices": DEVICE_LIST,
}


@cache
def gateway_document() -> Json:
    senders = read_folder("gateway.admin.openapi", "senders")
    answers = senders.pop("x-answers")
    senders["paths"] |= source_paths(tuple(SOURCES.values()), answers, senders["paths"])
    admin = read_folder("gateway.admin.openapi", "admin")
    admin["paths"] |= service_key_paths(admin["paths"])
    admin["paths"][LIST_PATH]["get"]["servers"] = [
        *ADMIN,
        *SENDERS,
    ]  # to a key also there: `gateway.receiver.forwarded`
    parts = [
        read_folder("gateway.lists.openapi", "schemas"),
        written_out(senders, senders_security, {}, SENDERS),
        written_out(admin, admin_security, SHAPES, ADMIN),
    ]
    return document("AI telemetry gateway", TEXT, parts)


@cache
def gateway_openapi() -> bytes:
    """The document as JSON."""
    return orjson.dumps(gateway_document())


def service_key_paths(paths: Json) -> Json:
    """The operations on keys once more, for those of the service that the gateway embeds."""
    return {
        SERVICE_PATH + path.removeprefix(INBOUND_PATH): {
            method: {
                **each,
                "operationId": f"{each['operationId']}OfService",
                "summary": f"{each['summary']} (local service)",
                "description": "Only where the local service is embedded; its keys are not those of senders.",
            }
            for method, each in item.items()
        }
        for path, item in paths.items()
        if path.startswith(INBOUND_PATH)
    }


def senders_security(operation: Json) -> list[dict[str, list[str]]]:
    if "x-open" in operation:
        return []
    further = operation.pop("x-ways-in", ())
    return [{way: [operation["x-scope"]]} for way in (*SENDERS_WAYS, *further)]


def admin_security(operation: Json) -> list[dict[str, list[str]]]:
    """None where none is needed; an empty one before the others where that depends on the address. A scope opens to inbound keys."""
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
