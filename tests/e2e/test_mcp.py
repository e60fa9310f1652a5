"""The MCP endpoint of the real gateway, with the official client: what an assistant finds out from
the tools alone, who is admitted, and what is never shown.
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

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess

INGEST, MCP = "ai-telemetry-ingest:ingest-ai-telemetry", "ai-hub:mcp"
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
        self.keys = {name: self._key(name, scope) for name, scope in (("sender", INGEST), ("assistant", MCP))}

    def _key(self, name: str, scope: str) -> str:
        made = run_command(self.gateway, "keys", "create", "--name", name, "--scope", scope, "--json")
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
    async def client(self, mode: str) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {self.keys['assistant']}"}
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


@pytest.mark.parametrize("mode", MODES)
async def test_every_tool_reads_and_answers_by_its_output_schema(running: Running, mode: str) -> None:
    async with running.client(mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        documented = {
            name
            for row in DOCS.read_text().splitlines()
            if row.startswith("| `")
            for name in TOOL.findall(row.split("|")[1])
        }
        assert set(tools) == documented
        assert not [name for name in tools if "key" in name]
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert tool.output_schema is not None
            if tool.name == "show_billing":  # it needs a connection
                assert (await client.call_tool(tool.name, {})).is_error
            elif not tool.input_schema.get("required"):
                await called(client, tool.name)


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
    assert statuses == {"sender": 403, "assistant": 200, "admin": 200, "viewer": 200, "metrics": 403, "nobody": 401}
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
