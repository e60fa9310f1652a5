"""Authentication and scopes on every endpoint, through real sockets."""

import asyncio
import re

import pytest

from gateway.common.contract.scopes import CATALOGUE, SEND_AI_TELEMETRY, Managed
from gateway.local_service.routes import ROUTES, Route

from .conftest import ADMIN, Client, Reply, ai_envelope, ai_record

FORBIDDEN = {"message": "User is not authorized to access this resource"}
INGEST = "/v2/ai-telemetry/records"


def path_of(route: Route) -> str:
    return re.sub(r"\{\w+\}", "some", route.path)


async def ask(client: Client, route: Route) -> Reply:
    return await client.ask(route.method, path_of(route))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_an_endpoint_opens_to_its_own_scope_and_to_no_other(client: Client, route: Route) -> None:
    others = [scope.name for scope in CATALOGUE if scope.name != route.scope]
    outsider = await client.with_scopes("all but one", *others)
    refused = await ask(outsider, route)
    assert (refused.status, refused.json) == (403, FORBIDDEN | ({"code": 7} if route.signal else {}))
    insider = await client.with_scopes("just one", route.scope)
    assert (await ask(insider, route)).status in (200, 400, 404, 415)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_no_endpoint_opens_without_a_key(client: Client, route: Route) -> None:
    reply = await ask(client.with_authorization(""), route)
    assert (reply.status, reply.json) == (401, {"message": "Unauthorized"} | ({"code": 16} if route.signal else {}))


@pytest.mark.parametrize("shape", ["Bearer {}", "bearer {}", "Basic {}", "{} extra", "{},{}", '"{}"', "x{}"])
async def test_the_key_must_be_the_entire_value_of_the_header(client: Client, shape: str) -> None:
    key = client.authorization
    assert (await client.get("/v2/insights")).status == 200
    reply = await client.with_authorization(shape.replace("{}", key)).get("/v2/insights")
    assert (reply.status, reply.json) == (401, {"message": "Unauthorized"})


async def test_a_second_authorization_header_makes_both_worthless(client: Client) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    header = f"Authorization: {client.authorization}\r\n"
    writer.write(f"GET /v2/insights HTTP/1.1\r\nHost: localhost\r\n{header}{header}\r\n".encode())
    assert (await reader.readline()).split()[1] == b"401"
    writer.close()
    await writer.wait_closed()


async def test_a_disabled_or_deleted_key_is_refused_on_a_connection_that_is_open(client: Client) -> None:
    keys = client.service.keys
    assert (await client.get("/v2/insights")).status == 200
    await keys.disable("everything", by=ADMIN)
    assert (await client.get("/v2/insights")).status == 401
    await keys.enable("everything", by=ADMIN)
    assert (await client.get("/v2/insights")).status == 200
    await keys.delete("everything", typed_name="everything")
    assert (await client.get("/v2/insights")).status == 401


async def test_a_managed_key_sends_telemetry_and_reads_nothing(client: Client) -> None:
    created = await client.service.keys.create("sender", Managed(frozenset({SEND_AI_TELEMETRY})), by=ADMIN)
    sender = client.with_authorization(created.secret.reveal())
    assert (await sender.post(INGEST, ai_envelope(ai_record("a")))).status == 202
    for path in (INGEST, "/v2/ai-telemetry/summary", "/v2/insights", "/v2/ai-control-plane/devices"):
        assert (await sender.get(path)).status == 403
    assert (await sender.post("/v2/ai-control-plane/devices", {})).status == 403


async def test_an_edit_of_scopes_counts_from_the_next_request_on(client: Client) -> None:
    reader = await client.with_scopes("reader", "billing:read_costs")
    assert (await reader.get("/v2/insights")).status == 403
    created = await client.service.keys.show("everything")
    await client.service.keys.edit("reader", by=ADMIN, grant=created.grant)
    assert (await reader.get("/v2/insights")).status == 200


async def test_an_unknown_path_is_answered_as_json(client: Client) -> None:
    missing = await client.get("/v2/nothing")
    assert (missing.status, missing.json) == (404, {"message": "Not Found"})
    wrong = await client.post("/v2/ai-telemetry/summary", {})
    assert (wrong.status, wrong.json, wrong.headers["Allow"]) == (405, {"message": "Method Not Allowed"}, "GET,HEAD")


READS = [route for route in ROUTES if not route.writes]


@pytest.mark.parametrize("route", READS, ids=lambda route: route.path)
async def test_whatever_is_read_answers_head_as_it_answers_get(client: Client, route: Route) -> None:
    insider = await client.with_scopes("just one", route.scope)
    whole, head = await ask(insider, route), await insider.ask("HEAD", path_of(route))
    assert (head.status, head.body) == (whole.status, b"")
    assert head.headers["Content-Length"] == str(len(whole.body))
    assert (await client.with_authorization("").ask("HEAD", path_of(route))).status == 401
    outsider = await client.with_scopes("another", "budgets:read_budget")
    assert (await outsider.ask("HEAD", path_of(route))).status == 403
