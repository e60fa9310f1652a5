"""Reads a payload as a source does, and checks that every item of it has one outcome."""

from typing import Any

import orjson

from gateway.products.catalogue import SOURCES
from gateway.products.reading import read_documents
from gateway.products.source import Source, SourceRead
from gateway.rules.context import Context

CONTEXT = Context(
    received_at_ms=1_795_158_600_000, received_at="2026-11-20T07:10:00.000Z", key="gateway-key", peer="10.0.0.1"
)


def read(source: str | Source, payload: Any, context: Context = CONTEXT) -> SourceRead:
    """What *payload* (bytes, or JSON in Python's types) holds."""
    body = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    out = read_documents(SOURCES[source] if isinstance(source, str) else source, body, context)
    calls = out.calls
    assert calls.items == len(calls.calls) + sum(calls.suppressed.values()) + calls.ignored + len(calls.rejected)
    measured = out.measured
    assert measured.items == len(measured.points) + sum(measured.suppressed.values()) + measured.ignored + len(
        measured.rejected
    )
    return out


def records(source: str | Source, payload: Any, context: Context = CONTEXT) -> list[dict[str, Any]]:
    """Its calls' records, as JSON has them."""
    return [orjson.loads(orjson.dumps(call.record)) for call in read(source, payload, context).calls.calls]


def record(source: str | Source, payload: Any, context: Context = CONTEXT) -> dict[str, Any]:
    """The one record in it."""
    (found,) = records(source, payload, context)
    return found


def all_text(out: SourceRead) -> str:
    """All that leaves the source: records, points, outcomes, answer."""
    return repr((out.calls, out.measured, out.answer))
