"""The MCP endpoint of the real gateway, with the official client: what an assistant finds out from
the tools alone, what it may change, who is admitted, and what is never shown.
"""

import json
import re
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent, Tool

from gateway.operate.mcp.descriptions import DESCRIPTIONS
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess

INGEST, MCP = "ai-telemetry-ingest:ingest-ai-telemetry", "ai-hub:mcp"
WRITES = {
    "create_budget": "budgets:create_budget",
    "change_budget": "budgets:update_budget",
    "create_view": "views:create_view",
    "change_view": "views:update_view",
    "create_allocation_definition": "allocation:create_definition_async",
    "create_allocation_version": "allocation:create_definition_version",
    "preview_allocation": "allocation:create_definition_async",
    "change_recommendation": "optimize:update_recommendations",
    "create_insight": "insights:create_insight",
    "change_insight": "insights:update_insight",
    "add_comment": "insights:create_insight_comment",
    "change_comment": "insights:update_insight_comment",
}
"""Tool that changes something -> its scope."""
MODES = ("2026-07-28", "legacy")
"""Both eras of the protocol: without a handshake, and with one."""
DOCS = Path(__file__).parents[2] / "docs" / "mcp.md"
TOOL = re.compile(r"`(\w+)`")
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
LAST_WEEK, WEEK_BEFORE = NOW - timedelta(days=7), NOW - timedelta(days=14)


def record(number: int, at: datetime, *, team: str, model: str, user: str, cost: str) -> dict[str, Any]:
    stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "schema": "inference/1", "record_id": f"{number:032x}", "kind": "call", "billed": True, "operation": "chat",
        "source": {"format": "otlp.traces", "convention": "gen_ai"}, "provider": "openai", "request_model": model,
        "started_at": stamp, "duration_ms": 5, "usage": {"status": "reported", "input_tokens": 100, "output_tokens": 7},
        "cost": {"amount": cost, "currency": "USD", "source": "reported", "price_version": None},
        "status": "ok", "attribution": {"team": team, "user": user}, "received_at": stamp, "flags": [],
    }  # fmt: skip


def two_weeks() -> Iterator[dict[str, Any]]:
    """Team search spent 4 USD on gpt-4o, then 22: of the 18 more, 17.5 are bo's."""
    number = iter(range(1, 1000))
    for week, bo, ann in ((WEEK_BEFORE, "0.25", "0.15"), (LAST_WEEK, "2.00", "0.20")):
        for hour in range(10):
            at = week + timedelta(hours=7 * hour)
            yield record(next(number), at, team="search", model="gpt-4o", user="bo", cost=bo)
            yield record(next(number), at, team="search", model="gpt-4o", user="ann", cost=ann)
            yield record(next(number), at, team="search", model="gpt-4o-mini", user="ann", cost="0.01")
            yield record(next(number), at, team="checkout", model="gpt-4o", user="zoe", cost="5.00")


