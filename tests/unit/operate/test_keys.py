"""The senders' keys over the admin listener, on a real socket."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import aiohttp
import pytest
from structlog.testing import capture_logs

from exporters.secret import Secret
from gateway.access.store import KeyStore
from gateway.config.values import TcpAddress
from gateway.operate.keys import KeyRequests
from gateway.operate.registry import AdminStores
from gateway.operate.server import admin_app
from gateway.operate.session import COOKIE, AdminAccess
from gateway.serve.listen import listen, runner_for
from gateway.serve.recent_senders import RecentSenders
from tests.unit.operate.test_admin import figures, pages_of

TOKEN = Secret("admin-token-of-the-test")
SENDER = {"name": "sender", "managed": ["Send AI Telemetry"], "by": "maker@example.com"}
NOW_MS = 1_767_607_200_000


class Rig(NamedTuple):
    keys: KeyStore
    recent: RecentSenders
    url: str
    access: AdminAccess
    client: aiohttp.ClientSession

    async def ask(
        self, method: str, path: str = "", *, expected: int = 200, headers: dict[str, str] | None = None, **sent: Any
    ) -> Any:
        headers = {"Authorization": TOKEN.reveal()} if headers is None else headers
        async with self.client.request(method, f"{self.url}/v2/keys{path}", headers=headers, **sent) as response:
            assert response.status == expected, await response.text()
            assert response.headers["Cache-Control"] == "no-store"
            return await response.json()

    async def refused(self, method: str, path: str = "", *, expected: int = 400, **sent: Any) -> str:
        error = (await self.ask(method, path, expected=expected, **sent))["error"]
        assert error.keys() == {"message", "type"}
        message: str = error["message"]
        return message

    async def make(self, name: str, **fields: Any) -> Any:
        return await self.ask("POST", json={**SENDER, "name": name, **fields}, expected=201)

    async def names(self, query: str) -> list[str]:
        return [key["name"] for key in (await self.ask("GET", f"?{query}"))["keys"]]


@pytest.fixture
async def rig(keys: KeyStore) -> AsyncIterator[Rig]:
    access = AdminAccess(TOKEN, lambda: 1000.0, os.urandom)
    recent = RecentSenders(lambda: NOW_MS)
    stores = AdminStores(status=figures, keys=KeyRequests(keys, recent.last_hour))
    app = admin_app(pages_of(access), stores, loopback=True)
    async with AsyncExitStack() as stack:
        listener = await listen(runner_for(app), TcpAddress("127.0.0.1", 0))
        assert listener is not None
        stack.push_async_callback(listener.close)
        client = await stack.enter_async_context(aiohttp.ClientSession())
        yield Rig(keys, recent, f"http://{listener.address}", access, client)


async def test_a_key_is_made_with_its_secret_shown_this_once(rig: Rig) -> None:
    made = await rig.make("sender", labels={"team": "search"}, limits={"requests_per_minute": 5})
    key = rig.keys.authenticate(made["secret"])
    assert key is not None
    assert (dict(key.labels), key.limits.requests_per_minute) == ({"team": "search"}, 5)
    assert (made["created_by"], made["updated_by"], made["status"]) == (
        "maker@example.com",
        "maker@example.com",
        "Enabled",
    )
    assert made["granted"] == ["ai-telemetry-ingest:ingest-ai-telemetry"]
    secret_part = made["secret"].split("_")[2]
    for later in (await rig.ask("GET"), await rig.ask("GET", f"/{made['id']}")):
        assert secret_part not in str(later)


async def test_who_asks_is_the_operator_unless_the_request_says_so(rig: Rig) -> None:
    made = await rig.ask("POST", json={"name": "sender", "scopes": ["billing:read_costs"]}, expected=201)
    assert made["created_by"] == "operator"
    edited = await rig.ask("PATCH", f"/{made['id']}", json={"description": "x", "by": "other@example.com"})
    assert (edited["created_by"], edited["updated_by"]) == ("operator", "other@example.com")


async def test_no_log_line_holds_a_secret_or_a_name(rig: Rig) -> None:
    with capture_logs() as lines:
        made = await rig.make("a very own name")
        await rig.ask("POST", f"/{made['id']}/disable", json={"by": "b@example.com"})
        await rig.ask("PATCH", f"/{made['id']}", json={"name": "another name"})
        await rig.ask("DELETE", f"/{made['id']}", json={"name": "another name"})
    assert [(line["what"], line["key_id"], line["by"]) for line in lines] == [
        ("create", made["id"], "maker@example.com"),
        ("disable", made["id"], "b@example.com"),
        ("edit", made["id"], "operator"),
        ("delete", made["id"], "operator"),
    ]
    assert made["secret"].split("_")[2] not in str(lines)
    assert "name" not in str(lines)


async def test_the_list_has_the_conventions_and_filters_by_what_a_key_is_and_may(rig: Rig) -> None:
    for n in range(5):
        await rig.make(f"managed {n}", managed=["send-ai-telemetry", "send-billing-data"][: 1 + n % 2])
    fixed = await rig.ask(
        "POST", json={"name": "fixed", "scopes": ["billing:read_costs", "events_v1:create_event"]}, expected=201
    )
    await rig.ask("POST", f"/{fixed['id']}/disable")
    page = await rig.ask("GET", "?limit=2&mode=managed&sort_key=scope_count&sort_order=desc")
    assert [key["scope_count"] for key in page["keys"]] == [3, 3]
    assert page["pagination"]["total_count"] == 5
    assert page["filtering"]["current"] == {"mode": ["managed"]}
    assert page["sorting"]["current"] == [{"sort_key": "scope_count", "sort_order": "desc"}]
    found = [key["id"] for key in page["keys"]]
    while (cursor := page["pagination"]["cursor"]["next_cursor"]) is not None:
        page = await rig.ask("GET", params={"cursor": cursor})
        found += [key["id"] for key in page["keys"]]
    assert len(set(found)) == len(found) == 5
    assert await rig.names("status=Disabled") == ["fixed"]
    assert await rig.names("managed=send-billing-data") == ["managed 1", "managed 3"]
    assert await rig.names("scope=events_v1:create_event") == ["fixed"]
    assert await rig.names("scope=connections:create_billing_external_billing_drop&scope=billing:read_costs") == [
        "fixed",
        "managed 1",
        "managed 3",
    ]
    assert await rig.names("name=fixed&status=Enabled") == []
    assert await rig.names(f"id={fixed['id']}") == ["fixed"]


@pytest.mark.parametrize(
    "sort_key",
    ["created_at", "created_by", "last_accessed", "last_modified", "name", "scope_count", "status", "updated_by"],
)
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_of_every_order_hold_each_key_once(rig: Rig, sort_key: str, order: str) -> None:
    for n in range(7):
        made = await rig.make(f"key {n}", by=f"{n % 3}@example.com")
        if n % 2:
            rig.keys.authenticate(made["secret"])
            await rig.ask("POST", f"/{made['id']}/disable")
    page = await rig.ask("GET", f"?sort_key={sort_key}&sort_order={order}&limit=3")
    found = page["keys"]
    while (cursor := page["pagination"]["cursor"]["next_cursor"]) is not None:
        page = await rig.ask("GET", params={"cursor": cursor})
        found += page["keys"]
    assert sorted(key["name"] for key in found) == [f"key {n}" for n in range(7)]
    values = [key[sort_key] for key in found]
    if sort_key == "last_accessed":
        values = [value == "Not In Use" for value in values]
        assert values == sorted(values, reverse=order == "asc")
    else:
        assert values == sorted(values, reverse=order == "desc")


async def test_the_life_of_a_key(rig: Rig) -> None:
    made = await rig.make("sender")
    path, secret = f"/{made['id']}", made["secret"]
    assert (await rig.ask("POST", f"{path}/disable", json={"by": "x@example.com"}))["status"] == "Disabled"
    assert rig.keys.authenticate(secret) is None
    assert (await rig.ask("POST", f"{path}/enable"))["status"] == "Enabled"
    assert rig.keys.authenticate(secret) is not None
    edited = await rig.ask("PATCH", path, json={"name": "renamed", "scopes": ["events_v1:create_event"]})
    assert (edited["name"], edited["scopes"], "managed" in edited) == ("renamed", ["events_v1:create_event"], False)
    for typed in ({"name": "sender"}, {"name": "Renamed"}, {"name": " renamed"}):
        assert "exact name" in await rig.refused("DELETE", path, json=typed)
    assert "exact name" in await rig.refused("DELETE", path)
    assert await rig.ask("DELETE", path, json={"name": "renamed"}) == {"deleted": made["id"]}
    assert rig.keys.authenticate(secret) is None
    for method, below in (("GET", ""), ("PATCH", ""), ("POST", "/disable"), ("POST", "/enable"), ("DELETE", "")):
        body = {"description": "x"} if method == "PATCH" else {"name": "renamed"} if method == "DELETE" else {}
        assert "no key has this id" in await rig.refused(method, path + below, expected=404, json=body)


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"{", 400, "JSON"),
        (b"[]", 400, "object"),
        (b'{"name": "taken", "managed": ["send-ai-telemetry"]}', 409, "name: a key named 'taken'"),
        (b'{"name": "other", "managed": ["send"], "scopes": ["costs"]}', 400, "billing:read_costs"),
        (b'{"name": "x", "scopes": ["billing:read_costs"], "odd": 1}', 400, "the body may hold"),
        (b'{"name": "Legacy API Key", "scopes": ["billing:read_costs"]}', 400, "'Legacy API Key'"),
        (b'{"secret": "short", "scopes": ["billing:read_costs"]}', 400, "secret: 16 to 256"),
    ],
)
async def test_what_cannot_be_made_is_refused_by_field(rig: Rig, body: bytes, status: int, told: str) -> None:
    await rig.make("taken")
    assert told in await rig.refused("POST", data=body, expected=status)
    assert [key.name for key in await rig.keys.list()] == ["taken"]


async def test_a_name_that_is_taken_is_refused_on_edit_too(rig: Rig) -> None:
    await rig.make("taken")
    other = await rig.make("other")
    assert "'taken'" in await rig.refused("PATCH", f"/{other['id']}", json={"name": "taken"}, expected=409)


async def test_the_key_from_before_is_taken_over_and_its_secret_is_not_repeated(rig: Rig) -> None:
    body = {"secret": "a-token-from-before-0123", "managed": ["send-ai-telemetry"]}
    made = await rig.ask("POST", json=body, expected=201)
    assert (made["name"], "secret" in made) == ("Legacy API Key", False)
    assert "a-token" not in str(made)
    assert rig.keys.authenticate("a-token-from-before-0123") is not None
    assert "already" in await rig.refused("POST", json={**body, "secret": "another-token-0123"}, expected=409)


async def test_the_first_key_names_the_senders_it_would_refuse_until_that_is_confirmed(rig: Rig) -> None:
    rig.recent.note("127.0.0.1", "OTel-OTLP-Exporter-Python/1.30.0", "/v1/traces")
    rig.recent.note("127.0.0.1", "OTel-OTLP-Exporter-Python/1.30.0", "/v1/metrics")
    rig.recent.note("10.0.0.9", "", "/v1/events")
    answer = await rig.ask("POST", json=SENDER, expected=409)
    assert answer["error"]["type"] == "senders_would_be_refused"
    assert "confirmed" in answer["error"]["message"]
    assert answer["senders"] == [
        {"peer": "10.0.0.9", "product": None, "paths": ["/v1/events"], "last_seen": "2026-01-05T10:00:00.000Z", "requests": 1},
        {
            "peer": "127.0.0.1",
            "product": "OTel-OTLP-Exporter-Python/1.30.0",
            "paths": ["/v1/metrics", "/v1/traces"],
            "last_seen": "2026-01-05T10:00:00.000Z",
            "requests": 2,
        },
    ]  # fmt: skip
    assert not rig.keys.ever_created()
    legacy = {"secret": "a-token-from-before-0123", "managed": ["send-ai-telemetry"]}
    await rig.ask("POST", json=legacy, expected=409)
    await rig.ask("POST", json={**SENDER, "confirmed": True}, expected=201)
    await rig.make("the second one needs none")


async def test_only_who_has_the_token_or_a_session_of_this_very_page_may_ask(rig: Rig) -> None:
    made = await rig.make("sender")
    for method, path in (("GET", ""), ("POST", ""), ("GET", f"/{made['id']}"), ("DELETE", f"/{made['id']}")):
        await rig.ask(method, path, headers={}, json={"name": "sender"}, expected=401)
        await rig.ask(method, path, headers={"Authorization": made["secret"]}, json={"name": "sender"}, expected=401)
    cookie = {"Cookie": f"{COOKIE}={rig.access.session_for_token(TOKEN.reveal())}"}
    assert len((await rig.ask("GET", headers=cookie))["keys"]) == 1
    for method, path in (("POST", ""), ("POST", f"/{made['id']}/disable"), ("DELETE", f"/{made['id']}")):
        foreign = {**cookie, "Origin": "http://127.0.0.1:1"}
        await rig.ask(method, path, headers=foreign, json={"name": "sender"}, expected=401)
        await rig.ask(method, path, headers=cookie, json={"name": "sender"}, expected=401)
    own = {**cookie, "Origin": rig.url}
    assert (await rig.ask("POST", f"/{made['id']}/disable", headers=own))["status"] == "Disabled"
