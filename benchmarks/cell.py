"""A cell on Postgres beside one gateway on SQLite: `python -m benchmarks.cell`.

Postgres is a primary with two synchronous standbys on the same disk, started for the run. Setups
run in turn, each on an empty store, after a warm-up. Medians are shown. `edges apart` sends only to
gateways that do not own the cell. It shows the cost of taking calls and that of counting apart.
"""

import argparse
import asyncio
import json
import os
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple, TypeVar

import psycopg

from benchmarks.processes import Process, cpu_s, raise_file_limit, read_json_file
from benchmarks.scenario import fetch
from benchmarks.side_by_side.build import build, cache_folder
from benchmarks.side_by_side.loads import LOADS, NUMBERED_BY, Load, write_template
from benchmarks.side_by_side.peers import Sender, SenderReport, Sink, running_sink
from benchmarks.side_by_side.products import KEY_VARIABLE, gateway_config
from benchmarks.side_by_side.report import markdown
from benchmarks.side_by_side.runs import until_delivered
from gateway.cli.postgres_servers import NODES, Cluster, programs

OWNED_S: Final = 30.0
APART: Final = 1 << 28
"""Between the numbers of two senders; the sink has a bit for each."""
WARM_UP_FIRST: Final = APART >> 1
CONNECTIONS: Final = 64
T = TypeVar("T")


class Setup(NamedTuple):
    name: str
    gateways: int
    is_cell: bool = True
    owner_takes: bool = True
    """Senders post to the owner too."""


