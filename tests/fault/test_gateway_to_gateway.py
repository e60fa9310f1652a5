"""Two gateways in a row under load, whose parts break at random: what the first one
acknowledged is at the service once.

The edge is killed, also at chosen points of its code, the hub is killed, the network is cut
or hangs between edge and hub and between hub and service, or loses their answers alone, and
the service misbehaves. PAIR_TEST_SECONDS=600 is the long run.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.processes import ProcessFailed
from tests.fault.torture import MISBEHAVE, names_of
from tests.support.device_senders import enrolled_at
from tests.support.dying import UNDER_ANY_LOAD
from tests.support.gateway_pair import GatewayPair, gateway_pair, until_empty
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import until_true
from tests.support.tcp_proxy import TcpProxy
from tests.support.torture_senders import Senders

SECONDS = float(os.environ.get("PAIR_TEST_SECONDS", "20"))
DELIVERED_WITHIN_S = 420.0
"""After all is fixed: longer than the longest back-off."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 2 * DELIVERED_WITHIN_S)]


class Run:
    def __init__(self, pair: GatewayPair, chance: random.Random) -> None:
        self.pair = pair
        self.edge = pair.edge()
        self.chance = chance
        self.faults: list[str] = []
        self.did: Counter[str] = Counter()
        self._is_up = False
        self.senders = Senders(self._intake_url, random.Random(chance.random()))

    def _intake_url(self) -> str | None:
        return self.edge.intake_url if self._is_up else None

    async def start_edge(self) -> None:
        await self.start(self.edge)
        self._is_up = True

    async def start(self, gateway: GatewayProcess) -> None:
        """Until it is up, also when it is asked to die on the
        way; then its identities must hold.
        """
        try:
            await asyncio.to_thread(gateway.start)
        except ProcessFailed:
            if gateway.dies_at is None or gateway.process.returncode() != -signal.SIGKILL:
                raise
            gateway.dies_at = None
            gateway.kill()
            await asyncio.to_thread(gateway.start)
        with suppress(OSError):  # it died since, by a point of its own code
            self.faults += broken_identities(await asyncio.to_thread(gateway.status))

    async def kill_edge(self) -> None:
        self._is_up = False
        self.edge.kill()
        self.edge.dies_at = self._death()
        await self.start_edge()

    async def kill_hub(self) -> None:
        self.pair.hub.kill()
        await asyncio.sleep(self.chance.uniform(0, 1.5))
        self.pair.hub.dies_at = self._death()
        await self.start(self.pair.hub)

    def _death(self) -> tuple[str, int] | None:
        """Where in its code the next process ends itself, half of the time."""
        return (self.chance.choice(UNDER_ANY_LOAD), self.chance.randint(1, 60)) if self.chance.random() < 0.5 else None

    async def kill_service(self) -> None:
        self.pair.service.kill()
        await asyncio.sleep(self.chance.uniform(0, 1.5))
        await asyncio.to_thread(self.pair.service.start, *self.chance.choice(MISBEHAVE))

    async def cut(self, network: TcpProxy) -> None:
        if self.chance.random() < 0.5:
            await network.cut()
        else:
            network.hang()
        await asyncio.sleep(self.chance.uniform(0.2, 3))
        network.mend()

    async def lose_answers(self, network: TcpProxy) -> None:
        """What comes over *network* meanwhile is done, and no one is reported."""
        network.lose_answers()
        await asyncio.sleep(self.chance.uniform(1.5, 3))
        await network.cut()
        network.mend()

    async def revive(self) -> None:
        """Whoever died at a point of its code lives again."""
        for gateway, what in ((self.edge, "edge"), (self.pair.hub, "hub")):
            if not gateway.is_running() and gateway.dies_at is not None:
                self.did[f"{what} died at {gateway.dies_at[0]}"] += 1
                gateway.dies_at = None
                self._is_up = self._is_up and gateway is not self.edge
                gateway.kill()
                await self.start(gateway)
        self._is_up = True

    async def misfortunes(self) -> None:
        """Each kind once, and then at random for as long as there is time."""
        ways: dict[str, Callable[[], Awaitable[None]]] = {
            "edge killed": self.kill_edge,
            "hub killed": self.kill_hub,
            "network cut before the hub": lambda: self.cut(self.pair.near),
            "network cut behind the hub": lambda: self.cut(self.pair.far),
            "answers lost before the hub": lambda: self.lose_answers(self.pair.near),
            "answers lost behind the hub": lambda: self.lose_answers(self.pair.far),
            "service killed": self.kill_service,
        }
        first = self.chance.sample(list(ways), len(ways))
        ends_s = time.monotonic() + SECONDS
        while first or time.monotonic() < ends_s:
            await asyncio.sleep(self.chance.uniform(0.2, 1.5))
            await self.revive()
            name = first.pop() if first else self.chance.choice(list(ways))
            self.did[name] += 1
            await ways[name]()

    async def mend(self) -> None:
        """Everything is up, and nothing dies or misbehaves any more."""
        self._is_up = False
        for gateway in (self.edge, self.pair.hub):
            gateway.kill()
            gateway.dies_at = None
            await self.start(gateway)
        self._is_up = True
        self.pair.service.kill()
        await asyncio.to_thread(self.pair.service.start)


