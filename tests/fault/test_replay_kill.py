"""C01, C17: kill -9 while dead letters are put back and sent again: nothing is lost, nothing
counts twice at the service.
"""

import asyncio
import json
import os
import random
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bodies import Shape, Template
from benchmarks.processes import ProcessFailed
from tests.support.gateway_process import GatewayProcess, Status, Upstream, broken_identities
from tests.support.kill_load import Load
from tests.support.refusing_service import RefusingService
from tests.support.upstream import running_upstream

KEY = "an-outbound-key-of-the-test"
KILLS = int(os.environ.get("REPLAY_KILLS", "5"))
REQUESTS = int(os.environ.get("REPLAY_KILL_REQUESTS", "60"))
SHAPE = Shape(spans=100, attributes=15)

pytestmark = pytest.mark.slow


def post(gateway: GatewayProcess, path: str, body: dict[str, Any]) -> None:
    """Ask for it; the gateway may be killed meanwhile."""
    token = (gateway.data_dir / "admin-token").read_text().strip()
    request = urllib.request.Request(
        gateway.admin_url + path, json.dumps(body).encode(), {"Authorization": token}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            assert response.status == 200
    except urllib.error.HTTPError:
        raise
    except (OSError, HTTPException):
        return


def settled(gateway: GatewayProcess, dead_lettered: int) -> Status | None:
    try:
        status = gateway.status()
    except urllib.error.URLError:
        return None
    lane = status["lanes"]["ai_telemetry"]
    return status if (lane["pending"], lane["dead_lettered"]) == (0, dead_lettered) else None


def wait_until_begun(gateway: GatewayProcess, dead_lettered: int, is_done: Callable[[], bool]) -> None:
    """Until the first of *dead_lettered* are put back; at once when there are none."""
    gateway.process.wait_until(
        lambda: is_done() or gateway.status()["lanes"]["ai_telemetry"]["dead_lettered"] < dead_lettered or None,
        what="begun",
    )


async def wait_until_settled(gateway: GatewayProcess, dead_lettered: int) -> Status:
    try:
        return await asyncio.to_thread(
            gateway.process.wait_until, lambda: settled(gateway, dead_lettered), what="settled"
        )
    except ProcessFailed as failed:
        raise ProcessFailed(f"{failed}; {gateway.status()['lanes']['ai_telemetry']}") from failed


async def test_kills_during_a_replay_lose_nothing_and_double_nothing(tmp_path: Path, chance: random.Random) -> None:
    # One that is taken here and there keeps the pump from slowing down for an upstream that refuses
    # everything.
    service = RefusingService(lambda record: None if int(record["record_id"], 16) % 20 == 0 else "not_today")
    async with running_upstream() as upstream:
        upstream.respond = service.respond
        gateway = GatewayProcess(tmp_path, upstream=Upstream(upstream.base_url, KEY), settle="0s")
        await asyncio.to_thread(gateway.start)
        try:
            load = Load(Template(SHAPE), lambda: gateway.intake_url)
            for _ in range(REQUESTS):
                await load.send_one()
            sent = REQUESTS * SHAPE.spans
            status = await asyncio.to_thread(gateway.wait_until_delivered, at_least=sent)
            assert broken_identities(status) == []
            assert status["lanes"]["ai_telemetry"]["dead_lettered"] == sent - len(service.taken)
            service.refuses = lambda _: None
            for kill in range(KILLS):
                dead = gateway.status()["lanes"]["ai_telemetry"]["dead_lettered"]
                asking = asyncio.create_task(asyncio.to_thread(post, gateway, "/v2/dead-letters/replay", {}))
                await asyncio.to_thread(wait_until_begun, gateway, dead, asking.done)
                await asyncio.sleep(chance.uniform(0.0, 0.03))
                gateway.kill()
                await asking
                await asyncio.to_thread(gateway.restart)
                status = gateway.status()
                assert broken_identities(status) == [], f"after kill {kill + 1}"
            midway = status["lanes"]["ai_telemetry"]
            await asyncio.to_thread(post, gateway, "/v2/dead-letters/replay", {})
            status = await wait_until_settled(gateway, 0)
        finally:
            gateway.process.kill()
    lane = status["lanes"]["ai_telemetry"]
    repeats = sum(service.arrivals.values()) - len(service.taken)
    sys.stderr.write(
        f"{KILLS} kills, {sent} records, before the last replay {midway['dead_lettered']} dead"
        f" {midway['pending']} pending; {repeats} arrivals were repeats, each under the id it had\n"
    )
    assert len(service.taken) == sent, "lost"
    assert (lane["kept"], lane["delivered"], lane["dead_lettered"], lane["expired"]) == (sent, sent, 0, 0)
    assert broken_identities(status) == []
    by_key: dict[str, tuple[str, ...]] = {}
    for key, ids in service.batches:
        assert by_key.setdefault(key, ids) == ids, "a repeat must have the same records under the same key"


async def test_kills_while_delivered_records_go_again_change_no_total(tmp_path: Path, chance: random.Random) -> None:
    """Over the embedded service, which is killed with it and knows records by their ids."""
    gateway = GatewayProcess(tmp_path, settle="0s")
    await asyncio.to_thread(gateway.start)
    try:
        load = Load(Template(SHAPE), lambda: gateway.intake_url)
        for _ in range(REQUESTS // 4):
            await load.send_one()
        sent = REQUESTS // 4 * SHAPE.spans
        before = (await wait_until_settled(gateway, 0))["lanes"]["ai_telemetry"]
        totals = await asyncio.to_thread(gateway.summary)
        assert totals["totals"]["calls"] == sent == before["delivered"]
        for _ in range(min(KILLS, 3)):
            asking = asyncio.create_task(asyncio.to_thread(post, gateway, "/v2/replay", {"since": "1h"}))
            await asyncio.sleep(chance.uniform(0.0, 0.1))
            gateway.kill()
            await asking
            await asyncio.to_thread(gateway.restart)
            assert broken_identities(gateway.status()) == []
        await asyncio.to_thread(post, gateway, "/v2/replay", {"since": "1h"})

        def sent_again() -> Any:
            lane: Any = gateway.status().get("resends", {}).get("ai_telemetry")
            return lane if lane and not lane["waiting"] and lane["sent_again"].get("delivered", 0) >= sent else None

        lane = await asyncio.to_thread(gateway.process.wait_until, sent_again, what="sent again")
        assert lane["sent_again"].keys() == {"delivered"}
        after = (await wait_until_settled(gateway, 0))["lanes"]["ai_telemetry"]
        assert await asyncio.to_thread(gateway.summary) == totals
        outcomes = ("kept", "delivered", "pending", "dead_lettered", "expired")
        assert [after[outcome] for outcome in outcomes] == [before[outcome] for outcome in outcomes]
    finally:
        gateway.process.kill()
