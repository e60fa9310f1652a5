"""Everything at once, for as long as asked: `python -m
tests.fault.torture --minutes 2 --seed 7`.

Senders of every kind, the gateway, and a service that misbehaves, behind a network that is cut.
Each is killed and started again at random, also at chosen points of the gateway's own code and
while it starts; the disk is filled; processes are stopped for a while. At the end all is fixed,
and what was acknowledged is looked for: in the service and in the file that an extra exporter
writes, each item exactly once, each device enrolled once, the totals of unit cost exact, with
both identities and the lanes' figures equal to what the service holds. Prints a summary as
JSON; exit code 1 when anything is not as promised.

The disk is filled only where a small file system can be mounted (as root).
"""

import argparse
import asyncio
import errno
import json
import math
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from benchmarks.processes import ProcessFailed
from tests.support.device_senders import enrolled_at
from tests.support.dying import AT_START, UNDER_ANY_LOAD
from tests.support.gateway_process import GatewayProcess, Status, broken_identities
from tests.support.polling import until_true
from tests.support.service_process import UNIT_COST_SCOPES, ServiceProcess
from tests.support.stalls import Stalls
from tests.support.tcp_proxy import TcpProxy
from tests.support.torture_senders import Senders

DISK_BYTES = 192 << 20
SPOOL_BYTES = 32 << 20
WORK_S = 2.0
"""CPU that the gateway may use before it answers `/healthz`: whatever else the machine does."""
"""How long the gateway, while it runs, may leave a small request without an answer."""
DELIVERED_WITHIN_S = 420.0
"""After all is fixed: longer than the longest back-off."""
MISBEHAVE = (
    ("--fail", "429:0.05,500:0.1,503:0.05", "--reset", "0.05"),
    ("--fail", "502:0.3", "--latency", "50ms"),
    ("--reset", "0.4"),
    ("--latency", "300ms"),
    (),
)


