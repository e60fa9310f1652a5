"""Senders that strain the gateway beside honest ones: `python -m tests.fault.strain`.

Large uploads at once, connections and streams that send nothing, bodies of which a byte comes now
and then; each against a gateway of its own on loopback, with a local service behind it. Prints a
row for each: peak memory of each process above what it began with, answers with their Retry-After,
and what honest senders met. Exit code 1 where anything is not as it must be. Ends by itself.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from gateway.common.contract.scopes import INGEST_SCOPE, Fixed
from tests.support.calls import span_id
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.honest_sender import HonestSender
from tests.support.keys_beside import BY, keys_beside
from tests.support.peak_memory import PeakMemory
from tests.support.service_process import ServiceProcess
from tests.support.strain_senders import MIB, Plan, Seen, StrainSenders

UPLOAD_BYTES: Final = 60 * MIB
SENDER_KEYS: Final = 4
REFUSALS: Final = frozenset({"503", "grpc 14"})
ANSWERS: Final = REFUSALS | {"200", "grpc 0", "open", "closed"}


class Limits(NamedTuple):
    """Of `limits`, in MiB; their defaults."""

    in_flight: int = 256
    body: int = 64
    """As sent and decompressed."""

    def config(self) -> dict[str, str]:
        body = f"{self.body}MiB"
        in_flight = f"{self.in_flight}MiB"
        return {"max_in_flight_bytes": in_flight, "max_body_bytes": body, "max_decompressed_bytes": body}

    def most_mib(self, senders: int) -> dict[str, int]:
        """How much each process may grow by beside so many senders: as docs/promises.md has it."""
        worker = 2 * self.body + 48
        return {"main": self.in_flight + 3 * self.body + senders // 4 + 32, "worker": worker, "worker 2": worker}


class Case(NamedTuple):
    kind: str
    count: int
    options: Mapping[str, Any] = {}

    @property
    def holds_on(self) -> bool:
        """Its senders end only when they are asked to."""
        return not self.kind.startswith("upload")


LIMITS: Final = Limits()
GZIP: Final = {"zipped": True}
CASES: Final[dict[str, Case]] = {
    "uploads over HTTP": Case("upload http", 200),
    "uploads over gRPC": Case("upload grpc", 200),
    "uploads over both": Case("upload mixed", 200),
    "gzip uploads over HTTP": Case("upload http", 200, GZIP),
    "gzip uploads over gRPC": Case("upload grpc", 200, GZIP),
    "gzip uploads over both": Case("upload mixed", 200, GZIP),
    "idle HTTP connections": Case("idle http", 1000),
    "idle gRPC connections": Case("idle grpc", 1000),
    "gRPC streams without a message": Case("streams grpc", 1000),
    "slow bodies over HTTP": Case("slow http", 200),
    "slow bodies over gRPC": Case("slow grpc", 200),
    "slow bodies over both": Case("slow mixed", 200),
}


@dataclass
class Result:
    """What one case gave."""

    seen: Seen
    grown_mib: dict[str, int]
    """The peak of each process above what it began with."""
    rest_mib: dict[str, int]
    """What each has above that once the senders are gone."""
    honest: list[HonestSender]
    missing: list[str]
    """Calls that were acknowledged and did not arrive."""
    repeated: list[str]
    """Calls that arrived more than once."""
    broken: list[str]

    @property
    def slowest_s(self) -> float:
        return max(honest.slowest_s for honest in self.honest)

    def faults(self, most_mib: Mapping[str, int]) -> list[str]:
        """What is not as it must be, where each process may grow by *most_mib*."""
        faults = [f"{len(calls)} calls {what}" for what, calls in self._wrong().items() if calls]
        if any(grown > most_mib[name] for name, grown in self.grown_mib.items()):
            faults.append(f"grew by {self.grown_mib} MiB, more than {most_mib}")
        for honest in self.honest:
            if honest.errors or not honest.acked:
                errors = dict(Counter(honest.errors).most_common(3))
                faults.append(f"an honest sender was refused: {errors}; {honest.accepted} acknowledged")
        if not set(self.seen.answers) <= ANSWERS:
            faults.append(f"answers {dict(self.seen.answers)}")
        if len(self.seen.retry_after_s) != sum(self.seen.answers[answer] for answer in REFUSALS):
            faults.append("a refusal without a retry time")
        return faults + self.broken

    def _wrong(self) -> dict[str, list[str]]:
        return {"acknowledged and not delivered": self.missing, "delivered more than once": self.repeated}

    def row(self) -> dict[str, Any]:
        retries = self.seen.retry_after_s
        return {
            "answers": dict(self.seen.answers),
            "retry_after_s": [min(retries), max(retries)] if retries else None,
            "grown_mib": self.grown_mib,
            "rest_mib": self.rest_mib,
            "honest": {
                "acknowledged": [honest.accepted for honest in self.honest],
                "refused": dict(sum((Counter(honest.errors) for honest in self.honest), Counter())),
                "slowest_s": round(self.slowest_s, 3),
            },
        }


class Rig:
    """A gateway with inbound keys and a local service behind it, both processes of their own."""

    def __init__(self, folder: Path, limits: Limits, *, keys: int = SENDER_KEYS) -> None:
        self._stack = ExitStack()
        self._service = ServiceProcess(folder)
        self._folder, self._limits, self._key_count = folder, limits, keys

    def __enter__(self) -> Self:
        self._service.start()
        self._stack.callback(self._service.kill)
        assert self._service.port is not None
        listen = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "admin": "127.0.0.1:0", "service": "off"}
        upstream = self._service.upstream(self._service.port)
        config = {"listen": listen, "upstream": upstream, "limits": self._limits.config()}
        self.gateway = GatewayProcess(self._folder, config=config)
        self.keys = asyncio.run(self._made_keys())
        self._stack.enter_context(self.gateway)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    async def _made_keys(self) -> list[str]:
        async with keys_beside(self.gateway.data_dir) as keys:
            scopes = Fixed(frozenset({INGEST_SCOPE}))
            names = [f"key-{number}" for number in range(self._key_count + 1)]
            return [(await keys.create(name, scopes, by=BY)).secret.reveal() for name in names]

    def strain(self, kind: str, count: int, *, seconds: float = 0, **more: Any) -> Result:
        """Let so many senders of *kind* strain it, those that hold on for *seconds*, beside two
        honest senders with a key of their own.
        """
        http, grpc = urlsplit(self.gateway.intake_url).netloc, self.gateway.grpc_target
        plan = Plan(kind, count, http, grpc, keys=self.keys[1:], **more)
        honest = [
            HonestSender(address, name=f"{kind}-{transport}", key=self.keys[0], transport=transport)
            for transport, address in (("http", http), ("grpc", grpc))
        ]
        peak = PeakMemory(self.gateway.process.pid)
        with ExitStack() as stack:
            for sender in honest:
                stack.enter_context(sender)
            with StrainSenders(plan) as senders:
                threading.Event().wait(seconds)
        grown = peak.grown_mib()
        status = self.gateway.wait_until_delivered()
        arrived = Counter(record["trace"]["span_id"] for record in self._service.records())
        acked = [*senders.seen.acked, *(call for sender in honest for call in sender.acked)]
        return Result(
            senders.seen,
            grown,
            peak.rest_mib(),
            honest,
            missing=[call for call in acked if span_id(call).hex() not in arrived],
            repeated=[call for call, times in arrived.items() if times > 1],
            broken=broken_identities(status),
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.strain", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--share", type=float, default=1.0, help="of the counts")
    parser.add_argument("--keys", type=int, default=SENDER_KEYS, help="that the senders have together")
    parser.add_argument("--seconds", type=float, default=20.0, help="that idle and slow senders hold on")
    given = parser.parse_args()
    is_sound = True
    for name, case in CASES.items():
        if given.only not in name:
            continue
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory() as folder, Rig(Path(folder), LIMITS, keys=given.keys) as rig:
            count = round(case.count * given.share)
            more = {"n_bytes": UPLOAD_BYTES, **case.options}
            result = rig.strain(case.kind, count, seconds=given.seconds if case.holds_on else 0, **more)
        faults = result.faults(LIMITS.most_mib(count))
        is_sound = is_sound and not faults
        row = {"case": name, "count": count} | result.row() | {"seconds": round(time.monotonic() - began_s, 1)}
        sys.stdout.write(json.dumps(row | {"faults": faults}) + "\n")
        sys.stdout.flush()
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
