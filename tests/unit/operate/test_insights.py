"""Working with insights over the admin listener: who gets in, by what, and what the
status page lets a person do.
"""

import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from exporters.secret import Secret
from gateway.access.key import GATEWAY_PREFIX
from gateway.access.store import KeyStore
from gateway.common.contract.scopes import CATALOGUE, Fixed
from gateway.common.printable import KEPT, harmless
from gateway.common.storage.database import Database
from gateway.config.values import TcpAddress
from gateway.operate.insights import OPERATIONS
from gateway.operate.registry import AdminStores
from gateway.operate.server import admin_app
from gateway.operate.session import AdminAccess
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.listen import listen, runner_for
from gateway.stores.sql.insights import open_insights
from gateway.stores.sqlite.keys import SqliteKeys
from gateway.usage.insights.finding import STATUSES, Finding
from gateway.usage.insights.store import InsightStore
from tests.support.operations import scopes_of
from tests.support.spool_rig import Clock
from tests.unit.operate.test_admin import Found, figures, pages_of

TOKEN = Secret("admin-token-of-the-test")
ADMIN = "admin@example.com"
INSIGHTS = "/v2/insights"
WHOLE = {"title": "Idle cluster", "category": "waste", "effort": "low"}
HOSTILE = "<script>alert('x')</script>\" OR 1=1; DROP TABLE insights; -- \x00\u202e\r\n{{7*7}} 🙂"
FOUND = Finding("no_price", "", "m-new", "m-new: no price is known", "pricing", "low")


@dataclass
class Rig:
    url: str
    store: InsightStore
    keys: KeyStore
    access: AdminAccess
    clock: Clock
    client: aiohttp.ClientSession

    async def ask(
        self, method: str, path: str, *, expected: int = 200, headers: dict[str, str] | None = None, **sent: Any
    ) -> Any:
        headers = {"Authorization": TOKEN.reveal()} if headers is None else headers
        async with self.client.request(
            method, self.url + path, headers=headers, allow_redirects=False, **sent
        ) as response:
            assert response.status == expected, await response.text()
            if response.content_type == "application/json" and response.status != 204:
                return await response.json()
            return await response.text()

    async def key(self, name: str, *scopes: str) -> dict[str, str]:
        """The header of a new key."""
        created = await self.keys.create(name, Fixed(frozenset(scopes)), by=ADMIN)
        return {"Authorization": created.secret.reveal()}

    async def made(self, **fields: object) -> Any:
        return (await self.ask("POST", INSIGHTS, json={**WHOLE, **fields}, expected=201))["insight"]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    clock = Clock()
    async with AsyncExitStack() as stack:
        database = await Database.open(tmp_path / "control.db")
        stack.push_async_callback(database.close)
        keys = await KeyStore.open(
            await SqliteKeys.open(database),
            prefix=GATEWAY_PREFIX,
            pepper=bytes(32),
            now_ms=clock,
            random_bytes=os.urandom,
        )
        stack.push_async_callback(keys.close)
        store = await InsightStore.open(await open_insights(database), now_ms=clock)
        access = AdminAccess(TOKEN, lambda: 1000.0, os.urandom)
        parts = pages_of(access, unsettled=store.unsettled, gate=KeyAuthenticator(keys))
        stores = AdminStores(status=figures, insights=Found(store.page, store))
        app = admin_app(parts, stores, loopback=True)
        listener = await listen(runner_for(app), TcpAddress("127.0.0.1", 0))
        assert listener is not None
        stack.push_async_callback(listener.close)
        client = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)))
        yield Rig(f"http://{listener.address}", store, keys, access, clock, client)


