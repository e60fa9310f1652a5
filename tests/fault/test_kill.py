"""kill -9 of the real gateway under load (C01): what was acknowledged arrives, once,
and its own figures state it.

KILL_TEST_KILLS=200 is the long run.
"""

import asyncio
import os
import random
import secrets
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchmarks.bodies import Shape, Template
from benchmarks.scenario import Sink, running_sink
from tests.support.gateway_process import GatewayProcess, Upstream, broken_identities
from tests.support.kill_load import Load, assert_acknowledged_arrived_once

KILLS = int(os.environ.get("KILL_TEST_KILLS", "8"))
WORKERS = 8
SHAPE = Shape(spans=20, attributes=15)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with running_sink(tmp_path / "sink.log") as running:
        yield running


def upstream(sink: Sink) -> Upstream:
    return Upstream(sink.url, secrets.token_hex(16))


async def kill_at_random_moments(gateway: GatewayProcess, load: Load, chance: random.Random, kills: int) -> None:
    """Kill and restart *kills* times while *load* sends; each restart
    must find both identities whole.
    """
    for kill in range(kills):
        load.gateway_is_up()
        await asyncio.sleep(chance.uniform(0.02, 0.7))
        load.gateway_is_down()
        assert gateway.process.returncode() is None, gateway.process.log_tail()
        gateway.kill()
        if kill % 4 == 3:  # and once more while it recovers
            starting = gateway.spawn()
            await asyncio.sleep(chance.uniform(0.0, 0.6))
            starting.kill()
        await asyncio.to_thread(gateway.restart)
        assert broken_identities(gateway.status()) == [], f"after kill {kill + 1}"
    load.gateway_is_up()


async def test_c01_every_acknowledged_span_arrives_once_over_kills_under_load(
    tmp_path: Path, sink: Sink, chance: random.Random
) -> None:
    template = Template(SHAPE)
    with GatewayProcess(tmp_path, upstream=upstream(sink)) as gateway:
        load = Load(template, lambda: gateway.intake_url)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run(WORKERS))
            await kill_at_random_moments(gateway, load, chance, KILLS)
            load.stop()
        status = await asyncio.to_thread(gateway.wait_until_delivered)

    assert_acknowledged_arrived_once(load, sink, template, KILLS)
    assert set(load.statuses) <= {200, 503}
    lane = status["lanes"]["ai_telemetry"]
    assert broken_identities(status) == []
    assert lane["kept"] == lane["delivered"] == sink.counts().unique_records
    assert lane["dead_lettered"] == lane["expired"] == 0


async def test_the_service_holds_exactly_what_was_sent_when_it_dies_with_the_gateway(
    tmp_path: Path, chance: random.Random
) -> None:
    """The embedded service is killed too; senders resend until they are
    acknowledged, so its totals are exact.
    """
    template = Template(SHAPE)
    with GatewayProcess(tmp_path) as gateway:
        load = Load(template, lambda: gateway.intake_url, give_up=False)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run(WORKERS))
            await kill_at_random_moments(gateway, load, chance, 6)
            load.stop()
        assert load.acked == load.sent
        status = await asyncio.to_thread(gateway.wait_until_delivered)
        totals = gateway.summary()["totals"]
    assert broken_identities(status) == []
    assert totals["calls"] == len(load.acked) * SHAPE.spans == status["edge"]["kept"]
    assert totals["input_tokens"] == len(load.acked) * template.input_tokens
    assert totals["output_tokens"] == len(load.acked) * template.output_tokens


async def send_one(gateway: GatewayProcess, template: Template) -> None:
    """One request, acknowledged."""
    load = Load(template, lambda: gateway.intake_url)
    await load.send_one()
    assert load.acked == {0}


async def test_an_upstream_that_dies_after_its_commit_gets_the_same_records_again(tmp_path: Path, sink: Sink) -> None:
    sink.set_mode("lose_answer")
    with GatewayProcess(tmp_path, upstream=upstream(sink)) as gateway:
        await send_one(gateway, Template(SHAPE))

        def repeated() -> bool | None:
            return sink.counts().repeats >= SHAPE.spans or None

        await asyncio.to_thread(gateway.process.wait_until, repeated, what="sent again")
        gateway.kill()
        sink.set_mode("accept")
        gateway.restart()
        status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=SHAPE.spans)
    counts = sink.counts()
    assert counts.unique_records == counts.unique_spans == SHAPE.spans == status["lanes"]["ai_telemetry"]["delivered"]
    assert counts.double_counted == 0


@pytest.mark.parametrize("mode", ["refuse", "hang"])
async def test_sigterm_keeps_what_the_upstream_does_not_take(tmp_path: Path, sink: Sink, mode: str) -> None:
    sink.set_mode("refuse" if mode == "refuse" else "hang")
    with GatewayProcess(tmp_path, upstream=upstream(sink), settle="0s") as gateway:
        await send_one(gateway, Template(SHAPE))

        def tried() -> bool | None:
            return sink.counts().refused_requests > 0 or None

        await asyncio.to_thread(gateway.process.wait_until, tried, what="sent")
        assert await asyncio.to_thread(gateway.stop) == 0
        sink.set_mode("accept")
        gateway.restart()
        status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=SHAPE.spans)
    counts = sink.counts()
    assert (counts.unique_spans, counts.repeats) == (SHAPE.spans, 0)
    assert broken_identities(status) == []


async def test_a_second_gateway_on_the_same_data_directory_ends_and_touches_nothing(tmp_path: Path, sink: Sink) -> None:
    sink.set_mode("refuse")
    with GatewayProcess(tmp_path, upstream=upstream(sink)) as gateway:
        await send_one(gateway, Template(SHAPE))
        before = gateway.status()
        second = gateway.spawn()
        assert await asyncio.to_thread(second.wait, 30) not in {0, -9}
        assert "another gateway runs on this data directory" in second.log_tail()
        after = gateway.status()
        assert after["edge"] == before["edge"]
        assert after["lanes"]["ai_telemetry"]["pending"] == SHAPE.spans
        sink.set_mode("accept")
        status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=SHAPE.spans)
    assert status["lanes"]["ai_telemetry"]["delivered"] == SHAPE.spans == sink.counts().unique_spans


def test_a_killed_gateway_leaves_no_worker_behind(tmp_path: Path) -> None:
    """The worker reads until its input ends, and a killed process's pipes are closed for it."""
    with GatewayProcess(tmp_path) as gateway:
        children = psutil.Process(gateway.process.pid).children()
        gateway.kill()
        _, alive = psutil.wait_procs(children, timeout=10)
        assert not alive
