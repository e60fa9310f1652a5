"""Senders of every kind that resend until they are acknowledged or give up, and remember what was acknowledged.

Each item that counts has a name of its own, found again in what the far end stores: a span by its span id, a push of LiteLLM by its
response id, a log record by its session, an event by its event id.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

import aiohttp
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from benchmarks.bodies import AI_SPAN_ID_BASE, Shape, Template
from benchmarks.litellm_bodies import PATH as LITELLM_PATH
from benchmarks.litellm_bodies import LiteLLMTemplate
from tests.support.metrics import attributes

SPANS = 10
PUSHED = 2
LOGS = 5
FIRST_PUSH = 50_000_000
"""Numbers of LiteLLM's pushes begin here: the two kinds of bodies make their ids in the same way."""
PAUSE_S = 0.05
GIVE_UP = 0.05
"""Share of the failed tries that are not repeated, as by a sender that dies or drops."""
PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    body: bytes
    headers: Mapping[str, str]
    names: tuple[str, ...]
    """Of the items in it; none for a heartbeat, which is state."""


@dataclass(slots=True)
class Sent:
    """What all senders know together."""

    acked: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)
    statuses: Counter[int] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    broken: int = 0
    """Tries that got no answer."""


def spans(first: int, step: int) -> Iterator[Request]:
    template = Template(Shape(spans=SPANS, attributes=15))
    for number in count(first, step):
        ids = (AI_SPAN_ID_BASE + number * SPANS + index for index in range(SPANS))
        names = tuple(f"span {ident:016x}" for ident in ids)
        yield Request("/v1/traces", template.body(number), template.headers(), names)


def pushes() -> Iterator[Request]:
    template = LiteLLMTemplate(Shape(spans=PUSHED, encoding="litellm"))
    for number in count(FIRST_PUSH):
        ids = (AI_SPAN_ID_BASE + number * PUSHED + index for index in range(PUSHED))
        names = tuple(f"push chatcmpl-{ident:024x}" for ident in ids)
        yield Request(LITELLM_PATH, template.body(number), template.headers(), names)


def logs() -> Iterator[Request]:
    for number in count():
        ids = [f"req_{number * LOGS + index:010d}" for index in range(LOGS)]
        yield Request("/v1/logs", log_request(ids), PROTOBUF, tuple(f"log {ident}" for ident in ids))


def log_request(ids: Iterable[str]) -> bytes:
    """What Claude Code logs of calls with these request ids, each of a session by that name."""
    request = ExportLogsServiceRequest()
    resource_logs = request.resource_logs.add()
    resource_logs.resource.attributes.extend(attributes({"service.name": "claude-code"}))
    scope_logs = resource_logs.scope_logs.add()
    scope_logs.scope.name = "com.anthropic.claude_code.events"
    for ident in ids:
        said = {
            "event.name": "api_request",
            "model": "claude-sonnet-4-5-20250929",
            "input_tokens": 120,
            "output_tokens": 17,
            "cost_usd": 0.0006,
            "duration_ms": 900,
            "request_id": ident,
            "session.id": ident,
        }
        record = scope_logs.log_records.add(time_unix_nano=time.time_ns(), attributes=attributes(said))
        record.body.string_value = "claude_code.api_request"
    return request.SerializeToString()


def events() -> Iterator[Request]:
    for number in count():
        event_id = f"evt-{number:08d}"
        event = {"title": "report.generated", "source": "torture", "metadata": {"event_id": event_id}}
        yield Request("/v1/events", json.dumps(event).encode(), JSON, (f"event {event_id}",))


def heartbeats() -> Iterator[Request]:
    for number in count():
        beat = {"instance_id": "one", "sequence": number, "status": "healthy", "kind": "workstation"}
        path = f"/v1/devices/machine-{number % 5}/heartbeat"
        yield Request(path, json.dumps(beat).encode(), JSON, ())


class Senders:
    """One task a sender, until `stop`; what is under way then goes on to its end."""

    def __init__(self, intake_url: Callable[[], str | None], chance: random.Random) -> None:
        """*intake_url* is asked before each try; None while there is no gateway."""
        self.sent = Sent()
        self._intake_url = intake_url
        self._chance = chance
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        kinds = [spans(0, 2), spans(1, 2), pushes(), logs(), events(), heartbeats()]
        timeout = aiohttp.ClientTimeout(total=15)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
            for requests in kinds:
                group.create_task(self._send_all(session, requests))

    def stop(self) -> None:
        self._stopping.set()

    async def _send_all(self, session: aiohttp.ClientSession, requests: Iterator[Request]) -> None:
        while not self._stopping.is_set():
            await self._deliver(session, next(requests))
            await asyncio.sleep(PAUSE_S * self._chance.uniform(0.5, 1.5))

    async def _deliver(self, session: aiohttp.ClientSession, request: Request) -> None:
        self.sent.tried.update(request.names)
        while True:
            status = await self._try(session, request)
            if status is not None and 200 <= status < 300:
                self.sent.requests[request.path.split("/")[2]] += 1
                self.sent.acked.update(request.names)
                return
            if self._chance.random() < GIVE_UP:
                return
            await asyncio.sleep(PAUSE_S * 4)

    async def _try(self, session: aiohttp.ClientSession, request: Request) -> int | None:
        """The status; None when no answer came."""
        base = self._intake_url()
        if base is None:
            return None
        try:
            async with session.post(base + request.path, data=request.body, headers=request.headers) as answer:
                await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            self.sent.broken += 1
            return None
        self.sent.statuses[answer.status] += 1
        return answer.status