class Running:
    def __init__(self, gateway: GatewayProcess) -> None:
        self.gateway = gateway
        scopes = {
            "sender": (INGEST,),
            "assistant": (MCP,),
            "writer": (MCP, *WRITES.values()),
            "outside": (*WRITES.values(),),
        }
        self.keys = {name: self.key(name, *of_key) for name, of_key in scopes.items()}

    def key(self, name: str, *scopes: str) -> str:
        chosen = [word for scope in scopes for word in ("--scope", scope)]
        made = run_command(self.gateway, "keys", "create", "--name", name, *chosen, "--json")
        assert made.code == 0, made.err
        return str(made.json["secret"])

    def post(self, url: str, content: object, key: str) -> tuple[int, bytes]:
        headers = {
            "Authorization": key,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        request = urllib.request.Request(url, json.dumps(content).encode(), headers)
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    @asynccontextmanager
    async def client(self, mode: str, key: str = "assistant") -> AsyncIterator[Client]:
        """*key*: the name of one, or a credential."""
        headers = {"Authorization": f"Bearer {self.keys.get(key, key)}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{self.gateway.admin_url}/mcp", http_client=http)
            async with Client(cast("Any", transport), mode=cast("Any", mode)) as client:
                yield client


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with GatewayProcess(tmp_path_factory.mktemp("mcp"), config={"mcp": "on"}) as gateway:
        running = Running(gateway)
        records = list(two_weeks())
        envelope = {"schema": "ai-telemetry/1", "batch_id": "b", "gateway_id": "g", "records": records}
        status, answer = running.post(f"{gateway.intake_url}/v2/ai-telemetry/records", envelope, running.keys["sender"])
        assert status < 300, answer
        gateway.wait_until_delivered(at_least=len(records))
        yield running


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The client checks the result by the tool's output schema."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (text,) = result.content
    assert isinstance(text, TextContent)
    assert json.loads(text.text) == result.structured_content
    return cast("dict[str, Any]", result.structured_content)


BUDGET: dict[str, Any] = {
    "name": "Search", "amount": "30", "currency": "USD", "period": "year", "filter": {"team": ["search"]}
}  # fmt: skip


def day(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize("mode", MODES)
async def test_an_assistant_finds_what_a_team_spent_and_why_it_rose(running: Running, mode: str) -> None:
    async with running.client(mode) as client:
        where = {"team": ["search"], "model": ["gpt-4o"]}
        before = {"from": day(WEEK_BEFORE), "to": day(LAST_WEEK)}
        after = {"from": day(LAST_WEEK), "to": day(NOW)}
        spent = [(await called(client, "show_usage", **where, **week))["totals"]["costs"] for week in (before, after)]
        assert spent == [{"USD": "4"}, {"USD": "22"}]
        rise: dict[str, Decimal] = {}
        for sign, week in ((-1, before), (1, after)):
            found = await called(client, "show_usage", group_by="user", **where, **week)
            assert {row["calls"] for row in found["usage"]} == {10}, "it is no rise of calls"
            for row in found["usage"]:
                rise[row["user"]] = rise.get(row["user"], Decimal(0)) + sign * Decimal(row["costs"]["USD"])
        assert rise == {"bo": Decimal("17.5"), "ann": Decimal("0.5")}
        calls = await called(client, "list_calls", team=["search"], model=["gpt-4o"], limit=3)
        assert [call["because"] for call in calls["calls"]] == ["it is a call of its own"] * 3
        assert calls["pagination"]["item_count"] == 3
        assert calls["pagination"]["cursor"]["has_next"]


def documented() -> set[str]:
    rows = (row for row in DOCS.read_text().splitlines() if row.startswith("| `"))
    return {name for row in rows for name in TOOL.findall(row.split("|")[1])}


@pytest.mark.parametrize("mode", MODES)
async def test_a_key_without_further_scopes_only_reads_and_every_answer_is_by_its_schema(
    running: Running, mode: str
) -> None:
    async with running.client(mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == documented() - set(WRITES)
        assert not [name for name in tools if "key" in name]
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert tool.annotations.idempotent_hint
            assert not tool.annotations.destructive_hint
            assert tool.output_schema is not None
            if tool.name == "show_billing":  # it needs a connection
                assert (await client.call_tool(tool.name, {})).is_error
            elif not tool.input_schema.get("required"):
                await called(client, tool.name)


@pytest.mark.parametrize("mode", MODES)
async def test_tools_that_change_something_are_offered_to_keys_with_their_scope(running: Running, mode: str) -> None:
    async with running.client(mode, "writer") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == documented()
    for name in WRITES:
        hints, replaces = tools[name].annotations, name.startswith("change")
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (False, replaces, replaces)
        assert not hints.open_world_hint
    some = running.key(f"some {mode}", MCP, WRITES["add_comment"])
    async with running.client(mode, some) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} & set(WRITES) == {"add_comment"}


@pytest.mark.parametrize(("token", "offered"), [("admin", set(WRITES)), ("viewer", set())])
async def test_a_token_is_offered_what_its_role_may(running: Running, token: str, offered: set[str]) -> None:
    secret = (running.gateway.data_dir / f"{token}-token").read_text().strip()
    async with running.client("legacy", secret) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} & set(WRITES) == offered
        if not offered:
            assert "budgets:create_budget" in await fault_of(client, "create_budget", **BUDGET)


@pytest.mark.parametrize("mode", MODES)
async def test_an_assistant_makes_and_changes_a_budget(running: Running, mode: str) -> None:
    async with running.client(mode, "writer") as client:
        named = {**BUDGET, "name": f"Search, {mode}"}
        made = (await called(client, "create_budget", **named, webhook=None, thresholds=None))["budget"]
        assert (made["created_by"], made["amount"], made["filter"]) == ("writer", "30", {"team": ["search"]})
        assert len(made["thresholds"]) == 4, "null is left out where it may not be"
        assert "another budget has it" in await fault_of(client, "create_budget", **named)
        for _ in range(2):
            changed = (await called(client, "change_budget", budget_id=made["id"], amount="20"))["budget"]
            assert (changed["amount"], changed["period"], changed["updated_by"]) == ("20", "year", "writer")
        kept = without_state(changed)
        assert without_state((await called(client, "read_budget", budget_id=made["id"]))["budget"]) == kept
        for arguments, named_field in (
            ({"budget_id": made["id"], "amount": 20}, "amount"),
            ({"budget_id": made["id"], "colour": "red"}, "colour"),
            ({"budget_id": made["id"]}, "body"),
            ({"amount": "1"}, "budget_id"),
        ):
            assert named_field in await fault_of(client, "change_budget", **arguments)
        assert without_state((await called(client, "read_budget", budget_id=made["id"]))["budget"]) == kept


def without_state(budget: Any) -> dict[str, Any]:
    """*budget* without what is spent, whose forecast follows the time."""
    return {name: value for name, value in budget.items() if name != "state"}


@pytest.mark.parametrize("mode", MODES)
async def test_an_assistant_saves_a_question_and_asks_it(running: Running, mode: str) -> None:
    async with running.client(mode, "writer") as client:
        view = {"name": f"Core, {mode}", "group_by": ["user", "model"], "filter": {"team": ["search"]}}
        made = (await called(client, "create_view", **view))["view"]
        asked = dict(parse_qsl(urlsplit(made["usage"]).query))
        assert asked["group_by"] == "user,model"
        again = await called(client, "show_usage", **asked)
        assert {row["user"] for row in again["usage"]} == {"bo", "ann"}
        changed = (await called(client, "change_view", view_id=made["id"], interval="day"))["view"]
        assert (changed["interval"], changed["name"]) == ("day", view["name"])


@pytest.mark.parametrize("mode", MODES)
async def test_an_assistant_comments_on_an_insight_and_closes_it(running: Running, mode: str) -> None:
    async with running.client(mode, "writer") as client:
        title = f"Two teams use two models, {mode}"
        made = (await called(client, "create_insight", title=title, category="models", effort="low"))["insight"]
        comment = (await called(client, "add_comment", insight_id=made["id"], text="It is a test."))["comment"]
        assert (comment["author"], comment["text"]) == ("writer", "It is a test.")
        about = {"insight_id": made["id"], "comment_id": comment["id"]}
        assert (await called(client, "change_comment", **about, text="It was."))["comment"]["text"] == "It was."
        closed = (await called(client, "change_insight", insight_id=made["id"], status="addressed"))["insight"]
        assert closed["status"] == "addressed"
        assert (await called(client, "read_insight", insight_id=made["id"]))["insight"]["status"] == "addressed"
        assert "status" in await fault_of(client, "change_insight", insight_id=made["id"], status="closed")
        assert "no insight" in await fault_of(client, "add_comment", insight_id="none", text="x")


@pytest.mark.parametrize("mode", MODES)
async def test_a_change_without_its_scope_is_refused_with_the_command_and_names_no_token(
    running: Running, mode: str
) -> None:
    ids = ("budget_id", "view_id", "insight_id", "comment_id", "recommendation_id")
    arguments = {**dict.fromkeys(ids, "x"), "target": "team"}
    fields = {"text": "x", "title": "t", "category": "c", "effort": "low", **BUDGET}
    async with running.client(mode) as client:
        schemas = {tool.name: tool.input_schema for tool in await tools_of(running, mode)}
        for tool, scope in WRITES.items():
            known = {name: value for name, value in (arguments | fields).items() if name in schemas[tool]["properties"]}
            text = await fault_of(client, tool, **known)
            assert f"telemetry-gateway keys create --name NAME --scope ai-hub:mcp --scope {scope}" in text, tool
            assert "token" not in text
    made = run_command(running.gateway, "budgets", "list", "--json").json
    assert "assistant" not in {budget["created_by"] for budget in made["budgets"]}


async def tools_of(running: Running, mode: str) -> list[Tool]:
    async with running.client(mode, "writer") as client:
        return list((await client.list_tools()).tools)


async def test_a_key_whose_scope_was_taken_away_changes_nothing_any_more(running: Running) -> None:
    secret = running.key("shrinking", MCP, WRITES["create_view"])
    async with running.client("legacy", secret) as client:
        await called(client, "create_view", name="before")
        assert run_command(running.gateway, "keys", "edit", "shrinking", "--scope", MCP).code == 0
        assert "views:create_view" in await fault_of(client, "create_view", name="after")
        assert "create_view" not in {tool.name for tool in (await client.list_tools()).tools}
        await called(client, "list_views")


async def test_what_no_model_may_read_leads_anyone_to_hand_over_a_token(running: Running) -> None:
    async with running.client("legacy", "writer") as client:
        texts = [tool.model_dump_json() for tool in (await client.list_tools()).tools]
        assert client.instructions is not None
        assert "telemetry-gateway keys create --name NAME --scope ai-hub:mcp --scope SCOPE" in client.instructions
        assert "never ask for a token" in client.instructions
    assert not [text for text in texts if re.search(r"(admin|operator|viewer)\W*token", text, re.IGNORECASE)]
    url, ping = f"{running.gateway.admin_url}/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    metrics = (running.gateway.data_dir / "metrics-token").read_text().strip()
    for shown in ("", metrics, running.keys["outside"]):
        status, answer = running.post(url, ping, shown)
        assert status in {401, 403}
        assert b"ai-hub:mcp" in answer
        assert b"token" not in answer


async def test_every_tool_is_described_for_a_model(running: Running) -> None:
    for tool in await tools_of(running, "legacy"):
        operation_id = re.sub(r"_(\w)", lambda match: match[1].upper(), tool.name)
        assert tool.description == DESCRIPTIONS[operation_id]
        assert len(tool.description) < 1200


async def test_groups_are_a_list_or_one_text(running: Running) -> None:
    async with running.client("legacy") as client:
        week = {"from": day(WEEK_BEFORE), "to": day(NOW)}
        found = [
            await called(client, "show_usage", group_by=group_by, **week)
            for group_by in (["team", "model"], "team,model", ["team,model"])
        ]
        assert found[0]["usage"] == found[1]["usage"] == found[2]["usage"]
        assert {row["team"] for row in found[0]["usage"]} == {"search", "checkout"}
        unknown = await called(client, "show_usage", group_by=["team"], unknown=["project"], **week)
        assert unknown["totals"]["calls"] == 80
        timed = [await called(client, "show_usage", group_by=["team"], latency=word, **week) for word in (True, "true")]
        assert timed[0]["usage"] == timed[1]["usage"]
        assert all("latency" in row for row in timed[0]["usage"])
        for wrong in (["team", "user", "model", "provider"], ["colour"], [["team"]], {"team": 1}):
            assert "group_by" in await fault_of(client, "show_usage", group_by=wrong)


async def test_streams_of_unit_cost_are_listed(running: Running) -> None:
    key = running.key("streams", "unit-cost_v1:create_telemetry_stream")
    url = f"{running.gateway.intake_url}/v1/unit-cost/tokens-by-team"
    shape = {"kind": "allocation", "granularity": "HOURLY", "dimensions": ["custom:Product"]}
    assert httpx2.put(url, json=shape, headers={"Authorization": key}).status_code == 202
    async with running.client("legacy") as client:
        streams = (await called(client, "list_unit_cost_streams", kind=["allocation"]))["streams"]
        assert [(each["name"], each["dimensions"]) for each in streams] == [("tokens-by-team", ["custom:Product"])]
        one = await called(client, "read_unit_cost_stream", stream="tokens-by-team")
        assert one["stream"] == streams[0]
        assert "stream" in await fault_of(client, "read_unit_cost_stream", stream="none")


async def fault_of(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    (text,) = result.content
    assert isinstance(text, TextContent)
    return text.text


async def test_lists_are_paged_to_their_end(running: Running) -> None:
    async with running.client("legacy") as client:
        seen: list[str] = []
        arguments: dict[str, Any] = {"team": ["search"], "limit": 7}
        while True:
            page = await called(client, "list_calls", **arguments)
            seen += [call["record_id"] for call in page["calls"]]
            if not page["pagination"]["cursor"]["has_next"]:
                break
            arguments["cursor"] = page["pagination"]["cursor"]["next_cursor"]
        expected = [each["record_id"] for each in two_weeks() if each["attribution"]["team"] == "search"]
        assert sorted(seen) == sorted(expected)
        assert page["pagination"]["total_count"] == len(expected)
        one = await called(client, "list_calls", record_id=[expected[0]])
        assert [call["record_id"] for call in one["calls"]] == expected[:1]


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("show_usage", {"group_by": "colour"}, "group_by"),
        ("show_usage", {"teams": "search"}, "teams"),
        ("show_usage", {"team": [{"a": 1}]}, "team"),
        ("list_calls", {"limit": 0}, "limit"),
        ("list_calls", {"cursor": "x"}, "cursor"),
        ("read_device", {}, "id"),
        ("create_key", {}, "create_key"),
    ],
)
async def test_a_fault_is_a_result_that_names_it(
    running: Running, tool: str, arguments: dict[str, Any], named: str
) -> None:
    async with running.client("legacy") as client:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        (text,) = result.content
        assert isinstance(text, TextContent)
        assert named in text.text


