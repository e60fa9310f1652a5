"""Insights that the service finds in what it stored, seen through its list."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.common.contract.scopes import CATALOGUE, Fixed
from gateway.local_service import finding
from gateway.local_service.service import Service
from gateway.usage.sums.tally import HOUR_MS
from spool.clock import rfc3339_ms
from tests.support.polling import HANGS_S
from tests.unit.local_service.conftest import ADMIN, NOW_MS, Client, Clock, ai_envelope, ai_record

INGEST = "/v2/ai-telemetry/records"
DEVICES = "/v2/ai-control-plane/devices"
DAY_MS = 24 * HOUR_MS


class Sender:
    """Sends records of times before the clock's, each with an id of its own."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._sent = 0

    async def send(self, n: int = 1, *, ago_ms: int = 0, **changes: object) -> None:
        records = []
        for _ in range(n):
            self._sent += 1
            at = rfc3339_ms(self._clock() - ago_ms)
            records.append(ai_record(f"record-{self._sent}", **{"started_at": at, **changes}))
        reply = await self._client.post(INGEST, ai_envelope(*records))
        assert reply.json["accepted"] == n, reply.json

    async def found(self) -> list[dict[str, Any]]:
        await self._client.service.look_for_insights()
        reply = await self._client.get("/v2/insights", limit="100")
        return list(reply.json["insights"])

    async def titles(self, status: str = "new") -> list[str]:
        return sorted(item["title"] for item in await self.found() if item["status"] == status)


@pytest.fixture
def sender(client: Client, clock: Clock) -> Sender:
    return Sender(client, clock)


async def test_nothing_is_found_where_nothing_was_sent(sender: Sender) -> None:
    assert await sender.found() == []


async def test_a_model_without_a_price_is_an_insight_until_it_has_one(sender: Sender, clock: Clock) -> None:
    await sender.send(3, response_model="made-up", cost=None)
    (item,) = await sender.found()
    assert item | {"id": "", "last_updated": ""} == {
        "id": "",
        "status": "new",
        "category": "pricing",
        "cost_impact": None,
        "effort": "low",
        "title": "made-up: no price is known; 3 calls without a cost in the last 7 days",
        "last_updated": "",
    }
    clock.time_ms += HOUR_MS
    await sender.send(response_model="made-up")
    assert [item["status"] for item in await sender.found()] == ["addressed"]


async def test_records_are_counted_once_however_often_they_come(sender: Sender, client: Client) -> None:
    for _ in range(3):
        await client.post(INGEST, ai_envelope(ai_record("same", cost=None)))
        assert "1 call without" in (await sender.titles())[0]


async def test_more_than_a_page_is_counted(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "PAGE_RECORDS", 4)
    await sender.send(11, cost=None)
    assert "11 calls without" in (await sender.titles())[0]


async def test_a_spike_a_new_model_and_a_burst_of_errors_are_found(sender: Sender, clock: Clock) -> None:
    dollar = {"amount": "1.00", "currency": "USD", "source": "reported"}
    for _ in range(8):
        await sender.send(2, cost=dollar)
        assert await sender.found() == []
        clock.time_ms += DAY_MS
    await sender.send(9, cost=dollar)
    await sender.send(12, status="error", error_type="timeout", usage={"status": "none"}, cost=None)
    await sender.send(response_model="o9")
    titles = await sender.titles()
    assert [title.split(": ")[0] for title in titles] == [
        "gpt-4o-mini-2024-07-18",
        "o9",
        "provider openai",
        "team core",
    ]
    items = {item["title"]: item for item in await sender.found()}
    assert {items[titles[0]]["cost_impact"], items[titles[3]]["cost_impact"]} == {"7"}
    clock.time_ms += 3 * HOUR_MS
    assert [title.split(": ")[0] for title in await sender.titles("addressed")] == ["provider openai"]


async def test_a_device_that_fell_silent_is_found_and_goes_when_it_is_back(
    sender: Sender, client: Client, clock: Clock
) -> None:
    enrolment = {
        "enrollment_id": "e", "epoch": 1, "device_id": "laptop-1", "instance_id": "i", "kind": "workstation",
        "first_seen_at": rfc3339_ms(NOW_MS),
    }  # fmt: skip
    assert (await client.post(DEVICES, enrolment)).status == 201

    async def beat(sequence: int) -> None:
        beat = {"instance_id": "i", "sequence": sequence, "observed_at": rfc3339_ms(clock()), "status": "ok"}
        assert (await client.post(f"{DEVICES}/laptop-1/heartbeat", beat)).status == 200

    clock.time_ms += 2 * HOUR_MS
    await beat(1)
    assert await sender.found() == []
    clock.time_ms += 3 * DAY_MS
    assert await sender.titles() == ["device laptop-1: silent since 2026-01-05"]
    await beat(2)
    assert await sender.titles("addressed") == ["device laptop-1: silent since 2026-01-05"]


async def test_what_was_found_outlives_a_restart_and_comes_to_no_second_one(tmp_path: Path, clock: Clock) -> None:
    secret = ""
    for start in range(2):
        service = Service(tmp_path / "service", now_ms=clock)
        port = await service.start()
        try:
            if not secret:
                everything = Fixed(frozenset(scope.name for scope in CATALOGUE))
                secret = (await service.keys.create("everything", everything, by=ADMIN)).secret.reveal()
            async with aiohttp.ClientSession() as session:
                client = Client(service, port, session, secret)
                await client.post(INGEST, ai_envelope(ai_record(f"r{start}", cost=None)))
                (title,) = await Sender(client, clock).titles()
                assert f"; {start + 1} call" in title
        finally:
            await service.stop()


async def test_it_looks_by_itself(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "ROUND_S", 0.01)
    service = Service(tmp_path / "service", now_ms=clock)
    port = await service.start()
    try:
        everything = Fixed(frozenset(scope.name for scope in CATALOGUE))
        secret = (await service.keys.create("everything", everything, by=ADMIN)).secret.reveal()
        async with aiohttp.ClientSession() as session, asyncio.timeout(HANGS_S):
            client = Client(service, port, session, secret)
            await client.post(INGEST, ai_envelope(ai_record("r", cost=None)))
            while not (await client.get("/v2/insights")).json["insights"]:  # noqa: ASYNC110 another process would ask as well
                await asyncio.sleep(0.01)
    finally:
        await service.stop()
