"""A cell under everything at once, for as long as asked: `python -m tests.fault.cell_torture
--minutes 20 --seed 7`.

Three gateways on a Postgres with two synchronous standbys, senders of every kind, and a service
that misbehaves. Gateways are killed, told to stop, and stopped for longer than the lease. Their
wall clocks are stepped, and their networks to Postgres are cut for longer than the lease. The
primary dies and a standby takes over, both standbys go away and come back, waits of commits are
cancelled, and connections are broken. With `--other CHECKOUT PYTHON` gateways are also replaced by
those of another release, and back, so that both are on one schema. At the end all is mended, and
what was acknowledged is looked for in the service: each item exactly once, each device enrolled
once, the totals of unit cost exact, with both identities. Prints a
summary as JSON; exit code 1 when anything is not as promised.
"""

import argparse
import asyncio
import json
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.processes import ProcessFailed
from benchmarks.scenario import fetch
from gateway.cli.postgres_servers import Cluster, programs
from gateway.pipeline.journal.edge import UNANSWERED_S
from tests.fault.torture import MISBEHAVE, names_of
from tests.support.cell_processes import SECRET, ask, owns
from tests.support.device_senders import enrolled_at
from tests.support.gateway_process import Status, broken_identities
from tests.support.service_process import UNIT_COST_SCOPES, ServiceProcess
from tests.support.torture_senders import Senders
from tests.support.tortured_gateway import Network, Release, TorturedGateway

GATEWAYS = 3
LEASE_S = 2.0
DELIVERED_WITHIN_S = 420.0
OWNED_WITHIN_S = 60.0
STEP_MS = 600_000
SAID_WITHIN_S = 4.0