def test_only_a_key_with_the_scope_and_those_who_read_the_page_are_admitted(running: Running) -> None:
    gateway, ping = running.gateway, {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    tokens = {name: (gateway.data_dir / f"{name}-token").read_text().strip() for name in ("admin", "viewer", "metrics")}
    url = f"{gateway.admin_url}/mcp"
    statuses = {
        name: running.post(url, ping, shown)[0]
        for name, shown in (running.keys | tokens | {"nobody": "x" * 40}).items()
    }
    assert statuses == {
        "sender": 403, "assistant": 200, "writer": 200, "outside": 403, "admin": 200, "viewer": 200, "metrics": 403,
        "nobody": 401,
    }  # fmt: skip
    assert running.post(f"{gateway.admin_url}/v2/usage", ping, running.keys["assistant"])[0] in {401, 405}
    run_command(gateway, "keys", "disable", "assistant", "--json")
    assert running.post(url, ping, running.keys["assistant"])[0] == 401
    run_command(gateway, "keys", "enable", "assistant", "--json")


def test_what_is_no_message_is_refused_and_a_large_body_is_not_read(running: Running) -> None:
    url, key = f"{running.gateway.admin_url}/mcp", running.keys["assistant"]
    assert running.post(url, "no message", key)[0] == 400
    assert running.post(url, {"jsonrpc": "2.0", "id": 1, "method": "ping", "x": "a" * 300_000}, key)[0] == 413
    log = running.gateway.log.read_text()
    assert key not in log
    assert "Traceback" not in log


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_there_is_no_stream_and_no_session_to_end(running: Running, method: str) -> None:
    """401 would send clients to look for OAuth."""
    headers = {"Authorization": f"Bearer {running.keys['assistant']}", "Accept": "text/event-stream"}
    request = urllib.request.Request(f"{running.gateway.admin_url}/mcp", None, headers, method=method)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    with refused.value as error:
        assert (error.code, error.headers["Allow"]) == (405, "POST")


def test_it_is_off_by_default(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        token = (gateway.data_dir / "admin-token").read_text().strip()
        request = urllib.request.Request(f"{gateway.admin_url}/mcp", b"{}", {"Authorization": token})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        with refused.value as error:
            assert error.code == 404
