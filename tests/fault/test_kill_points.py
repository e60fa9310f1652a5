"""kill -9 at chosen points of the gateway's own code, under load (C01) and while it starts (C08),
and of the service after its commit (C17).

CI passes each point once; KILL_TEST_STARTS=100 and KILL_TEST_ROUNDS=12 are the long runs.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.bodies import AI_SPAN_ID_BASE, Shape, Template
from benchmarks.processes import ProcessFailed
from tests.support.dying import AT_START, UNDER_LOAD
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.kill_load import Load
from tests.support.polling import until_true
from tests.support.service_process import ServiceProcess

STARTS = int(os.environ.get("KILL_TEST_STARTS", "12"))
ROUNDS = int(os.environ.get("KILL_TEST_ROUNDS", "1"))
SERVICE_KILLS = int(os.environ.get("KILL_TEST_SERVICE_KILLS", "2"))
SHAPE = Shape(spans=20, attributes=15)
WORKERS = 4
MOODS = {"inside a split": "413:0.5", "inside a release": "503:0.5"}
"""What the service has to do for a point to be passed."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    process = ServiceProcess(tmp_path)
    process.start()
    yield process
    process.kill()


def gateway_for(service: ServiceProcess, folder: Path) -> GatewayProcess:
    assert service.port is not None
    return GatewayProcess(folder, settle="0s", config={"upstream": service.upstream(service.port)})


async def set_mood(service: ServiceProcess, fail: str | None) -> None:
    """Have it fail like this, or never."""
    if fail is not None or service.mood is not None:
        service.kill()
        options = () if fail is None else ("--fail", fail)
        await asyncio.to_thread(service.start, *options)
        service.mood = fail


async def until_dead(gateway: GatewayProcess) -> bool:
    """Whether it died by itself."""
    try:
        await until_true(lambda: gateway.process.returncode() is not None, what="dead")
    except TimeoutError:
        return False
    return gateway.process.returncode() == -signal.SIGKILL


async def start_and_die(gateway: GatewayProcess, load: Load, point: str, nth: int) -> bool:
    """Whether it died at that point, while it started or under load; then it is up again,
    with both identities whole.
    """
    gateway.dies_at = (point, nth)
    try:
        await asyncio.to_thread(gateway.start)
    except ProcessFailed:
        died = gateway.process.returncode() == -signal.SIGKILL
    else:
        load.gateway_is_up()
        died = await until_dead(gateway)
        load.gateway_is_down()
        gateway.kill()
    gateway.dies_at = None
    await asyncio.to_thread(gateway.start)
    assert broken_identities(gateway.status()) == [], f"after {point}"
    load.gateway_is_up()
    return died


def stored(service: ServiceProcess) -> Counter[int]:
    """Request number -> how many of its spans the service has."""
    spans = Counter(int(record["trace"]["span_id"], 16) - AI_SPAN_ID_BASE for record in service.records())
    assert set(spans.values()) <= {1}, "a span is there twice"
    return Counter(span // SHAPE.spans for span in spans)


def assert_exact(load: Load, service: ServiceProcess) -> None:
    """What was acknowledged is in the service whole, the rest whole or not at all."""
    found = stored(service)
    assert [n for n in load.acked if found[n] != SHAPE.spans] == [], "acknowledged, but not arrived"
    assert set(found.values()) <= {SHAPE.spans}, "a request was kept in part"
    assert set(found) <= load.sent


async def test_c01_what_was_acknowledged_survives_a_kill_at_every_point_of_the_code(
    tmp_path: Path, service: ServiceProcess, chance: random.Random
) -> None:
    gateway = gateway_for(service, tmp_path)
    load = Load(Template(SHAPE), lambda: gateway.intake_url)
    missed = []
    await asyncio.to_thread(gateway.start)
    load.gateway_is_up()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run(WORKERS))
            for point in UNDER_LOAD * ROUNDS:
                load.gateway_is_down()
                gateway.kill()
                await set_mood(service, MOODS.get(point))
                if not await start_and_die(gateway, load, point, 1 if point in MOODS else chance.randint(1, 3)):
                    missed.append(point)
                if point in MOODS:
                    await set_mood(service, None)
            load.stop()
        status = await asyncio.to_thread(gateway.wait_until_delivered)
    finally:
        gateway.kill()
    sys.stderr.write(f"{len(UNDER_LOAD) * ROUNDS} kills at points, missed {missed}; {len(load.acked)} acknowledged\n")
    assert missed == [], "these points were not passed"
    assert_exact(load, service)
    lane = status["lanes"]["ai_telemetry"]
    assert lane["delivered"] == lane["kept"] == sum(stored(service).values())


async def test_c08_a_start_that_is_killed_again_and_again_loses_and_doubles_nothing(
    tmp_path: Path, service: ServiceProcess, chance: random.Random
) -> None:
    gateway = gateway_for(service, tmp_path)
    load = Load(Template(SHAPE), lambda: gateway.intake_url)
    await asyncio.to_thread(gateway.start)
    load.gateway_is_up()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run(WORKERS))
            await until_true(lambda: len(load.acked) >= 100, what="loaded")
            load.gateway_is_down()
            gateway.kill()
            load.stop()
            died = [await killed_while_it_starts(gateway, chance) for _ in range(STARTS)]
            await asyncio.to_thread(gateway.start)
            assert broken_identities(gateway.status()) == []
            load.gateway_is_up()
        await asyncio.to_thread(gateway.wait_until_delivered)
    finally:
        gateway.kill()
    sys.stderr.write(f"{STARTS} starts, killed at {dict(Counter(died))}\n")
    assert_exact(load, service)


async def killed_while_it_starts(gateway: GatewayProcess, chance: random.Random) -> str:
    """Where: at a point of its code, or after some time."""
    if chance.random() < 0.5:
        starting = gateway.spawn()
        await asyncio.sleep(chance.uniform(0.1, 1.0))
        starting.kill()
        return "some time"
    gateway.dies_at = (chance.choice(AT_START), 1)
    starting = gateway.spawn()
    where, gateway.dies_at = gateway.dies_at[0], None
    assert await asyncio.to_thread(starting.wait, 30) == -signal.SIGKILL, where
    return where


async def test_c17_a_service_that_is_killed_after_its_commit_ends_with_the_exact_total(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path)
    await asyncio.to_thread(service.start)
    assert service.port is not None
    template = Template(SHAPE)
    config = {"upstream": service.upstream(service.port), "devices": {"enroll": "off"}}  # no answer but to records
    with GatewayProcess(tmp_path, settle="0s", config=config) as gateway:
        load = Load(template, lambda: gateway.intake_url, give_up=False)
        for _ in range(SERVICE_KILLS):
            service.kill()
            service.dies_at = ("service: before an answer", 1)  # what it stored is committed by then
            await asyncio.to_thread(service.start)
            await load.send_one()
            await asyncio.to_thread(service.process.wait)
            committed = len(service.records())
            service.dies_at = None
            await asyncio.to_thread(service.start)
            wanted = len(load.acked) * SHAPE.spans
            assert committed == wanted, "the kill came too early"
            status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=wanted)
    service.kill()
    assert status["lanes"]["ai_telemetry"]["delivered"] == SERVICE_KILLS * SHAPE.spans
    assert stored(service) == Counter(dict.fromkeys(range(SERVICE_KILLS), SHAPE.spans))
    tokens = sum(record["usage"]["input_tokens"] for record in service.records())
    assert tokens == SERVICE_KILLS * template.input_tokens
