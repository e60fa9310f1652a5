"""One scenario of the corpus over three gateways in front of a hub: each of its spans and log
records goes to a gateway drawn at random, its metrics to another.
"""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporters.cost_service.encode import encode_records
from gateway.cli.normalising import records_of_payloads
from spool.record import AI_TELEMETRY, Batch

EDGES = 3
SENT_AT = "2026-11-20T07:10:00.000Z"
Posted = tuple[bytes, str, str, str]
"""Body, path, Content-Type and Content-Encoding."""
_PROTOBUF = {
    "traces": (ExportTraceServiceRequest, "resource_spans", "scope_spans", "spans"),
    "logs": (ExportLogsServiceRequest, "resource_logs", "scope_logs", "log_records"),
}


def _one_item_each(message: Any, resources: str, scopes: str, items: str) -> Iterator[Any]:
    for of_resource in getattr(message, resources):
        for of_scope in getattr(of_resource, scopes):
            for item in getattr(of_scope, items):
                one = type(message)()
                resource = getattr(one, resources).add(resource=of_resource.resource, schema_url=of_resource.schema_url)
                scope = getattr(resource, scopes).add(scope=of_scope.scope, schema_url=of_scope.schema_url)
                getattr(scope, items).add().CopyFrom(item)
                yield one


def items_of(signal: str, body: bytes) -> list[bytes]:
    """Each span or log record of *body*, Protobuf of "traces" or "logs", as a request of
    its own.
    """
    kind, *names = _PROTOBUF[signal]
    return [one.SerializeToString() for one in _one_item_each(kind.FromString(body), *names)]


def dealt(meta_file: Path, draw: random.Random) -> list[list[Posted]]:
    """What each edge gets of the scenario of *meta_file*; a body in JSON goes to one edge whole."""
    edges: list[list[Posted]] = [[] for _ in range(EDGES)]
    for entry in json.loads(meta_file.read_text("utf-8"))["payloads"]:
        body, signal = (meta_file.parent / entry["file"]).read_bytes(), entry["signal"]
        if entry.get("content_encoding") == "gzip":
            body = gzip.decompress(body)
        content_type, path = entry.get("content_type") or "application/x-protobuf", f"/v1/{signal}"
        if signal == "metrics" or "json" in content_type:
            edges[0 if signal == "metrics" else draw.randrange(EDGES)].append((body, path, content_type, ""))
            continue
        kind, *names = _PROTOBUF[signal]
        parts = [kind() for _ in range(EDGES)]
        for item in _one_item_each(kind.FromString(body), *names):
            parts[draw.randrange(EDGES)].MergeFrom(item)
        for edge, part in zip(edges, parts, strict=True):
            if part.ByteSize():
                edge.append((part.SerializeToString(), path, content_type, ""))
    return edges


async def at_the_hub(edges: list[list[Posted]]) -> list[dict[str, Any]]:
    """The records that the hub forwards of what each edge got."""
    forwarded: list[Posted] = []
    for number, payloads in enumerate(edges):
        records, *_ = await records_of_payloads(payloads)
        if records:
            batch = Batch(f"batch-{number}", AI_TELEMETRY, 0, 0, SENT_AT, tuple(records))
            body = encode_records(batch, f"gateway-{number}")
            forwarded.append((body, "/v1/sources/records", "application/json", ""))
    records, *_ = await records_of_payloads(forwarded)
    return [orjson.loads(record) for record in records]
