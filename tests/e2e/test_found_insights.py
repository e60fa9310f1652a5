"""What the real gateway finds in real traffic, under a clock that the test moves: on its own list
and on the embedded service's.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.config.loader import load_config
from gateway.usage.insights.rounds import ROUND_S
from gateway.usage.insights.thresholds import HELD_LANE_S, RETRYING_LANE_S
from gateway.usage.sums.tally import HOUR_MS
from spool.dead_letters import Chosen
from spool.sqlite.at_rest import at_rest
from tests.support.calls import EPOCH_MS
from tests.support.polling import HANGS_S, until_true
from tests.support.refusing_service import RefusingService
from tests.support.spans import call_span
from tests.support.upstream import Reply, Seen, Upstream, running_upstream

DAY_MS = 24 * HOUR_MS
OK = {"gen_ai.response.model": "gpt-4o"}


def made_up(model: str) -> dict[str, str]:
    """What `Rig.send` takes for a model that has no price."""
    return {"gen_ai__request__model": model, "gen_ai__response__model": model}


class Clock:
    """Wall clock and monotonic clock of one gateway; the latter only where insights ask for it."""

    def __init__(self) -> None:
        self.now_ms = EPOCH_MS
        self.passed_s = 0.0

    def __call__(self) -> int:
        return self.now_ms

    def monotonic_s(self) -> float:
        return self.passed_s


class Rig:
    """One data directory, the gateway that runs on it in this process, and a sender."""

    def __init__(self, folder: Path, upstream: Upstream | None = None) -> None:
        self.clock = Clock()
        self._folder = folder
        self._upstream = upstream
        self._sent = 0
        self.gateway: Gateway

    async def start(self) -> None:
        settings: dict[str, Any] = {
            "data_dir": str(self._folder / "data"),
            "listen": dict.fromkeys(("http", "admin", "service"), "127.0.0.1:0") | {"grpc": "off"},
            "counting": {"settle": "0s"},
            "workers": "off",
        }
        if self._upstream is not None:
            key = {"name": "telemetry", "secret": "upstream-key", "managed": ["send-ai-telemetry"]}
            settings["upstream"] = {"base_url": self._upstream.base_url, "keys": [key]}
        config = load_config(None, settings, {})
        self.gateway = await Gateway.start(config, now_ms=self.clock, monotonic_s=self.clock.monotonic_s)

    async def send(self, n: int = 1, **more: object) -> None:
        """*n* calls of now; settled when this returns."""
        async with aiohttp.ClientSession() as session:
            for _ in range(n):
                self._sent += 1
                attributes = {**OK, **{name.replace("__", "."): value for name, value in more.items()}}
                at = (self.clock.now_ms - EPOCH_MS) / 1000 - 2
                body = call_span(str(self._sent), (1000, 200), at=at, more=attributes)
                url = f"http://{self.gateway.ports.http}/v1/traces"
                headers = {"Content-Type": "application/x-protobuf"}
                async with session.post(url, data=body, headers=headers) as answer:
                    assert answer.status == 200
        depth = self.gateway.spool.depth
        await self.until(lambda: depth("ai_telemetry").kept == self._sent, "kept")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        await until_true(condition, what=what)

    async def listed(self) -> list[dict[str, Any]]:
        """The insights of the gateway's own list."""
        token = (self._folder / "data" / "admin-token").read_text().strip()
        return await get(f"http://{self.gateway.ports.admin}/v2/insights?limit=100", f"Bearer {token}")

    async def listed_later(self) -> list[dict[str, Any]]:
        """As `listed`, when the usage may be looked at again."""
        self.clock.passed_s += 2
        return await self.listed()

    async def listed_by_service(self) -> list[dict[str, Any]]:
        key = (self._folder / "data" / "service-key").read_text().strip()
        return await get(f"http://{self.gateway.ports.service}/v2/insights?limit=100", key)


async def get(url: str, authorization: str) -> list[dict[str, Any]]:
    headers = {"Authorization": authorization}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        assert answer.status == 200
        return list(json.loads(await answer.read())["insights"])


def told(items: list[dict[str, Any]], status: str = "new") -> list[str]:
    return sorted(item["title"] for item in items if item["status"] == status)


async def eventually(ask: Callable[[], Any], expected: list[str], status: str = "new") -> None:
    """Ask until the titles of *status* begin with what is *expected*."""
    async with asyncio.timeout(HANGS_S):
        while True:
            titles = told(await ask(), status)
            if len(titles) == len(expected) and all(a.startswith(b) for a, b in zip(titles, expected, strict=True)):
                return
            await asyncio.sleep(0.05)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    await made.start()
    yield made
    await made.gateway.stop()


async def test_traffic_of_days_raises_a_new_model_a_missing_price_and_a_burst_on_both_sides(rig: Rig) -> None:
    await rig.send(3)
    await rig.send(**made_up("early-model"))
    early = "early-model: no price is known; 1 call"
    await eventually(rig.listed_later, [early])
    await eventually(rig.listed_by_service, [early])
    rig.clock.now_ms += 8 * DAY_MS
    await rig.send(2, **made_up("made-up-model"))
    await rig.send(12, error__type="timeout")
    burst = "provider openai: 90 % of the calls of the last hours fail"
    expected = ["made-up-model: a new model of openai is in use", "made-up-model: no price is known; 2 calls", burst]
    await eventually(rig.listed_later, expected)
    await eventually(rig.listed_by_service, expected)
    first = await rig.listed()

    await rig.gateway.stop()
    await rig.start()
    rig.clock.passed_s += 2
    assert await rig.listed() == first, "a restart changes nothing"

    rig.clock.now_ms += 3 * HOUR_MS
    await eventually(rig.listed_later, [early, burst], "addressed")
    await eventually(rig.listed_by_service, [early, burst], "addressed")
    assert len(await rig.listed()) == 4


