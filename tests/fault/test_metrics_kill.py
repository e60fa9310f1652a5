"""kill -9 of the real gateway between and within exports of cumulative metrics: each token is
billed once, by its own figures too.
"""

import asyncio
import itertools
import random
import time
from pathlib import Path

import aiohttp
import pytest

from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.metrics import Export, at_ns
from tests.support.spans import call_span

SENDERS = 6
KILLS = 8
RETRY_S = 0.05
NOW_S = time.time() - at_ns(0) / 1e9
"""Exports of now: their time is not that of the other tests."""

pytestmark = pytest.mark.slow


async def deliver(gateway: GatewayProcess, path: str, body: bytes) -> None:
    """Send until it is acknowledged, as an SDK does."""
    headers = {"Content-Type": "application/x-protobuf"}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        while True:
            try:
                async with session.post(gateway.intake_url + path, data=body, headers=headers) as answer:
                    if answer.status == 200:
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(RETRY_S)


async def count(gateway: GatewayProcess, number: int, chance: random.Random, done: asyncio.Event) -> tuple[int, int]:
    """One sender: ever more tokens until *done*, in exports of which some state nothing
    new; what it used in all.
    """
    used_in = used_out = 0
    for n in itertools.count():
        if done.is_set():
            break
        used_in, used_out = used_in + chance.randrange(50), used_out + chance.randrange(9)
        made = Export(resource={"service.name": f"app {number}"}, start=NOW_S + number, at=NOW_S + 10 + n / 100)
        await deliver(gateway, "/v1/metrics", made.point(used_in, "input").point(used_out, "output").body)
    return used_in, used_out


async def kill_now_and_then(gateway: GatewayProcess, chance: random.Random, done: asyncio.Event) -> None:
    for kill in range(KILLS):
        await asyncio.sleep(chance.uniform(0.05, 0.5))
        assert gateway.process.returncode() is None, gateway.process.log_tail()
        gateway.kill()
        await asyncio.to_thread(gateway.restart)
        assert broken_identities(gateway.status()) == [], f"after kill {kill + 1}"
    done.set()


async def test_each_token_of_a_cumulative_metric_is_billed_once_over_kills(
    tmp_path: Path, chance: random.Random
) -> None:
    done = asyncio.Event()
    with GatewayProcess(tmp_path) as gateway:
        async with asyncio.TaskGroup() as group:
            senders = [
                group.create_task(count(gateway, n, random.Random(chance.random()), done)) for n in range(SENDERS)
            ]
            group.create_task(kill_now_and_then(gateway, chance, done))
        expected = {f"app {n}": sender.result() for n, sender in enumerate(senders)}
        status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=SENDERS)
        found = gateway.summary("service_name,kind")["summary"]
    assert broken_identities(status) == []
    assert min(used_in for used_in, _ in expected.values()) > 0
    assert {group["kind"] for group in found} == {"aggregate"}
    assert {group["service_name"]: (group["input_tokens"], group["output_tokens"]) for group in found} == expected


async def test_calls_seen_before_a_kill_keep_their_metrics_from_being_billed_after_it(tmp_path: Path) -> None:
    resource = {"service.name": "app"}
    with GatewayProcess(tmp_path) as gateway:
        await deliver(gateway, "/v1/traces", call_span("a", (100, 20), at=NOW_S, resource=resource))
        gateway.kill()
        await asyncio.to_thread(gateway.restart)
        made = Export(resource=resource, start=NOW_S, at=NOW_S + 60)
        await deliver(gateway, "/v1/metrics", made.point(100, "input").point(20, "output").body)
        gateway.kill()
        await asyncio.to_thread(gateway.restart)
        status = await asyncio.to_thread(gateway.wait_until_delivered)
        totals = gateway.summary()["totals"]
    assert broken_identities(status) == []
    assert (totals["calls"], totals["input_tokens"], totals["output_tokens"]) == (1, 100, 20)
    assert status["reasons"]["suppressed.calls_reported"] == 1
    assert not status["gaps"]
