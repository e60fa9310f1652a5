"""A fleet at once: every message is answered, every device is enrolled once, and the service is neither run over nor asked for a fleet it lost."""

import asyncio
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.device_senders import (
    Answered,
    Enrolled,
    enrolled_at,
    heartbeat,
    most_over_bucket,
    post_all,
    run_devices,
    telemetry_of,
)
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import until_true
from tests.support.service_process import ServiceProcess
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.slow

DEVICES = 5_000
CONNECTIONS = 50
PER_S, BURST = 150, 50
KILLS = 3
BACK_OFF_S = 200
"""One in some ten thousand enrolments fails seven times in a row, and then waits up to 64 s."""
POSTED_WITHIN_S = 25
"""10 s on a machine that does nothing else; both ends, the service and other tests share these cores."""


class Fleet:
    """A gateway that is killed and started again while its devices post."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self.gateway = gateway
        self.is_up = True

    def url(self) -> str | None:
        return self.gateway.intake_url if self.is_up else None

    async def kill_and_start(self) -> float:
        """Seconds for which nobody listened."""
        began_s = time.monotonic()
        self.is_up = False
        self.gateway.kill()
        await asyncio.to_thread(self.gateway.start)
        self.is_up = True
        return time.monotonic() - began_s


def gateway_to(folder: Path, service: ServiceProcess, port: int, **devices: object) -> GatewayProcess:
    return GatewayProcess(folder, config={"upstream": service.upstream(port), "devices": devices})


@pytest.mark.timeout(700)
async def test_five_thousand_devices_at_once_are_enrolled_once_each_whatever_fails(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path)
    service.start("--fail", "500:0.2")
    assert service.port is not None
    limits = {"max_new_per_hour": 2 * DEVICES, "enroll_per_s": PER_S, "enroll_burst": BURST}
    gateway = gateway_to(tmp_path, service, service.port, **limits)
    try:
        with gateway:
            answered, down_s = await first_contacts(Fleet(gateway))
            await until(lambda: len(devices(service)) >= DEVICES, 240, "enrolled")
            await until(lambda: nothing_waits(gateway), BACK_OFF_S, "settled")
            found, status = devices(service), gateway.status()
            assert gateway.stop() == 0
    finally:
        service.kill()
    over = most_over_bucket([device.enrolled_ms for device in found], PER_S)
    sys.stderr.write(
        f"{len(answered.statuses)} messages answered in {answered.took_s - down_s:.1f} s beside {down_s:.1f} s without a gateway,"
        f" the slowest in {max(answered.waited_s):.2f} s; {answered.tries} tries;"
        f" at most {over:.0f} enrolments at once over {PER_S}/s; {status['lanes']['devices']}\n"
    )
    assert set(answered.statuses) <= {200, 202}
    assert len(answered.statuses) == 2 * DEVICES
    assert answered.took_s - down_s < POSTED_WITHIN_S
    assert sorted(answered.waited_s)[-len(answered.waited_s) // 100] < 1.0
    assert len({device.device_id for device in found}) == len(found) == DEVICES
    assert {device.enrolments for device in found} == {1}
    assert {device.epoch for device in found} == {1}
    assert over <= BURST + 15  # what is under way, and jitter of the times
    assert not broken_identities(status)


async def first_contacts(fleet: Fleet) -> tuple[Answered, float]:
    """Each device posts two messages at once; meanwhile the gateway is killed three times. The answers, and seconds without a gateway."""
    names = [f"dev-{number:05d}" for number in range(DEVICES)]
    messages = [make(name) for name in names for make in (heartbeat, telemetry_of)]
    sent = 0

    def counted() -> str | None:
        nonlocal sent
        sent += 1
        return fleet.url()

    posting = asyncio.create_task(post_all(counted, messages, connections=CONNECTIONS))
    down_s = 0.0
    for kill in range(1, KILLS + 1):
        target = len(messages) * kill // (KILLS + 1)
        await until_true(lambda target=target: sent >= target, timeout_s=120, what=f"{target} posted")  # type: ignore[misc]  # the default binds the loop's value
        down_s += await fleet.kill_and_start()
    return await posting, down_s


def devices(service: ServiceProcess) -> list[Enrolled]:
    return [each for each in enrolled_at(service.data_dir / "service") if each.device_id.startswith("dev-")]


def nothing_waits(gateway: GatewayProcess) -> bool:
    status = gateway.status()
    waiting = status["devices"]["enrolments_waiting"]
    return bool(waiting == 0 and status["devices"]["states"].get("enrolled", 0) >= DEVICES)


FORGOTTEN = 60


@pytest.mark.timeout(600)
async def test_one_forgotten_device_is_enrolled_again_and_a_forgotten_fleet_is_not(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path)
    service.start()
    async with TcpProxy(lambda: service.port) as proxy:
        gateway = gateway_to(tmp_path, service, proxy.port, enroll_per_s=100)
        names = [f"dev-{number:02d}" for number in range(FORGOTTEN)]
        try:
            await asyncio.to_thread(gateway.start)
            sequence = 1
            await speak(gateway, names, sequence)
            await until(lambda: len(devices(service)) == FORGOTTEN, 60, "enrolled")
            await until(lambda: all(x.heartbeats for x in devices(service)), 60, "heard of")

            forget(service, "device_id = 'dev-07'")
            await speak(gateway, names, sequence := sequence + 1)
            await until(lambda: len(devices(service)) == FORGOTTEN, 200, "enrolled again")
            epochs = {x.device_id: x.epoch for x in devices(service)}
            assert {name for name, epoch in epochs.items() if epoch > 1} == {"dev-07"}
            await until(
                lambda: all(x.heartbeats >= 2 or x.device_id == "dev-07" for x in devices(service)),
                120,
                "heard of twice",
            )

            forget(service, "kind <> 'gateway'")
            await speak(gateway, names, sequence := sequence + 1)
            await until(lambda: gateway.status()["lanes"]["devices"]["state"] == "held", 120, "held")
            assert "does not know device after device" in gateway.status()["lanes"]["devices"]["reason"]
            await until(lambda: cool_down_is_over(gateway), 120, "at the end of each cool-down")
            await meet_stranger(gateway, service, "new-1")
            assert devices(service) == [], "the lane enrols, and nobody that was forgotten"
            await asyncio.to_thread(gateway.stop)
            await asyncio.to_thread(gateway.start)
            await meet_stranger(gateway, service, "new-2")
            assert devices(service) == [], "a restart is no reason either"
            assert not broken_identities(gateway.status())

            ended = await asyncio.to_thread(run_devices, gateway, "enroll", "--all")
            assert ended.code == 0, ended.err
            await until(lambda: len(devices(service)) == FORGOTTEN, 60, "enrolled by an operator's word")
            assert {x.enrolments for x in devices(service)} == {1}
            await until(lambda: gateway.status()["lanes"]["devices"]["state"] == "ok", 60, "ok")
        finally:
            gateway.kill()
            service.kill()


def cool_down_is_over(gateway: GatewayProcess) -> bool:
    """Whether each enrolment that waits is due by now."""
    with closing(sqlite3.connect(f"file:{gateway.data_dir / 'control.db'}?mode=ro", uri=True)) as connection:
        waiting, last_due_ms = connection.execute("SELECT count(*), max(due_ms) FROM enrolments").fetchone()
    return bool(waiting) and last_due_ms < time.time() * 1000


async def meet_stranger(gateway: GatewayProcess, service: ServiceProcess, name: str) -> None:
    """The lane looks at all that is due, and enrols who is new."""
    await speak(gateway, [name], 1)
    folder = service.data_dir / "service"
    await until(lambda: any(each.device_id == name for each in enrolled_at(folder)), 60, f"{name} enrolled")


async def speak(gateway: GatewayProcess, names: list[str], sequence: int) -> None:
    answered = await post_all(lambda: gateway.intake_url, [heartbeat(name, sequence) for name in names])
    assert set(answered.statuses) == {202}


async def until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """As `until_true`; what is asked of another process is not asked a hundred times a second."""
    ends_s = time.monotonic() + timeout_s
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < ends_s, f"not {what} after {timeout_s} s"
        await asyncio.sleep(0.3)


def forget(service: ServiceProcess, which: str) -> None:
    """As if the service lost these devices: its file is changed while it is stopped."""
    service.kill()
    with closing(sqlite3.connect(service.data_dir / "service" / "service.db")) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"DELETE FROM devices WHERE {which}")
        connection.commit()
    service.start()
