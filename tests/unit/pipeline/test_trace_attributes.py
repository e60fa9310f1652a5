"""What is stated of traces: one payload may state a great deal."""

import asyncio
import json

from gateway.pipeline.parsing.parse import Parsed, ParseRules, Payload, parse
from gateway.pipeline.trace_attributes import AT_ONCE, MAX_CALLS, TraceAttributes
from gateway.rules.context import Context
from gateway.usage.pricing.prices import Prices
from tests.support.steps import steps_of
from tests.unit.products.test_langfuse import batch, event, trace, update

CONTEXT = Context(1_795_158_600_000, "2026-11-20T07:10:00.000Z", key="k", peer="10.0.0.7")
SETTLE_MS = 10_000


def parsed(*events: object) -> Parsed:
    body = json.dumps(batch(*events)).encode()
    return parse(Payload("langfuse", body), CONTEXT, ParseRules(Prices()))


def calls(n: int) -> list[object]:
    return [update(f"g{number}") for number in range(n)]


def stated(n: int, traces: int = 1) -> list[object]:
    """The same user, over and over, of so many traces."""
    first = trace(userId="ana")["body"]
    return [
        event("trace-create", {**first, "id": f"{first['id']}{number % traces or ''}"}, event_id=f"e{number}")
        for number in range(n)
    ]


def test_what_is_stated_again_of_a_trace_of_many_calls_is_not_compared_with_each() -> None:
    def work(n_calls: int) -> int:
        memory, more = TraceAttributes(SETTLE_MS), parsed(*stated(1))
        for each in (parsed(*calls(n_calls)), more):
            asyncio.run(memory.complete("langfuse", each, CONTEXT))
        return steps_of(lambda: asyncio.run(memory.complete("langfuse", more, CONTEXT)))

    work(1)
    assert work(MAX_CALLS) < work(1) + MAX_CALLS


def test_what_is_stated_first_completes_each_call_once() -> None:
    memory = TraceAttributes(SETTLE_MS)
    asyncio.run(memory.complete("langfuse", parsed(*calls(3)), CONTEXT))
    for expected in (3, 0):
        found = asyncio.run(memory.complete("langfuse", parsed(*stated(2)), CONTEXT))
        assert found.calls is not None
        assert len(found.calls.records) == expected


async def test_others_have_their_turn_while_a_large_payload_is_completed() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(other())
    await TraceAttributes(SETTLE_MS).complete(
        "langfuse", parsed(*calls(3 * AT_ONCE), *stated(3 * AT_ONCE, 3 * AT_ONCE)), CONTEXT
    )
    beside.cancel()
    assert turns >= 5
