"""Senders of every kind that resend until they are acknowledged or give up, and
remember what was acknowledged.

Each item that counts has a name of its own, found again in what the upstream stores: a span
by its span id, a push of LiteLLM by its response id, a log record by its session, an event by
its event id, a device by its id. Unit cost has none, it is a sum: whoever sends it never
gives up, so that the sum is known.
"""

import asyncio
import gzip
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
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

from benchmarks.bodies import AI_SPAN_ID_BASE, Shape, Template
from benchmarks.litellm_bodies import PATH as LITELLM_PATH
from benchmarks.litellm_bodies import LiteLLMTemplate
from tests.support.calls import span_id, trace_id
from tests.support.metrics import LABELS, TOKENS, attributes

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
RELATED = 30
EMPTY_BYTES = 8 << 20
SERIES = 100
HOSTILE_EVERY_S = 0.5
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
    is_hostile: bool = False
    """Made to cost more than it carries: sent once, whatever is answered."""


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
    longest_s: float = 0.0
    """Until one was answered."""


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


def one_response() -> Iterator[Request]:
    """Calls of a server that gives each answer one response id; no two state the same usage."""
    for number in count():
        spans = [(f"one-{number}-{at}", "", number * RELATED + at + 1) for at in range(RELATED)]
        yield Request(
            "/v1/traces", related_spans(spans, "constant"), PROTOBUF, tuple(span_name(x) for x, _, _ in spans)
        )


def chains() -> Iterator[Request]:
    """One call that each of many nested spans reports: only the innermost is billed."""
    for number in count():
        spans = [(f"chain-{number}-{at}", f"chain-{number}-{at - 1}" if at else "", 7) for at in range(RELATED)]
        yield Request("/v1/traces", related_spans(reversed(spans), ""), PROTOBUF, (span_name(spans[-1][0]),))


def related_spans(spans: Iterable[tuple[str, str, int]], response: str) -> bytes:
    """A request with spans of that name, parent and input, of one response id."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(attributes({"service.name": "related"}))
    scope = resource.scope_spans.add()
    now_ns = time.time_ns()
    for name, parent, tokens in spans:
        used = {"gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 5}
        named = {"gen_ai.response.id": response} if response else {}
        scope.spans.add(
            trace_id=trace_id(name.rpartition("-")[0]),
            span_id=span_id(name),
            parent_span_id=span_id(parent) if parent else b"",
            name="chat gpt-4o",
            start_time_unix_nano=now_ns,
            end_time_unix_nano=now_ns + 10**9,
            attributes=attributes({**LABELS, **used, **named}),
        )
    return request.SerializeToString()


def span_name(name: str) -> str:
    return f"span {span_id(name).hex()}"


def hostile() -> Iterator[Request]:
    """Small bodies that unpack to millions of empty items, and series that no one had before."""
    packed = {**PROTOBUF, "Content-Encoding": "gzip"}
    empty = ExportTraceServiceRequest()
    empty.resource_spans.add().scope_spans.add().spans.add()
    one = empty.SerializeToString()
    bombs = [
        ("/v1/traces", gzip.compress(one * (EMPTY_BYTES // len(one)))),
        ("/v1/logs", gzip.compress(b"\x0a\x00" * (EMPTY_BYTES // 2))),
        ("/v1/metrics", gzip.compress(b"\x0a\x02\x12\x00" * (EMPTY_BYTES // 4))),
    ]
    for number in count():
        path, body = bombs[number % len(bombs)]
        yield Request(path, body, packed, (), is_hostile=True)
        yield Request("/v1/metrics", new_series(number), PROTOBUF, (), is_hostile=True)


def new_series(number: int) -> bytes:
    """A request of metrics with series of new users, each of which becomes an aggregate."""
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    resource.resource.attributes.extend(attributes({"service.name": "metrics-only"}))
    metric = resource.scope_metrics.add().metrics.add(name=TOKENS)
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    for at in range(SERIES):
        kind = {"gen_ai.token.type": "input", "user.id": f"user-{number}-{at}"}
        metric.sum.data_points.add(
            as_int=1,
            start_time_unix_nano=time.time_ns() - 10**9,
            time_unix_nano=time.time_ns(),
            attributes=attributes({**LABELS, **kind}),
        )
    return request.SerializeToString()


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
        kinds += [one_response(), chains(), hostile()]
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
            if request.is_hostile:
                await asyncio.sleep(HOSTILE_EVERY_S)
                return
            if not request.adds and self._chance.random() < GIVE_UP:
                return
            await asyncio.sleep(PAUSE_S * 4)

    async def _try(self, session: aiohttp.ClientSession, request: Request) -> int | None:
        """The status; None when no answer came."""
        base = self._intake_url()
        if base is None:
            return None
        began_s = time.monotonic()
        try:
            async with session.post(base + request.path, data=request.body, headers=request.headers) as answer:
                await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            self.sent.broken += 1
            return None
        self.sent.longest_s = max(self.sent.longest_s, time.monotonic() - began_s)
        self.sent.statuses[answer.status] += 1
        return answer.status
