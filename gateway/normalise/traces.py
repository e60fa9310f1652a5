"""Spans -> calls, links, and the fate of every span that is no call. Pure: no clock, no I/O, nothing is changed.

1. A span without valid ids is rejected; so is a call with an impossible time.
2. The scope's name, else the attributes, choose the convention; without one the span is ignored.
3. One pass picks the mapped values; the convention's rule says call or step.
4. A step is suppressed (`not_a_call`) and leaves a link, as every span does that is no call: ancestors are found by them.
5. A call becomes a record; its provider, operation and tokens are brought to the canonical names.
"""

from functools import lru_cache
from typing import NamedTuple

from gateway.decode.view import Event, Faults, ScopeSpans, Span, Traces
from gateway.normalise import times
from gateway.normalise.attribution import Origin, origin
from gateway.normalise.call import Call, Normalised, Rejection
from gateway.normalise.companions import Companions
from gateway.normalise.context import Context
from gateway.normalise.conventions.choose import by_names, by_scope
from gateway.normalise.conventions.shared import NEUTRAL
from gateway.normalise.conventions.table import Convention
from gateway.normalise.fingerprint import scope_fingerprint
from gateway.normalise.operation import Fate
from gateway.normalise.pick import MAX_TEXT_CHARS, Interests, Picked, pick
from gateway.normalise.record import call_record, error_name, span_record_id
from spool.record import Source

FORMAT = "otlp.traces"

_STATUS_ERROR = 2
_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
_NO_TRACE = bytes(_TRACE_ID_BYTES)
_NO_SPAN = bytes(_SPAN_ID_BYTES)


class Reader(NamedTuple):
    """What all spans of one scope under one convention share."""

    convention: Convention
    interests: Interests
    source: Source
    """Shared by the records: never changed."""


class Scope(NamedTuple):
    name: str
    version: str
    fingerprint: int
    reader: Reader | None
    """None where each span's attributes choose the convention."""


class _Run(NamedTuple):
    """One request while it is read."""

    out: Normalised
    companions: Companions
    faults: Faults
    context: Context


def normalise_traces(traces: Traces, context: Context) -> Normalised:
    """Calls, links and fates of one request."""
    run = _Run(Normalised(), Companions(), traces.faults, context)
    for number, resource_spans in enumerate(traces.request.resource_spans):
        made = origin(resource_spans.resource.attributes, context)
        for place, scope_spans in enumerate(resource_spans.scope_spans):
            _scope(run, scope_spans, f"resourceSpans[{number}].scopeSpans[{place}]", made)
    run.companions.complete(run.out.calls)
    return run.out


def _scope(run: _Run, scope_spans: ScopeSpans, at: str, made: Origin) -> None:
    scope = _scope_of(scope_spans.scope.name[:MAX_TEXT_CHARS], scope_spans.scope.version[:MAX_TEXT_CHARS])
    out = run.out
    links, calls = out.links, out.calls
    for number, span in enumerate(scope_spans.spans):
        out.items += 1
        trace_id, span_id, parent = span.trace_id, span.span_id, span.parent_span_id or _NO_SPAN
        if (
            len(trace_id) != _TRACE_ID_BYTES
            or len(span_id) != _SPAN_ID_BYTES
            or len(parent) != _SPAN_ID_BYTES
            or trace_id == _NO_TRACE
            or span_id == _NO_SPAN
        ):
            position = f"{at}.spans[{number}]"
            out.rejected.append(Rejection(_invalid_id(trace_id, span_id, position, run.faults), position))
            continue
        attributes = span.attributes
        names = tuple(attributes)
        reader = scope.reader or _reader_by_names(scope, names)
        if reader is None:
            out.ignored += 1
            links.append(trace_id + span_id + parent)
            continue
        picked = pick(attributes, names, reader.interests)
        failed = span.status.code == _STATUS_ERROR
        fate = reader.convention.fate(picked, span, failed=failed)
        if fate != "call":
            _step(run, span, picked, fate)
            links.append(trace_id + span_id + parent)
        elif not times.FIRST_NS <= span.start_time_unix_nano < times.LAST_NS:
            out.rejected.append(Rejection("invalid_time", f"{at}.spans[{number}]"))
        else:
            calls.append(_call(span, picked, reader, scope, made, run.context, failed=failed))
            if reader.convention.is_generic:
                out.unknown_conventions[scope.name] += 1


