"""`devices.gate: hold`: the service gets no telemetry of a device before it
knows the device, over kills too.
"""

import asyncio
import json
from pathlib import Path

import aiohttp

from tests.support.device_senders import JSON, telemetry_of
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import until_true
from tests.support.upstream import Reply, Seen, running_upstream

SCOPES = [
    "ai-telemetry-ingest:ingest-ai-telemetry",
    *(f"ai-control-plane:{call}-device" for call in ("enroll", "heartbeat", "ping")),
]


class Service:
    """Knows the gateway; fails to enrol others until it is asked to."""

    def __init__(self) -> None:
        self.enrols = False
        self.tries = 0
        self.devices: list[str | None] = []
        """Of each record that came."""
        self.knew: list[bool] = []
        """Whether it enrolled others by then."""

    def respond(self, seen: Seen) -> Reply:
        body = json.loads(seen.body) if seen.body else {}
        if seen.path.endswith("/ai-control-plane/devices"):
            if body["kind"] == "gateway":
                return Reply(201)
            self.tries += 1
            return Reply(201 if self.enrols else 500)
        for record in body.get("records", ()):
            self.devices.append(record["attribution"]["device_id"])
            self.knew.append(self.enrols)
        return Reply(202)


async def post(gateway: GatewayProcess, device: str) -> None:
    message = telemetry_of(device)
    url = gateway.intake_url + message.path
    async with aiohttp.ClientSession() as session, session.post(url, data=message.body, headers=JSON) as answer:
        assert answer.status == 200


async def test_no_record_of_a_device_goes_before_it_is_enrolled(tmp_path: Path) -> None:
    service = Service()
    async with running_upstream() as upstream:
        upstream.respond = service.respond
        keys = [{"name": "k", "secret": "secret-of-the-gate-4711", "scopes": SCOPES}]
        config = {"upstream": {"base_url": upstream.base_url, "keys": keys}, "devices": {"gate": "hold"}}
        with GatewayProcess(tmp_path, settle="100ms", config=config) as gateway:
            await post(gateway, "laptop-1")
            await until_true(lambda: service.tries >= 3, what="asked three times to enrol")
            gateway.kill()
            await asyncio.to_thread(gateway.start)
            await post(gateway, "laptop-1")
            tried = service.tries
            await until_true(lambda: service.tries >= tried + 2, what="asked again after the kill")
            status = await asyncio.to_thread(gateway.status)
            assert (status["lanes"]["ai_telemetry"]["pending"], service.devices) == (2, [])
            assert status["devices"]["telemetry_held_s"] > 0

            service.enrols = True
            status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=2)
            assert service.devices == ["laptop-1", "laptop-1"]
            assert service.knew == [True, True]
            assert status["devices"]["telemetry_held_s"] is None
            await post(gateway, "laptop-1")
            status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=3)
            assert broken_identities(status) == []
