"""Builders of calls and links as normalisers give them; every value that a test does
not name is an ordinary one.
"""

from hashlib import sha256
from typing import Any

from gateway.rules.call import LOG, RANK_SHIFT, REPEAT, STREAM_PART, UNFINISHED, Call
from gateway.rules.fingerprint import fingerprint, log_scope_fingerprint, scope_fingerprint, source_fingerprint
from gateway.rules.record import event_record_id
from gateway.rules.signal_precedence import session_fingerprint
from spool.clock import rfc3339_ms
from spool.record import Cost, Record, Usage
from spool.span_form import span_record_id

EPOCH_MS = 1_767_607_200_000
"""2026-01-05T10:00:00Z; all times of the builders are relative to it."""


def trace_id(name: str) -> bytes:
    return sha256(b"trace" + name.encode()).digest()[:16]


def span_id(name: str) -> bytes:
    return sha256(b"span" + name.encode()).digest()[:8]


def link(trace: str, span: str, parent: str = "") -> bytes:
    """A span that is no call."""
    return trace_id(trace) + span_id(span) + (span_id(parent) if parent else bytes(8))


def usage(
    tokens: tuple[int | None, int | None],
    *,
    cache_read: int | None = None,
    cache_creation: int | None = None,
    reasoning: int | None = None,
) -> Usage:
    stated: Usage = {"status": "missing" if tokens == (None, None) else "reported"}
    stated["input_tokens"], stated["output_tokens"] = tokens
    stated["cache_read_input_tokens"] = cache_read
    stated["cache_creation_input_tokens"] = cache_creation
    stated["reasoning_output_tokens"] = reasoning
    return stated


def call(
    span: str,
    *,
    trace: str = "t",
    parent: str = "",
    at: tuple[int, int] = (0, 1000),
    tokens: tuple[int | None, int | None] = (100, 20),
    response: str | None = None,
    request: str | None = None,
    service: str = "app",
    scope: str = "openai",
    model: str | None = "gpt-4o",
    response_model: str | None = None,
    hit: bool = False,
    failed: bool = False,
    cost: str | None = None,
    cache_read: int | None = None,
    reasoning: int | None = None,
    team: str | None = None,
    event: str | None = None,
    log: bool = False,
    repeats: bool = False,
    product: str = "",
    session: str | None = None,
    rank: int = 0,
    user: str | None = None,
) -> Call:
    """One report. *at*: start and end in ms after `EPOCH_MS`; *event*: the sender's own
    id of a report without a span.

    *log*: made by a log record that was emitted in the span *parent*; *repeats*: a span
    that repeats its parent's call; *product*, *session*, *rank*: its place among a
    product's ways to report.
    """
    trace_bytes = trace_id(trace) if trace else b""
    span_bytes = span_id(span) if event is None else b""
    billed_cost: Cost | None = None
    if cost is not None:
        billed_cost = {"amount": cost, "currency": "USD", "source": "reported", "price_version": None}
    record: Record = {
        "schema": "inference/1",
        "record_id": span_record_id(trace_bytes, span_bytes) if event is None else event_record_id("test", event),
        "kind": "call",
        "billed": not hit,
        "source": {"format": "otlp.traces", "convention": "gen_ai", "library": scope, "library_version": None},
        "operation": "chat",
        "provider": "openai",
        "request_model": model,
        "response_model": response_model,
        "response_id": response,
        "request_id": request,
        "started_at": rfc3339_ms(EPOCH_MS + at[0]),
        "duration_ms": at[1] - at[0],
        "usage": usage(tokens, cache_read=cache_read, reasoning=reasoning),
        "cost": billed_cost,
        "status": "error" if failed else "ok",
        "attribution": {"service_name": service, "team": team, **({"user": user} if user else {})},
        "received_at": rfc3339_ms(EPOCH_MS + at[1]),
        "flags": ["gateway_cache_hit"] if hit else [],
    }
    return Call(
        record,
        trace_bytes,
        span_bytes,
        span_id(parent) if parent else b"",
        EPOCH_MS + at[0],
        EPOCH_MS + at[1],
        source_fingerprint(service, ""),
        log_scope_fingerprint(scope) if log else scope_fingerprint(scope),
        event,
        (LOG if log else 0) | (REPEAT if repeats else 0) | rank << RANK_SHIFT,
        fingerprint(product, service) if product else 0,
        session_fingerprint(session),
    )


def stream_begin(span: str, *, asked: str = "", **more: Any) -> Call:
    """The span that opened a stream, which knows no usage; *asked*: what the request asked for."""
    made = call(span, tokens=(None, None), **more)
    made.record["flags"].append("unfinished")
    return made._replace(marks=STREAM_PART | UNFINISHED, session=session_fingerprint(asked or "default"))


def stream_end(span: str, *, asked: str = "", **more: Any) -> Call:
    """The span that reports how a stream was read, and what it used."""
    return call(span, **more)._replace(marks=STREAM_PART, session=session_fingerprint(asked or "default"))