async def test_what_was_made_is_read_listed_changed_commented_and_deleted(rig: Rig) -> None:
    made = await rig.made(cost_impact="12.50")
    path = f"{INSIGHTS}/{made['id']}"
    assert await rig.ask("GET", path) == {"insight": made}
    (item,) = (await rig.ask("GET", INSIGHTS))["insights"]
    assert item.items() <= made.items()
    changed = (await rig.ask("PATCH", path, json={"status": "on_hold", "title": "Busy"}))["insight"]
    assert (changed["status"], changed["title"], changed["status_set_by"]) == ("on_hold", "Busy", "operator")
    comment = (await rig.ask("POST", f"{path}/comments", json={"text": "why?"}, expected=201))["comment"]
    assert (comment["author"], comment["updated_by"]) == ("operator", None)
    again = (await rig.ask("PATCH", f"{path}/comments/{comment['id']}", json={"text": "so"}))["comment"]
    listed = await rig.ask("GET", f"{path}/comments")
    assert (listed["comments"], listed["pagination"]["total_count"]) == ([again], 1)
    await rig.ask("DELETE", path, expected=204)
    for method in ("GET", "DELETE"):
        fault = (await rig.ask(method, path, expected=404))["error"]
        assert fault == {"message": "no insight has this id", "type": "insight_unknown"}
    await rig.ask("GET", f"{path}/comments", expected=404)


async def test_what_cannot_be_granted_is_reported_by_field_as_the_service_reports_it(rig: Rig) -> None:
    await rig.store.note([FOUND])
    path = f"{INSIGHTS}/{FOUND.insight_id}"
    for method, where, body, expected, kind, message in (
        ("POST", INSIGHTS, {**WHOLE, "status": "open"}, 400, "invalid_status", "status: one of new, in_progress"),
        ("POST", INSIGHTS, {}, 400, "missing_title", "title: text of 1 to 500"),
        ("PATCH", path, {"effort": ""}, 400, "invalid_effort", "effort: text of 1 to 100"),
        ("PATCH", path, {"effort": "high"}, 409, "insight_found", "effort: "),
        ("POST", f"{path}/comments", {"text": " "}, 400, "invalid_text", "text: text of 1 to 10000"),
        ("PATCH", f"{path}/comments/x", {"text": "x"}, 404, "comment_unknown", "no comment"),
        ("POST", INSIGHTS, ["x"], 400, "bad_payload", "the body must be a JSON object"),
    ):
        fault = (await rig.ask(method, where, json=body, expected=expected))["error"]
        assert fault["type"] == kind
        assert fault["message"].startswith(message)


def some(path: str) -> str:
    return re.sub(r"\{\w+\}", "some", path)


SCOPES = scopes_of(OPERATIONS)


@pytest.mark.parametrize(("method", "path"), SCOPES)
async def test_a_key_opens_what_its_scope_is_for_and_nothing_else_here(rig: Rig, method: str, path: str) -> None:
    scope = SCOPES[method, path]
    others = await rig.key("all but one", *(each.name for each in CATALOGUE if each.name != scope))
    insider = await rig.key("just one", scope)
    body = {"json": {}} if method in ("POST", "PATCH") else {}
    refused = (await rig.ask(method, some(path), headers=others, expected=403, **body))["error"]
    assert refused["message"] == f"the API key lacks the scope {scope}"
    async with rig.client.request(method, rig.url + some(path), headers=insider, **body) as response:
        assert response.status in (200, 400, 404)
    await rig.ask(method, some(path), headers={}, expected=401, **body)
    await rig.ask(method, some(path), headers={"Authorization": "tgk_x"}, expected=401, **body)
    await rig.keys.disable("just one", by=ADMIN)
    await rig.ask(method, some(path), headers=insider, expected=401, **body)


async def test_a_key_with_every_scope_is_no_admin(rig: Rig) -> None:
    everything = await rig.key("everything", *(scope.name for scope in CATALOGUE))
    await rig.store.note([FOUND])
    assert (await rig.ask("GET", INSIGHTS, headers=everything))["pagination"]["total_count"] == 1
    for method, path in (
        ("GET", "/"),
        ("POST", "/v2/login-links"),
        ("POST", "/logout"),
        ("GET", "/v2/insights/some/else"),
        ("POST", f"/insights/{FOUND.insight_id}/status"),
    ):
        await rig.ask(method, path, headers=everything, expected=401)
    assert (await rig.store.read(FOUND.insight_id))["status"] == "new"


async def test_a_comment_carries_the_name_of_its_key_whatever_the_body_says(rig: Rig) -> None:
    made = await rig.made()
    path = f"{INSIGHTS}/{made['id']}/comments"
    headers = await rig.key("finops bot", "insights:create_insight_comment")
    await rig.ask("POST", path, json={"text": "x", "author": "operator"}, headers=headers, expected=400)
    comment = (await rig.ask("POST", path, json={"text": "x"}, headers=headers, expected=201))["comment"]
    assert comment["author"] == "finops bot"


