"""Damaged payloads of the corpus, half over HTTP and half over gRPC, for as many as asked:
`python -m tests.fault.otlp_fuzz --payloads 200000 --seed 7`.

No answer may be a 5xx or INTERNAL, no process may die, nothing may be unforeseen, and memory may
not grow once it was warm. Prints a summary as JSON; exit code 1 when anything is not so.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import aiohttp
import grpc.aio

from benchmarks.scenario import fetch
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.grpc_calls import LOGS, METRICS, TRACES
from tests.support.mutations import damaged_payloads, zipped
from tests.support.spans import call_span

ALLOWED = {"200", "400", "413", "429", "OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
AT_ONCE = 4
"""Requests under way, over each transport."""
PARTS = 10
"""Memory is looked at behind each; it is warm behind the third."""
WARM = 2
MAX_GROWTH = 1.25
SLACK_MIB = 24
METHODS = {"traces": TRACES, "logs": LOGS, "metrics": METRICS}
MIB = 2**20


class Summary(NamedTuple):
    answers: Counter[str]
    unforeseen: float
    memory_mib: list[int]
    """Behind each tenth of the payloads."""
    broken: list[str]
    seconds: float

    def faults(self) -> list[str]:
        """What is not as it must be."""
        faults = [f"{n} answers were {answer}" for answer, n in self.answers.items() if answer not in ALLOWED]
        if self.unforeseen:
            faults.append(f"{self.unforeseen:g} unforeseen errors")
        if self.memory_mib[-1] > self.memory_mib[WARM] * MAX_GROWTH + SLACK_MIB:
            faults.append(f"memory grew: {self.memory_mib} MiB")
        return faults + self.broken


def fuzz(payloads: int, seed: int, folder: Path) -> Summary:
    """Against a gateway of its own in *folder*."""
    listen = dict.fromkeys(("http", "grpc", "admin", "service"), "127.0.0.1:0")
    counting = {"settle": "200ms", "metrics_settle": "1s", "window": "30s"}
    began = time.monotonic()
    with GatewayProcess(folder, config={"listen": listen, "counting": counting}) as gateway:
        load = Load(gateway, Random(seed))
        memory = []
        for _ in range(PARTS):
            asyncio.run(load.send(payloads // PARTS))
            memory.append(gateway.process.rss_bytes("VmRSS") // MIB)
        seconds = time.monotonic() - began
        asyncio.run(still_serves(gateway))
        gateway.wait_until_delivered()
        metrics = fetch(gateway.admin_url + "/metrics").decode()
        (unforeseen,) = re.findall(r"^telemetry_gateway_unforeseen_errors_total (\S+)$", metrics, re.MULTILINE)
        broken = broken_identities(gateway.status())
    return Summary(load.answers, float(unforeseen), memory, broken, seconds)


class Load:
    """Damaged payloads for one gateway, and what it answers."""

    def __init__(self, gateway: GatewayProcess, random: Random) -> None:
        self.answers: Counter[str] = Counter()
        self._gateway = gateway
        self._random = random
        self._of_http = damaged_payloads(random, with_json=True)
        self._of_grpc = damaged_payloads(random, with_json=False)

    async def send(self, payloads: int) -> None:
        """So many more, half over each transport."""
        http_left, grpc_left = iter(range(payloads // 2)), iter(range(payloads - payloads // 2))
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            grpc.aio.insecure_channel(self._gateway.grpc_target) as channel,
            asyncio.TaskGroup() as senders,
        ):
            for _ in range(AT_ONCE):
                senders.create_task(self._over_http(session, http_left))
                senders.create_task(self._over_grpc(channel, grpc_left))

    async def _over_http(self, session: aiohttp.ClientSession, left: Iterator[int]) -> None:
        for _ in left:
            payload = next(self._of_http)
            body = payload.body
            headers = {"Content-Type": "application/json" if payload.is_json else "application/x-protobuf"}
            if self._random.random() < 0.3:
                body, headers["Content-Encoding"] = zipped(body, self._random), "gzip"
            url = f"{self._gateway.intake_url}/v1/{payload.signal}"
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()
            self.answers[str(response.status)] += 1

    async def _over_grpc(self, channel: grpc.aio.Channel, left: Iterator[int]) -> None:
        calls: dict[str, Any] = {signal: channel.unary_unary(method) for signal, method in METHODS.items()}
        for _ in left:
            payload = next(self._of_grpc)
            is_zipped = self._random.random() < 0.3
            compression = grpc.Compression.Gzip if is_zipped else grpc.Compression.NoCompression
            try:
                await calls[payload.signal](payload.body, compression=compression, timeout=60)
            except grpc.aio.AioRpcError as error:
                self.answers[error.code().name] += 1
            else:
                self.answers["OK"] += 1


async def still_serves(gateway: GatewayProcess) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.intake_url}/v1/traces", data=call_span("after", (10, 2)), headers=headers) as response,
    ):
        assert response.status == 200


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.otlp_fuzz", description=__doc__)
    parser.add_argument("--payloads", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        summary = fuzz(given.payloads, given.seed, Path(folder))
    shown = summary._asdict() | {"faults": summary.faults(), "seed": given.seed}
    sys.stdout.write(json.dumps(shown, indent=1) + "\n")
    return 1 if summary.faults() else 0


if __name__ == "__main__":
    sys.exit(main())
