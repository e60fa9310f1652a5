"""The decoders of the gateway: where their bodies are posted, their grammar, and what senders
post there, from which a search begins.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.common.contract.errors import BadPayload
from gateway.products.catalogue import SOURCES
from gateway.serve.content_encoding import DECODERS
from tests.support.corpus import CORPUS, scenarios
from tests.support.grammars import json_text, protobuf, values
from tests.support.grammars.coding import Chunks, Deflate, Zstd, plain_of_chunks
from tests.support.grammars.json_text import JsonText, keys_of
from tests.support.grammars.protobuf import Protobuf
from tests.support.grammars.tree import Grammar, Node, Place, Shape, at, places, replaced
from tests.support.raw_posts import Sent

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
SIGNALS = {
    "traces": (ExportTraceServiceRequest, "resourceSpans"),
    "logs": (ExportLogsServiceRequest, "resourceLogs"),
    "metrics": (ExportMetricsServiceRequest, "resourceMetrics"),
}
MAX_SEED_BYTES = 20_000
EACH_DEPTH = 3
"""Of its containers that fill a body in turn."""
ZIPPED_BYTES = 300_000
"""Larger bodies are compressed on their way."""
FORTY_MIB = 40 * 2**20


class Decoder(NamedTuple):
    name: str
    path: str
    kind: str
    """Content-Type."""
    grammar: Grammar
    seeds: Sequence[Shape]
    max_bytes: int = FORTY_MIB
    method: str = "POST"
    coding: str = ""
    """Content-Encoding, or `chunked`, where the grammar is that of the coding itself."""

    def sent(self, shape: Shape, size: int) -> Sent:
        body = shape.body(self.grammar, size)
        headers = {"Content-Type": self.kind}
        if self.coding == "chunked":
            plain = bytes(plain_of_chunks(shape.filled(self.grammar, size)))
            return Sent(self.path, body, headers | {"Transfer-Encoding": "chunked"}, plain)
        if self.coding:
            return Sent(self.path, body, headers | {"Content-Encoding": self.coding}, plain_of(body, self.coding))
        if len(body) > ZIPPED_BYTES:
            return Sent(self.path, gzip.compress(body, 1), headers | {"Content-Encoding": "gzip"}, body, self.method)
        return Sent(self.path, body, headers, body, self.method)


def plain_of(body: bytes, coding: str) -> bytes:
    """As far as it can be decompressed."""
    plain = bytearray()
    decode = DECODERS[coding]
    assert decode is not None
    try:
        for block in decode(body):
            plain += block
            if len(plain) > FORTY_MIB:
                break
    except BadPayload:
        pass
    return bytes(plain)


def decoders_of(transport: str) -> Sequence[Decoder]:
    """Those that can be reached over `http` or `grpc`."""
    otlp = [
        Decoder(f"{signal} protobuf", f"/v1/{signal}", PROTOBUF, Protobuf(), seeds_of_protobuf(signal))
        for signal in SIGNALS
    ]
    if transport == "grpc":
        return otlp
    return [*otlp, *otlp_json(), *sources(), *others(), *codings()]


def otlp_json() -> Iterator[Decoder]:
    for signal in SIGNALS:
        seeds = seeds_of_json(signal)
        yield Decoder(f"{signal} JSON", f"/v1/{signal}", JSON, grammar_of(seeds), seeds)


def sources() -> Iterator[Decoder]:
    for name in SOURCES:
        seeds = [shape for document in documents_of(name) for shape in laid_out(document)]
        path = "/v2/ai-telemetry/records" if name == "records" else f"/v1/sources/{name}"
        yield Decoder(name, path, JSON, grammar_of(seeds), seeds)


EVENT = {
    "title": "a title", "source": "a source", "timestamp": "2026-01-05T10:00:00Z", "event_id": "e-00000000001",
    "filters": {"custom:Product": ["a"]}, "metadata": {"stream": "units", "value": "7", "element_name": "e"},
}  # fmt: skip
CLOUD_EVENT = {
    "specversion": "1.0", "id": "e-00000000001", "source": "/a", "type": "t", "time": "2026-01-05T10:00:00Z",
    "subject": "e", "extension": 1, "data": {"stream": "units", "value": "7", "filters": {"custom:Product": ["a"]}},
}  # fmt: skip
UNIT_COST = {
    "timestamp": "2026-01-05", "granularity": "DAILY", "associated_cost": {"custom:Product": "a"}, "value": "7",
    "telemetry-stream": "units",
}  # fmt: skip
DEVICE = {
    "device_id": "a-device", "instance_id": "i", "sequence": 1, "status": "healthy", "kind": "workstation",
    "host": {"name": "h"}, "client": {"name": "c"}, "labels": {"a": "b"}, "counters": {"requests": 1},
}  # fmt: skip
STREAM = {"kind": "metric", "granularity": "DAILY", "dimensions": ["custom:Product"]}
LARGE_JSON = 15 * 2**20


def others() -> Iterator[Decoder]:
    """Usage events, unit cost and devices."""
    for name, path, document, max_bytes in (
        ("usage events", "/v1/events", EVENT, LARGE_JSON),
        ("cloud events", "/v1/events", CLOUD_EVENT, LARGE_JSON),
        ("unit cost", "/v1/unit-cost/metric/units/sum", {"records": [UNIT_COST]}, 4_900_000),
        ("unit cost posted", "/v1/unit-cost", {"records": [UNIT_COST]}, 4_900_000),
        ("enrolment", "/v1/devices", DEVICE, 250_000),
        ("heartbeat", "/v1/devices/a-device/heartbeat", DEVICE, 250_000),
    ):
        seeds = list(laid_out(document))
        yield Decoder(name, path, JSON, grammar_of(seeds), seeds, max_bytes)
    seeds = list(laid_out(STREAM))
    yield Decoder("unit-cost stream", "/v1/unit-cost/units", JSON, grammar_of(seeds), seeds, method="PUT")


def codings() -> Iterator[Decoder]:
    for coding, grammar, kinds in (
        ("gzip", Deflate(is_gzip=True), ("dynamic", "stored", "fixed")),
        ("deflate", Deflate(is_gzip=False), ("dynamic", "stored", "fixed")),
        ("zstd", Zstd(), ("raw", "rle")),
    ):
        seeds = [Shape(Node("coding", below=(Node(kind, value="0"),)), (0,)) for kind in kinds]
        yield Decoder(coding, "/v1/logs", JSON, grammar, seeds, coding=coding)  # type: ignore[arg-type]  # as it is
        yield Decoder(f"{coding} of a source", "/v1/sources/generic", JSON, grammar, seeds, coding=coding)  # type: ignore[arg-type]  # as above
    chunks = [Shape(Node("coding", below=(Node("chunk", value="300"),)), (0,))]
    yield Decoder("chunks", "/v1/logs", JSON, Chunks(), chunks, coding="chunked")


# ---- seeds


def seeds_of_protobuf(signal: str) -> list[Shape]:
    """One payload of each collection of the corpus, each of its items filling the body once."""
    kind, _ = SIGNALS[signal]
    trees = []
    for body in payloads(signal, is_json=False):
        request = kind()
        request.ParseFromString(body)
        trees.append(protobuf.tree_of(request))
    return [shape for tree in trees for shape in fillings(tree)]


def seeds_of_json(signal: str) -> list[Shape]:
    trees = [json_text.tree_of(json.loads(body)) for body in payloads(signal, is_json=True)]
    return [shape for tree in trees for shape in fillings(tree)]


def payloads(signal: str, *, is_json: bool) -> Iterator[bytes]:
    seen = set()
    for scenario in scenarios(signal):
        collection = scenario.name.rpartition("/")[0]
        for payload in scenario.payloads:
            if payload.is_json == is_json and len(payload.body) <= MAX_SEED_BYTES and collection not in seen:
                seen.add(collection)
                yield payload.body


def fillings(tree: Node) -> list[Shape]:
    """The tree, filled with some containers of each depth in turn, whose ids are numbered then."""
    found: dict[int, list[Place]] = {}
    for place in places(tree):
        if place and at(tree, place).below:
            found.setdefault(len(place), []).append(place)
    some = [
        place for of_depth in found.values() for place in of_depth[:: max(1, len(of_depth) // EACH_DEPTH)][:EACH_DEPTH]
    ]
    return [Shape(replaced(tree, place, numbered(at(tree, place))), place) for place in some]


def numbered(node: Node) -> Node:
    """*node* with another id each time that it is repeated."""
    return node._replace(value=values.numbered(node.value), below=tuple(map(numbered, node.below)))


def documents_of(source: str) -> Iterator[Any]:
    """What the product posts, as far as the corpus has it."""
    yield {"id": "00000001", "model": "gpt-4o", "input_tokens": 7, "usage": {"prompt_tokens": 5}}
    for path in sorted(CORPUS.glob(f"gateways/{source}*/*.json")):
        if not path.name.endswith(".meta.json") and path.stat().st_size <= MAX_SEED_BYTES:
            try:
                yield json.loads(path.read_bytes())
            except ValueError:
                continue


def laid_out(document: Any) -> Iterator[Shape]:
    """*document* by itself, as many in an array, one a line, and one behind the other."""
    tree = json_text.tree_of(document)
    yield from fillings(tree)
    one = numbered(tree.below[0])
    yield Shape(Node("one", below=(Node("array", below=(one,)),)), (0, 0))
    yield Shape(Node("lines", below=(one,)), (0,))
    yield Shape(Node("behind", below=(one,)), (0,))


def grammar_of(seeds: Sequence[Shape]) -> JsonText:
    return JsonText(sorted({key for shape in seeds for key in keys_of(shape.root)}))
