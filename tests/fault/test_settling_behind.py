"""Calls that wait far beyond their time to settle are reported: nothing stands still in silence."""

import asyncio
from collections.abc import AsyncIterator, Iterable, MutableMapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from gateway.app import Gateway
from gateway.pipeline import settle
from gateway.pipeline.settlement_pass import SettlementPass
from spool.record import AI_TELEMETRY
from tests.support.polling import until_true
from tests.support.running_gateway import running_gateway
from tests.support.spans import call_span

BEHIND, CAUGHT_UP = "settling is behind", "settling has caught up"


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    monkeypatch.setattr(settle, "BEHIND_S", 0.5)
    monkeypatch.setattr(settle, "BEHIND_LOOK_S", 0.05)
    async with running_gateway(tmp_path, **{"counting.settle": "100ms"}) as running:
        yield running


async def test_calls_that_settle_far_too_late_are_reported_everywhere_until_they_have_settled(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = asyncio.Event()
    decide = SettlementPass.decide

    async def slowly(self: SettlementPass) -> None:
        await goes_on.wait()
        await decide(self)

    monkeypatch.setattr(SettlementPass, "decide", slowly)
    admin = f"http://{gateway.ports.admin}"
    with capture_logs() as logged:
        async with aiohttp.ClientSession() as session:
            assert await text_of(session, admin + "/readyz") == "ready\n"
            async with session.post(
                f"http://{gateway.ports.http}/v1/traces",
                data=call_span("a", (1, 2)),
                headers={"Content-Type": "application/x-protobuf"},
            ) as answer:
                assert answer.status == 200
            await until_true(lambda: lane_state(gateway) == "behind", what="behind")
            assert "ready, degraded: calls settle late" in await text_of(session, admin + "/readyz")
            state = 'telemetry_gateway_lane_state{lane="ai_telemetry",state="behind"} 1.0'
            assert state in await text_of(session, admin + "/metrics")
            assert (AI_TELEMETRY, "behind") in {
                (lane, why[0]) for lane, why in gateway.status.stuck_lanes().items()
            }  # what the insight about a stuck lane is made of
            await until_true(lambda: said(logged) == [BEHIND], what="logged")
            goes_on.set()
            await until_true(lambda: lane_state(gateway) == "ok", what="ok again")
            assert await text_of(session, admin + "/readyz") == "ready\n"
            await until_true(lambda: said(logged) == [BEHIND, CAUGHT_UP], what="logged")


def said(logged: Iterable[MutableMapping[str, Any]]) -> list[str]:
    return [entry["event"] for entry in logged if entry["event"].startswith("settling")]


def lane_state(gateway: Gateway) -> str:
    return gateway.status()["lanes"][AI_TELEMETRY]["state"]


async def text_of(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as answer:
        return await answer.text()
