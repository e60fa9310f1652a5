"""The service forgets a whole fleet: no one is enrolled again until an operator
states it, and who is new is.
"""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.device_fleet import devices, enrolled_fleet, forget, speak, until
from tests.support.device_senders import enrolled_at, run_devices
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.service_process import ServiceProcess

NAMES = [f"dev-{number:02d}" for number in range(60)]

pytestmark = pytest.mark.slow


async def test_a_forgotten_fleet_is_not_enrolled_again_until_an_operator_says_so(tmp_path: Path) -> None:
    async with enrolled_fleet(tmp_path, NAMES) as (gateway, service):
        forget(service, "kind <> 'gateway'")
        await speak(gateway, NAMES, 2)
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
        await until(lambda: len(devices(service)) == len(NAMES), 60, "enrolled by an operator's word")
        assert {x.enrolments for x in devices(service)} == {1}
        await until(lambda: gateway.status()["lanes"]["devices"]["state"] == "ok", 60, "ok")


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
