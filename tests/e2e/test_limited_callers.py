"""A team's key, token and session, tried on every operation: the admin API, the page, the tools of
MCP, and what the senders' port answers. Nothing of another team is in any answer.

Everything of the other team carries a word or a figure that nothing else has. The matrix is made of
the registries, so a new operation is tried too, and is refused unless its row honours limits.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest

from gateway.app import Gateway
from gateway.common.body import body_schema
from gateway.common.contract.scopes import CATALOGUE
from gateway.config.loader import load_config
from gateway.operate.guard import Row
from gateway.operate.mcp.route import MCP_ROUTES
from gateway.operate.operation import Listed, Operation
from gateway.operate.pages import PAGES
from gateway.operate.registry import OPERATIONS
from gateway.operate.server import SITE
from gateway.usage.sums.grains import DIMENSIONS
from tests.support.polling import until_true

OWN, OTHER = "checkout", "zebra-team"
ROWS: Final[tuple[Row, ...]] = (*PAGES, *SITE, *MCP_ROUTES, *OPERATIONS)
SCOPES: Final = [scope.name for scope in CATALOGUE]
HTML: Final = "text/html"
MARKS: Final = ("zebra", "717171", "828282", "939393", "165656", "176767")
"""Words and figures of the other team, and of both teams together: costs, tokens."""
STREAMS: Final = {"/live", "/v2/tap"}


def record(number: int, team: str | None, word: str, *, cost: str, tokens: int, hours: int) -> dict[str, Any]:
    at = datetime.now(UTC) - timedelta(hours=hours)
    stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    labels = {"feature": f"{word}-feature", "beside": f"{word}-beside"}
    who = {
        "team": team,
        "labels": labels,
        "project": f"{word}-project",
        "user": f"{word}-user",
        "service_name": f"{word}-service",
    }
    return {
        "schema": "inference/1", "record_id": f"{number:032x}", "kind": "call", "billed": True, "operation": "chat",
        "source": {"format": "otlp.traces", "convention": "gen_ai"}, "provider": f"{word}-provider",
        "request_model": f"{word}-model", "started_at": stamp, "duration_ms": 5,
        "usage": {"status": "reported", "input_tokens": tokens, "output_tokens": 7},
        "cost": {"amount": cost, "currency": "USD", "source": "reported", "price_version": None}, "status": "ok",
        "attribution": {name: value for name, value in who.items() if value}, "received_at": stamp, "flags": [],
    }  # fmt: skip


RECORDS: Final = [
    record(1, OWN, "own", cost="1.25", tokens=100, hours=1),
    record(2, OTHER, "zebra", cost="71717171.5", tokens=82828282, hours=1),
    record(3, None, "zebra", cost="93939393.5", tokens=93939393, hours=1),
    record(4, OTHER, "zebra", cost="71717171.5", tokens=71717171, hours=24 * 9),
    record(5, OWN, "own", cost="2.5", tokens=50, hours=24 * 9),
]


@dataclass
class Rig:
    gateway: Gateway
    client: httpx.AsyncClient
    credentials: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of a limited caller: how it shows -> headers."""
    ids: dict[str, str] = field(default_factory=dict)
    """Parameter of a path -> an id of the other team's."""

    @property
    def admin(self) -> dict[str, str]:
        return {"Authorization": (self.gateway.config.data_dir / "admin-token").read_text().strip()}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.ports.admin.port}"  # type: ignore[union-attr]  # a port

    async def ask(self, method: str, path: str, headers: Mapping[str, str], **more: Any) -> httpx.Response:
        return await self.client.request(method, self.url + path, headers=headers, **more)

    async def by_admin(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        answer = await self.ask(method, path, self.admin, **more)
        assert answer.is_success, (method, path, answer.text)
        return dict(answer.json()) if answer.content else {}

    async def call_tool(self, headers: Mapping[str, str], method: str, **params: Any) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accepts = {"Accept": "application/json, text/event-stream"}
        return await self.ask("POST", "/mcp", {**headers, **accepts}, json=body)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig_in(tmp_path) as made:
        yield made


@asynccontextmanager
async def rig_in(folder: Path, *, has_others: bool = True) -> AsyncIterator[Rig]:
    """Its admin listener is beyond loopback, where nothing but the probes is open."""
    listen = dict.fromkeys(("http", "service"), "127.0.0.1:0") | {"grpc": "off", "admin": "0.0.0.0:0"}
    overrides = {
        "data_dir": str(folder / "data"), "listen": listen, "workers": "off", "mcp": "on", "counting.settle": "0s",
        "tags": {"feature": ["app.feature"]},
    }  # fmt: skip
    gateway = await Gateway.start(load_config(None, overrides, {}))
    try:
        async with httpx.AsyncClient(timeout=30) as client:
            made = Rig(gateway, client)
            await send(made, [each for each in RECORDS if has_others or each["attribution"].get("team") == OWN])
            if has_others:
                await keep_others(made)
            await limit(made)
            yield made
    finally:
        await gateway.stop()


async def send(rig: Rig, records: list[dict[str, Any]]) -> None:
    envelope = {"schema": "ai-telemetry/1", "batch_id": "b", "gateway_id": "g", "records": records}
    answer = await rig.client.post(f"http://{rig.gateway.ports.http}/v2/ai-telemetry/records", json=envelope)
    assert answer.json() == {"accepted": len(records), "rejected": []}
    lane = lambda: rig.gateway.status.lanes()["ai_telemetry"]  # noqa: E731
    await until_true(lambda: lane()["delivered"] == len(records), what="delivered")


async def keep_others(rig: Rig) -> None:
    """Budgets, views and insights of the other team, and of everything."""
    for name, kept in (("zebra-budget", {"team": [OTHER]}), ("all of zebra", {})):
        body = {"name": name, "amount": "1", "currency": "USD", "period": "month", "filter": kept}
        rig.ids["budget_id"] = (await rig.by_admin("POST", "/v2/budgets", json=body))["budget"]["id"]
        view = {"name": f"zebra-view {name}", "filter": kept}
        rig.ids["view_id"] = (await rig.by_admin("POST", "/v2/views", json=view))["view"]["id"]
    insight = {"title": "zebra spends", "category": "zebra", "effort": "low"}
    rig.ids["insight_id"] = (await rig.by_admin("POST", "/v2/insights", json=insight))["insight"]["id"]
    comment = await rig.by_admin("POST", f"/v2/insights/{rig.ids['insight_id']}/comments", json={"text": "zebra!"})
    rig.ids["comment_id"] = comment["comment"]["id"]
    key = {"name": "zebra-key", "scopes": SCOPES, "labels": {"team": OTHER}, "confirmed": True}
    rig.ids["id"] = (await rig.by_admin("POST", "/v2/keys", json=key))["id"]
    rig.ids["record_id"] = RECORDS[1]["record_id"]


async def limit(rig: Rig) -> None:
    """A key with every scope, a viewer's token and a session, all limited to the own team."""
    seen = {"limits": {"team": [OWN]}}
    key = await rig.by_admin("POST", "/v2/keys", json={"name": "own-key", "scopes": SCOPES, "confirmed": True, **seen})
    token = await rig.by_admin("POST", "/v2/viewer-tokens", json={"name": "own-token", **seen})
    opened = await rig.client.post(f"{rig.url}/login", data={"token": token["secret"]})
    assert opened.status_code == 303
    rig.client.cookies.clear()
    cookie = opened.headers["Set-Cookie"].partition(";")[0]
    rig.credentials = {
        "key": {"Authorization": key["secret"]},
        "token": {"Authorization": f"Bearer {token['secret']}"},
        "session": {"Cookie": cookie, "Origin": rig.url},
    }


# ---- the matrix


def paths_of(row: Row, rig: Rig) -> list[str]:
    """With ids of the other team, and with one that is nobody's."""
    names = re.findall(r"\{(\w+)\}", row.path)
    fillings = [{name: rig.ids.get(name, "none") for name in names}, dict.fromkeys(names, "0" * 32)]
    return list(dict.fromkeys(row.path.format(**each) for each in fillings))


def queries_of(row: Row) -> Iterator[dict[str, str]]:
    """Each that a row may take, and those that ask for others."""
    yield {}
    yield {"team": OTHER}
    if not row.honours_limits:
        return
    if isinstance(row, Operation) and isinstance(row.answer, Listed):
        yield from ({each.name: each.valid_values[0]} for each in row.answer.shape.filters if each.valid_values)
        yield from ({"sort_key": key, "sort_order": "desc"} for key in row.answer.shape.sort_keys)
        yield {"limit": "1"}
    if isinstance(row, Operation) and not any(each["name"] == "group_by" for each in row.query):
        yield from ({name: OTHER} for name in ("project", "user", "model", "name"))
        return
    yield from ({"group_by": each, "compare": "previous", "range": "last_7_days"} for each in DIMENSIONS)
    yield {"group_by": "model,user,project", "sort_key": "name"}
    yield {"group_by": "tag:feature", "compare": "previous", "range": "last_7_days"}
    yield {"tag:feature": "zebra-feature"}
    yield {"interval": "day", "compare": "previous", "range": "last_7_days"}
    yield {"interval": "hour", "range": "last_24_hours", "sort_key": "start"}
    yield {"group_by": "model", "search": "zebra"}
    for name in ("project", "user", "model", "provider", "service_name"):
        yield {name: f"zebra-{name}"}
    yield {"unknown": "team"}
    yield {"without": "team"}
    yield {"range": "30d"}


def bodies_of(row: Row) -> Iterator[dict[str, Any]]:
    """The example of the description, and what would take over others."""
    body = row.body if isinstance(row, Operation) else None
    if body is None:
        yield {}
        return
    known = body.model_fields
    example = body_schema(body).get("example", {})
    wide = {
        "filter": {"team": [OTHER]},
        "limits": {"team": [OTHER]},
        "status": "ignored",
        "text": "mine",
        "name": "mine",
    }
    yield {**example, **{name: value for name, value in wide.items() if name in known}}
    yield {**example, **({"filter": {}} if "filter" in known else {})}


def mark_in(text: str) -> str | None:
    return next((mark for mark in MARKS if mark in text.replace(",", "").replace("_", "")), None)


async def tries(rig: Rig, row: Row) -> AsyncIterator[tuple[str, dict[str, str], httpx.Response]]:
    """Each path and query; those of one credential alone after the first two. What writes has
    bodies in place of queries.
    """
    for shown, headers in rig.credentials.items():
        most = None if shown == ("token" if row.scope is None else "key") else 2
        for path in paths_of(row, rig):
            if row.method == "GET":
                for query in islice(queries_of(row), most):
                    yield shown, query, await rig.ask("GET", path, headers, params=query)
                if row in SITE:
                    yield shown, {}, await rig.ask("GET", path, {**headers, "Accept": HTML})
            elif row.path != "/logout":
                for body in bodies_of(row):
                    yield shown, {}, await rig.ask(row.method, path, headers, json=body)


@pytest.mark.parametrize("of_page", [True, False], ids=["page", "API"])
async def test_no_answer_holds_anything_of_another_team(rig: Rig, of_page: bool) -> None:  # noqa: FBT001 - parametrized
    before = await kept_by_all(rig)
    asked = answered = 0
    for row in ROWS:
        if row.open == "everywhere" or (row in SITE) != of_page:
            continue
        async for shown, query, answer in tries(rig, row):
            asked, answered = asked + 1, answered + answer.is_success
            where = (row.method, str(answer.request.url), shown, query, answer.status_code)
            echoed = " ".join((str(answer.request.url), *query.values(), answer.request.content.decode()))
            assert answer.status_code not in {500, 503}, (where, answer.text)
            opens_nothing = shown == "key" and row.scope is None  # a key admits to what has a scope
            assert (answer.status_code == 401) == opens_nothing, (where, answer.text)
            if not row.honours_limits and not opens_nothing:
                assert answer.status_code == 403, where
                if row.role.name != "OPERATOR" and HTML not in answer.headers["Content-Type"]:
                    assert f"limited to team {OWN}" in answer.text, where
            if mark_in(echoed) is None:
                assert mark_in(answer.text) is None, (where, mark_in(answer.text), answer.text)
            elif answer.is_success:
                assert mark_in(without(answer.text, query)) is None, (where, answer.text)
    assert asked > 300
    assert answered > 50
    assert await kept_by_all(rig) == before


async def test_every_answer_is_that_of_a_gateway_that_only_has_the_own_calls(rig: Rig, tmp_path: Path) -> None:
    """So no count, order, rest, percentile or error depends on others. Times and places in lists of
    all calls are left out.
    """
    compared = 0
    async with rig_in(tmp_path / "alone", has_others=False) as alone:
        alone.ids = rig.ids
        for row in ROWS:
            if row.method != "GET" or not row.honours_limits or row.open == "everywhere":
                continue
            name = "token" if row.scope is None else "key"
            for path in paths_of(row, rig):
                for query in islice(queries_of(row), 3 if row in SITE else None):
                    with_others, by_itself = [
                        await each.ask("GET", path, each.credentials[name], params=query) for each in (rig, alone)
                    ]
                    where = (path, query)
                    assert with_others.status_code == by_itself.status_code, (where, with_others.text, by_itself.text)
                    assert plain(with_others) == plain(by_itself), where
                    compared += 1
    assert compared > 100


MOVING: Final = {"counted_through", "hours_from", "next_cursor", "previous_cursor"}
_TIME: Final = re.compile(
    r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( ?UTC|Z)?|data-fresh-in-s=\"[\d.]+\"|cursor=[^\"&]*"
)


def plain(answer: httpx.Response) -> Any:
    """Without what is of the moment."""
    if "json" in answer.headers["Content-Type"]:
        return without_moving(answer.json())
    return answer.content if b"PAR1" in answer.content[:4] else _TIME.sub("", answer.text)


def without_moving(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: without_moving(value) for name, value in found.items() if name not in MOVING}
    return [without_moving(each) for each in found] if isinstance(found, list) else found


def without(text: str, query: Mapping[str, str]) -> str:
    """What the caller itself wrote is no news to it."""
    for value in query.values():
        text = text.replace(value, "").replace(quote(value), "")
    return text


async def kept_by_all(rig: Rig) -> list[Any]:
    """What the other team and everyone has; what a limited caller made for itself is not in it."""
    found = []
    for path, root in (
        ("/v2/budgets", "budgets"),
        ("/v2/views", "views"),
        ("/v2/insights", "insights"),
        ("/v2/keys", "keys"),
    ):
        every = (await rig.by_admin("GET", path, params={"limit": "500"}))[root]
        found += [{name: value for name, value in each.items() if name not in {"state", "last_accessed"}}
                  for each in every if "zebra" in json.dumps(each)]  # fmt: skip
    return sorted(found, key=lambda each: str(each["id"]))


async def test_no_tool_of_mcp_tells_of_another_team(rig: Rig) -> None:
    every = (await rig.call_tool(rig.admin, "tools/list")).json()["result"]["tools"]
    for headers in rig.credentials.values():
        listed = (await rig.call_tool(headers, "tools/list")).json()["result"]["tools"]
        assert {tool["name"] for tool in listed} < {tool["name"] for tool in every}
        for tool in every:
            properties = tool["inputSchema"]["properties"]
            filled = {name: value for name, value in rig.ids.items() if name in properties}
            calls = [filled, {**filled, "team": [OTHER]} if "team" in properties else filled]
            calls += [{"group_by": [each], "compare": "previous"} for each in DIMENSIONS if "group_by" in properties]
            for arguments in calls:
                answer = await rig.call_tool(headers, "tools/call", name=tool["name"], arguments=arguments)
                text = answer.text.replace(OTHER, "") if "team" in arguments else answer.text
                assert mark_in(text) is None, (tool["name"], arguments, text)
                if tool["name"] not in {each["name"] for each in listed}:
                    assert answer.json()["result"]["isError"]
        used = await rig.call_tool(headers, "tools/call", name="show_usage", arguments={"group_by": ["team"]})
        assert used.json()["result"]["structuredContent"]["totals"]["costs"] == {"USD": "3.75"}


async def test_the_senders_port_answers_a_limited_key_for_what_it_sends_alone(rig: Rig) -> None:
    for route in rig.gateway.receiver.routes.routes:
        for method in sorted(route.methods):
            path = re.sub(r"\{\w+\}", rig.ids["budget_id"], route.path)
            answer = await rig.client.request(
                method, f"http://{rig.gateway.ports.http}{path}", headers=rig.credentials["key"], json={}
            )
            assert mark_in(answer.text) is None, (method, path, answer.text)
            if method == "GET" and answer.is_success:
                assert route.path == "/v2/insights", path


# ---- what it does see


async def test_totals_and_every_row_are_of_the_own_calls(rig: Rig) -> None:
    for headers in (rig.credentials["token"], rig.credentials["session"]):
        asked = {"group_by": "model", "range": "last_7_days", "compare": "previous"}
        answer = (await rig.ask("GET", "/v2/usage", headers, params=asked)).json()
        assert [row["model"] for row in answer["usage"]] == ["own-model"]
        assert answer["totals"]["costs"] == {"USD": "1.25"}
        assert answer["rest"] is None
        assert answer["previous"]["totals"]["costs"] == {"USD": "2.5"}
        assert answer["pagination"]["total_count"] == 1
    found = (await rig.ask("GET", "/v2/billing/dimensions", rig.credentials["key"])).json()
    assert {each["name"]: (each["values"], each["value_count"], each["has_unknown"]) for each in found["dimensions"]} == {
        **{name: ([], 0, True) for name in ("device_id", "key")},
        **{name: ([f"own-{name}"], 1, False) for name in ("provider", "model", "project", "user")},
        "team": ([OWN], 1, False), "service_name": (["own-service"], 1, False), "operation": (["chat"], 1, False),
        "source": (["otlp.traces"], 1, False),
    }  # fmt: skip
    tags = await rig.ask("GET", "/v2/billing/resource-tags", rig.credentials["key"])
    assert "own-feature" in tags.text
    calls = (await rig.ask("GET", "/v2/calls", rig.credentials["token"])).json()
    assert {each["record_id"] for each in calls["calls"]} == {RECORDS[0]["record_id"], RECORDS[4]["record_id"]}
    assert calls["pagination"]["total_count"] == 2
    one = await rig.ask("GET", f"/v2/calls/{RECORDS[0]['record_id']}", rig.credentials["token"])
    assert one.json()["call"]["related"] == []


async def test_a_place_in_a_list_that_another_caller_got_leads_to_the_own_part(rig: Rig) -> None:
    for path, root, wide in (("/v2/usage", "usage", {"group_by": "model"}), ("/v2/calls", "calls", {})):
        first = await rig.by_admin("GET", path, params={**wide, "limit": "1"})
        cursor = first["pagination"]["cursor"]["next_cursor"]
        answer = await rig.ask("GET", path, rig.credentials["token"], params={**wide, "limit": "1", "cursor": cursor})
        assert mark_in(answer.text) is None
        narrow = await rig.by_admin("GET", path, params={**wide, "limit": "1", "team": OTHER})
        cursor = narrow["pagination"]["cursor"]["next_cursor"]
        if cursor is not None:
            taken = await rig.ask("GET", path, rig.credentials["token"], params={"cursor": cursor})
            assert mark_in(taken.text.replace(OTHER, "")) is None
            assert not taken.is_success or taken.json()[root] == []


async def test_budgets_views_and_insights_are_made_and_seen_inside_the_limit_alone(rig: Rig) -> None:
    key, token = rig.credentials["key"], rig.credentials["token"]
    new = {"name": "zebra-budget", "amount": "10", "currency": "USD", "period": "month"}
    made = await rig.ask("POST", "/v2/budgets", key, json=new)
    budget = made.json()["budget"]
    assert (budget["name"], budget["filter"]) == (f"zebra-budget (team {OWN})", {"team": [OWN]})
    assert budget["state"]["calls"] in {1, 2}, "of nine days, which may be two months"
    assert (await rig.ask("POST", "/v2/budgets", key, json=new)).status_code == 409
    view = (await rig.ask("POST", "/v2/views", key, json={"name": "own", "group_by": ["model"]})).json()["view"]
    assert (view["name"], view["filter"]) == (f"own (team {OWN})", {"team": [OWN]})
    note = {"title": "own insight", "category": "own", "effort": "low"}
    insight = (await rig.ask("POST", "/v2/insights", key, json=note)).json()["insight"]
    for path, root, name in (
        ("budgets", "budgets", budget),
        ("views", "views", view),
        ("insights", "insights", insight),
    ):
        listed = (await rig.ask("GET", f"/v2/{path}", token)).json()
        assert [each["id"] for each in listed[root]] == [name["id"]]
        assert listed["pagination"]["total_count"] == 1
        every = (await rig.by_admin("GET", f"/v2/{path}", params={"limit": "500"}))[root]
        assert name["id"] in {each["id"] for each in every}
    for path in (f"/v2/budgets/{budget['id']}", f"/v2/views/{view['id']}"):
        wide = await rig.ask("PATCH", path, key, json={"filter": {"team": [OWN, "others"]}})
        assert wide.status_code == 403, wide.text
        assert (await rig.ask("PATCH", path, key, json={"filter": {}})).json()[path.split("/")[2][:-1]]["filter"] == {
            "team": [OWN]
        }
    assert (await rig.ask("PATCH", f"/v2/budgets/{budget['id']}", key, json={"webhook": "x"})).status_code == 403
    comments = f"/v2/insights/{insight['id']}/comments"
    assert (await rig.ask("POST", comments, key, json={"text": "mine"})).status_code == 201
    page = await rig.ask("GET", "/", rig.credentials["session"], params={"range": "7d"})
    assert f"team {OWN}" in page.text
    assert "1 insight to look at" in page.text
    assert "own-model" in page.text
    for path in (f"/v2/budgets/{budget['id']}", f"/v2/views/{view['id']}", f"/v2/insights/{insight['id']}"):
        assert (await rig.ask("DELETE", path, key)).status_code == 204


async def test_a_budget_that_counted_others_shows_no_alert_from_then(rig: Rig) -> None:
    """An operator narrows the budget of everything to the team."""
    path = f"/v2/budgets/{rig.ids['budget_id']}"
    assert (await rig.by_admin("GET", path))["budget"]["alerts"]
    await rig.by_admin("PATCH", path, json={"filter": {"team": [OWN]}, "name": "of the team"})
    seen = await rig.ask("GET", path, rig.credentials["key"])
    assert seen.json()["budget"]["alerts"] == []
    assert mark_in(seen.text) is None


# ---- changes while it runs


async def test_a_revoked_token_ends_its_sessions_and_a_changed_key_sees_its_new_part(rig: Rig) -> None:
    tokens = (await rig.by_admin("GET", "/v2/viewer-tokens"))["viewer_tokens"]
    assert [(each["name"], each["limits"], each["created_by"]) for each in tokens] == [
        ("own-token", {"team": [OWN]}, "operator")
    ]
    await rig.by_admin("DELETE", f"/v2/viewer-tokens/{tokens[0]['id']}")
    for name in ("token", "session"):
        assert (await rig.ask("GET", "/v2/usage", rig.credentials[name])).status_code == 401
    (key,) = (await rig.by_admin("GET", "/v2/keys", params={"name": "own-key"}))["keys"]
    await rig.by_admin("PATCH", f"/v2/keys/{key['id']}", json={"limits": {"team": ["nobody"]}})
    answer = await rig.ask("GET", "/v2/billing/costs", rig.credentials["key"])
    assert answer.json()["totals"]["calls"] == 0


async def test_a_limited_caller_sees_no_more_by_what_is_open_on_loopback(tmp_path: Path) -> None:
    """A proxy on the same machine may stand before it."""
    overrides = {
        "data_dir": str(tmp_path / "data"), "workers": "off",
        "listen": dict.fromkeys(("http", "service", "admin"), "127.0.0.1:0") | {"grpc": "off"},
    }  # fmt: skip
    gateway = await Gateway.start(load_config(None, overrides, {}))
    async with httpx.AsyncClient() as client:
        rig = Rig(gateway, client)
        await limit(rig)
        for path in ("/metrics", "/v2/status"):
            assert (await rig.ask("GET", path, {})).status_code == 200
            for headers in rig.credentials.values():
                answer = await rig.ask("GET", path, headers)
                assert answer.status_code == 403
                assert "limited to team checkout" in answer.text
        assert (await rig.ask("GET", "/healthz", rig.credentials["key"])).status_code == 200
    await gateway.stop()