def _invalid_id(trace_id: bytes, span_id: bytes, position: str, faults: Faults) -> str:
    if position in faults:
        return faults[position]
    if len(trace_id) != _TRACE_ID_BYTES or trace_id == _NO_TRACE:
        return "invalid_trace_id"
    if len(span_id) != _SPAN_ID_BYTES or span_id == _NO_SPAN:
        return "invalid_span_id"
    return "invalid_parent_span_id"


def _step(run: _Run, span: Span, picked: Picked, fate: Fate) -> None:
    """A span that is no call: a step of AI work, or nothing of AI at all."""
    if fate == "not_a_call" or picked.other or _has_ai_mark(picked):
        run.out.suppressed["not_a_call"] += 1
        run.companions.note(span)
    else:
        run.out.ignored += 1


def _has_ai_mark(picked: Picked) -> bool:
    return any(
        field not in NEUTRAL and not field.startswith("raw_")
        for field in (*picked.texts, *picked.counts, *picked.numbers)
    )


@lru_cache(maxsize=4096)
def _scope_of(name: str, version: str) -> Scope:
    convention = by_scope(name)
    reader = None if convention is None else _reader(convention, name, version)
    return Scope(name, version, scope_fingerprint(name), reader)


def _reader_by_names(scope: Scope, names: tuple[str, ...]) -> Reader | None:
    convention = by_names(names)
    return None if convention is None else _reader(convention, scope.name, scope.version)


@lru_cache(maxsize=256)
def _interests(convention: Convention) -> Interests:
    """One table a convention, with one memory of names."""
    return convention.interests()


@lru_cache(maxsize=4096)
def _reader(convention: Convention, name: str, version: str) -> Reader:
    source: Source = {
        "format": FORMAT,
        "convention": convention.name,
        "library": name or None,
        "library_version": version or None,
    }
    return Reader(convention, _interests(convention), source)


def _call(
    span: Span, picked: Picked, reader: Reader, scope: Scope, made: Origin, context: Context, *, failed: bool
) -> Call:
    trace_id, span_id, parent = span.trace_id, span.span_id, span.parent_span_id
    if parent == _NO_SPAN:
        parent = b""
    start_ns, end_ns = span.start_time_unix_nano, span.end_time_unix_nano
    start_ms = times.ms_of(start_ns)
    duration_ms = times.duration_ms(start_ns, end_ns)
    error_type = picked.texts.get("error_type")
    failed = (
        failed or error_type is not None or picked.numbers.get("succeeded") == 0 or picked.texts.get("level") == "ERROR"
    )
    record = call_record(
        picked,
        convention=reader.convention,
        source=reader.source,
        record_id=span_record_id(trace_id, span_id),
        start_ms=start_ms,
        duration_ms=duration_ms,
        failed=failed,
        trace={"trace_id": trace_id.hex(), "span_id": span_id.hex(), "parent_span_id": parent.hex() or None},
        base=made.attribution,
        context=context,
    )
    if failed:
        record["error_type"] = _error_type(error_type, span)
    if duration_ms is None and end_ns and "clock_skew" not in record["flags"]:
        record["flags"].append("clock_skew")
    end_ms = start_ms if duration_ms is None else times.ms_of(end_ns)
    return Call(record, trace_id, span_id, parent, start_ms, end_ms, made.source, scope.fingerprint)


def _error_type(sent: str | None, span: Span) -> str:
    """The class or code of the error, never its message: `error.type`, else an exception event's type, else `error`."""
    if sent is not None:
        return error_name(sent)
    for event in span.events:
        named = _exception_type(event)
        if named:
            return error_name(named)
    return "error"


def _exception_type(event: Event) -> str:
    value = event.attributes.get("exception.type") if event.name == "exception" else None
    return "" if value is None else value.string_value
