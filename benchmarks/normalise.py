"""Time of decode, normalise, price and serialise, per span, on one core:
`python -m benchmarks.normalise`.

First made-up bodies as an SDK sends them (100 spans a request, and one): AI spans of 15 and of 40
attributes, and spans that are no AI usage. Then the captured payloads of the corpus, by client.
Each request goes through all stages before the next, as in the gateway, and is gone before it. CPU
time of this thread; the median of several rounds.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

from gateway.common.operations import rfc3339
from gateway.read.otlp_json import decode_traces_json
from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.context import Context
from gateway.rules.record import record_json
from gateway.rules.traces import normalise_traces
from gateway.usage.pricing.prices import Prices
from tests.support.corpus import scenarios

RECEIVED_MS = 1_767_607_203_000
START_NS = 1_767_607_201_250_000_000
CONTEXT = Context(RECEIVED_MS, rfc3339(RECEIVED_MS), key="benchmark")
SPANS = 100
REQUESTS = 400
"""Requests of one span in a pass: enough that what is remembered of a span is not the span itself.
"""
ROUNDS = 15
PRICES = Prices()

Attributes = dict[str, str | int | float | list[str]]

HTTP: Attributes = {
    "http.request.method": "POST",
    "http.response.status_code": 200,
    "url.full": "https://shop.example/cart/7",
    "url.scheme": "https",
    "url.path": "/cart/7",
    "http.route": "/cart/{id}",
    "server.address": "shop.example",
    "server.port": 443,
    "client.address": "192.0.2.7",
    "network.protocol.version": "1.1",
    "network.peer.address": "192.0.2.9",
    "network.peer.port": 443,
    "user_agent.original": "client/1.0",
    "thread.id": 7,
    "thread.name": "main",
}


def gen_ai(number: int) -> Attributes:
    """Fifteen attributes, as the OpenAI instrumentation sends them."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 0.3,
        "gen_ai.request.max_tokens": 111,
        "server.address": "api.openai.com",
        "server.port": 443,
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.id": f"chatcmpl-{number:024x}",
        "openai.response.service_tier": "default",
        "gen_ai.usage.input_tokens": 2000 + number,
        "gen_ai.usage.output_tokens": 300 + number,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "user.id": f"user-{number % 10}",
    }


def with_more(attributes: Attributes, count: int) -> Attributes:
    """The same with *count* further attributes of the application."""
    return attributes | {f"app.field.{number}": f"value {number}" for number in range(count)}


def key_value(key: str, value: str | float | list[str]) -> KeyValue:
    match value:
        case str():
            return KeyValue(key=key, value=AnyValue(string_value=value))
        case int():
            return KeyValue(key=key, value=AnyValue(int_value=value))
        case float():
            return KeyValue(key=key, value=AnyValue(double_value=value))
        case _:
            entries = [AnyValue(string_value=entry) for entry in value]
            return KeyValue(key=key, value=AnyValue(array_value=ArrayValue(values=entries)))


def request(make: Callable[[int], Attributes], scope: str, numbers: Iterable[int] = range(SPANS)) -> bytes:
    message = ExportTraceServiceRequest()
    resource_spans = message.resource_spans.add()
    resource_spans.resource.attributes.append(key_value("service.name", "checkout-bot"))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = scope
    for number in numbers:
        scope_spans.spans.add(
            trace_id=os.urandom(16),
            span_id=os.urandom(8),
            name="chat gpt-4o",
            start_time_unix_nano=START_NS + number,
            end_time_unix_nano=START_NS + 840_000_000,
            attributes=[key_value(key, value) for key, value in make(number).items()],
        )
    return message.SerializeToString()


class Times(NamedTuple):
    """CPU time in ns."""

    decode: int
    normalise: int
    price: int
    serialise: int


def run(body: bytes, *, is_json: bool) -> tuple[Times, int]:
    """One request, as the intake treats it; its times, and the spans in it."""
    clock = time.thread_time_ns
    start = clock()
    traces = (decode_traces_json if is_json else decode_traces)(body)
    decoded = clock()
    out = normalise_traces(traces, CONTEXT)
    normalised = clock()
    for call in out.calls:
        PRICES.price(call.record, call.start_ms)
    priced = clock()
    for call in out.calls:
        record_json(call.record)
    return Times(decoded - start, normalised - decoded, priced - normalised, clock() - priced), out.items


def us_per_span(bodies: list[tuple[bytes, bool]]) -> tuple[list[float], int]:
    """Median CPU time of each stage per span in µs, and the spans of one pass."""
    spans = sum(run(body, is_json=is_json)[1] for body, is_json in bodies)
    passes = max(1, 2000 // max(spans, 1))
    rounds = [[run(body, is_json=is_json)[0] for _ in range(passes) for body, is_json in bodies] for _ in range(ROUNDS)]
    stages = zip(*([sum(stage) for stage in zip(*times, strict=True)] for times in rounds), strict=True)
    return [median(stage) / 1000 / passes / max(spans, 1) for stage in stages], spans


def show(name: str, bodies: list[tuple[bytes, bool]]) -> None:
    stages, spans = us_per_span(bodies)
    print(" ".join(f"{time_us:9.2f}" for time_us in (*stages, sum(stages))), f"{spans:6}  {name}")


def main() -> None:
    scope = "opentelemetry.instrumentation.openai_v2"
    made = {
        "gen_ai, 15 attributes": request(gen_ai, scope),
        "gen_ai, 15 attributes, unknown scope": request(gen_ai, "my.own.scope"),
        "gen_ai, 40 attributes": request(lambda number: with_more(gen_ai(number), 25), scope),
        "HTTP, 15 attributes": request(lambda _: HTTP, "opentelemetry.instrumentation.requests"),
    }
    print("µs per span, of", f"{SPANS} spans a request unless it says otherwise")
    print(*(f"{stage:>9}" for stage in (*Times._fields, "all")), " spans")
    for name, body in made.items():
        show(name, [(body, False)])
    alone = [(request(gen_ai, scope, [number]), False) for number in range(REQUESTS)]
    show("gen_ai, 15 attributes, one span a request", alone)
    clients: defaultdict[str, list[tuple[bytes, bool]]] = defaultdict(list)
    for scenario in scenarios("traces"):
        clients[scenario.name.rpartition("/")[0]] += [(payload.body, payload.is_json) for payload in scenario.payloads]
    for name, bodies in sorted(clients.items()):
        show(f"corpus {name}", bodies)


if __name__ == "__main__":
    main()