async def test_what_the_edge_acknowledged_is_at_the_service_once_whatever_breaks_between(
    tmp_path: Path, chance: random.Random
) -> None:
    async with gateway_pair(tmp_path) as pair:
        run = Run(pair, chance)
        try:
            await run.start(pair.hub)
            await run.start_edge()
            sending = asyncio.create_task(run.senders.run())
            await run.misfortunes()
            await run.mend()
            run.senders.stop()
            await sending
            edge = await until_empty(run.edge, timeout_s=DELIVERED_WITHIN_S)
            hub = await until_empty(pair.hub, timeout_s=DELIVERED_WITHIN_S)
            machines = {name.partition(" ")[2] for name in run.senders.sent.acked if name.startswith("device ")}
            await until_true(lambda: enrolments(pair).keys() >= machines, what="enrolled")
        finally:
            run.edge.kill()
        sent, records, event_ids = run.senders.sent, pair.service.records(), pair.service.event_ids()
        stored = Counter(name for record in records for name in names_of(record))
        stored.update(f"event {event_id}" for event_id in event_ids)
        stored.update(
            {f"device {device}": n for device, n in enrolments(pair).items() if device.startswith("machine-")}
        )
        told = {"acknowledged": len(sent.acked), "records": len(records), "unit cost": sent.summed, **run.did}
        sys.stderr.write(f"{told}\n")
        assert run.faults + broken_identities(edge) + broken_identities(hub) == []
        assert sent.acked - stored.keys() == set(), "acknowledged, and not at the service"
        assert {name for name, n in stored.items() if n > 1} == set(), "more than once at the service"
        assert stored.keys() - sent.tried == set()
        for gateway in (edge, hub):
            assert not any(lane["dead_lettered"] or lane["expired"] for lane in gateway["lanes"].values())
        assert edge["lanes"]["ai_telemetry"]["delivered"] == hub["lanes"]["ai_telemetry"]["delivered"] == len(records)
        assert edge["lanes"]["usage_events"]["delivered"] == hub["lanes"]["usage_events"]["delivered"] == len(event_ids)
        assert pair.service.unit_cost_total() == sent.total
        assert edge["lanes"]["unit_cost"]["kept"] == sent.summed > SECONDS
        assert set(enrolments(pair).values()) == {1}
        assert len(sent.acked) > 5 * SECONDS, "hardly any load"


def enrolments(pair: GatewayPair) -> dict[str, int]:
    """Device -> enrolments at the service; without the hub, with the edge."""
    return {each.device_id: each.enrolments for each in enrolled_at(pair.service.data_dir / "service")}
