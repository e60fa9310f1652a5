"""Log records -> calls, and the outcome of every record that is no call. Pure: no clock,
no I/O, nothing is changed.

1. The event's name chooses the table (`conventions/events.py`); a record without one that
   reports usage is ignored.
2. One pass picks the mapped values; bodies and all other attributes are never copied out.
3. A record's time is the end of its call, and the start is that less the duration.
   Without any time it is rejected.
4. A report has the sender's own event id where there is one, else its content and its time to
   the nanosecond, as its identity: the same log sent again is the same report, and so are two
   that differ in nothing at all. The span that it was emitted in stands as its parent, and the
   ledger decides whether that is the call itself (`gateway.counting`).
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from gateway.common.contract.outcomes import Rejection
from gateway.read.limits import Meter
from gateway.read.view import Attributes, Faults, LogRecord, Logs, ScopeLogs
from gateway.rules import times
from gateway.rules.attribution import ResourceContext, name_machine, resource_origin
from gateway.rules.call import BASIS_SHIFT, LOG, Call, Normalised
from gateway.rules.context import Context
from gateway.rules.conventions.events import EventRule, choose_event, status_failed
from gateway.rules.conventions.generic import RAW_NESTED, read_nested
from gateway.rules.conventions.native import take_object
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import MAX_TEXT_CHARS, OBJECT, AttributeTable, Extracted, pick
from gateway.rules.fingerprint import log_scope_fingerprint
from gateway.rules.record import call_record, error_name, event_record_id, title
from gateway.rules.signal_precedence import place, rank_of
from gateway.rules.usage import SHOWN
from spool.record import Source, Trace

FORMAT = "otlp.logs"

_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
_NS_PER_US = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_DURATION_MS = 24 * 3600 * 1000
_IDENTITY_COUNTS = ("input", "output", "cache_read", "cache_creation", "reasoning")
_IDENTITY_TEXTS = ("response_model", "response_id", "sequence", "status_code", "error_type")


class Scope(NamedTuple):
    name: str
    version: str
    fingerprint: int


class _Run(NamedTuple):
    """One request while it is read."""

    out: Normalised
    faults: Faults
    context: Context
    asked: dict[bytes, str]
    """Trace and span -> the model that a request event in it asks for; the answer's event
    names only what answered."""
    meter: Meter


def normalise_logs(logs: Logs, context: Context) -> Normalised:
    """Calls and outcomes of one request.

    Raises TooLarge; BadPayload where the view is parsed while it is read.
    """
    run = _Run(Normalised(), logs.faults, context, {}, Meter(context.limits.max_items))
    for number, resource_logs in enumerate(logs.request.resource_logs):
        run.meter.take(1 + len(resource_logs.scope_logs))
        made, before = resource_origin(resource_logs.resource, context), run.out.items
        for at, scope_logs in enumerate(resource_logs.scope_logs):
            _scope(run, scope_logs, f"resourceLogs[{number}].scopeLogs[{at}]", made)
        run.out.services[made.attribution.get("service_name")] += run.out.items - before
    _name_asked(run)
    return run.out


def _name_asked(run: _Run) -> None:
    """Fill in the model that was asked for, where the request's
    event came along in the same span.
    """
    for call in run.out.calls if run.asked else ():
        asked = run.asked.get(call.trace_id + call.parent_span_id)
        if asked is not None and call.record["request_model"] is None:
            call.record["request_model"] = asked


def _scope(run: _Run, scope_logs: ScopeLogs, at: str, made: ResourceContext) -> None:
    scope = scope_of(scope_logs.scope.name[:MAX_TEXT_CHARS], scope_logs.scope.version[:MAX_TEXT_CHARS])
    out, records = run.out, scope_logs.log_records
    run.meter.take(len(records))
    for number, record in enumerate(records):
        out.items += 1
        position = f"{at}.logRecords[{number}]"
        if position in run.faults:
            out.rejected.append(Rejection(run.faults[position], position))
            continue
        names = tuple(record.attributes)
        rule = choose_event(record, names, scope.name)
        if isinstance(rule, EventRule):
            picked = pick(record.attributes, names, interests_of(rule.convention))
            run.context.tags.add(picked.who, record.attributes, run.context.tags.plan(names))
            if RAW_NESTED in picked.texts:
                read_nested(picked)
            if OBJECT in picked.texts:
                take_object(picked)
            outcome = rule.outcome(picked)
            if outcome == "call":
                _take(run, record, picked, rule, scope, made, position)
                continue
            _note_request(run, record, picked)
        else:
            outcome = rule
        if outcome == "ignored":
            out.ignored += 1
        else:
            out.suppressed[outcome] += 1


def _note_request(run: _Run, record: LogRecord, picked: Extracted) -> None:
    asked, span = title(picked.texts.get("request_model")), record.trace_id + record.span_id
    if asked is not None and len(span) == _TRACE_ID_BYTES + _SPAN_ID_BYTES:
        run.asked[span] = asked


def _take(
    run: _Run, record: LogRecord, picked: Extracted, rule: EventRule, scope: Scope, made: ResourceContext, position: str
) -> None:
    """Add the call of *record*, or its rejection."""
    end_ns = _time_ns(record)
    if not times.FIRST_NS <= end_ns < times.LAST_NS:
        run.out.rejected.append(Rejection("invalid_time", position))
        return
    run.out.calls.append(_call(record, picked, rule, scope, made, run.context, end_ns))
    if rule.convention.is_generic:
        run.out.unknown_conventions[scope.name] += 1


def _time_ns(record: LogRecord) -> int:
    """The event's own time, else when its SDK saw it, else what the payload states; 0 for none."""
    if record.time_unix_nano:
        return record.time_unix_nano
    return record.observed_time_unix_nano or _timestamp_ns(record.attributes)


