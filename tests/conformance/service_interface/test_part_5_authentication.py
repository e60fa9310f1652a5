"""Part 5, 1 to 5 and 7: how a key is presented, and the two ways of scoping it."""

import asyncio

import pytest

from gateway.access.errors import InvalidKey
from gateway.common.contract.scopes import (
    CATALOGUE,
    SEND_AI_TELEMETRY,
    SEND_BILLING_DATA,
    USE_CASES,
    Allowed,
    Denied,
    Fixed,
    Managed,
    Scope,
    decide,
    granted,
)
from gateway.local_service.routes import ROUTES, Route
from tests.conformance.service_interface import published
from tests.conformance.service_interface.endpoints import ask, prepared
from tests.unit.local_service.conftest import ADMIN, Client, Reply, ai_envelope, ai_record

INSIGHTS = "/v2/insights"
UNAUTHORIZED = {"message": "Unauthorized"}
FORBIDDEN = {"message": "User is not authorized to access this resource"}


def refused_as(status: int, route: Route) -> tuple[int, dict[str, object]]:
    """Status and body of a refusal; that of OTLP is a google.rpc.Status, which has a code too."""
    body: dict[str, object] = dict(UNAUTHORIZED if status == 401 else FORBIDDEN)
    return status, body if route.signal is None else {"code": {401: 16, 403: 7}[status], **body}


every_endpoint = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")


