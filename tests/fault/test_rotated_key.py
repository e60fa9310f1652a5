"""A key to the upstream that is refused, and fixed while the gateway runs."""

import asyncio
from pathlib import Path

from benchmarks.bodies import Shape, Template
from tests.support.gateway_process import GatewayProcess, Status, broken_identities
from tests.support.kill_load import Load
from tests.support.upstream import Reply, Seen, running_upstream

SHAPE = Shape(spans=20, attributes=15)
RETRIED_S = 25.0
"""Less than the 30 s to a held lane's first probe."""


async def test_a_mended_key_file_is_tried_at_once_by_a_lane_that_is_held(tmp_path: Path) -> None:
    key_file = tmp_path / "upstream.key"
    key_file.write_text("wrong-key")

    def respond(seen: Seen) -> Reply:
        return Reply(202 if seen.headers["Authorization"] == "right-key" else 401)

    async with running_upstream() as upstream:
        upstream.respond = respond
        keys = [{"name": "telemetry", "secret": f"${{file:{key_file}}}", "managed": ["send-ai-telemetry"]}]
        config = {"upstream": {"base_url": upstream.base_url, "keys": keys}}
        gateway = GatewayProcess(tmp_path, settle="0s", config=config)
        await asyncio.to_thread(gateway.start)
        try:
            await Load(Template(SHAPE), lambda: gateway.intake_url).send_one()
            held = await asyncio.to_thread(until_state, gateway, "held")
            assert held["lanes"]["ai_telemetry"]["pending"] == SHAPE.spans
            key_file.write_text("right-key")
            async with asyncio.timeout(RETRIED_S):
                status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=SHAPE.spans)
        finally:
            gateway.kill()
    assert status["lanes"]["ai_telemetry"]["delivered"] == SHAPE.spans
    assert broken_identities(status) == []


def until_state(gateway: GatewayProcess, state: str) -> Status:
    """The status once the AI lane is in *state*."""

    def reached() -> Status | None:
        status = gateway.status()
        return status if status["lanes"]["ai_telemetry"]["state"] == state else None

    return gateway.process.wait_until(reached, what=state)
