"""Metered events over kills and resends: the service's totals are the sums of the distinct events.

UNIT_COST_EVENTS=100000 is the long run.
"""

import asyncio
import os
import random
import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
import pytest

from benchmarks.processes import ProcessFailed
from spool.unit_cost import EXACT, decimal_text
from tests.support.dying import POINTS as POINTS_OF_DEATH
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import until_true
from tests.support.service_process import UNIT_COST_SCOPES, ServiceProcess

EVENTS = int(os.environ.get("UNIT_COST_EVENTS", "20000"))
KILLS = int(os.environ.get("UNIT_COST_KILLS", "8"))
IN_A_REQUEST = 100
WORKERS = 4
ELEMENTS = 40
STREAM = "tokens-by-customer"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


class Sent(NamedTuple):
    """The events of one run, and what they come to."""

    requests: list[bytes]
    totals: dict[tuple[str, str], str]
    """(timestamp, element) -> sum."""


def events(chance: random.Random, now: datetime) -> Sent:
    """Distinct events over the hours of two days, some late; no total has more than 15 digits,
    which is all that the service keeps.
    """
    totals: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    made: list[dict[str, Any]] = []
    for number in range(EVENTS):
        element = f"customer-{chance.randrange(ELEMENTS)}"
        hour = int(now.timestamp()) // 3600 * 3600 - 3600 * chance.choice([0, 0, 0, 1, 2, 30])
        value = Decimal(chance.randrange(1, 10**7)).scaleb(-chance.randrange(5))
        stamp = datetime.fromtimestamp(hour + chance.randrange(3600), UTC)
        bucket = datetime.fromtimestamp(hour, UTC).strftime("%Y-%m-%dT%H:00:00.000Z")
        totals[bucket, element] = EXACT.add(totals[bucket, element], value)
        made.append(
            {
                "title": "tokens.used", "source": "load", "timestamp": min(stamp, now).isoformat(),
                "filters": {"custom:Product": ["chat"]},
                "metadata": {"event_id": f"evt-{number}", "stream": STREAM, "element_name": element, "value": str(value)},
            }
        )  # fmt: skip
    bodies = [orjson.dumps(made[at : at + IN_A_REQUEST]) for at in range(0, EVENTS, IN_A_REQUEST)]
    return Sent(bodies, {at: decimal_text(value) for at, value in totals.items()})


