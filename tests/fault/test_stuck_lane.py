"""A lane that states that it is well and does not move (C18): lost wake-ups, a pump that stands
still, a batch that no one holds any more.

The real gateway with its embedded service, in the test's own process, so that
the faults can be put in.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from benchmarks.bodies import Shape, Template
from exporters.pump import WATCHDOG_S, Pump
from gateway.app import Gateway
from gateway.pipeline.delivery.lanes import WATCH_S
from gateway.pipeline.delivery.watchdog import STILL_S
from spool.record import AI_TELEMETRY
from tests.support.polling import HANGS_S, until_true
from tests.support.running_gateway import running_gateway

RECOVERS_S = 5.0
MAX_LOOKS = 3
"""At the spool, by a lane that no one wakes: for what came, for a fuller batch, and one more."""
SPANS = 20
TEMPLATE = Template(Shape(spans=SPANS, attributes=15))


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path, **{"counting.settle": "0s"}) as running:
        yield running


async def send(gateway: Gateway, number: int) -> None:
    url = f"http://{gateway.ports.http}/v1/traces"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=TEMPLATE.body(number), headers=TEMPLATE.headers()) as answer,
    ):
        assert answer.status == 200


async def delivered(gateway: Gateway, records: int) -> None:
    """Return when the lane delivered as many."""
    await until_true(lambda: gateway.spool.depth(AI_TELEMETRY).delivered >= records, what="delivered")


IDLE = Pump._idle


def restarts(gateway: Gateway) -> int:
    return gateway.status()["lanes"][AI_TELEMETRY]["restarts"]


def test_c18_what_is_stuck_is_found_in_less_than_five_seconds() -> None:
    assert WATCHDOG_S < RECOVERS_S, "a lane that no one wakes looks at its spool so often"
    assert STILL_S + 2 * WATCH_S < RECOVERS_S, "a pump that does not move is replaced after that"


async def test_c18_a_lost_wake_up_costs_a_look_at_the_spool_and_no_restart(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(gateway, 0)
    await delivered(gateway, SPANS)
    for wake in gateway.spool._wakes.values():
        monkeypatch.setattr(wake, "set", lambda: None)
    looks = 0

    async def counted(pump: Pump) -> None:
        nonlocal looks
        looks += pump.lane == AI_TELEMETRY
        await IDLE(pump)

    await send(gateway, 1)
    monkeypatch.setattr(Pump, "_idle", counted)
    await delivered(gateway, 2 * SPANS)
    assert looks <= MAX_LOOKS
    assert restarts(gateway) == 0


async def test_c18_a_pump_that_is_stuck_is_replaced_and_counted(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = asyncio.Event()

    async def stand_still(pump: Pump) -> None:
        if pump.lane == AI_TELEMETRY and not stuck.is_set():
            stuck.set()
            await asyncio.Event().wait()
        else:
            await IDLE(pump)

    monkeypatch.setattr(Pump, "_idle", stand_still)
    async with asyncio.timeout(HANGS_S):
        await stuck.wait()
    await send(gateway, 0)
    await delivered(gateway, SPANS)
    assert restarts(gateway) == 1
    async with aiohttp.ClientSession() as session, session.get(f"http://{gateway.ports.admin}/metrics") as answer:
        assert 'telemetry_gateway_lane_restarts_total{lane="ai_telemetry"} 1.0' in await answer.text()


async def test_c18_a_batch_that_is_leased_to_nobody_goes_out_again(gateway: Gateway) -> None:
    spool = gateway.spool
    locks = spool._freezing
    locks[AI_TELEMETRY] = lock = asyncio.Lock()
    async with lock:  # the lane's pump has to wait
        await send(gateway, 0)
        await until_true(lambda: spool.depth(AI_TELEMETRY).pending == SPANS, what="kept")
        await until_true(lambda: gateway.settler.ledger.oldest_ms() is None, what="settled")
        locks[AI_TELEMETRY] = asyncio.Lock()
        stolen = await spool.freeze(AI_TELEMETRY, max_records=SPANS, max_bytes=1 << 20)
    assert stolen is not None
    assert len(stolen.records) == SPANS
    await delivered(gateway, SPANS)
    assert restarts(gateway) == 1


async def test_c18_a_lane_that_waits_for_its_records_to_settle_is_left_alone(gateway: Gateway) -> None:
    gateway.settler.settle_ms = 60_000
    await send(gateway, 0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(RECOVERS_S):
            await delivered(gateway, SPANS)
    assert restarts(gateway) == 0
