"""What one Langfuse SDK sends in several requests: the same records as in one, through
reading, counting and spool.
"""

import json
from collections.abc import AsyncIterator
from itertools import permutations
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.common.contract.intake import Receipt, Sender
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.intake import GatewayIntake
from gateway.pipeline.parsing.parse import ParseRules
from gateway.pipeline.parsing.parser import Parser
from gateway.pipeline.trace_attributes import MAX_CALLS
from gateway.usage.pricing.prices import Prices
from tests.support.compare import differences
from tests.support.corpus import CORPUS
from tests.support.spool_rig import Clock, Rig, metering
from tests.unit.products.test_langfuse import batch, create, event, trace, update

CAPTURED = CORPUS / "gateways" / "langfuse"
NOW_MS = 1_795_158_600_000


class Gateway:
    """An intake over a real spool, under a clock that a test moves."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self._open()

    def _open(self) -> None:
        prices = Prices()
        self.rig.counting._price = prices.price
        front = Front(
            self.rig.spool, Core(self.rig.spool, self.rig.counting), Parser(ParseRules(prices)), now_ms=self.rig.clock
        )
        self.intake = GatewayIntake(self.rig.spool, front, metering(self.rig.spool, self.rig.clock))

    async def reopen(self) -> None:
        await self.rig.reopen()
        self._open()

    async def send(self, *events: Any, key: str | None = "k") -> Receipt:
        self.rig.clock.now_ms += 100
        return await self.intake.source("langfuse", orjson.dumps(batch(*events)), sender=Sender(key, "peer"))

    async def records(self) -> list[dict[str, Any]]:
        await self.rig.settle()
        return await self.rig.records()

    async def record(self) -> dict[str, Any]:
        (found,) = await self.records()
        return found


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    rig = await Rig.opened(tmp_path / "data", Clock(NOW_MS))
    yield Gateway(rig)
    await rig.close()


def captured() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    meta = json.loads((CAPTURED / "ingestion_batch_v2sdk.meta.json").read_text())
    return meta, json.loads((CAPTURED / "ingestion_batch_v2sdk.json").read_text())["batch"]


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_batch_cut_into_requests_of_one_event_gives_the_same_calls(
    gateway: Gateway, *, backwards: bool
) -> None:
    meta, events = captured()
    for sent in reversed(events) if backwards else events:
        await gateway.send(sent)
    found = await gateway.records()
    assert differences(meta, found) == []
    assert [(x["attribution"]["user"], x["attribution"]["session"]) for x in found] == [("user-ana", "sess-lf-1")] * 3
    assert all(x["flags"] == [] and x["duration_ms"] is not None for x in found)


async def test_a_batch_that_is_sent_again_in_pieces_counts_once(gateway: Gateway) -> None:
    _, events = captured()
    await gateway.send(*events)
    await gateway.send(*events)
    for sent in events:
        await gateway.send(sent)
    assert len(await gateway.records()) == 3
    edge = gateway.rig.spool.edge()
    assert edge["received"] == sum(edge[x] for x in ("kept", "duplicate", "suppressed", "rejected", "ignored"))


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_trace_create_and_update_may_come_in_any_order(gateway: Gateway, order: tuple[int, ...]) -> None:
    parts = [trace(userId="ana", sessionId="s"), create(), update()]
    for at in order:
        await gateway.send(parts[at])
    found = await gateway.record()
    assert (found["request_model"], found["usage"]["input_tokens"], found["duration_ms"]) == ("gpt-5-mini", 9, 2500)
    assert (found["attribution"]["user"], found["attribution"]["session"], found["flags"]) == ("ana", "s", [])
    assert (found["provider"], found["response_model"], found["cost"]["source"]) == (
        "openai",
        "gpt-5-mini",
        "estimated",
    )


async def test_a_generation_that_takes_minutes_is_whole(gateway: Gateway) -> None:
    await gateway.send(trace(userId="ana"), create())
    for _ in range(12):
        assert await gateway.records() == []
    await gateway.reopen()
    await gateway.send(update())
    found = await gateway.record()
    assert (found["request_model"], found["usage"]["input_tokens"]) == ("gpt-5-mini", 9)
    assert found["attribution"]["user"] == "ana"


async def test_what_a_trace_says_reaches_the_calls_to_come(gateway: Gateway) -> None:
    await gateway.send(trace(userId="ana"), create("g1"), update("g1"))
    assert (await gateway.record())["attribution"]["user"] == "ana"
    await gateway.send(create("g2"), update("g2"))
    assert (await gateway.record())["attribution"]["user"] == "ana"


async def test_a_trace_that_comes_after_its_calls_were_let_go_changes_nothing(gateway: Gateway) -> None:
    await gateway.send(create(), update())
    assert "user" not in (await gateway.record())["attribution"]
    await gateway.send(trace(userId="ana"))
    assert await gateway.records() == []
    assert gateway.rig.spool.edge()["duplicate"] == 0


async def test_traces_of_two_senders_do_not_mix(gateway: Gateway) -> None:
    await gateway.send(trace(userId="ana"), key="one")
    await gateway.send(create(), update(), key="two")
    assert "user" not in (await gateway.record())["attribution"]


async def test_what_the_call_says_itself_goes_before_its_trace(gateway: Gateway) -> None:
    await gateway.send(create(metadata={"langfuse_user_id": "own"}), update())
    await gateway.send(trace(userId="ana", sessionId="s"))
    who = (await gateway.record())["attribution"]
    assert (who["user"], who["session"]) == ("own", "s")


async def test_a_trace_of_many_calls_is_bounded(gateway: Gateway) -> None:
    calls = [x for n in range(MAX_CALLS + 20) for x in (create(f"g{n}"), update(f"g{n}"))]
    await gateway.send(*calls)
    receipt = await gateway.send(trace(userId="ana"))
    assert receipt.items == 1 + MAX_CALLS
    found = await gateway.records()
    assert len(found) == MAX_CALLS + 20
    assert sum("user" in x["attribution"] for x in found) == MAX_CALLS


async def test_a_generation_that_repeats_the_one_below_is_suppressed(gateway: Gateway) -> None:
    """LangChain's handler around the OpenAI wrapper: a chain's span
    between two generations of one call.
    """
    outer, step = create("outer"), event("span-create", {"id": "step", "parentObservationId": "outer"})
    await gateway.send(outer, step, create("inner", parentObservationId="step"))
    await gateway.send(update("inner", usageDetails={"input": 9, "output": 4}))
    await gateway.send(update("outer", usageDetails={"input": 9, "output": 4}))
    assert (await gateway.record())["request_id"] in {"outer", "inner"}
    assert gateway.rig.spool.reasons()["suppressed.ancestor"] >= 1