async def test_text_of_any_kind_comes_back_as_json_and_is_escaped_on_the_page(rig: Rig) -> None:
    made = await rig.made(title=HOSTILE, category=HOSTILE[:90], effort=HOSTILE[:90])
    path = f"{INSIGHTS}/{made['id']}"
    comment = (await rig.ask("POST", f"{path}/comments", json={"text": HOSTILE}, expected=201))["comment"]
    assert (made["title"], comment["text"]) == (HOSTILE, HOSTILE)
    assert (await rig.ask("GET", f"{path}/comments"))["comments"] == [comment]
    for page in (await rig.ask("GET", "/insights"), await rig.ask("GET", f"/insights/{made['id']}")):
        assert "<script>" not in page
        assert harmless(HOSTILE, KEPT).replace("\r\n", "\n") in unescape(page).replace("\r\n", "\n")
        assert not {"\x00", "\u202e"} & set(unescape(page))


async def test_the_longest_comment_fits_also_where_each_character_is_escaped(rig: Rig) -> None:
    path = f"{INSIGHTS}/{(await rig.made())['id']}/comments"
    body = b'{"text":"' + b"\\ud83d\\ude42" * 10_000 + b'"}'
    comment = (await rig.ask("POST", path, data=body, expected=201))["comment"]
    assert comment["text"] == "🙂" * 10_000
    await rig.ask("POST", path, data=body + b" " * 256 * 1024, expected=413)


async def test_a_button_of_the_page_sets_a_status_from_this_page_only(rig: Rig) -> None:
    await rig.store.note([FOUND])
    await rig.ask("GET", rig.access.login_path(), headers={}, expected=303)
    page = await rig.ask("GET", f"/insights/{FOUND.insight_id}", headers={"Accept": "text/html"})
    (path,) = re.findall(r'method="post" action="(/insights/[0-9a-f]{32}/status)"', page)
    assert re.findall(r'<button name="status" value="(\w+)">', page) == [each for each in STATUSES if each != "new"]
    for origin in (None, "null", "http://evil.example"):
        headers = {"Origin": origin} if origin else {}
        await rig.ask("POST", path, data={"status": "ignored"}, headers=headers, expected=401)
    own = {"Origin": rig.url}
    await rig.ask("POST", path, data={"status": "open"}, headers=own, expected=400)
    assert (await rig.store.read(FOUND.insight_id))["status"] == "new"
    await rig.ask("POST", path, data={"status": "ignored"}, headers=own, expected=303)
    detail = await rig.store.read(FOUND.insight_id)
    assert (detail["status"], detail["status_set_by"]) == ("ignored", "operator")
    page = await rig.ask("GET", path.removesuffix("/status"), headers={"Accept": "text/html"})
    assert "The status is “ignored” now." in page
    assert '<button name="status" value="ignored">' not in page
    assert "“ignored” now." not in await rig.ask("GET", path.removesuffix("/status"), headers={"Accept": "text/html"})


async def test_a_form_is_sent_with_its_origin(rig: Rig) -> None:
    """Under `no-referrer` browsers send the Origin of a form as null,
    and every button would be refused.
    """
    async with rig.client.get(rig.url + "/", headers={"Authorization": TOKEN.reveal()}) as response:
        assert response.headers["Referrer-Policy"] == "same-origin"
        assert "form-action 'self'" in response.headers["Content-Security-Policy"]


async def test_the_page_goes_through_all_of_them_by_links(rig: Rig) -> None:
    for number in range(53):
        await rig.made(title=f"insight {number:03}")
    page = await rig.ask("GET", "/insights?sort_key=title")
    assert "53 insights" in page
    assert re.findall(r"insight \d{3}", page) == [f"insight {number:03}" for number in range(50)]
    (following,) = re.findall(r'rel="next" href="([^"]+)"', page)
    page = await rig.ask("GET", unescape(following))
    assert re.findall(r"insight \d{3}", page) == [f"insight {number:03}" for number in range(50, 53)]
    assert 'rel="next"' not in page
    await rig.ask("GET", "/insights?status=open", expected=400)