class Torture:
    """One run. `faults` holds what was not as promised."""

    def __init__(self, folder: Path, seed: int, proxy_port: int, service: ServiceProcess, disk: Path | None) -> None:
        self.chance = random.Random(seed)
        self.did: Counter[str] = Counter()
        self.stall_s = math.inf
        self.faults: list[str] = []
        self.service = service
        self.archive = folder / "archive.ndjson"
        self._disk = disk
        self._is_up = False
        config: dict[str, object] = {
            "upstream": service.upstream(proxy_port, UNIT_COST_SCOPES),
            "exporters": {"archive": {"type": "file", "path": str(self.archive)}},
            "spool": {"max_bytes": SPOOL_BYTES},
        }
        self.gateway = GatewayProcess(folder, settle="500ms", config=config)
        self.stalls = Stalls(lambda: self.gateway if self._is_up else None)
        self.senders = Senders(lambda: self.gateway.intake_url if self._is_up else None, random.Random(seed))

    async def start_gateway(self) -> None:
        """Until it is up, also when it is asked to die on the
        way; then its identities must hold.
        """
        try:
            await asyncio.to_thread(self.gateway.start)
        except ProcessFailed as failed:
            if self.gateway.dies_at is None:
                raise
            self.did[f"died at {self.gateway.dies_at[0]}"] += 1
            if self.gateway.process.returncode() != -signal.SIGKILL:
                self.faults.append(str(failed))
            self.gateway.dies_at = None
            await asyncio.to_thread(self.gateway.start)
        self._is_up = True
        await self.look()

    async def look(self) -> None:
        try:
            status = await asyncio.to_thread(self.gateway.status)
        except (OSError, ValueError):
            return  # it died since, by a point of its own code
        self.faults += broken_identities(status)

    async def kill_gateway(self) -> None:
        self._is_up = False
        self.gateway.kill()
        if self.chance.random() < 0.4:
            self.gateway.dies_at = (self.chance.choice([*AT_START, *UNDER_ANY_LOAD]), self.chance.randint(1, 40))
        await self.start_gateway()

    async def terminate_gateway(self) -> None:
        self._is_up = False
        code = await asyncio.to_thread(self.gateway.stop)
        if code not in {0, -signal.SIGKILL}:
            self.faults.append(f"SIGTERM ended it with {code}")
        await self.start_gateway()

    async def die_under_load(self) -> None:
        """Start it so that it dies at a point of its own code, and wait a while for that."""
        self._is_up = False
        self.gateway.kill()
        self.gateway.dies_at = (
            self.chance.choice([*UNDER_ANY_LOAD, "upkeep: inside a vacuum"]),
            self.chance.randint(1, 60),
        )
        await self.start_gateway()
        with suppress(TimeoutError):
            await until_true(lambda: self.gateway.process.returncode() is not None, timeout_s=4, what="dead")
        if self.gateway.process.returncode() is not None and self.gateway.dies_at is not None:
            self.did[f"died at {self.gateway.dies_at[0]}"] += 1
        await self.revive()

    async def revive(self) -> None:
        """A gateway that dies nowhere any more."""
        self._is_up = False
        self.gateway.kill()
        self.gateway.dies_at = None
        await self.start_gateway()

    async def pause_gateway(self) -> None:
        with self.stalls.excused():
            os.kill(self.gateway.process.pid, signal.SIGSTOP)
            await asyncio.sleep(self.chance.uniform(0.2, 2))
            os.kill(self.gateway.process.pid, signal.SIGCONT)

    async def kill_service(self) -> None:
        self.service.kill()
        await asyncio.sleep(self.chance.uniform(0, 2))
        await asyncio.to_thread(self.service.start, *self.chance.choice(MISBEHAVE))

    async def cut_network(self, proxy: TcpProxy) -> None:
        if self.chance.random() < 0.5:
            await proxy.cut()
        else:
            proxy.hang()
        await asyncio.sleep(self.chance.uniform(0.2, 4))
        proxy.mend()

    async def fill_disk(self) -> None:
        """Until not one byte fits, for a while."""
        if self._disk is None:
            return
        filler = self._disk / "filler"
        await asyncio.to_thread(fill, filler)
        await asyncio.sleep(self.chance.uniform(0.5, 3))
        filler.unlink()

    async def misfortunes(self, proxy: TcpProxy, seconds: float) -> None:
        """One after the other, at random, for that long."""
        ways: dict[str, tuple[float, Callable[[], Awaitable[None]]]] = {
            "gateway killed": (3, self.kill_gateway),
            "gateway told to stop": (2, self.terminate_gateway),
            "gateway dies in its code": (3, self.die_under_load),
            "gateway stopped for a while": (1, self.pause_gateway),
            "service killed": (3, self.kill_service),
            "network cut": (3, lambda: self.cut_network(proxy)),
            "disk filled": (2 if self._disk else 0, self.fill_disk),
        }
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            await asyncio.sleep(self.chance.uniform(0.2, 2.5))
            if self.gateway.process.returncode() is not None:
                await self.revive()
            (name,) = self.chance.choices(list(ways), [weight for weight, _ in ways.values()])
            self.did[name] += 1
            await ways[name][1]()
            await self.look()

    def check(self, status: Status) -> dict[str, Any]:
        """Compare what was acknowledged with what arrived; the summary."""
        sent = self.senders.sent
        records = self.service.records()
        stored = Counter(name for record in records for name in names_of(record))
        stored.update(f"event {event_id}" for event_id in self.service.event_ids())
        devices = enrolled_at(self.service.data_dir / "service")
        stored.update({f"device {device.device_id}": device.enrolments for device in devices})
        filed = Counter(name for record in lines(self.archive) for name in names_of(record))
        ai = {name for name in sent.acked if not name.startswith(("event ", "device "))}
        lane, unit_cost = status["lanes"]["ai_telemetry"], status["lanes"]["unit_cost"]
        total = self.service.unit_cost_total()
        self.faults += broken_identities(status)
        self._expect("acknowledged, but not in the service", sent.acked - stored.keys())
        self._expect("more than once in the service", {name for name, n in stored.items() if n > 1})
        self._expect("never sent, but in the service", stored.keys() - sent.tried)
        self._expect("acknowledged, but not in the file", ai - filed.keys())
        self._expect("more than once in the file", {name for name, n in filed.items() if n > 1})
        for outcome in ("dead_lettered", "expired", "pending"):
            # a heartbeat that is late by more than an interval gives way to the next one
            lanes = {n: x for n, x in status["lanes"].items() if (n, outcome) != ("devices", "expired")}
            self._expect(f"{outcome} in a lane", {name for name, each in lanes.items() if each[outcome]})
        if lane["delivered"] != len(records):
            self.faults.append(f"the lane says {lane['delivered']} delivered, the service holds {len(records)}")
        if total != sent.total:
            self.faults.append(f"unit cost: the senders sent {sent.total}, the service holds {total}")
        if self.stalls.longest_s > self.stall_s or self.stalls.most_work_s > WORK_S:
            after = f"{self.stalls.longest_s:.2f} s, {self.stalls.most_work_s:.2f} s of them at work"
            self.faults.append(f"it did not answer for {after}")
        if unit_cost["kept"] != sent.summed:
            self.faults.append(f"unit cost: {unit_cost['kept']} records kept, {sent.summed} acknowledged")
        return {
            "acknowledged": len(sent.acked) + sent.summed,
            "given up by their senders": len(sent.tried - sent.acked),
            "of these arrived all the same": len((sent.tried - sent.acked) & stored.keys()),
            "records in the service": len(records),
            "events in the service": len(self.service.event_ids()),
            "devices in the service": len(devices),
            "unit-cost records acknowledged": sent.summed,
            "total of unit cost in the service": str(total),
            "records in the file": sum(filed.values()),
            "requests": dict(sent.requests),
            "statuses": {str(status): n for status, n in sorted(sent.statuses.items())},
            "tries without an answer": sent.broken,
            "slowest answer of /healthz": round(self.stalls.longest_s, 3),
            "most work before one": round(self.stalls.most_work_s, 3),
            "lane restarts": sum(each.get("restarts", 0) for each in status["lanes"].values()),
            "misfortunes": dict(sorted(self.did.items())),
            "edge": status["edge"],
            "faults": self.faults[:20],
        }

    def _expect(self, what: str, none: Iterable[str]) -> None:
        found = sorted(none)
        if found:
            self.faults.append(f"{what}: {len(found)}, such as {found[:3]}")