async def status_of(client: Client, *headers: str) -> int:
    """Of a request with these header lines as they are, which no client library would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    head = "".join(f"{header}\r\n" for header in headers)
    writer.write(f"GET {INSIGHTS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n".encode())
    status = int((await reader.readline()).split()[1])
    await reader.read()
    writer.close()
    await writer.wait_closed()
    return status


async def test_5_1_the_key_is_the_entire_header_value(client: Client) -> None:
    key = client.authorization
    assert await status_of(client, f"Authorization: {key}") == 200
    assert await status_of(client, f"authorization:{key}") == 200, "names of headers have no case"


@pytest.mark.parametrize(
    "value",
    [
        "Bearer {}", "bearer {}", "BEARER {}", "Basic {}", "Token {}", "ApiKey {}", "Bearer  {}", "Bearer:{}", "key={}", "{} x", "{},{}",
        "{}, {}", '"{}"', "<{}>", "x{}", "{}x", "{};", "", " ", "\t", "Bearer", "Bearer ", "null", "é{}",
    ],
)  # fmt: skip
async def test_5_1_anything_but_the_key_is_refused(client: Client, value: str) -> None:
    assert await status_of(client, "Authorization: " + value.replace("{}", client.authorization)) == 401


async def test_5_1_two_headers_are_refused_also_when_they_are_the_same(client: Client) -> None:
    one = f"Authorization: {client.authorization}"
    assert await status_of(client, one, one) == 401
    assert await status_of(client, one, "Authorization: x") == 401
    assert await status_of(client, "Authorization: x", one) == 401


@pytest.mark.parametrize("header", ["x-api-key", "api-key", "Proxy-Authorization", "Cookie"])
async def test_5_1_no_other_header_carries_a_key(client: Client, header: str) -> None:
    assert await status_of(client, f"{header}: {client.authorization}") == 401


async def test_5_1_a_query_carries_no_key(client: Client) -> None:
    reply = await client.with_authorization("").get(INSIGHTS, Authorization=client.authorization)
    assert (reply.status, reply.json) == (401, UNAUTHORIZED)
    assert client.authorization.encode() not in reply.body


@every_endpoint
async def test_5_1_every_endpoint_needs_a_key(client: Client, route: Route) -> None:
    made = await prepared(client)
    key = client.authorization
    for wrong in ("", f"Bearer {key}", key[:-1] + ("y" if key.endswith("x") else "x")):
        reply = await ask(client.with_authorization(wrong), route, made)
        assert (reply.status, reply.json) == refused_as(401, route)


@every_endpoint
async def test_5_2_an_endpoint_opens_to_its_scope_and_to_no_other(client: Client, route: Route) -> None:
    made = await prepared(client)
    assert route.scope in published.ALL_SCOPES
    others = [scope for scope in published.ALL_SCOPES if scope != route.scope]
    refused = await ask(await client.with_scopes("all but one", *others), route, made)
    assert (refused.status, refused.json) == refused_as(403, route)
    allowed = await ask(await client.with_scopes("just one", route.scope), route, made)
    assert 200 <= allowed.status < 300, allowed.body


async def test_5_2_an_organization_holds_several_keys_each_with_its_own_scopes(client: Client) -> None:
    reader = await client.with_scopes("reader", "insights:read_insights")
    sender = await client.with_scopes("sender", "ai-telemetry-ingest:ingest-ai-telemetry")
    statuses = [(await key.get(INSIGHTS)).status for key in (reader, sender)]
    statuses += [
        (await key.post("/v2/ai-telemetry/records", ai_envelope(ai_record("a")))).status for key in (reader, sender)
    ]
    assert statuses == [200, 403, 403, 202]


async def managed(client: Client, *use_cases: str) -> Client:
    created = await client.service.keys.create("managed", Managed(frozenset(use_cases)), by=ADMIN)
    return client.with_authorization(created.secret.reveal())


async def test_5_4_a_key_is_scoped_in_exactly_one_way(client: Client) -> None:
    keys = client.service.keys
    key = (await keys.create("a key", Managed(frozenset({SEND_AI_TELEMETRY})), by=ADMIN)).key
    assert isinstance(key.grant, Managed)
    changed = await keys.edit("a key", by=ADMIN, grant=Fixed(frozenset({"insights:read_insights"})))
    assert changed.grant == Fixed(frozenset({"insights:read_insights"})), "the one takes the place of the other"
    with pytest.raises(InvalidKey):
        await keys.create("other", Fixed(frozenset({SEND_AI_TELEMETRY})), by=ADMIN)
    with pytest.raises(InvalidKey):
        await keys.create("other", Managed(frozenset({"insights:read_insights"})), by=ADMIN)


async def test_5_4_a_managed_key_gains_a_new_endpoint_with_no_edit_and_a_fixed_one_does_not(client: Client) -> None:
    keys = client.service.keys
    for name, grant in (
        ("managed", Managed(frozenset({SEND_AI_TELEMETRY}))),
        ("fixed", Fixed(frozenset({"ai-telemetry-ingest:ingest-ai-telemetry"}))),
    ):
        await keys.create(name, grant, by=ADMIN)
    new = Scope("ai-telemetry-ingest:ingest-new", "Send AI Telemetry", write_only=True, use_case=SEND_AI_TELEMETRY)
    shipped = (*CATALOGUE, new)
    assert decide((await keys.show("managed")).grant, new.name, shipped) == Allowed(new.name)
    assert decide((await keys.show("fixed")).grant, new.name, shipped) == Denied(new.name)
    assert decide((await keys.show("managed")).grant, new.name) == Denied(new.name), "before it shipped"


def test_5_5_the_use_cases_are_the_published_two() -> None:
    assert list(USE_CASES.values()) == published.USE_CASES
    assert granted(Managed(frozenset({SEND_AI_TELEMETRY}))) == set(published.SCOPES["Send AI Telemetry"])
    assert granted(Managed(frozenset({SEND_BILLING_DATA}))) == set(published.SCOPES["Send Billing Data"])


@pytest.mark.parametrize("use_case", USE_CASES)
def test_5_4_a_use_case_holds_write_only_scopes_only(use_case: str) -> None:
    of_it = [scope for scope in CATALOGUE if scope.use_case == use_case]
    assert of_it
    assert all(scope.write_only for scope in of_it)


@pytest.mark.parametrize("use_case", USE_CASES)
@every_endpoint
async def test_5_4_a_managed_key_opens_only_endpoints_that_accept_data(
    client: Client, route: Route, use_case: str
) -> None:
    made = await prepared(client)
    key = await managed(client, use_case)
    reply = await ask(key, route, made)
    if route.scope in granted(Managed(frozenset({use_case}))):
        assert route.method == "POST", "no read"
        assert 200 <= reply.status < 300
        assert_tells_nothing(reply)
    else:
        assert (reply.status, reply.json) == refused_as(403, route)


def assert_tells_nothing(reply: Reply) -> None:
    """Whether it was accepted, and what of the submission itself was counted;
    nothing that was there before.
    """
    told = reply.json.get("connection", reply.json)
    assert set(told) <= {"accepted", "rejected", "month", "row_count", "drop_id"}


@pytest.mark.parametrize("use_case", USE_CASES)
async def test_5_4_the_answer_to_a_managed_key_does_not_depend_on_what_is_kept(client: Client, use_case: str) -> None:
    made = await prepared(client)
    key = await managed(client, use_case)
    opened = [route for route in ROUTES if route.scope in granted(Managed(frozenset({use_case})))]
    for route in opened:
        first, again = (await ask(key, route, made)).json, (await ask(key, route, made)).json
        for reply in (first, again):
            reply.get("connection", {}).pop("drop_id", None)  # a new name each time
        assert first == again, "the same for a record that is new and for one that was there"


async def test_5_7_the_secret_cannot_be_retrieved(client: Client) -> None:
    created = await client.service.keys.create("a key", Fixed(frozenset({"insights:read_insights"})), by=ADMIN)
    secret = created.secret.reveal()
    assert (await client.with_authorization(secret).get(INSIGHTS)).status == 200
    folder = client.service.database.path.parent  # the files on the disk
    await client.service.keys.flush_last_accessed()
    random_part = secret.split("_")[2].encode()
    files = [path for path in folder.iterdir() if path.is_file()]
    assert files
    assert not [path.name for path in files if random_part in path.read_bytes()]


async def test_5_7_deleting_a_key_ends_the_access_of_everything_that_uses_it(client: Client) -> None:
    user = await client.with_scopes("a key", "insights:read_insights")
    assert [reply.status for reply in await asyncio.gather(*(user.get(INSIGHTS) for _ in range(5)))] == [200] * 5
    await client.service.keys.delete("a key", typed_name="a key")
    assert [reply.status for reply in await asyncio.gather(*(user.get(INSIGHTS) for _ in range(5)))] == [401] * 5
