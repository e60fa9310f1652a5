"""The gateway dies by kill -9 at each step of first contacts: every device is enrolled once,
and every figure balances.
"""

import asyncio
from pathlib import Path

import pytest

from benchmarks.processes import ProcessFailed
from spool.record import DEVICES
from tests.support.device_senders import Answered, enrolled_at, heartbeat, ping, post_all, telemetry_of
from tests.support.dying import POINTS
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import until_true

pytestmark = pytest.mark.slow

NAMES = [f"d{number}" for number in range(6)]


def is_over(gateway: GatewayProcess, posting: asyncio.Task[Answered]) -> bool:
    """It died, or there is nothing left that it could die of: later
    heartbeats wait for their slots.
    """
    if gateway.process.returncode() is not None:
        return True
    try:
        status = gateway.status()
    except OSError:
        return False
    has_settled = status["devices"]["enrolments_waiting"] == 0 and status["lanes"][DEVICES]["delivered"] >= len(NAMES)
    return posting.done() and has_settled


@pytest.mark.parametrize("point", [name for name in POINTS if name.startswith("devices: ")])
async def test_each_device_is_enrolled_once_when_the_gateway_dies_at(tmp_path: Path, point: str) -> None:
    """Up to three deaths there, each at another passing, while
    devices post until they are answered.
    """
    messages = [make(name) for name in NAMES for make in (heartbeat, telemetry_of, ping)]
    gateway, deaths, is_up = GatewayProcess(tmp_path), 0, False
    posting = asyncio.create_task(post_all(lambda: gateway.intake_url if is_up else None, messages, connections=6))
    for nth in (2, 4, 6):
        gateway.dies_at = (point, nth)
        try:
            await asyncio.to_thread(gateway.start)
            is_up = True
            await until_true(lambda: is_over(gateway, posting), what="dead, or done")
            deaths += gateway.process.returncode() is not None
        except ProcessFailed:  # it came by there while it started
            deaths += 1
        finally:
            is_up = False
            gateway.kill()
    assert deaths, "it never came by there"
    gateway.dies_at = None
    with gateway:
        is_up = True
        answered = await posting
        await until_true(lambda: is_over(gateway, posting), what="settled")
        status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=len(NAMES))
        found = {each.device_id: (each.enrolments, each.epoch) for each in enrolled_at(gateway.data_dir / "service")}
    assert set(answered.statuses) <= {200, 202}
    assert found == dict.fromkeys(NAMES, (1, 1))
    assert broken_identities(status) == []
    assert status["lanes"]["ai_telemetry"]["delivered"] == len(NAMES)