def names_of(record: dict[str, Any]) -> Iterator[str]:
    """What its sender called the item (`tests.support.torture_senders`)."""
    match record["source"]["format"]:
        case "otlp.traces":
            yield f"span {record['trace']['span_id']}"
        case "otlp.metrics":
            return  # what a metric adds has no name
        case "otlp.logs":
            yield f"log {record['attribution']['session']}"
        case _:
            yield f"push {record['response_id']}"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        yield from map(orjson.loads, file)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for piece in (b"x" * (1 << 20), b"x" * 4096, b"x"):
            try:
                while True:
                    file.write(piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


@contextmanager
def small_disk(at: Path) -> Iterator[Path | None]:
    """A file system of `DISK_BYTES` at that place; None where none may be mounted."""
    at.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "tmpfs", str(at)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield at if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(at)], check=False)


async def torture(folder: Path, minutes: float, seed: int, disk: Path | None, stall_s: float) -> dict[str, Any]:
    service = ServiceProcess(folder)
    await asyncio.to_thread(service.start)
    async with TcpProxy(lambda: service.port) as proxy:
        run = Torture(folder, seed, proxy.port, service, disk)
        run.stall_s = stall_s
        try:
            await run.start_gateway()
            sending = asyncio.create_task(run.senders.run())
            with run.stalls:
                await run.misfortunes(proxy, minutes * 60)
            service.kill()
            await asyncio.to_thread(service.start)
            if run.gateway.dies_at is not None:
                await run.revive()
            run.senders.stop()
            await sending
            status = await until_delivered(run.gateway)
            await asyncio.to_thread(run.gateway.stop)
            return await asyncio.to_thread(run.check, status)
        finally:
            run.gateway.kill()
            service.kill()


async def until_delivered(gateway: GatewayProcess) -> Status:
    """The status when nothing is pending in any lane, or at the deadline."""
    ends_s = time.monotonic() + DELIVERED_WITHIN_S
    while True:
        status = await asyncio.to_thread(gateway.status)
        if time.monotonic() > ends_s or not any(lane["pending"] for lane in status["lanes"].values()):
            return status
        await asyncio.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument(
        "--stall", type=float, default=math.inf, help="seconds that /healthz may take on a machine of its own"
    )
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-")))
        disk = stack.enter_context(small_disk(folder / "data"))
        started_s = time.monotonic()
        summary = asyncio.run(torture(folder, given.minutes, given.seed, disk, given.stall))
        summary |= {"seed": given.seed, "seconds": round(time.monotonic() - started_s, 1)}
        sys.stdout.write(json.dumps(summary, indent=1) + "\n")
        if summary["faults"]:
            sys.stderr.write((folder / "gateway.log").read_text(errors="replace")[-20_000:])
    return 1 if summary["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