class Senders:
    """Send each request until it is acknowledged, and some of them again."""

    def __init__(self, requests: list[bytes], gateway: GatewayProcess, chance: random.Random) -> None:
        self._left = [*requests, *chance.sample(requests, len(requests) // 10)]
        chance.shuffle(self._left)
        self._gateway = gateway
        self.duplicates = 0
        self.resent = 0
        self.acknowledged = 0

    @property
    def is_done(self) -> bool:
        return not self._left

    async def run(self) -> None:
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work(session))

    async def run_until(self, over: Callable[[], bool]) -> None:
        """Send until all is acknowledged or the gateway is gone; then wait until it is *over*."""
        async with aiohttp.ClientSession() as session:
            while self._left and self._gateway.process.returncode() is None:
                if await self._take(session, self._left[-1]):
                    self._left.pop()
        await until_true(over, what="over")

    async def _work(self, session: aiohttp.ClientSession) -> None:
        while self._left:
            body = self._left.pop()
            while not await self._take(session, body):
                self.resent += 1
                await asyncio.sleep(0.05)

    async def _take(self, session: aiohttp.ClientSession, body: bytes) -> bool:
        headers = {"Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=20)
        try:
            url = f"{self._gateway.intake_url}/v1/events"
            async with session.post(url, data=body, headers=headers, timeout=timeout) as answer:
                told = await answer.json()
                if answer.status == 503:
                    return False
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False
        assert answer.status == 202, told
        assert (told["accepted"], told["rejected"]) == (IN_A_REQUEST, []), told
        self.duplicates += told["duplicate"]
        self.acknowledged += 1
        return True


async def kill_meanwhile(gateway: GatewayProcess, senders: Senders, chance: random.Random) -> int:
    """Kill the gateway at random moments while *senders* send; how often."""
    kills = 0
    while not senders.is_done and kills < KILLS:
        await asyncio.sleep(chance.uniform(0.1, 0.8))
        gateway.kill()
        kills += 1
        await asyncio.to_thread(gateway.restart)
        assert broken_identities(gateway.status()) == [], f"after kill {kills}"
    return kills


async def at_service(url: str, key: str, stream: str = STREAM) -> dict[tuple[str, str], str]:
    """What the service holds of the stream."""
    found: dict[tuple[str, str], str] = {}
    cursor: str | None = None
    async with aiohttp.ClientSession(headers={"Authorization": key}) as session:
        while True:
            params = {"limit": "100"} if cursor is None else {"cursor": cursor}
            async with session.get(f"{url}/unit-cost/v1/telemetry/{stream}/records", params=params) as answer:
                page = await answer.json()
                assert answer.status == 200, page
            found |= {(x["timestamp"], x["element_name"]): x["value"] for x in page["records"]}
            cursor = page["pagination"]["cursor"]["next_cursor"]
            if cursor is None:
                return found


async def test_totals_are_the_sums_of_distinct_events_over_kills_and_resends(
    tmp_path: Path, chance: random.Random
) -> None:
    """The embedded service dies with the gateway each time."""
    sent = events(chance, datetime.now(UTC))
    with GatewayProcess(tmp_path) as gateway:
        senders = Senders(sent.requests, gateway, chance)
        async with asyncio.TaskGroup() as group:
            group.create_task(senders.run())
            killing = group.create_task(kill_meanwhile(gateway, senders, chance))
        status = await asyncio.to_thread(gateway.wait_until_delivered, "unit_cost", at_least=EVENTS)
        held = await at_service(gateway.service_url, gateway.service_key())
    sys.stderr.write(
        f"{EVENTS} events in {senders.acknowledged} acknowledged requests, {senders.resent} broken, {killing.result()} kills,"
        f" {senders.duplicates} repeats, {len(held)} totals\n"
    )
    assert held == sent.totals
    assert broken_identities(status) == []
    lane = status["lanes"]["unit_cost"]
    assert (lane["kept"], lane["delivered"], lane["dead_lettered"]) == (EVENTS, EVENTS, 0)
    assert status["lanes"]["usage_events"]["kept"] == 0


POINTS = [name for name in POINTS_OF_DEATH if name.startswith("unit cost: ")]


def is_over(gateway: GatewayProcess) -> bool:
    """It died, or there is nothing left that it could die of."""
    if gateway.process.returncode() is not None:
        return True
    try:
        return bool(gateway.status()["lanes"]["unit_cost"]["pending"] == 0)
    except OSError:
        return False


@pytest.mark.parametrize("point", [*POINTS, "between answer and ack", "after a commit"])
async def test_totals_are_exact_when_the_gateway_dies_at(tmp_path: Path, chance: random.Random, point: str) -> None:
    """Up to three deaths there, each at another passing, while senders resend
    until they are acknowledged.
    """
    sent = events(chance, datetime.now(UTC)).requests[:30]
    gateway = GatewayProcess(tmp_path)
    deaths = 0
    for at, nth in enumerate((1, 2, 3)):
        gateway.dies_at = (point, nth)
        try:
            gateway.start()
            await Senders(sent[10 * at :], gateway, chance).run_until(lambda: is_over(gateway))
            deaths += gateway.process.returncode() is not None
        except ProcessFailed:  # it came by there while it started
            deaths += 1
        finally:
            gateway.kill()
    assert deaths, "it never came by there"
    gateway.dies_at = None
    with gateway:
        await Senders(sent, gateway, chance).run()
        status = await asyncio.to_thread(gateway.wait_until_delivered, "unit_cost", at_least=len(sent) * IN_A_REQUEST)
        held = await at_service(gateway.service_url, gateway.service_key())
    assert held == sums(sent)
    assert broken_identities(status) == []
    assert status["lanes"]["unit_cost"]["kept"] == len(sent) * IN_A_REQUEST


@pytest.mark.parametrize("can_read", [True, False])
async def test_an_empty_data_directory_does_not_wipe_the_services_totals(
    tmp_path: Path,
    chance: random.Random,
    can_read: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A second gateway goes on where the first one's data directory was lost; the service
    fails and resets meanwhile.
    """
    service = ServiceProcess(tmp_path)
    service.start("--fail", "429:0.1", "--reset", "0.05")
    assert service.port is not None
    manage, read = UNIT_COST_SCOPES
    upstream = service.upstream(service.port, [manage, *[read] * can_read])
    sent = events(chance, datetime.now(UTC))
    half = len(sent.requests) // 20
    try:
        for name, bodies in (("first", sent.requests[:half]), ("second", sent.requests[half : 2 * half])):
            with GatewayProcess(folder(tmp_path / name), config={"upstream": upstream}) as gateway:
                senders = Senders(bodies, gateway, chance)
                await senders.run()
                status = await asyncio.to_thread(
                    gateway.wait_until_delivered, "unit_cost", at_least=len(bodies) * IN_A_REQUEST
                )
                assert status["lanes"]["unit_cost"]["dead_lettered"] == 0
        service.kill()
        service.start()  # in good order, to be asked
        held = await at_service(f"http://127.0.0.1:{service.port}", service.read_key())
    finally:
        service.kill()
    assert held == sums(sent.requests[: 2 * half])


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def sums(bodies: list[bytes]) -> dict[tuple[str, str], str]:
    totals: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for body in bodies:
        for event in orjson.loads(body):
            bucket = datetime.fromisoformat(event["timestamp"]).strftime("%Y-%m-%dT%H:00:00.000Z")
            totals[bucket, event["metadata"]["element_name"]] += Decimal(event["metadata"]["value"])
    return {at: decimal_text(value) for at, value in totals.items()}