def _timestamp_ns(attributes: Attributes) -> int:
    value = attributes.get("event.timestamp")
    text = "" if value is None else value.string_value
    try:
        moment = datetime.fromisoformat(text[:40])
        return 0 if moment.tzinfo is None else (moment - _EPOCH) // _MICROSECOND * _NS_PER_US
    except (ValueError, OverflowError):
        return 0


@lru_cache(maxsize=4096)
def scope_of(name: str, version: str) -> Scope:
    return Scope(name, version, log_scope_fingerprint(name))


@lru_cache(maxsize=256)
def interests_of(convention: Convention) -> AttributeTable:
    """One table a convention, with one memory of names."""
    return convention.interests()


@lru_cache(maxsize=4096)
def _source(convention: str, name: str, version: str) -> Source:
    """Shared by the records: never changed."""
    return {
        "format": FORMAT,
        "convention": convention,
        "library": title(name),
        "library_version": title(version),
    }


@lru_cache(maxsize=1024)
def _rank(product: str, event: str) -> int:
    return rank_of(product, event)


def _call(
    log: LogRecord,
    picked: Extracted,
    rule: EventRule,
    scope: Scope,
    made: ResourceContext,
    context: Context,
    end_ns: int,
) -> Call:
    trace_id, span_id = _trace_ids(log)
    end_ms = times.ms_of(end_ns)
    duration_ms = _duration_ms(picked)
    start_ms = end_ms - (duration_ms or 0)
    event_id = _identity(picked, rule.name, made.source, trace_id + span_id, end_ns)
    session = picked.who.get("session")
    sent_error = picked.texts.get("error_type")
    failed = rule.is_failure or sent_error is not None or status_failed(picked) or picked.numbers.get("succeeded") == 0
    record = call_record(
        picked,
        convention=rule.convention,
        source=_source(rule.convention.name, scope.name, scope.version),
        record_id=event_record_id(FORMAT, event_id),
        start_ms=start_ms,
        duration_ms=duration_ms,
        failed=failed,
        trace=_trace(trace_id, span_id, rule),
        base=made.attribution,
        context=context,
    )
    if made.host:
        name_machine(record["attribution"], made, picked.who, context)
    if failed:
        record["error_type"] = error_name(sent_error or picked.texts.get("status_code") or "error")
    rank = _rank(rule.convention.name, rule.name)
    where = place(rule.convention.name, rank, made.sender, session)
    return Call(
        record,
        trace_id,
        b"",
        span_id,
        start_ms,
        end_ms,
        made.source,
        log_scope_fingerprint(scope.name, rank) if rank else scope.fingerprint,
        event_id,
        LOG | where.marks | picked.counts.get(SHOWN, 0) << BASIS_SHIFT,
        where.group,
        where.session,
        made.instance,
        made.place,
    )


def _trace_ids(log: LogRecord) -> tuple[bytes, bytes]:
    """Trace and span of the record; b"" for what is missing or no id."""
    trace_id, span_id = log.trace_id, log.span_id
    if len(trace_id) != _TRACE_ID_BYTES or not any(trace_id):
        return b"", b""
    return trace_id, span_id if len(span_id) == _SPAN_ID_BYTES and any(span_id) else b""


def _trace(trace_id: bytes, span_id: bytes, rule: EventRule) -> Trace | None:
    """The call's place in its trace: its own span where the event is emitted in it,
    else that of whoever made it.
    """
    if not trace_id:
        return None
    span = span_id.hex() or None
    own, parent = (span, None) if rule.in_call_span else (None, span)
    return {"trace_id": trace_id.hex(), "span_id": own, "parent_span_id": parent}


def _duration_ms(picked: Extracted) -> int | None:
    sent = picked.numbers.get("duration_ms")
    return round(sent) if sent is not None and 0 <= sent <= _MAX_DURATION_MS else None


def _identity(picked: Extracted, event: str, source: int, span: bytes, end_ns: int) -> str:
    """What names this report. Names and counts only, which later releases read alike; a sender
    that uses an id twice for different numbers made two reports.
    """
    texts, counts = picked.texts, picked.counts
    identity: list[object] = [event, *(counts.get(field) for field in _IDENTITY_COUNTS)]
    own = texts.get("event_id")
    if own is not None:
        identity += ["id", own]
    else:
        identity += [end_ns, span.hex(), source, picked.who.get("session"), picked.numbers.get("duration_ms")]
        identity += [texts.get("request_model") or texts.get("model")]
        identity += [texts.get(field) for field in _IDENTITY_TEXTS]
        first_ms = picked.numbers.get("time_to_first_ms")
        identity += [] if first_ms is None else [first_ms]
    return "\x1f".join("" if part is None else str(part) for part in identity)