class CellTorture:
    """One run. `faults` holds what was not as promised."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        cluster: Cluster,
        service: ServiceProcess,
        networks: Sequence[Network],
        other: Release | None,
    ) -> None:
        """*networks*: one of each gateway. *other*: as of the command."""
        self._other = other
        self.chance = random.Random(seed)
        self.did: Counter[str] = Counter()
        self.faults: list[str] = []
        self.cluster, self.service = cluster, service
        (folder / "cell-secret").write_text(SECRET)
        self.gateways = [
            self._gateway(folder / f"gateway-{number}", network) for number, network in enumerate(networks)
        ]
        self.gateways[-1].is_other = other is not None
        self.up: list[TorturedGateway] = []
        """Those that senders may ask."""
        self.senders = Senders(self._intake_url, random.Random(seed))
        self.longest_takeover_s = 0.0
        self.epochs: set[int] = set()

    def _gateway(self, folder: Path, network: Network) -> TorturedGateway:
        folder.mkdir()
        assert self.service.port is not None
        store = {
            "type": "postgres",
            "dsn": network.dsn,
            "lease": f"{LEASE_S:g}s",
            "secret": f"${{file:{folder.parent / 'cell-secret'}}}",
        }
        upstream = self.service.upstream(self.service.port, UNIT_COST_SCOPES)
        config = {"upstream": upstream, "store": store, "devices": {"heartbeat_interval": "5s"}}
        return TorturedGateway(folder, network, self._other, config, settle="500ms")

    def _intake_url(self) -> str | None:
        return self.chance.choice(self.up).intake_url if self.up else None

    async def start(self, gateway: TorturedGateway) -> None:
        """Until it is up: while there is no primary it cannot start."""
        while True:
            try:
                await asyncio.to_thread(gateway.start)
            except ProcessFailed:
                await asyncio.sleep(0.5)
            else:
                self.up.append(gateway)
                return

    # ---- misfortunes

    async def kill_gateway(self) -> None:
        gateway = self.chance.choice(self.gateways)
        self.up.remove(gateway)
        gateway.kill()
        await asyncio.sleep(self.chance.uniform(0, 3))
        await self.start(gateway)

    async def kill_owner(self) -> None:
        owner = await self._owner()
        self.up.remove(owner)
        owner.kill()
        began_s = time.monotonic()
        await self._owner()
        self.longest_takeover_s = max(self.longest_takeover_s, time.monotonic() - began_s)
        await self.start(owner)

    async def terminate_gateway(self) -> None:
        gateway = self.chance.choice(self.gateways)
        self.up.remove(gateway)
        code = await asyncio.to_thread(gateway.stop)
        if code:
            self.faults.append(f"SIGTERM ended a gateway with {code}")
        await self.start(gateway)

    async def exchange_gateway(self) -> None:
        """By one of the other release, or back; the one before stops or dies."""
        gateway = self.chance.choice(self.gateways)
        self.up.remove(gateway)
        if self.chance.random() < 0.5:
            await asyncio.to_thread(gateway.stop)
        else:
            gateway.kill()
        gateway.is_other = not gateway.is_other
        await self.start(gateway)

    async def step_clock(self) -> None:
        self.chance.choice(self.gateways).clock.step(self.chance.randint(-STEP_MS, STEP_MS))

    async def cut_network(self) -> None:
        """Of a gateway, to all of Postgres."""
        gateway, seconds = self.chance.choice([*self.gateways, await self._owner()]), self.chance.uniform(0.5, 4)
        cut = self.chance.choice([gateway.network.cut, gateway.network.swallow])
        self.did[f"of these, by {cut.__name__}"] += 1
        await cut(seconds * LEASE_S)

    async def pause_owner(self) -> None:
        """For longer than its lease: it wakes up as one that owns nothing any more."""
        owner = await self._owner()
        os.kill(owner.process.pid, signal.SIGSTOP)
        await asyncio.sleep(self.chance.uniform(0.5, 4) * LEASE_S)
        os.kill(owner.process.pid, signal.SIGCONT)

    async def fail_over(self) -> None:
        died = await self.cluster.fail_over()
        await asyncio.sleep(self.chance.uniform(0.5, 3))
        await self.cluster.join(died)

    async def lose_quorum(self) -> None:
        """Commits wait; some waits are cancelled, which answers success with a warning."""
        standbys = self.cluster.standbys()
        for node in standbys:
            await self.cluster.stop_node(node)
        await asyncio.sleep(self.chance.uniform(0.5, 3))
        if self.chance.random() < 0.5:
            await asyncio.to_thread(
                self._in_database, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            )
            self.did["waits cancelled"] += 1
            await asyncio.sleep(self.chance.uniform(0.5, 2))
        elif self.chance.random() < 0.5:
            await asyncio.sleep(UNANSWERED_S + SAID_WITHIN_S)
            await self._expect_not_ready()
        for node in standbys:
            await self.cluster.start_node(node)

    async def _expect_not_ready(self) -> None:
        """No commit is answered, and every gateway was asked for some."""
        for gateway in self.up:
            if not gateway.is_other and await asyncio.to_thread(is_ready, gateway):
                self.faults.append(f"ready without its standbys:\n{gateway.log.read_text()[-1500:]}")

    async def break_connections(self) -> None:
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ai-telemetry-gateway' AND random() < 0.5"
        await asyncio.to_thread(self._in_database, sql)

    def _in_database(self, sql: str) -> None:
        with suppress(psycopg.Error), psycopg.connect(self.cluster.dsn, autocommit=True) as connection:
            connection.execute(sql)

    async def kill_service(self) -> None:
        self.service.kill()
        await asyncio.sleep(self.chance.uniform(0, 2))
        await asyncio.to_thread(self.service.start, *self.chance.choice(MISBEHAVE))

    async def misfortunes(self, seconds: float) -> None:
        """One after the other, at random, for that long."""
        ways: dict[str, tuple[float, Callable[[], Awaitable[None]]]] = {
            "gateway killed": (2, self.kill_gateway),
            "owner killed": (3, self.kill_owner),
            "gateway told to stop": (2, self.terminate_gateway),
            "owner stopped for a while": (3, self.pause_owner),
            "clock stepped": (3, self.step_clock),
            "network cut": (3, self.cut_network),
            "primary died": (2, self.fail_over),
            "quorum lost": (2, self.lose_quorum),
            "connections broken": (3, self.break_connections),
            "service killed": (2, self.kill_service),
        }
        if self._other is not None:
            ways["gateway of the other release"] = (8, self.exchange_gateway)
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            await asyncio.sleep(self.chance.uniform(0.5, 3))
            for gateway in self.gateways:
                if gateway in self.up and not gateway.is_running():
                    self.faults.append(f"a gateway ended by itself:\n{gateway.log.read_text()[-1500:]}")
                    self.up.remove(gateway)
                    await self.start(gateway)
            (name,) = self.chance.choices(list(ways), [weight for weight, _ in ways.values()])
            self.did[name] += 1
            await ways[name][1]()

    # ---- the end

    async def _owner(self) -> TorturedGateway:
        ends_s = time.monotonic() + OWNED_WITHIN_S
        while time.monotonic() < ends_s:
            for gateway in self.up:
                if await asyncio.to_thread(owns, gateway):
                    return gateway
            await asyncio.sleep(0.1)
        raise TimeoutError(f"nobody owns the cell after {OWNED_WITHIN_S} s")

    async def until_delivered(self) -> Status:
        """The status when nothing waits anywhere, or at the deadline."""
        ends_s = time.monotonic() + DELIVERED_WITHIN_S
        while True:
            owner = await self._owner()
            with suppress(OSError):
                status: Status = await asyncio.to_thread(ask, owner, "/v2/status")
                is_done = not any(lane["pending"] for lane in status["lanes"].values())
                if time.monotonic() > ends_s or (is_done and not await asyncio.to_thread(self._waiting)):
                    return status
            await asyncio.sleep(0.5)

    def _waiting(self) -> int:
        """Rows of the journal."""
        with psycopg.connect(self.cluster.dsn) as connection:
            (n,) = connection.execute("SELECT count(*) FROM cell_default.journal").fetchone() or (0,)
        return int(n)

    def check(self, status: Status) -> dict[str, Any]:
        """Compare what was acknowledged with what arrived; the summary."""
        sent = self.senders.sent
        records = self.service.records()
        stored = Counter(name for record in records for name in names_of(record))
        stored.update(f"event {event_id}" for event_id in self.service.event_ids())
        devices = enrolled_at(self.service.data_dir / "service")
        stored.update({f"device {device.device_id}": device.enrolments for device in devices})
        total = self.service.unit_cost_total()
        self.faults += broken_identities(status)
        self._expect("acknowledged, but not in the service", sent.acked - stored.keys())
        self._expect("more than once in the service", {name for name, n in stored.items() if n > 1})
        self._expect("never sent, but in the service", stored.keys() - sent.tried)
        for outcome in ("dead_lettered", "expired", "pending"):
            lanes = {n: x for n, x in status["lanes"].items() if (n, outcome) != ("devices", "expired")}
            self._expect(f"{outcome} in a lane", {name for name, each in lanes.items() if each[outcome]})
        if total != sent.total:
            self.faults.append(f"unit cost: the senders sent {sent.total}, the service holds {total}")
        return {
            "acknowledged": len(sent.acked) + sent.summed,
            "given up by their senders": len(sent.tried - sent.acked),
            "of these arrived all the same": len((sent.tried - sent.acked) & stored.keys()),
            "records in the service": len(records),
            "events in the service": len(self.service.event_ids()),
            "devices in the service": len(devices),
            "total of unit cost in the service": str(total),
            "requests": dict(sent.requests),
            "statuses": {str(status): n for status, n in sorted(sent.statuses.items())},
            "tries without an answer": sent.broken,
            "longest takeover after a kill": round(self.longest_takeover_s, 1),
            "longest answer that a sender waited for": round(sent.longest_s, 1),
            "epoch": status["cell"]["epoch"],
            "misfortunes": dict(sorted(self.did.items())),
            "edge": status["edge"],
            "faults": self.faults[:20],
        }

    def _expect(self, what: str, none: Iterable[str]) -> None:
        found = sorted(none)
        if found:
            self.faults.append(f"{what}: {len(found)}, such as {found[:3]}")


def is_ready(gateway: TorturedGateway) -> bool:
    try:
        return fetch(f"{gateway.admin_url}/readyz").startswith(b"ready")
    except OSError:
        return False


async def torture(folder: Path, minutes: float, seed: int, other: Release | None) -> dict[str, Any]:
    binaries = programs()
    assert binaries is not None, "needs Postgres: apt install postgresql"
    cluster, service = Cluster(folder, binaries), ServiceProcess(folder, is_brisk=True)
    await cluster.start()
    await asyncio.to_thread(service.start)
    open_ones = AsyncExitStack()
    networks = [await open_ones.enter_async_context(Network(cluster.dsn)) for _ in range(GATEWAYS)]
    run = CellTorture(folder, seed, cluster, service, networks, other)
    try:
        for gateway in run.gateways:
            await run.start(gateway)
        sending = asyncio.create_task(run.senders.run())
        await run.misfortunes(minutes * 60)
        service.kill()
        await asyncio.to_thread(service.start)
        run.senders.stop()
        await sending
        status = await run.until_delivered()
        return await asyncio.to_thread(run.check, status)
    finally:
        for gateway in run.gateways:
            if gateway.was_started:
                gateway.kill()
        await open_ones.aclose()
        service.kill()
        await cluster.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--other", type=Path, nargs=2, metavar=("CHECKOUT", "PYTHON"), default=None)
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    other = None if given.other is None else Release(*given.other)
    with tempfile.TemporaryDirectory(prefix="cell-torture-") as folder:
        summary = asyncio.run(torture(Path(folder), given.minutes, seed, other))
    sys.stdout.write(json.dumps({"seed": seed, **summary}, indent=2) + "\n")
    return bool(summary["faults"])


if __name__ == "__main__":
    sys.exit(main())
