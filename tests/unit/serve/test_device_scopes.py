"""What a key with some of the three scopes of devices may do at the running gateway: enrol with
`enroll-device` alone, and nothing else with the others.
"""

from collections.abc import AsyncIterator
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.common.contract.scopes import ENROLL_SCOPE, HEARTBEAT_SCOPE, PING_SCOPE, Fixed
from gateway.config.values import TcpAddress
from tests.support.running_gateway import running_gateway

BASES: Final = ("/v1/devices", "/v2/ai-control-plane/devices")
"""Of senders, and of gateways that forward."""
SCOPES: Final = (ENROLL_SCOPE, HEARTBEAT_SCOPE, PING_SCOPE)


SUBSETS: Final = [frozenset(some) for n in (1, 2, 3) for some in combinations(SCOPES, n)]


class Rig(NamedTuple):
    gateway: Gateway
    client: aiohttp.ClientSession

    async def key(self, scopes: frozenset[str]) -> str:
        made = await self.gateway.keys.create(" ".join(sorted(scopes)), Fixed(scopes), by="ops@example.com")
        return made.secret.reveal()

    async def post(self, path: str, key: str | None, body: object = None) -> tuple[int, str]:
        assert isinstance(self.gateway.ports.http, TcpAddress)
        url = f"http://127.0.0.1:{self.gateway.ports.http.port}{path}"
        headers = {"Content-Type": "application/json", **({} if key is None else {"Authorization": key})}
        async with self.client.post(url, json=body, headers=headers) as response:
            return response.status, await response.text()

    async def beat(
        self, base: str, device: str, key: str | None, sequence: int = 1, instance: str = "a"
    ) -> tuple[int, str]:
        beat = {
            "instance_id": instance,
            "sequence": sequence,
            "observed_at": "2026-01-05T10:00:00Z",
            "status": "healthy",
        }
        return await self.post(f"{base}/{device}/heartbeat", key, beat)

    async def devices(self) -> set[str]:
        """Those that senders brought."""
        found = await self.gateway.devices.read(lambda kept: kept.not_in(()))
        return {device.device_id for device in found if device.origin != "gateway"}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path) as gateway, aiohttp.ClientSession() as client:
        yield Rig(gateway, client)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    "scopes", SUBSETS, ids=lambda scopes: "+".join(each.partition(":")[2] for each in sorted(scopes))
)
async def test_only_a_key_with_the_scope_to_enrol_brings_a_new_device(
    rig: Rig, scopes: frozenset[str], base: str
) -> None:
    key, is_own = await rig.key(scopes), base == BASES[0]
    assert (await rig.post(f"{base}/pinged/ping", key))[0] == (404 if PING_SCOPE in scopes else 403)
    status, text = await rig.beat(base, "beating", key)
    may_beat = {HEARTBEAT_SCOPE, ENROLL_SCOPE} <= scopes
    if is_own:
        assert status == (202 if may_beat else 403)
        assert may_beat or (ENROLL_SCOPE if HEARTBEAT_SCOPE in scopes else HEARTBEAT_SCOPE) in text
    else:
        assert status == (404 if HEARTBEAT_SCOPE in scopes else 403)
    posted, _ = await rig.post(base, key, {"device_id": "posted"})
    assert posted == (403 if ENROLL_SCOPE not in scopes else 202 if is_own else 200)
    expected = {"beating"} if may_beat and is_own else set()
    assert await rig.devices() == expected | ({"posted"} if ENROLL_SCOPE in scopes else set())


@pytest.mark.parametrize("base", BASES)
async def test_a_key_that_may_only_beat_beats_for_known_devices_and_makes_no_clones_of_them(
    rig: Rig, base: str
) -> None:
    await rig.post(BASES[0], await rig.key(frozenset({ENROLL_SCOPE})), {"device_id": "d"})
    key = await rig.key(frozenset({HEARTBEAT_SCOPE}))
    for sequence in range(1, 5):
        for instance in ("a", "b", "c"):
            assert (await rig.beat(base, "d", key, sequence, instance))[0] in {200, 202}
    assert await rig.devices() == {"d"}


@pytest.mark.parametrize("base", BASES)
async def test_machines_under_one_id_are_distinguished_where_the_key_may_enrol(rig: Rig, base: str) -> None:
    key = await rig.key(frozenset({ENROLL_SCOPE, HEARTBEAT_SCOPE}))
    await rig.post(BASES[0], key, {"device_id": "d"})
    for sequence in range(1, 5):
        for instance in ("a", "b"):
            assert (await rig.beat(base, "d", key, sequence, instance))[0] in {200, 202}
    assert await rig.devices() == {"d", "d~2"}


async def test_on_open_intake_a_ping_and_a_heartbeat_enrol(rig: Rig) -> None:
    assert (await rig.post(f"{BASES[0]}/pinged/ping", None))[0] == 202
    assert (await rig.beat(BASES[0], "beating", None))[0] == 202
    assert (await rig.post(f"{BASES[1]}/forwarded/ping", None))[0] == 404
    assert await rig.devices() == {"pinged", "beating"}
