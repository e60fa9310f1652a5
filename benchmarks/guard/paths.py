"""The hot paths, each as a function that does a fixed amount of work and returns its CPU time."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, cast

from benchmarks.bodies import Shape, Template
from benchmarks.litellm_bodies import LiteLLMTemplate
from benchmarks.processes import Process, read_json_file
from benchmarks.sender import Load
from gateway.common.contract.intake import Sender
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.parsing.parse import Parsed, ParseRules, Payload
from gateway.pipeline.parsing.parser import Parser
from gateway.rules.context import Context
from gateway.usage.pricing.prices import Prices
from spool.clock import rfc3339_ms
from tests.support.metrics_rig import MetricsRig
from tests.support.spool_rig import Clock

SPANS: Final = 64
BODIES: Final = 60
"""Requests of `SPANS` spans that are read, or counted and appended, at a time."""
DOCUMENTS: Final = 50
DOCUMENT_BODIES: Final = 40
"""Requests of `DOCUMENTS` records of LiteLLM that are read at a time."""
REQUESTS: Final = 400
"""Requests of one span that are sent at a time."""
CONNECTIONS: Final = 16
SENDER: Final = Sender(key=None, peer="127.0.0.1")


class ReadPath:
    """Decode, normalise, price, record: bytes to what is left to count and keep."""

    def __init__(self) -> None:
        template, now_ms = Template(Shape(spans=SPANS)), time.time_ns() // 1_000_000
        self._payloads = (Payload("traces", template.body(number), json=False) for number in count())
        self._context = Context(now_ms, rfc3339_ms(now_ms))
        self._parser = Parser(ParseRules(Prices()))

    async def read(self) -> list[Parsed]:
        """`BODIES` new payloads."""
        payloads = [next(self._payloads) for _ in range(BODIES)]
        return [await self._parser.parse(payload, self._context) for payload in payloads]

    async def cpu_ns(self) -> int:
        """Of reading `BODIES` payloads, without building them."""
        payloads = [next(self._payloads) for _ in range(BODIES)]
        began = time.process_time_ns()
        for payload in payloads:
            await self._parser.parse(payload, self._context)
        return time.process_time_ns() - began


class DocumentsPath:
    """The same of LiteLLM's records."""

    def __init__(self) -> None:
        template, now_ms = LiteLLMTemplate(Shape(spans=DOCUMENTS)), time.time_ns() // 1_000_000
        self._payloads = (Payload("litellm", template.body(number)) for number in count())
        self._context = Context(now_ms, rfc3339_ms(now_ms))
        self._parser = Parser(ParseRules(Prices()))

    async def cpu_ns(self) -> int:
        """Of reading `DOCUMENT_BODIES` payloads, without building them."""
        payloads = [next(self._payloads) for _ in range(DOCUMENT_BODIES)]
        began = time.process_time_ns()
        for payload in payloads:
            await self._parser.parse(payload, self._context)
        return time.process_time_ns() - began


class _AlreadyRead:
    """Stands for a `Parser`: gives what was read before."""

    def __init__(self) -> None:
        self.parsed: Iterator[Parsed] = iter(())

    async def parse(self, payload: Payload, context: Context) -> Parsed:
        return next(self.parsed)


class AppendPath:
    """Count and append, with the commits: what was read, on disk."""

    def __init__(self, rig: MetricsRig) -> None:
        self._read, self._given = ReadPath(), _AlreadyRead()
        self._spool = rig.spool
        parser = cast("Parser", self._given)
        self._front = Front(rig.spool, Core(rig.spool, rig.counting), parser, now_ms=rig.clock)

    async def cpu_ns(self) -> int:
        """Of all threads, for `BODIES` payloads that arrive at the same time."""
        self._given.parsed = iter(await self._read.read())
        payload = Payload("traces", b"", json=False)
        began = time.process_time_ns()
        await asyncio.gather(*(self._front.put(payload, SENDER) for _ in range(BODIES)))
        return time.process_time_ns() - began

    def kept(self) -> int:
        """Records that were kept so far."""
        return self._spool.edge()["kept"]


@asynccontextmanager
async def append_path(folder: Path) -> AsyncIterator[AppendPath]:
    """On a new spool in *folder*, under a clock that stands: nothing settles meanwhile."""
    rig = await MetricsRig(folder, clock=Clock(time.time_ns() // 1_000_000)).open()
    try:
        yield AppendPath(rig)
    finally:
        await rig.spool.close()


class RequestPath:
    """A whole gateway in a process of its own, with requests of one span."""

    def __init__(self, process: Process, port: int) -> None:
        self._process, self._url = process, f"http://127.0.0.1:{port}/v1/traces"
        self._template = Template(Shape(spans=1))
        self._sent = 0

    async def cpu_ns(self) -> int:
        """Of the gateway, for `REQUESTS` requests. Raises AssertionError where one is refused."""
        bodies = [self._template.body(number) for number in range(self._sent, self._sent + REQUESTS)]
        self._sent += REQUESTS
        began = self._process.cpu_ns()
        report = await Load(self._url, self._template, None).run(iter(bodies), CONNECTIONS)
        used = self._process.cpu_ns() - began
        if report.acked_requests != REQUESTS:
            raise AssertionError(f"{report.acked_requests} of {REQUESTS} requests were acknowledged: {report.statuses}")
        return used


@contextmanager
def request_path(folder: Path, python: str) -> Iterator[RequestPath]:
    """A gateway with an empty data directory; its records settle after the guard has ended."""
    folder.mkdir()
    config, ports_file = folder / "config.yaml", folder / "ports.json"
    config.write_text(
        f"data_dir: {folder / 'data'}\nlisten: {{http: '127.0.0.1:0', grpc: 'off', admin: '127.0.0.1:0', service: '127.0.0.1:0'}}\n"
        "counting: {settle: 600s}\n"
    )
    command = [python, "-m", "gateway.cli.main", "run", "--config", str(config), "--ports-file", str(ports_file)]
    process = Process(command, log=folder / "log")
    try:
        ports = process.wait_until(lambda: read_json_file(ports_file), timeout_s=60, what="ready")
        yield RequestPath(process, ports["http"] or 0)
    finally:
        process.kill()