SETUPS: Final = (
    Setup("SQLite, 1 gateway", 1, is_cell=False),
    Setup("Postgres, 1 gateway", 1),
    Setup("Postgres, 2 gateways", 2),
    Setup("Postgres, 3 gateways", 3),
    Setup("Postgres, edges apart", 2, owner_takes=False),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run; CPU in µs a span. `owner` is the gateway that counts; with SQLite, the only one."""

    load: str
    setup: str
    requests_per_s: float
    delivered_per_s: float
    p50_ms: float
    p99_ms: float
    """Of the slowest sender."""
    owner_cpu: float
    edges_cpu: float
    primary_cpu: float
    standbys_cpu: float
    wal_bytes: float
    """Of the primary, a span."""
    lost: int
    twice: int
    not_acked: int


class Database:
    """The servers of a run, driven from its own loop."""

    def __init__(self, folder: Path) -> None:
        binaries = programs()
        assert binaries is not None, "needs Postgres: apt install postgresql"  # noqa: S101
        self._folder, self._loop = folder, asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()
        self.cluster = Cluster(folder, binaries)

    def start(self) -> None:
        self._await(self.cluster.start())

    def stop(self) -> None:
        self._await(self.cluster.stop())

    def cpu_s(self) -> tuple[float, float]:
        """Of the primary, and of both standbys."""
        used = [self._cpu_s(node) for node in NODES]
        return used[0], sum(used[1:])

    def _cpu_s(self, node: int) -> float:
        """Of processes that ended too."""
        pid = self._pid(node)
        stated = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cpu_s(pid) + (int(stated[13]) + int(stated[14])) / os.sysconf("SC_CLK_TCK")

    def wal_bytes(self) -> int:
        with psycopg.connect(self.cluster.dsn) as connection:
            (written,) = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone() or (0,)
        return int(written)

    def _pid(self, node: int) -> int:
        return int((self._folder / f"node{node + 1}" / "data" / "postmaster.pid").read_text().split()[0])

    def _await(self, wanted: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await wanted

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()


class Gateway(NamedTuple):
    process: Process
    port: int
    admin: int

    def owns(self) -> bool:
        return b"telemetry_gateway_cell_owner 1.0" in fetch(f"http://127.0.0.1:{self.admin}/metrics")


def started(folder: Path, setup: Setup, database: Database, sink: Sink, stack: ExitStack) -> list[Gateway]:
    """The gateways of *setup*, the owner first."""
    store = {"type": "postgres", "dsn": database.cluster.dsn, "cell": f"b{secrets.token_hex(6)}"}
    env = {KEY_VARIABLE: secrets.token_hex(16), "BENCHMARK_CELL": secrets.token_hex(24)}
    made = []
    for number in range(setup.gateways):
        home = folder / str(number)
        home.mkdir()
        config = gateway_config(home, sink.port)
        if setup.is_cell:
            config["store"] = {**store, "secret": "${env:BENCHMARK_CELL}"}
        made.append(_gateway(home, config, env, stack))
    if not setup.is_cell:
        return made
    return sorted(made, key=lambda each: not each.owns())


def _gateway(home: Path, config: dict[str, Any], env: dict[str, str], stack: ExitStack) -> Gateway:
    """Ready when it returns, with an owner in its cell."""
    path, ports_file = home / "config.yaml", home / "ports.json"
    path.write_text(json.dumps(config))
    command = [sys.executable, "-m", "gateway.cli.main", "run", "--config", str(path), "--ports-file", str(ports_file)]
    process = Process(command, log=home / "log", env=env)
    stack.callback(process.kill)
    ports = process.wait_until(lambda: read_json_file(ports_file), timeout_s=OWNED_S, what="ready")
    admin, http = ports["admin"], ports["http"]
    assert admin is not None, "configured"  # noqa: S101
    assert http is not None, "configured"  # noqa: S101
    process.wait_until(lambda: _is_counting(admin), timeout_s=OWNED_S, what="in a cell with an owner")
    return Gateway(process, http, admin)


def _is_counting(admin: int) -> bool | None:
    try:
        fetch(f"http://127.0.0.1:{admin}/v2/status")
    except OSError as error:
        return True if getattr(error, "code", None) == 401 else None  # in a cell it needs a token
    return True


def run_once(setup: Setup, load: Load, database: Database, sender: Path, seconds: float) -> Run:
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="cell-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        template = folder / "template.json"
        write_template(load, template)
        sink = stack.enter_context(running_sink(sender, folder / "sink.log", field=NUMBERED_BY[load.kind]))
        gateways = started(folder, setup, database, sink, stack)
        targets = gateways if setup.owner_takes else gateways[1:]

        def send(seconds: float, first: int) -> list[SenderReport]:
            made = [
                Sender(
                    sender,
                    folder / f"sender-{number}.log",
                    port=each.port,
                    template=template,
                    connections=CONNECTIONS // len(targets),
                    seconds=seconds,
                    rate=0.0,
                    first=first + number * APART,
                )
                for number, each in enumerate(targets)
            ]
            with ThreadPoolExecutor(len(made)) as pool:
                return list(pool.map(Sender.go, made))

        until_delivered(sink, sum(each.acked_items for each in send(1.0, WARM_UP_FIRST)))
        base, before, began_s = sink.counts(), _used(gateways, database), time.monotonic()
        reports = send(seconds, 0)
        items = sum(each.acked_items for each in reports)
        counts, delivered_s = until_delivered(sink, base.unique + items)
        owner, edges, primary, standbys, wal = (
            (after - earlier) / items for after, earlier in zip(_used(gateways, database), before, strict=True)
        )
        return Run(
            load=load.name,
            setup=setup.name,
            requests_per_s=sum(each.acked_requests / each.elapsed_s for each in reports),
            delivered_per_s=(counts.unique - base.unique) / (delivered_s - began_s),
            p50_ms=max(each.p50_ms for each in reports),
            p99_ms=max(each.p99_ms for each in reports),
            owner_cpu=owner * 1e6,
            edges_cpu=edges * 1e6,
            primary_cpu=primary * 1e6,
            standbys_cpu=standbys * 1e6,
            wal_bytes=wal,
            lost=base.unique + items - counts.unique,
            twice=counts.repeats - base.repeats,
            not_acked=sum(each.requests - each.acked_requests for each in reports),
        )


def _used(gateways: Sequence[Gateway], database: Database) -> tuple[float, ...]:
    owner, *edges = gateways
    return (
        owner.process.cpu_s(),
        sum(each.process.cpu_s() for each in edges),
        *database.cpu_s(),
        database.wal_bytes(),
    )


def medians(runs: Sequence[Run]) -> list[Run]:
    """Of each load and setup, in the order in which they first ran; what went wrong is summed."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.load, run.setup), []).append(run)
    counted = ("lost", "twice", "not_acked")
    figures = [each.name for each in fields(Run) if each.name not in {"load", "setup", *counted}]
    made = []
    for group in groups.values():
        middle: dict[str, Any] = {name: statistics.median(getattr(run, name) for run in group) for name in figures}
        sums: dict[str, Any] = {name: sum(getattr(run, name) for run in group) for name in counted}
        made.append(replace(group[0], **middle, **sums))
    return made


def table(runs: Sequence[Run]) -> str:
    """Markdown."""
    heads = ["spans a request", "setup", "requests/s", "p50 ms", "p99 ms", "owner", "edges", "primary", "standbys", "WAL bytes a span", "lost", "twice"]  # fmt: skip
    return markdown(heads, [_cells(run) for run in runs])


def _cells(run: Run) -> list[str]:
    cpu = (run.owner_cpu, run.edges_cpu, run.primary_cpu, run.standbys_cpu)
    return [
        run.load,
        run.setup,
        f"{run.requests_per_s:,.0f}",
        f"{run.p50_ms:.1f}",
        f"{run.p99_ms:.1f}",
        *(f"{used:.1f}" for used in cpu),
        f"{run.wal_bytes:,.0f}",
        str(run.lost),
        str(run.twice),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", nargs="+", default=["1", "64", "512"], choices=list(LOADS))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where the runs are written")
    given = parser.parse_args()
    raise_file_limit()
    sender = build(cache_folder(), with_collector=False).peerbench
    runs: list[Run] = []
    with ExitStack() as stack:
        database = Database(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cell-database-"))))
        database.start()
        stack.callback(database.stop)
        for load in given.loads:
            for turn in range(given.runs):
                for setup in SETUPS if turn % 2 == 0 else reversed(SETUPS):
                    runs.append(run_once(setup, LOADS[load], database, sender, given.seconds))
                    sys.stderr.write(f"{json.dumps(asdict(runs[-1]))}\n")
    if given.json:
        given.json.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")
    sys.stdout.write(table(medians(runs)) + "\n")
    return int(any(run.lost or run.twice for run in runs))


if __name__ == "__main__":
    sys.exit(main())
