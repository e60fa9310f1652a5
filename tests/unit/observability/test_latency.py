"""What the lanes' sends come to, and how late the event loop is."""

import asyncio
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from benchmarks.bodies import Shape, Template
from gateway.observability.latency import LoopLag
from tests.support.polling import until_true
from tests.support.running_gateway import running_gateway
from tests.support.upstream import Reply, running_upstream

BODY = Template(Shape(spans=1, attributes=15)).body(0)
PROTOBUF = {"Content-Type": "application/x-protobuf"}
KEYS = [{"name": "a", "secret": "secret-of-the-upstream", "managed": ["send-ai-telemetry"]}]


async def test_an_upstream_that_resets_fails_and_then_answers_is_counted_by_class(tmp_path: Path) -> None:
    async with running_upstream() as upstream:
        upstream.respond = lambda seen: next(replies) if seen.method == "POST" else Reply(404)
        replies = iter([Reply(reset="after_reading"), Reply(500), Reply(202)])
        settings = {"counting.settle": "0s", "upstream": {"base_url": upstream.base_url, "keys": KEYS}}
        async with running_gateway(tmp_path, **settings) as running:
            attempts = running.lanes.attempts["ai_telemetry"]
            async with httpx.AsyncClient() as client:
                await client.post(f"http://{running.ports.http}/v1/traces", content=BODY, headers=PROTOBUF)
            await until_true(lambda: attempts.outcomes["delivered"] == 1, what="delivered")
            assert attempts.answers == Counter({"none": 1, "5xx": 1, "2xx": 1})
            assert attempts.outcomes == Counter({"retry": 2, "delivered": 1})
            assert attempts.seconds.read().buckets[-1][1] == 3
            lane, other = (running.status.lanes()[name] for name in ("ai_telemetry", "usage_events"))
            assert (lane["upstream"], other["upstream"]) == (upstream.base_url, upstream.base_url)
            at = datetime.fromisoformat(lane["last_success_at"] or "")
            assert abs(time.time() - at.timestamp()) < 30
            assert lane["last_send_s"] is not None
            assert lane["send_p95_s"] is not None
            assert (other["last_success_at"], other["last_send_s"], other["send_p95_s"]) == (None, None, None)


async def test_the_size_of_what_waits_is_about_that_of_its_records(tmp_path: Path) -> None:
    settings = {"counting.settle": "1h", "counting.window": "2h"}
    async with running_gateway(tmp_path, **settings) as running:
        async with httpx.AsyncClient() as client:
            await client.post(f"http://{running.ports.http}/v1/traces", content=BODY, headers=PROTOBUF)
        (body,) = [body async for body in running.spool.pending_bodies("ai_telemetry")]
        await running.spool.run_maintenance()
        lanes = running.status.lanes()
        assert lanes["ai_telemetry"].get("pending_bytes") == len(body)
        assert lanes["usage_events"].get("pending_bytes") == 0
        assert "pending_bytes" not in lanes["devices"], "no one measures it"


async def test_a_loop_that_is_kept_is_late_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.observability.latency.LOOK_EVERY_S", 0.01)
    lag = LoopLag()
    running = asyncio.create_task(lag.run())
    await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251 - it holds up the event loop: that delay is what LoopLag measures
    await until_true(lambda: lag.seconds.read().buckets[-1][1] > 0, what="observed")
    running.cancel()
    assert lag.seconds.read().sum >= 0.25
