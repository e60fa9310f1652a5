"""A captured payload comes to the same records, byte for byte, wherever the spool is."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.common.contract.intake import Sender
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.parsing.parse import ParseRules
from gateway.pipeline.parsing.parse import Payload as Taken
from gateway.pipeline.parsing.parser import Parser
from gateway.usage.pricing.prices import Prices
from tests.conformance.corpus.truths import LOGS, METRICS, TRACES
from tests.support.corpus import Scenario
from tests.support.edges import items_of
from tests.support.metrics_rig import METRICS_SETTLE_MS
from tests.support.postgres import needs_postgres
from tests.support.spool_homes import CHOSEN, HOMES, InPostgres, SpoolHome, spool_home_of
from tests.support.spool_rig import Clock, Rig, drained

SENDER = Sender(None, "peer")
ONE = CHOSEN or "memory"
"""Where it is enough to look at one home."""
TWO = HOMES if CHOSEN is None else ("memory", CHOSEN)
KILLS = 8
SAMPLE = 12 if CHOSEN is None else 1
"""Every so many scenarios are looked at where a home takes longer."""
ORDERS: dict[str, Callable[[list[Taken], random.Random], list[Taken]]] = {
    "as they came": lambda items, _: items,
    "reversed": lambda items, _: items[::-1],
    "drawn": lambda items, chance: chance.sample(items, len(items)),
}


def payloads_of(scenario: Scenario) -> list[Taken]:
    return [Taken(payload.signal, payload.body, payload.is_json) for payload in scenario.payloads]


def front_of(rig: Rig) -> Front:
    return Front(rig.spool, Core(rig.spool, rig.counting), Parser(ParseRules(Prices())), now_ms=rig.clock)


async def killed_behind_each(rig: Rig, home: SpoolHome, payloads: Sequence[Taken]) -> None:
    for payload in payloads:
        await front_of(rig).put(payload, SENDER)
        home.kill()
        await rig.reopen()
        rig.clock.now_ms += 10


async def killed_now_and_then(rig: Rig, home: SpoolHome, payloads: Sequence[Taken]) -> None:
    """As often as does not take long, also where they are many."""
    each = 1 + len(payloads) // KILLS
    for at in range(0, len(payloads), each):
        *others, last = payloads[at : at + each]
        await kept_at_once(rig, home, others)
        await killed_behind_each(rig, home, [last])


async def kept_at_once(rig: Rig, home: SpoolHome, payloads: Sequence[Taken]) -> None:
    front = front_of(rig)
    for payload in payloads:
        await front.put(payload, SENDER)
        rig.clock.now_ms += 10


async def lost_before_each(rig: Rig, home: SpoolHome, payloads: Sequence[Taken], lost: Sequence[Taken] = ()) -> None:
    """Before each payload a commit fails that had it and all that come later, and those of *lost*,
    which never come again.
    """
    front = front_of(rig)
    for at, payload in enumerate(payloads):
        await home.break_appends()
        refused = [front.put(each, SENDER) for each in (*lost, *payloads[at:])]
        outcomes = await asyncio.gather(*refused, return_exceptions=True)
        await home.mend_appends()
        if rig.counting.recovery is not None:
            await rig.counting.recovery
        if isinstance(outcomes[len(lost)], BaseException):  # else it has no record
            await front.put(payload, SENDER)
        rig.clock.now_ms += 10
    assert rig.counting.rebuilds == 0


async def records(
    name: str,
    payloads: Sequence[Taken],
    folder: Path,
    bring: Callable[[Rig, SpoolHome, Sequence[Taken]], Awaitable[None]],
) -> list[bytes]:
    """What is forwarded of the payloads, which come one by one."""
    clock = Clock()
    home = spool_home_of(name, folder / name, clock)
    rig = await Rig.opened(folder, clock, home=home)
    await bring(rig, home, payloads)
    await rig.settle(after_ms=METRICS_SETTLE_MS)
    await rig.settle()
    found = await drained(rig.spool)
    await home.check()
    await rig.close()
    if isinstance(home, InPostgres):
        home.drop()
    return found


def name_of(scenario: Scenario) -> str:
    return f"{scenario.name}.{scenario.payloads[0].signal}"


@pytest.mark.parametrize("scenario", [*TRACES, *LOGS, *METRICS], ids=name_of)
async def test_a_captured_payload_comes_to_the_same_records_on_every_home(scenario: Scenario, tmp_path: Path) -> None:
    first, second = [await records(name, payloads_of(scenario), tmp_path, killed_behind_each) for name in TWO]
    assert first == second


@needs_postgres
@pytest.mark.parametrize("scenario", [*TRACES[::12], *LOGS[::12], *METRICS[::12]], ids=name_of)
async def test_a_captured_payload_comes_to_the_same_records_in_postgres(scenario: Scenario, tmp_path: Path) -> None:
    """Of a sample: a schema takes a while to be made."""
    first, second = [
        await records(name, payloads_of(scenario), tmp_path, killed_behind_each) for name in ("memory", "postgres")
    ]
    assert first == second


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scenario", [*TRACES, *LOGS][SAMPLE // 2 :: SAMPLE], ids=name_of)
async def test_spans_and_log_records_that_come_one_by_one_come_to_the_same_records_on_every_home(
    scenario: Scenario, order: str, tmp_path: Path, chance: random.Random
) -> None:
    """Each in a request of its own; now and then the gateway is killed."""
    ordered = ORDERS[order](items(scenario), chance)
    first, second = [await records(name, ordered, tmp_path, killed_now_and_then) for name in TWO]
    assert first == second


def items(scenario: Scenario) -> list[Taken]:
    """The spans and log records of the payloads, each in a request of its own."""
    return [
        payload if payload.json else payload._replace(body=body)
        for payload in payloads_of(scenario)
        for body in ([payload.body] if payload.json else items_of(payload.kind, payload.body))
    ]


@pytest.mark.parametrize("scenario", [*TRACES, *LOGS], ids=name_of)
async def test_what_a_failed_commit_had_and_comes_again_is_counted_as_if_it_came_once(
    scenario: Scenario, tmp_path: Path
) -> None:
    every = payloads_of(scenario)
    kept = await records(ONE, every, tmp_path / "kept", kept_at_once)
    assert await records(ONE, every, tmp_path / "lost", lost_before_each) == kept


@pytest.mark.parametrize("scenario", [*TRACES, *LOGS], ids=name_of)
async def test_what_a_failed_commit_had_and_never_comes_again_decides_nothing(
    scenario: Scenario, tmp_path: Path, chance: random.Random
) -> None:
    every = items(scenario)
    lost = [each for each in every if chance.random() < 0.5]
    left = [each for each in every if each not in lost]
    kept = await records(ONE, left, tmp_path / "kept", kept_at_once)
    found = await records(ONE, left, tmp_path / "lost", partial(lost_before_each, lost=lost))
    assert [*map(_without_people, found)] == [*map(_without_people, kept)]


def _without_people(record: bytes) -> dict[str, Any]:
    """Who is behind the calls below a span stays known from any report of it."""
    found: dict[str, Any] = orjson.loads(record)
    del found["attribution"]
    return found
