"""The service forgets a device: it is enrolled again, once, and no other is."""

from pathlib import Path

import pytest

from tests.support.device_fleet import devices, enrolled_fleet, forget, speak, until
from tests.support.gateway_process import broken_identities

NAMES = [f"dev-{number:02d}" for number in range(60)]
GONE = "dev-07"

pytestmark = pytest.mark.slow


async def test_one_forgotten_device_is_enrolled_again(tmp_path: Path) -> None:
    async with enrolled_fleet(tmp_path, NAMES) as (gateway, service):
        forget(service, f"device_id = '{GONE}'")
        await speak(gateway, NAMES, 2)
        await until(lambda: len(devices(service)) == len(NAMES), 200, "enrolled again")
        assert [x.device_id for x in devices(service) if x.epoch > 1] == [GONE]
        await until(
            lambda: all(x.heartbeats >= 2 or x.device_id == GONE for x in devices(service)), 120, "heard of twice"
        )
        assert not broken_identities(gateway.status())
