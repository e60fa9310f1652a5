"""The documents are OpenAPI 3.1, and state of the code what the code states of itself."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import orjson
import pytest
from aiohttp import web
from openapi_spec_validator import OpenAPIV31SpecValidator

from gateway.access.key import GATEWAY_PREFIX, SERVICE_PREFIX
from gateway.app import Gateway
from gateway.common.contract.scopes import CATALOGUE, MCP_SCOPE
from gateway.common.lists.openapi.document import merged, operations
from gateway.config.loader import load_config
from gateway.local_service.openapi.document import service_document, service_openapi
from gateway.local_service.service import build_service
from gateway.observability.metrics import EDGE_OUTCOMES
from gateway.operate.openapi.document import gateway_document, gateway_openapi
from gateway.operate.operation import OperationAnswer
from gateway.operate.pages import PAGES
from gateway.operate.registry import OPERATIONS
from gateway.products.catalogue import SOURCES
from spool.record import Record
from tests.support.operations import scopes_of

Json = dict[str, Any]
DOCUMENTS = {"gateway": gateway_document, "service": service_document}
SENDERS, ADMIN = "4318", "4319"
CURSOR = "#/components/parameters/Cursor"
Operations = set[tuple[str, str]]
"""(method, path)"""


@pytest.fixture(params=DOCUMENTS, ids=str)
def document(request: pytest.FixtureRequest) -> Json:
    made: Callable[[], Json] = DOCUMENTS[request.param]
    return made()


def test_the_document_is_openapi_3_1(document: Json) -> None:
    assert document["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_every_operation_has_a_summary_a_known_tag_and_an_id_of_its_own(document: Json) -> None:
    found = [operation for _, _, operation in operations(document)]
    assert {tag for operation in found for tag in operation["tags"]} == {tag["name"] for tag in document["tags"]}
    assert all(operation["summary"] for operation in found)
    ids = [operation["operationId"] for operation in found]
    assert len(set(ids)) == len(ids)


def test_no_parameter_of_a_list_has_a_default_that_a_client_would_send_with_a_cursor(document: Json) -> None:
    lists = [
        operation for _, _, operation in operations(document) if {"$ref": CURSOR} in operation.get("parameters", [])
    ]
    assert lists
    for operation in lists:
        assert not [each for each in operation["parameters"] if "default" in each.get("schema", {})]


def test_every_component_is_used(document: Json) -> None:
    used = set(re.findall(r'"#/components/(\w+/\w+)"', orjson.dumps(document).decode()))
    schemes = {name for _, _, operation in operations(document) for way in operation["security"] for name in way}
    used |= {f"securitySchemes/{name}" for name in schemes}
    shared = {  # of the schemas that both documents read, what only the other one needs
        "schemas/Record", "schemas/RecordSource", "schemas/Usage", "schemas/Cost", "schemas/Attribution", "schemas/Trace", "schemas/Period",
        "schemas/Decimal",
    }  # fmt: skip
    there = {f"{kind}/{name}" for kind, group in document["components"].items() for name in group}
    assert there - used - shared == set()
    assert used <= there


@pytest.mark.parametrize("made", [gateway_openapi, service_openapi])
def test_no_document_holds_anything_like_a_secret(made: Callable[[], bytes]) -> None:
    text = made().decode()
    assert re.search(rf"\b({GATEWAY_PREFIX}|{SERVICE_PREFIX})_\w+", text) is None
    assert str(Path(__file__).parents[3]) not in text


def test_a_name_that_is_in_two_files_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        merged([{"paths": {"/a": {"get": {"summary": "one"}}}}, {"paths": {"/a": {"get": {"summary": "two"}}}}])


# ---- routes


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """With everything that is off by default turned on."""
    ways = {"url_token": True, "verify": "proof"}
    overrides = {
        "data_dir": str(tmp_path / "data"),
        "listen": dict.fromkeys(("http", "admin", "service"), "127.0.0.1:0") | {"grpc": "off"},
        "sources": dict.fromkeys(SOURCES, ways),
        "workers": "off",
        "mcp": "on",
    }
    running = await Gateway.start(load_config(None, overrides, {}))
    yield running
    await running.stop()


def described(document: Json, port: str) -> Operations:
    """What is described for *port*, enumerated parameters written out."""
    return {
        (method, written)
        for method, path, operation in operations(document)
        if any(server["url"].endswith(port) for server in operation.get("servers", document["paths"][path]["servers"]))
        for written in written_paths(path, operation)
    }


def written_paths(path: str, operation: Json) -> Iterator[str]:
    listed = [each for each in operation.get("parameters", []) if f"{{{each.get('name')}}}" in path]
    enumerated = [each for each in listed if "enum" in each["schema"]]
    if not enumerated:
        yield path
    for each in enumerated:
        for value in each["schema"]["enum"]:
            yield path.replace(f"{{{each['name']}}}", value)


def routed(app: web.Application) -> Operations:
    """What an application serves; HEAD comes with each GET."""
    found = {(route.method, route.resource.canonical) for route in app.router.routes() if route.resource is not None}
    return {(method, path) for method, path in found if method != "HEAD"}


async def test_every_route_of_the_senders_port_is_described_and_no_other(gateway: Gateway) -> None:
    routes = {(method, route.path) for route in gateway.receiver.routes.routes for method in route.methods}
    assert described(gateway_document(), SENDERS) == {(method, path) for method, path in routes if method != "HEAD"}


async def test_every_route_of_the_admin_port_is_described_and_no_other(gateway: Gateway) -> None:
    not_described = {("GET", "/live"), ("GET", "/mcp"), ("DELETE", "/mcp")}  # the page's own stream; 405
    assert described(gateway_document(), ADMIN) == routed(gateway.admin) - not_described


def test_every_route_of_the_local_service_is_described_and_no_other(tmp_path: Path) -> None:
    assert described(service_document(), "4320") == routed(build_service(tmp_path))


# ---- scopes


async def test_the_scopes_of_senders_are_those_of_the_routes(gateway: Gateway) -> None:
    scopes = {(m, route.path): route.scope for route in gateway.receiver.routes.routes for m in route.methods}
    said = {
        (method, written): operation.get("x-scope")
        for method, path, operation in operations(gateway_document())
        for written in written_paths(path, operation)
        if (method, written) in scopes
    }
    assert {key: scope for key, scope in said.items() if key[0] != "GET"} == {
        key: scope for key, scope in scopes.items() if key[0] not in {"GET", "HEAD"}
    }
    reads = {key: scope for key, scope in said.items() if key[0] == "GET" and scope is not None}
    assert reads == {key: scopes[key] for key in reads}
    assert {path for _, path in reads} >= {
        "/v2/insights",
        "/v2/budgets/{budget_id}/state",
        "/v1/unit-cost",
        "/v1/unit-cost/{stream}",
    }
    handshakes = {path for (method, path), scope in said.items() if method == "GET" and scope is None}
    assert not any("unit-cost" in path for path in handshakes), "a handshake alone needs no key"


def test_the_scopes_that_open_the_admin_port_to_keys_are_those_of_the_code() -> None:
    document = gateway_document()
    said = {
        (method, path): operation["x-scope"]
        for method, path, operation in operations(document)
        if "x-scope" in operation and document["paths"][path]["servers"][0]["url"].endswith(ADMIN)
    }
    assert said == {**scopes_of(OPERATIONS), ("POST", "/mcp"): MCP_SCOPE}


def test_every_scope_is_of_the_catalogue_and_is_in_the_security_too(document: Json) -> None:
    known = {scope.name for scope in CATALOGUE}
    for _, _, operation in operations(document):
        required = {scope for way in operation["security"] for scopes in way.values() for scope in scopes}
        assert required == ({operation["x-scope"]} if "x-scope" in operation else set())
        assert required <= known


def test_what_is_open_on_the_admin_port_is_what_the_guard_lets_through() -> None:
    document = gateway_document()
    on_admin = {path for _, path in described(document, ADMIN)}
    operators = [(path, each) for _, path, each in operations(document) if path in on_admin]
    opened = {row.path: row.open for row in (*PAGES, *OPERATIONS) if row.open}
    said = {
        path: "everywhere" if each["security"] == [] else "loopback"
        for path, each in operators
        if each["security"] == [] or {} in each["security"]
    }
    assert said == opened


# ---- schemas against types

JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def shape_of(hint: Any, schemas: Json) -> Json:
    """The types that a JSON Schema for *hint* must have: JSON type names,
    enumerations, items, properties.
    """
    origin, args = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        return typed_dict(hint, schemas)
    if origin is None:
        return {"type": {JSON_TYPES[hint]}}
    if origin is Literal:
        return {"type": {"string"}, "enum": set(args)}
    if origin in (Union, UnionType):
        return united([shape_of(arg, schemas) for arg in args])
    is_mapping = issubclass(origin, Mapping)
    inner = shape_of(args[-1], schemas)
    return {"type": {"object"}, "values": inner} if is_mapping else {"type": {"array"}, "items": inner}


def typed_dict(hint: Any, schemas: Json) -> Json:
    hints = get_type_hints(hint)
    return {
        "type": {"object"},
        "required": set(hint.__required_keys__),
        "properties": {name: shape_of(each, schemas) for name, each in hints.items()},
    }


def united(shapes: list[Json]) -> Json:
    whole: Json = {"type": set()}
    for shape in shapes:
        whole = {**whole, **shape, "type": whole["type"] | shape["type"]}
    if {"integer", "number"} <= whole["type"]:
        whole["type"] -= {"integer"}
    return whole


def schema_shape(schema: Json, schemas: Json) -> Json:
    """The same of a schema."""
    if "$ref" in schema:
        return schema_shape(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "oneOf" in schema or "anyOf" in schema:
        return united([schema_shape(each, schemas) for each in schema.get("oneOf") or schema["anyOf"]])
    types = schema["type"]
    shape: Json = {"type": set(types) if isinstance(types, list) else {types}}
    if "enum" in schema:
        shape["enum"] = set(schema["enum"])
    if "items" in schema:
        shape["items"] = schema_shape(schema["items"], schemas)
    if "properties" in schema:
        shape["required"] = set(schema.get("required", ()))
        shape["properties"] = {name: schema_shape(each, schemas) for name, each in schema["properties"].items()}
    elif isinstance(schema.get("additionalProperties"), dict):
        shape["values"] = schema_shape(schema["additionalProperties"], schemas)
    return shape


def test_the_schema_of_the_record_has_the_fields_and_types_of_the_code() -> None:
    schemas = gateway_document()["components"]["schemas"]
    assert schema_shape(schemas["Record"], schemas) == shape_of(Record, schemas)


def test_the_outcomes_at_the_edge_are_those_that_are_counted() -> None:
    assert gateway_document()["components"]["schemas"]["Edge"]["required"] == ["received", *EDGE_OUTCOMES]


def test_the_type_of_an_answer_is_what_the_handler_returns() -> None:
    looser = {"status", "createKey", "createKeyOfService", "pingDeviceUpstream"}
    for operation in OPERATIONS:
        if isinstance(operation.answer, OperationAnswer) and not isinstance(operation.answer.kind, dict | None):
            is_same = get_type_hints(operation.handler)["return"] == operation.answer.kind
            assert is_same != (operation.id in looser), operation.id


def test_every_body_is_described_by_its_model() -> None:
    schemas = gateway_document()["components"]["schemas"]
    for operation in OPERATIONS:
        if operation.body is not None:
            fields = operation.body.model_fields
            described = schemas[operation.body.__name__]
            assert described["properties"].keys() == fields.keys()
            assert set(described.get("required", ())) == {name for name, each in fields.items() if each.is_required()}
            assert all(each.description for each in fields.values()), "it is the remedy of an error"
