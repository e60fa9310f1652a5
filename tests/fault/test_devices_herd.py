"""A fleet at once: every message is answered, every device is enrolled once,
and the service is not run over. HERD_TEST_DEVICES=5000 is the long run.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from tests.support.device_fleet import devices, gateway_to, until
from tests.support.device_senders import Answered, heartbeat, most_over_bucket, post_all, telemetry_of
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import until_true
from tests.support.service_process import ServiceProcess

pytestmark = pytest.mark.slow

DEVICES = int(os.environ.get("HERD_TEST_DEVICES", "1200"))
CONNECTIONS = 50
PER_S, BURST = 150, 50
KILLS = 3
BACK_OFF_S = 200
"""One in some ten thousand enrolments fails seven times in a row, and then waits up to 64 s."""
MAX_TRIES = 2 * DEVICES + 4 * KILLS * CONNECTIONS
"""Each message is answered at its first try, but for those that a kill interrupts."""


class Fleet:
    """A gateway that is killed and started again while its devices post."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self.gateway = gateway
        self.is_up = True

    def url(self) -> str | None:
        return self.gateway.intake_url if self.is_up else None

    async def kill_and_start(self) -> float:
        """Seconds for which no one listened."""
        began_s = time.monotonic()
        self.is_up = False
        self.gateway.kill()
        await asyncio.to_thread(self.gateway.start)
        self.is_up = True
        return time.monotonic() - began_s


@pytest.mark.timeout(1200)
async def test_thousands_of_devices_at_once_are_enrolled_once_each_whatever_fails(tmp_path: Path) -> None:
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
    assert answered.tries <= MAX_TRIES
    assert len({device.device_id for device in found}) == len(found) == DEVICES
    assert {device.enrolments for device in found} == {1}
    assert {device.epoch for device in found} == {1}
    assert over <= BURST + 15  # what is under way, and jitter of the times
    assert not broken_identities(status)


async def first_contacts(fleet: Fleet) -> tuple[Answered, float]:
    """Each device posts two messages at once; meanwhile the gateway is killed three times.

    The answers, and seconds without a gateway.
    """
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
        await until_true(lambda target=target: sent >= target, what=f"{target} posted")  # type: ignore[misc]  # the default binds the loop's value
        down_s += await fleet.kill_and_start()
    return await posting, down_s


def nothing_waits(gateway: GatewayProcess) -> bool:
    status = gateway.status()
    waiting = status["devices"]["enrolments_waiting"]
    return bool(waiting == 0 and status["devices"]["states"].get("enrolled", 0) >= DEVICES)
