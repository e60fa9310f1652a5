"""The turns of MCP requests: a few at once, and no caller waits for the queue of another one."""

import asyncio
from collections import Counter

import pytest

from gateway.common.contract.errors import Overloaded
from gateway.operate.mcp.message import fault_of
from gateway.operate.mcp.turns import AT_ONCE, AT_ONCE_OF_CALLER, MAX_UNDER_WAY, Turns
from tests.support.retained import largest


class Rig:
    def __init__(self) -> None:
        self.turns = Turns()
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[str] = []

    async def request(self, caller: str) -> None:
        async with self.turns.turn(caller):
            self.order.append(caller)
            self.running.update((caller, "all"))
            for name in (caller, "all"):
                self.most[name] = max(self.most[name], self.running[name])
            for _ in range(5):
                await asyncio.sleep(0)
            self.running.subtract((caller, "all"))


async def test_a_few_requests_run_at_once_and_of_one_caller_fewer() -> None:
    rig = Rig()
    callers = [f"key {n % 5}" for n in range(100)]
    await asyncio.gather(*(rig.request(caller) for caller in callers))
    assert rig.most["all"] == AT_ONCE
    assert {rig.most[caller] for caller in set(callers)} <= {1, AT_ONCE_OF_CALLER}
    assert Counter(rig.order) == Counter(callers)
    alone = Rig()
    await asyncio.gather(*(alone.request("key") for _ in range(10)))
    assert alone.most["all"] == AT_ONCE_OF_CALLER


async def test_one_that_asks_once_has_its_turn_before_the_queue_of_one_that_floods() -> None:
    rig = Rig()
    flood = [asyncio.create_task(rig.request("flood")) for _ in range(MAX_UNDER_WAY)]
    await asyncio.sleep(0)
    await rig.request("honest")
    assert rig.order.index("honest") <= AT_ONCE
    await asyncio.gather(*flood)


async def test_a_caller_with_too_many_under_way_is_refused_and_forgotten_when_they_end() -> None:
    rig = Rig()
    flood = [asyncio.create_task(rig.request("flood")) for _ in range(MAX_UNDER_WAY)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match=f"{MAX_UNDER_WAY} requests of this caller are under way"):
        await rig.request("flood")
    await rig.request("honest")
    for task in flood[::2]:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    assert largest(rig.turns) == 0
    await rig.request("flood")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', "id: "),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', "id: "),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', "id: "),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', "id: "),
        (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', "id: "),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', "a batch"),
        (b"[]", "a batch"),
        (b'"ping"', "a JSON object"),
        (b"null", "a JSON object"),
    ],
)
def test_a_message_that_would_have_no_answer_in_words_is_refused_in_words(body: bytes, says: str) -> None:
    assert (fault_of(body) or "").startswith(says)


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":"a","method":"ping"}',
        b'{"jsonrpc":"2.0","id":0,"method":"ping"}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
        b"{",
        b"",
    ],
)
def test_every_other_one_is_the_sdks_to_judge(body: bytes) -> None:
    assert fault_of(body) is None
