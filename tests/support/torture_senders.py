"""Senders of every kind that resend until they are acknowledged or give up, and
remember what was acknowledged.

Each item that counts has a name of its own, found again in what the upstream stores: a span
by its span id, a push of LiteLLM by its response id, a log record by its session, an event by
its event id, a device by its id. Unit cost has none, it is a sum: whoever sends it never
gives up, so that the sum is known.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
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
"""Numbers of LiteLLM's pushes begin here: the two kinds of bodies make their ids in the same way.
"""
PAUSE_S = 0.05
METERED = 3
ELEMENTS = 7
NEW_DEVICE_EVERY = 40
"""Heartbeats, one of which is of a machine that is new."""
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
    """Of the items in it; of a heartbeat the device's."""
    adds: tuple[Decimal, ...] = ()
    """What it adds to a stream of unit cost; such a request is sent until it is acknowledged."""


@dataclass(slots=True)
class Sent:
    """What all senders know together."""

    acked: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)
    statuses: Counter[int] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    summed: int = 0
    """Acknowledged items that add to a stream."""
    total: Decimal = Decimal(0)
    """What they add, to all streams together."""
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
        device = f"machine-{number % 5}" if number % NEW_DEVICE_EVERY else f"machine-{number + 5}"
        yield Request(f"/v1/devices/{device}/heartbeat", json.dumps(beat).encode(), JSON, (f"device {device}",))


def sums(chance: random.Random) -> Iterator[Request]:
    """Records of a metric stream, as the service itself takes them."""
    for number in count():
        adds = tuple(amount(chance) for _ in range(METERED))
        records = [{"timestamp": time.strftime("%Y-%m-%d"), "granularity": "MONTHLY", "value": str(x)} for x in adds]
        headers = {**JSON, "Idempotency-Key": f"sum-{number}"}
        path = "/v1/unit-cost/metric/answers/sum"
        yield Request(path, json.dumps({"records": records}).encode(), headers, (), adds)


def metered_events(chance: random.Random) -> Iterator[Request]:
    """Usage events that add to an allocation stream by customer."""
    for number in count():
        adds = tuple(amount(chance) for _ in range(METERED))
        events = [
            metered_event(f"mtr-{number}-{at}", f"customer-{chance.randrange(ELEMENTS)}", value)
            for at, value in enumerate(adds)
        ]
        yield Request("/v1/events", json.dumps(events).encode(), JSON, (), adds)


def amount(chance: random.Random) -> Decimal:
    return Decimal(chance.randrange(1, 10**5)).scaleb(-chance.randrange(3))


def metered_event(event_id: str, element: str, value: Decimal) -> dict[str, object]:
    metadata = {"event_id": event_id, "stream": "tokens-by-customer", "element_name": element, "value": str(value)}
    return {"title": "tokens.used", "source": "torture", "filters": {"custom:Product": ["chat"]}, "metadata": metadata}


class Senders:
    """One task a sender, until `stop`; what is under way then goes on to its end."""

    def __init__(self, intake_url: Callable[[], str | None], chance: random.Random) -> None:
        """*intake_url* is asked before each try; None while there is no gateway."""
        self.sent = Sent()
        self._intake_url = intake_url
        self._chance = chance
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        ai = [spans(0, 2), spans(1, 2), pushes(), logs()]
        kinds = [*ai, events(), heartbeats(), sums(self._chance), metered_events(self._chance)]
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
                self.sent.summed += len(request.adds)
                self.sent.total += sum(request.adds)
                return
            if not request.adds and self._chance.random() < GIVE_UP:
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
