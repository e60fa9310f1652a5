"""What connections without a key can make the gateway hold:
`python -m tests.fault.unauthenticated`.

Each shape of `tests.support.strangers` is sent to each port of a gateway for ten seconds, while an
honest sender sends. Prints a row for each: how much memory the process gained, what of that is left
ten seconds after the connections ended, and how many requests of the honest sender were answered.
Exit code 1 where a shape costs more than `MAX_GROWTH_MIB`, leaves more than `MAX_LEFT_MIB`, or the
honest sender is refused. Ends by itself.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from gateway.common.contract.scopes import INGEST_SCOPE, Fixed
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.honest_sender import HonestSender
from tests.support.keys_beside import BY, keys_beside
from tests.support.peak_memory import PeakMemory
from tests.support.strangers import SHAPES, Strangers

MAX_GROWTH_MIB: Final = 64
MAX_LEFT_MIB: Final = 32
WARM_S: Final = 3.0


class Row(NamedTuple):
    port: str
    shape: str
    grown_mib: int
    left_mib: int
    honest: int
    slowest_s: float
    errors: list[str]
    strangers: dict[str, int]
    cpu_s: float

    def faults(self) -> list[str]:
        found = []
        if self.grown_mib > MAX_GROWTH_MIB:
            found.append(f"grew by {self.grown_mib} MiB")
        if self.left_mib > MAX_LEFT_MIB:
            found.append(f"kept {self.left_mib} MiB")
        if self.errors or not self.honest:
            found.append(f"honest: {self.honest} taken, {self.errors[:3]}")
        return found


@contextmanager
def running(folder: Path, **config: Any) -> Iterator[tuple[GatewayProcess, str]]:
    """A gateway with its local service, and a key to it."""
    ports = dict.fromkeys(("http", "grpc", "admin", "service"), "127.0.0.1:0")
    gateway = GatewayProcess(folder, config={"listen": ports, **config})

    async def made() -> str:
        async with keys_beside(gateway.data_dir) as keys:
            return (await keys.create("honest", Fixed(frozenset({INGEST_SCOPE})), by=BY)).secret.reveal()

    key = asyncio.run(made())
    with gateway:
        yield gateway, key


def address_of(gateway: GatewayProcess, port: str) -> str:
    if port == "grpc":
        return gateway.grpc_target
    urls = {"http": gateway.intake_url, "admin": gateway.admin_url, "service": gateway.service_url}
    return urlsplit(urls[port]).netloc


def tried(gateway: GatewayProcess, key: str, port: str, shape: str, *, seconds: float, rest_s: float) -> Row:
    """One shape, for *seconds*, and what is left after *rest_s* more."""
    process, transport = gateway.process, "grpc" if port == "grpc" else "http"
    honest = HonestSender(address_of(gateway, transport), name=f"{port}-{shape}", key=key, transport=transport)
    with HonestSender(address_of(gateway, transport), name="first", key=key, transport=transport):
        threading.Event().wait(WARM_S)  # what a gateway loads with its first requests is not the shape's
    memory, cpu_s = PeakMemory(process.pid), process.cpu_s()
    with honest:
        with Strangers(port, shape, address_of(gateway, port)) as strangers:
            threading.Event().wait(seconds)
        grown_mib, cpu_s = memory.grown_mib()["main"], process.cpu_s() - cpu_s
        ends = time.monotonic() + rest_s
        while (left_mib := memory.rest_mib()["main"]) > MAX_LEFT_MIB and time.monotonic() < ends:
            threading.Event().wait(0.1)
    return Row(
        port, shape, grown_mib, left_mib, honest.accepted, honest.slowest_s, honest.errors, strangers.seen, cpu_s
    )


def shown(port: str, shape: str, seconds: float) -> bool:
    """Try one shape on a gateway of its own, and print the row; whether it is sound."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as (gateway, key):
        row = tried(gateway, key, port, shape, seconds=seconds, rest_s=10.0)
        status = gateway.wait_until_delivered()
    faults = row.faults() + broken_identities(status)
    refused = {entry["reason"]: entry["requests"] for entry in status["refused"]}
    figures = {"slowest_s": round(row.slowest_s, 2), "cpu_s": round(row.cpu_s, 1), "errors": len(row.errors)}
    sys.stdout.write(json.dumps({**row._asdict(), **figures, "refused": refused, "faults": faults}) + "\n")
    sys.stdout.flush()
    return not faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.unauthenticated", description=__doc__)
    parser.add_argument("--port", choices=list(SHAPES), action="append", help="this one alone; may be repeated")
    parser.add_argument("--only", default="", help="shapes whose name holds this")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each shape")
    given = parser.parse_args()
    is_sound = True
    for port in given.port or SHAPES:
        for shape in SHAPES[port]:
            if given.only in shape:
                is_sound = shown(port, shape, given.seconds) and is_sound
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
