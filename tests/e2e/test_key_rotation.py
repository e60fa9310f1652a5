"""Outbound keys that are rotated while traffic flows: a real gateway, a real service,
and an operator beside both.
"""

import asyncio
import html
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from benchmarks.bodies import Shape, Template
from benchmarks.scenario import fetch
from gateway.access.key_files import OF_SERVICE
from gateway.common.contract.scopes import SEND_AI_TELEMETRY, Managed
from tests.support.commands import run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess, Status, broken_identities
from tests.support.keys_beside import BY, keys_beside
from tests.support.kill_load import Load
from tests.support.polling import until_true
from tests.support.service_process import ServiceProcess

SHAPE = Shape(spans=5, attributes=15)
SOME = 50
"""Records that are to arrive before the next step."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    process = ServiceProcess(tmp_path)
    yield process
    process.kill()


async def make_key(service: ServiceProcess, name: str, file: Path) -> str:
    """A key for AI telemetry, its secret put into *file* in one step, as those do who rotate."""
    async with keys_beside(service.data_dir, OF_SERVICE) as keys:
        created = await keys.create(name, Managed(frozenset({SEND_AI_TELEMETRY})), by=BY)
    beside = file.with_suffix(".new")
    beside.write_text(created.secret.reveal() + "\n")
    beside.rename(file)
    return created.secret.reveal()


async def delete_key(service: ServiceProcess, name: str) -> None:
    async with keys_beside(service.data_dir, OF_SERVICE) as keys:
        await keys.delete(name, typed_name=name)


class Seen(NamedTuple):
    states: set[str]
    """Of the AI lane."""
    latest: list[Status]

    @property
    def delivered(self) -> int:
        delivered: int = self.latest[0]["lanes"]["ai_telemetry"]["delivered"] if self.latest else 0
        return delivered

    async def until_more(self, what: str) -> None:
        wanted = self.delivered + SOME
        await until_true(lambda: self.delivered >= wanted, what=what)


@asynccontextmanager
async def watching(gateway: GatewayProcess) -> AsyncIterator[Seen]:
    """The status, asked again and again."""
    seen = Seen(set(), [])

    async def watch() -> None:
        while True:
            status = await asyncio.to_thread(gateway.status)
            seen.states.add(status["lanes"]["ai_telemetry"]["state"])
            seen.latest[:] = [status]

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_two_keys_rotate_with_no_gap_while_traffic_flows(tmp_path: Path, service: ServiceProcess) -> None:
    current, following = tmp_path / "current.key", tmp_path / "next.key"
    secrets = [await make_key(service, "first", current), await make_key(service, "second", following)]
    await asyncio.to_thread(service.start)
    keys = [
        {"name": file.stem, "secret": f"${{file:{file}}}", "managed": [SEND_AI_TELEMETRY]}
        for file in (current, following)
    ]
    upstream = {"base_url": f"http://127.0.0.1:{service.port}", "keys": keys}
    gateway = GatewayProcess(tmp_path, settle="0s", config={"upstream": upstream})
    await asyncio.to_thread(gateway.start)
    load = Load(Template(SHAPE), lambda: gateway.intake_url, give_up=False)
    load.gateway_is_up()
    try:
        async with watching(gateway) as seen:
            sending = asyncio.create_task(load.run(workers=2))
            await seen.until_more("delivered under the first key")
            await delete_key(service, "first")
            await seen.until_more("delivered under the second key")
            secrets.append(await make_key(service, "third", current))
            await delete_key(service, "second")
            await seen.until_more("delivered under the third key, in the place of the first")
            load.stop()
            await sending
            sent = len(load.acked) * SHAPE.spans
            status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=sent)
    finally:
        gateway.kill()
    assert "held" not in seen.states
    assert set(load.statuses) == {200}
    assert status["lanes"]["ai_telemetry"]["delivered"] == sent
    assert broken_identities(status) == []
    assert len({record["record_id"] for record in service.records()}) == sent
    logged = gateway.log.read_text()
    assert [secret for secret in secrets if secret in logged or secret in str(status)] == []


WITHOUT_SCOPE = {
    "usage_events": "events_v1:create_event",
    "unit_cost": "unit-cost_v1:manage_telemetry_records",
    "devices": "ai-control-plane:enroll-device or ai-control-plane:heartbeat-device",
}
"""Lane -> the scopes that a key for AI telemetry alone leaves it without."""
WHAT_WAITS = {
    "/v1/events": {"title": "a", "source": "b"},
    "/v1/unit-cost/metric/m/sum": {"records": [{"timestamp": "2026-01-05", "value": 1}]},
    "/v1/devices/d/heartbeat": {"instance_id": "i", "sequence": 1},
}


def what_waits_is_stated(gateway: GatewayProcess) -> None:
    """Senders get 202; `/readyz`, the page and the log name the lane and its scope."""
    with httpx.Client() as client:
        for path, content in WHAT_WAITS.items():
            assert client.post(gateway.intake_url + path, json=content).status_code == 202
        token = (gateway.data_dir / "admin-token").read_text().strip()
        page = client.get(gateway.admin_url, headers={"Authorization": token}).text
    ready = fetch(gateway.admin_url + "/readyz").decode()
    lanes = gateway.status()["lanes"]
    assert ready.startswith("ready, degraded: ")
    for name in WITHOUT_SCOPE:
        assert lanes[name]["pending"] == 1
        sentence = f"lane {name} is off, with 1 record waiting: {lanes[name]['reason']}"
        assert sentence in ready
        text = html.unescape(re.sub("<[^>]*>", "", page.partition('id="verdict"')[2].partition("</section>")[0]))
        reason = str(lanes[name]["reason"])
        assert f"Lane {name}: off, 1 record waits." in text
        assert f"{reason[:1].upper()}{reason[1:]}." in text
        gateway.process.wait_until(
            lambda name=name: any(  # type: ignore[misc]  # the default binds the loop's name
                "records wait in a lane that sends nothing" in line and name in line and lanes[name]["reason"] in line
                for line in gateway.log.read_text().splitlines()
            ),
            what=f"log of {name}",
        )


async def test_a_lane_that_no_key_serves_is_off_and_said_so_at_start_and_in_the_status(
    tmp_path: Path, service: ServiceProcess
) -> None:
    file = tmp_path / "a.key"
    await make_key(service, "first", file)
    await asyncio.to_thread(service.start)
    keys = [{"name": "a", "secret": f"${{file:{file}}}", "managed": [SEND_AI_TELEMETRY]}]
    upstream = {"base_url": f"http://127.0.0.1:{service.port}", "keys": keys}
    config = {"upstream": upstream, "devices": {"enroll": "off"}}
    with GatewayProcess(tmp_path, config=config) as gateway:
        lanes = gateway.status()["lanes"]
        logged = gateway.log.read_text()
        checked = await asyncio.to_thread(run_telemetry_gateway, "check", "--config", str(tmp_path / "config.yaml"))
        assert fetch(gateway.admin_url + "/readyz") == b"ready\n", "nothing waits yet"
        await asyncio.to_thread(what_waits_is_stated, gateway)
    assert "lane ai_telemetry" not in checked.out
    for lane, scopes in WITHOUT_SCOPE.items():
        assert f"lane {lane}: no configured key grants {scopes}; " in checked.out
    assert lanes["ai_telemetry"]["state"] == "ok"
    for lane, scope in (("usage_events", "events_v1:create_event"), ("devices", "ai-control-plane:enroll-device")):
        assert lanes[lane]["state"] == "off"
        assert lanes[lane]["reason"].startswith("no configured key grants ")
        assert scope in lanes[lane]["reason"]
        assert any("lane off" in line and lane in line and scope in line for line in logged.splitlines())
