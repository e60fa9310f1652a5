"""The MCP endpoint of the real gateway under insane messages and under floods: each is answered in
words and within bounds, none is an unforeseen error, and who asks little is answered meanwhile.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import aiohttp
import pytest

from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess

ACCEPT: Final = "application/json, text/event-stream"
FLOOD: Final = 100
"""Connections."""
TOO_MANY: Final = 50_000

RAW: Final = {
    "deep list": b'{"team":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep object": b'{"team":' + b'{"a":' * 30_000 + b"1" + b"}" * 30_000 + b"}",
    "deep enough to pass": b'{"team":' + b"[" * 90 + b"]" * 90 + b"}",
    "whole number of 200,000 digits": b'{"limit":' + b"9" * 200_000 + b"}",
    "whole number of 4,000 digits": b'{"limit":' + b"9" * 4000 + b"}",
    "infinite": b'{"limit":1e400}',
    "no number": b'{"limit":NaN}',
    "half a pair": b'{"team":"\\ud800"}',
    "half a pair as name": b'{"\\ud800":1}',
    "no UTF-8": b'{"team":"\xff"}',
    "NUL": b'{"team":"\\u0000"}',
    "many values": b'{"team":[' + b",".join([b'"t"'] * TOO_MANY) + b"]}",
    "many names": b"{" + b",".join(b'"k%d":1' % n for n in range(15_000)) + b"}",
    "one name often": b"{" + b",".join([b'"team":"a"'] * 15_000) + b"}",
    "long text": b'{"team":"' + b"x" * 200_000 + b'"}',
    "list": b"[]",
    "text": b'"x"',
    "end of time": b'{"to":"9999-12-31T23:59:59.999999999Z"}',
    "year 1": b'{"from":"0001-01-01T00:00:00+23:59"}',
}
ODD_VALUES: Final[list[Any]] = [
    *(None, True, 0, -1, 2**63, 10**400, 1.5, "", " ", "\x00", "\u202e", "9" * 5000, "²", "1e5", "-0"),
    *([], [[]], [None], {}, {"a": 1}, ["x"] * 1000, [""], "0001-01-01", "9999-12-31T23:59:59.999999999Z"),
]


class Running:
    def __init__(self, gateway: GatewayProcess, session: aiohttp.ClientSession) -> None:
        self.gateway, self.session = gateway, session
        self.admin = (gateway.data_dir / "admin-token").read_text().strip()

    def key(self, name: str) -> str:
        made = run_command(self.gateway, "keys", "create", "--name", name, "--scope", "ai-hub:mcp", "--json")
        assert made.code == 0, made.err
        return str(made.json["secret"])

    async def post(self, body: bytes, key: str | None = None) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": key or self.admin, "Content-Type": "application/json", "Accept": ACCEPT}
        async with self.session.post(f"{self.gateway.admin_url}/mcp", data=body, headers=headers) as response:
            text = await response.read()
            return response.status, json.loads(text) if text else {}

    async def call(self, tool: str, arguments: object, key: str | None = None) -> tuple[int, dict[str, Any]]:
        return await self.post(message(tool, json.dumps(arguments).encode()), key)

    async def unforeseen(self) -> int:
        headers = {"Authorization": self.admin}
        async with self.session.get(f"{self.gateway.admin_url}/metrics", headers=headers) as response:
            found = re.search(r"^telemetry_gateway_unforeseen_errors_total (\S+)$", await response.text(), re.MULTILINE)
        assert found is not None
        return int(float(found[1]))


def message(tool: str, arguments: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":%s}}' % (
        tool.encode(),
        arguments,
    )


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("mcp"), config={"mcp": "on"}) as gateway:
        yield gateway


@pytest.fixture
async def running(gateway: GatewayProcess) -> AsyncIterator[Running]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Running(gateway, session)


async def test_insane_arguments_are_refused_in_words(running: Running) -> None:
    for name, arguments in RAW.items():
        status, answer = await running.post(message("show_usage", arguments))
        assert status in {200, 400, 413}, name
        assert "unforeseen" not in json.dumps(answer), name
    status, answer = await running.post(message("show_usage", RAW["many values"]))
    assert (status, answer["result"]["content"][0]["text"]) == (200, "team: 1000 values at most")
    assert await running.unforeseen() == 0


async def test_every_argument_of_every_tool_takes_any_value_or_refuses_it(running: Running) -> None:
    _, listed = await running.post(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    asked = 0
    for tool in listed["result"]["tools"]:
        for name in tool["inputSchema"]["properties"]:
            for value in ODD_VALUES:
                status, answer = await running.call(tool["name"], {name: value})
                text = json.dumps(answer)
                assert (status, "unforeseen" in text, "result" in answer) == (200, False, True), (tool["name"], name)
                asked += 1
    assert asked > 20 * len(ODD_VALUES)
    assert await running.unforeseen() == 0


async def test_a_flood_of_one_key_is_refused_in_part_and_another_key_is_answered(running: Running) -> None:
    flooding, honest = running.key("flooding"), running.key("honest")
    is_over = asyncio.Event()
    statuses: Counter[int] = Counter()

    async def flood() -> None:
        while not is_over.is_set():
            statuses[(await running.call("show_usage", {}, flooding))[0]] += 1

    floods = [asyncio.create_task(flood()) for _ in range(FLOOD)]
    answers = [(await running.call("show_usage", {}, honest))[0] for _ in range(20)]
    is_over.set()
    await asyncio.gather(*floods)
    assert answers == [200] * 20
    assert set(statuses) == {200, 503}
    assert await running.unforeseen() == 0


async def test_clients_that_leave_before_the_answer_leave_nothing_behind(running: Running) -> None:
    key = running.key("leaving")
    for _ in range(5):
        calls = [asyncio.create_task(running.call("show_usage", {}, key)) for _ in range(FLOOD)]
        await asyncio.sleep(0)
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    async with asyncio.timeout(60):
        while (await running.call("show_usage", {}, key))[0] == 503:  # those that reached it are under way
            continue
    assert await running.unforeseen() == 0