async def test_what_ended_while_the_gateway_was_off_is_over(rig: Rig) -> None:
    await rig.send(12, error__type="timeout")
    burst = "provider openai: 100 % of the calls of the last hours fail"
    await eventually(rig.listed_later, [burst])
    await rig.gateway.stop()
    rig.clock.now_ms += 3 * HOUR_MS
    await rig.start()
    await eventually(rig.listed_later, [burst], "addressed")


async def test_a_lane_that_is_held_is_reported_with_its_reason_and_goes_when_it_moves(tmp_path: Path) -> None:
    async with running_upstream() as upstream:
        upstream.respond = refuse_key
        rig = Rig(tmp_path, upstream)
        await rig.start()
        try:
            await rig.send()
            lane = "ai_telemetry"
            await rig.until(lambda: rig.gateway.status()["lanes"][lane]["state"] == "held", "held")
            assert await rig.listed() == []
            rig.clock.passed_s += HELD_LANE_S - 1
            assert await rig.listed() == [], "it may be a key that is rotated"
            rig.clock.passed_s += 1
            (item,) = await rig.listed()
            assert item["title"].startswith("lane ai_telemetry is held and sends nothing: ")
            assert str(rig.gateway.status()["lanes"][lane]["reason"])[:20] in item["title"]
            assert (item["category"], item["status"]) == ("delivery", "new")
            upstream.respond = accept
            rig.gateway.lanes._pumps[lane].wake()
            await rig.until(lambda: rig.gateway.spool.depth(lane).pending == 0, "delivered")
            assert [item["status"] for item in await rig.listed()] == ["addressed"]
        finally:
            await rig.gateway.stop()


def refuse_key(seen: Seen) -> Reply:
    return Reply(401)


def accept(seen: Seen) -> Reply:
    return Reply(202)


async def test_records_that_are_refused_are_reported_by_their_reason_until_they_are_gone(tmp_path: Path) -> None:
    service = RefusingService(lambda record: "bad_model")
    async with running_upstream() as upstream:
        upstream.respond = service.respond
        rig = Rig(tmp_path, upstream)
        await rig.start()
        try:
            await rig.send(3)
            title = "lane ai_telemetry: 3 records refused as bad_model; kept as dead letters"
            await eventually(rig.listed, [title])
            token = (tmp_path / "data" / "admin-token").read_text().strip()
            url = f"http://{rig.gateway.ports.admin}/v2/dead-letters/drop"
            headers = {"Authorization": f"Bearer {token}"}
            choice = {"reason": "bad_model"}
            async with aiohttp.ClientSession() as session, session.post(url, json=choice, headers=headers) as answer:
                assert answer.status == 200
            await eventually(rig.listed, [title], "addressed")
        finally:
            await rig.gateway.stop()


async def test_what_was_corrected_while_the_gateway_was_off_is_over_once_it_can_know(tmp_path: Path) -> None:
    service = RefusingService(lambda record: "bad_model")
    async with running_upstream() as upstream:
        upstream.respond = service.respond
        rig = Rig(tmp_path, upstream)
        await rig.start()
        try:
            await rig.send()
            await eventually(rig.listed, ["lane ai_telemetry: 1 record refused as bad_model"])
            upstream.respond = refuse_key
            await rig.send()
            await rig.until(lambda: rig.gateway.status()["lanes"]["ai_telemetry"]["state"] == "held", "held")
            await rig.listed()
            rig.clock.passed_s += HELD_LANE_S
            both = ["lane ai_telemetry is held", "lane ai_telemetry: 1 record"]
            await eventually(rig.listed, both)

            await rig.gateway.stop()
            upstream.respond = accept
            with at_rest(tmp_path / "data", rig.clock) as operator:
                assert await operator.drop_dead_letters(Chosen()) == 1
            await rig.start()
            await rig.until(lambda: rig.gateway.spool.depth("ai_telemetry").pending == 0, "delivered")
            assert len(told(await rig.listed())) == 2, "it cannot tell yet"
            rig.clock.passed_s += ROUND_S + 1
            await eventually(rig.listed, both[1:], "addressed")
            rig.clock.passed_s += RETRYING_LANE_S
            await eventually(rig.listed, both, "addressed")
        finally:
            await rig.gateway.stop()


async def test_a_device_that_fell_silent_is_reported_until_it_speaks_again(rig: Rig) -> None:
    async def speak() -> None:
        body = {"instance_id": "i-1", "sequence": rig.clock.now_ms, "status": "healthy"}
        url = f"http://{rig.gateway.ports.http}/v1/devices/laptop-1/heartbeat"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            assert answer.status == 202
        await rig.until(lambda: rig.gateway.status()["devices"]["states"].get("enrolled", 0) > 0, "enrolled")

    async def restart(after_ms: int) -> None:
        """A stop counts as time that passed, up to a day."""
        await rig.gateway.stop()
        rig.clock.now_ms += after_ms
        rig.clock.passed_s += 2
        await rig.start()

    await speak()
    await restart(2 * HOUR_MS)
    await speak()
    for _ in range(3):
        assert await rig.listed() == []
        await restart(DAY_MS - HOUR_MS)
    assert await rig.listed() == []
    await restart(4 * HOUR_MS)
    silent = "device laptop-1: silent since "
    await eventually(rig.listed, [silent])
    await speak()
    rig.clock.passed_s += 2 * ROUND_S
    await restart(HOUR_MS)
    rig.clock.passed_s += 2 * ROUND_S
    await eventually(rig.listed, [silent], "addressed")
