"""Spans -> calls, links, and the outcome of every span that is no call. Pure: no clock,
no I/O, nothing is changed.

1. A span without valid ids is rejected; so is a call with an impossible time.
2. The scope's name, else the attributes, choose the convention; without one the span is ignored.
3. One pass picks the mapped values; the convention's rule states call or step.
4. A step is suppressed (`not_a_call`) and leaves a link, as every span does that is no call:
   ancestors are found by them.
5. A call becomes a record; its provider, operation and tokens are brought to the canonical names.
6. The spans of another gateway's scope state whole records (`gateway.rules.record_spans`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from gateway.common.contract.flags import UNFINISHED as UNFINISHED_FLAG
from gateway.common.contract.outcomes import Rejection
from gateway.common.operations import rfc3339
from gateway.read.limits import Meter
from gateway.read.view import Attributes, Event, Faults, HasAttributesAndEvents, ScopeSpans, Span, Traces
from gateway.rules import times
from gateway.rules.ai_spans import is_ai_scope, look_like_ai, needs_model, note_ai_span
from gateway.rules.ancestors import INTERESTS, STATING, inherit, inheritable
from gateway.rules.attribution import ResourceContext, name_machine, resource_origin
from gateway.rules.call import BASIS_SHIFT, REPEAT, STREAM_PART, UNFINISHED, Call, Normalised
from gateway.rules.context import Context
from gateway.rules.conventions.choose import by_names, by_scope
from gateway.rules.conventions.generic import RAW_NESTED, read_nested
from gateway.rules.conventions.litellm import LITELLM, RAW_REQUEST
from gateway.rules.conventions.native import take_object
from gateway.rules.conventions.openinference import RAW_METADATA, read_metadata
from gateway.rules.conventions.shared import NEUTRAL
from gateway.rules.conventions.table import Convention, StreamPart
from gateway.rules.extract import (
    MAX_TEXT_CHARS,
    NO_PLAN,
    AttributeTable,
    Extracted,
    pick,
    pick_planned,
)
from gateway.rules.fingerprint import fingerprint, scope_fingerprint
from gateway.rules.found_usage import FOUND, entities_of, find_usage, is_further, texts_of
from gateway.rules.operation import Outcome
from gateway.rules.record import call_record, error_name, event_record_id, title
from gateway.rules.record_spans import stated_record
from gateway.rules.siblings import Companions, complete_parts
from gateway.rules.signal_precedence import DETAILS, SPAN, place, rank_of
from gateway.rules.usage import SHOWN
from spool.record import Record, Source
from spool.span_form import SCOPE as RECORDS_SCOPE
from spool.span_form import span_record_id

FORMAT = "otlp.traces"

_STATUS_ERROR = 2
_PENDING = "pending_span"
"""Logfire announces a span when it begins, by another below it; what
it used is reported when it ends."""
_SESSION_MASK = 0xFFFF_FFFF
_MS_PER_S = 1000
_MAX_READ_MS = 24 * 3600 * 1000
"""A stream that was read for longer is none."""
_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
_NO_TRACE = bytes(_TRACE_ID_BYTES)
_NO_SPAN = bytes(_SPAN_ID_BYTES)


class Reader(NamedTuple):
    """What all spans of one scope under one convention share."""

    convention: Convention
    interests: AttributeTable
    source: Source
    """Shared by the records: never changed."""
    rank: int
    """Of spans among the product's ways to report a call; 0 where the product has no order."""
    is_placed: bool
    """Whether its calls may be reported in other ways or in parts, or repeat others."""

    def pick(self, attributes: Attributes) -> Extracted:
        """The values that this convention maps."""
        return pick(attributes, tuple(attributes), self.interests)


class Scope(NamedTuple):
    name: str
    version: str
    fingerprint: int
    is_ai: bool
    """Whether it is known as an agent framework's own."""
    reader: Reader | None
    """None where each span's attributes choose the convention."""


class SpansRead(NamedTuple):
    """One request while it is read."""

    out: Normalised
    companions: Companions
    faults: Faults
    context: Context
    repeats: list[Call]
    """Spans that repeat their parent."""
    meter: Meter

    @property
    def is_related(self) -> bool:
        """Whether a span states something about others of the payload."""
        return bool(self.repeats or self.out.bearers or self.out.stated) or self.companions.are_known


def normalise_traces(traces: Traces, context: Context) -> Normalised:
    """Calls, links and outcomes of one request.

    Raises TooLarge; BadPayload where the view is parsed while it is read.
    """
    run = read_spans(traces, context)
    if run.repeats:
        _drop_repeats(run.out)
    run.companions.complete(run.out.calls)
    if run.out.bearers:
        inherit(run.out.calls, run.out.links, run.out.bearers, context.key_fixes)
    return run.out


def read_spans(traces: Traces, context: Context) -> SpansRead:
    """What each span is by itself, and what spans state about others. Raises as above."""
    run = SpansRead(Normalised(), Companions(), traces.faults, context, [], Meter(context.limits.max_items))
    for number, resource_spans in enumerate(traces.request.resource_spans):
        run.meter.take(1 + len(resource_spans.scope_spans))
        made, before = resource_origin(resource_spans.resource, context), run.out.items
        for at, scope_spans in enumerate(resource_spans.scope_spans):
            if scope_spans.scope.name == RECORDS_SCOPE:
                _stated(run, scope_spans, (number, at), resource_spans.resource.attributes)
            else:
                _scope(run, scope_spans, (number, at), made)
        run.out.services[made.attribution.get("service_name")] += run.out.items - before
    return run


def _drop_repeats(out: Normalised) -> None:
    """Where the call that a span repeats came along, the ledger need not see the repeat; it
    names the model that answered.
    """
    own = {call.trace_id + call.span_id: call.record for call in out.calls if not call.marks & REPEAT}
    below: dict[bytes, list[Record]] = {}
    for call in out.calls:
        if call.marks & REPEAT:
            below.setdefault(call.trace_id + call.parent_span_id, []).append(call.record)
    best = {above: _best_of(below[above], own[above]) for above in below if above in own}
    kept: list[Call] = []
    for call in out.calls:
        above = call.trace_id + call.parent_span_id
        repeated = own.get(above) if call.marks & REPEAT else None
        if repeated is None or not _repeats(call.record, repeated, best[above]):
            kept.append(call)
            continue
        complete_parts(repeated["usage"], call.record["usage"])
        if repeated["response_model"] is None and repeated["status"] == "ok":
            repeated["response_model"] = call.record["response_model"]
        if _names_another_response(call.record, repeated):
            kept.append(call)  # by the provider's id the ledger finds who else reports the call
            continue
        out.suppressed["not_a_call"] += 1
        out.links.append(call.trace_id + call.span_id + call.parent_span_id)
    out.calls = kept


def _best_of(below: Sequence[Record], repeated: Record) -> Record | None:
    """Of several spans *below* a call, that which most likely reports it; None where none does."""
    may = [record for record in below if not _is_another(record, repeated)]
    return min(
        may, key=lambda x: (x["response_id"] != repeated["response_id"], not _same_counts(x, repeated)), default=None
    )


def _repeats(record: Record, repeated: Record, best: Record | None) -> bool:
    """Whether a span reports the call above it, as the *best* of those that may does."""
    return best is not None and not _is_another(record, repeated) and not _is_another(record, best)


def _same_counts(record: Record, other: Record) -> bool:
    mine, theirs = record["usage"], other["usage"]
    return all(mine.get(whole) == theirs.get(whole) for whole in ("input_tokens", "output_tokens"))


def _names_another_response(record: Record, repeated: Record) -> bool:
    return (
        None not in (record["response_id"], repeated["response_id"])
        and record["response_id"] != repeated["response_id"]
    )


def _is_another(record: Record, repeated: Record) -> bool:
    """Whether a span reports another call than its parent does: another response and other counts.

    LiteLLM hangs every call that is made inside an application's span below that span, and writes
    the first one on it. An id alone proves nothing, for it gives some responses ids of its own.
    """
    if not _names_another_response(record, repeated):
        return False
    usage, other = record["usage"], repeated["usage"]
    inputs = usage.get("input_tokens"), other.get("input_tokens")
    outputs = usage.get("output_tokens"), other.get("output_tokens")
    return any(None not in counts and counts[0] != counts[1] for counts in (inputs, outputs))


def _scope(run: SpansRead, scope_spans: ScopeSpans, at: tuple[int, int], made: ResourceContext) -> None:  # noqa: C901, PLR0912, PLR0915 - the hot loop
    """The spans of one scope; *at* is the number of their resource and of the scope in it."""
    sent = scope_spans.scope
    scope = scope_of(sent.name[:MAX_TEXT_CHARS], sent.version[:MAX_TEXT_CHARS])
    out, context, links, calls = run.out, run.context, run.out.links, run.out.calls
    spans = scope_spans.spans
    n_spans = len(spans)
    run.meter.take(n_spans)
    out.items += n_spans
    known: tuple[str, ...] | None = None
    reader, plan, tag_plan, is_seen, has_texts = None, NO_PLAN, NO_PLAN, False, False
    for number, span in enumerate(spans):
        trace_id, span_id, parent = span.trace_id, span.span_id, span.parent_span_id or _NO_SPAN
        if (
            len(trace_id) != _TRACE_ID_BYTES
            or len(span_id) != _SPAN_ID_BYTES
            or len(parent) != _SPAN_ID_BYTES
            or trace_id == _NO_TRACE
            or span_id == _NO_SPAN
        ):
            position = _position(*at, number)
            out.rejected.append(Rejection(_invalid_id(trace_id, span_id, position, run.faults), position))
            continue
        attributes = span.attributes
        names = tuple(attributes)
        if names != known:  # spans of one scope mostly have the names of the span before
            known = names
            reader = scope.reader or reader_by_names(scope, names)
            plan = NO_PLAN if reader is None else reader.interests.plan(names)
            tag_plan = context.tags.plan(names)
            is_seen = reader is None and (scope.is_ai or look_like_ai(names) or not STATING.isdisjoint(names))
            has_texts = reader is None and bool(texts_of(names) or entities_of(names))
        if reader is None:
            if not (has_texts or len(span.events)) or not _find(run, span, names, scope, made, _position(*at, number)):
                out.ignored += 1
                links.append(trace_id + span_id + parent)
                if is_seen:
                    _see(run, span, names, scope, made)
            continue
        picked = pick_planned(attributes, plan)
        if tag_plan.who:
            context.tags.add(picked.who, attributes, tag_plan)
        if plan.has_object:
            take_object(picked)
        if "input" not in picked.counts and "output" not in picked.counts:
            read_details(span, picked, reader.pick)
        if reader.convention.read_span is not None:
            reader.convention.read_span(picked, span)
        failed = has_failed(span, picked)
        is_found = reader.convention.is_generic and complete_found(picked, span, names, failed=failed)
        is_pending = picked.texts.get("span_type") == _PENDING
        outcome = "not_a_call" if is_pending else reader.convention.outcome(picked, span, failed=failed)
        if outcome != "call" and not (is_found and outcome == "undecided"):
            _step(run, span, picked, outcome, scope, made)
            links.append(trace_id + span_id + parent)
        elif not times.FIRST_NS <= (span.start_time_unix_nano or span.end_time_unix_nano) < times.LAST_NS:
            out.rejected.append(Rejection("invalid_time", _position(*at, number)))
        else:
            ids = (trace_id, span_id, b"" if parent == _NO_SPAN else parent)
            calls.append(_call(span, ids, picked, reader, scope, made, context, failed))
            if reader.is_placed or "operation" not in picked.texts:
                calls[-1] = _placed(run, calls[-1], span, picked, reader, made)
            if reader.convention.is_generic:
                out.unknown_conventions[scope.name] += 1


def _find(
    run: SpansRead, span: Span, names: tuple[str, ...], scope: Scope, made: ResourceContext, position: str
) -> bool:
    """Whether a span that no convention reads states a call in its events or a text; the call is
    counted.
    """
    failed = span.status.code == _STATUS_ERROR
    picked = find_usage(span, names, failed=failed)
    if picked is None:
        return False
    if not times.FIRST_NS <= (span.start_time_unix_nano or span.end_time_unix_nano) < times.LAST_NS:
        run.out.rejected.append(Rejection("invalid_time", position))
        return True
    pick_who(picked, span.attributes, names)
    run.context.tags.add_of(picked.who, span.attributes)
    ids = (span.trace_id, span.span_id, b"" if span.parent_span_id in {b"", _NO_SPAN} else span.parent_span_id)
    reader = reader_of(FOUND, scope)
    call = _call(span, ids, picked, reader, scope, made, run.context, failed)
    run.out.calls.append(call)
    run.out.unknown_conventions[scope.name] += 1
    return True


def complete_found(picked: Extracted, span: HasAttributesAndEvents, names: tuple[str, ...], *, failed: bool) -> bool:
    """Whether a span of which the generic table has no usage states a call in its events or in a
    text, of which *picked* is completed.
    """
    if "input" in picked.counts or "output" in picked.counts:
        return False
    found = find_usage(span, names, failed=failed)
    if found is not None:
        picked.complete(found)
    return found is not None


def pick_who(picked: Extracted, attributes: Attributes, names: tuple[str, ...]) -> None:
    """Whom the span's own attributes name."""
    if not STATING.isdisjoint(names):
        picked.who.update(pick(attributes, names, INTERESTS).who)


def read_details(span: Span, picked: Extracted, pick_event: Callable[[Attributes], Extracted]) -> None:
    """Usage in a map, usage and names of a details event, or usage of any event, where the span
    itself has no usage.
    """
    if RAW_NESTED in picked.texts:
        read_nested(picked)
    for event in span.events:
        found = pick_event(event.attributes)
        if event.name == DETAILS:
            picked.complete(found)
        elif "input" in found.counts and "output" in found.counts and is_further(found.counts, picked.counts):
            picked.counts.update(found.counts)


def has_failed(span: Span, picked: Extracted) -> bool:
    """Whether the call of *span* failed: by its status, or by an exception where nothing of an
    answer is stated (LangSmith calls such spans successful). Who leaves a stream early closes the
    reader of it, which is no failure of the call.
    """
    texts, counts = picked.texts, picked.counts
    is_error = span.status.code == _STATUS_ERROR
    if "input" in counts or "output" in counts:
        return is_error
    raised = [_exception(event) for event in span.events if event.name == "exception"]
    if any(_LEFT in name for name in (texts.get("error_type", ""), *raised)):
        texts.pop("error_type", None)
        return False
    return is_error or (bool(raised) and "response_id" not in texts and "finish_reason" not in texts)


_LEFT: Final = "GeneratorExit"


def _exception(event: Event) -> str:
    """The exception's class and how its message begins, where LangSmith has the class."""
    message = event.attributes.get("exception.message")
    return _exception_type(event) + " " + ("" if message is None else message.string_value[: len(_LEFT)])


def _accounts(call: Call, picked: Extracted) -> bool:
    """Whether the span may only state again what a call used that has a span of its own: it has
    usage and no operation, id or duration.
    """
    texts = picked.texts
    return (
        "kind" not in texts
        and "response_id" not in texts
        and "input" in picked.counts
        and "output" in picked.counts
        and call.end_ms - call.start_ms <= ACCOUNTING_MS
    )


ACCOUNTING_MS: Final = 5
"""No model answers in less."""


def _placed(run: SpansRead, call: Call, span: Span, picked: Extracted, reader: Reader, made: ResourceContext) -> Call:
    """The call with its place among the other ways to report it."""
    if not reader.is_placed:
        return call._replace(marks=call.marks | REPEAT) if _accounts(call, picked) else call
    if reader.convention.stream_part is not None:
        part = reader.convention.stream_part(picked, span, failed=call.record["status"] == "error")
        return call if part is None else _streamed(call, part)
    if not reader.rank:
        if span.name != RAW_REQUEST:
            return call
        run.repeats.append(call)
        return call._replace(marks=call.marks | REPEAT)
    where = place(reader.convention.name, reader.rank, made.sender, picked.who.get("session"))
    return call._replace(marks=call.marks | where.marks, group=where.group, session=where.session)


def _streamed(call: Call, part: StreamPart) -> Call:
    """The call with its place in a stream, of which its span reports *part*."""
    record = call.record
    identity = (fingerprint("stream", *part.request) & _SESSION_MASK) or 1
    if not part.is_end:
        record["flags"].append(UNFINISHED_FLAG)
        return call._replace(marks=call.marks | STREAM_PART | UNFINISHED, session=identity)
    read_ms = round(part.read_s * _MS_PER_S)
    if 0 <= read_ms <= _MAX_READ_MS:
        record["started_at"] = rfc3339(call.start_ms - read_ms)
        record["duration_ms"] = (record["duration_ms"] or 0) + read_ms
        call = call._replace(start_ms=call.start_ms - read_ms)
    return call._replace(marks=call.marks | STREAM_PART, session=identity)


def _stated(run: SpansRead, scope_spans: ScopeSpans, at: tuple[int, int], resource: Attributes) -> None:
    """The spans of another gateway, each a record of it; *resource*: their attributes."""
    out, spans = run.out, scope_spans.spans
    run.meter.take(len(spans))
    out.items += len(spans)
    for number, span in enumerate(spans):
        position = _position(*at, number)
        trace_id, span_id = span.trace_id, span.span_id
        parent = span.parent_span_id or _NO_SPAN
        are_ids = (len(trace_id), len(span_id), len(parent)) == (_TRACE_ID_BYTES, _SPAN_ID_BYTES, _SPAN_ID_BYTES)
        if are_ids and any(trace_id) and any(span_id):
            out.stated.append((position, stated_record(span, resource)))
        else:
            out.rejected.append(Rejection(_invalid_id(trace_id, span_id, position, run.faults), position))


def _position(resource: int, scope: int, span: int) -> str:
    return f"resourceSpans[{resource}].scopeSpans[{scope}].spans[{span}]"


def _invalid_id(trace_id: bytes, span_id: bytes, position: str, faults: Faults) -> str:
    if position in faults:
        return faults[position]
    if len(trace_id) != _TRACE_ID_BYTES or trace_id == _NO_TRACE:
        return "invalid_trace_id"
    if len(span_id) != _SPAN_ID_BYTES or span_id == _NO_SPAN:
        return "invalid_span_id"
    return "invalid_parent_span_id"


def _bear(run: SpansRead, span: bytes, who: Mapping[str, str]) -> None:
    """Note what calls below the span inherit."""
    inherited = inheritable(who, run.context)
    if inherited:
        run.out.bearers[span] = inherited


def _see(run: SpansRead, span: Span, names: tuple[str, ...], scope: Scope, made: ResourceContext) -> None:
    """A span that no convention reads, of which something is of interest."""
    if not STATING.isdisjoint(names):
        _bear(run, span.trace_id + span.span_id, pick(span.attributes, names, INTERESTS).who)
    if scope.is_ai or look_like_ai(names):
        note_ai_span(run.out, made.attribution.get("service_name"), scope.name, span.trace_id)


def _step(run: SpansRead, span: Span, picked: Extracted, outcome: Outcome, scope: Scope, made: ResourceContext) -> None:
    """A span that is no call: a step of AI work, or nothing of AI at all."""
    if outcome == "not_a_call" or picked.other or _has_ai_mark(picked):
        run.out.suppressed["not_a_call"] += 1
        run.companions.note(span)
        if needs_model(picked.texts):
            note_ai_span(run.out, made.attribution.get("service_name"), scope.name, span.trace_id)
    else:
        run.out.ignored += 1
    if picked.who or RAW_METADATA in picked.texts:
        read_metadata(picked)
        _bear(run, span.trace_id + span.span_id, picked.who)


def _has_ai_mark(picked: Extracted) -> bool:
    return any(
        field not in NEUTRAL and not field.startswith("raw_")
        for field in (*picked.texts, *picked.counts, *picked.numbers)
    )


@lru_cache(maxsize=4096)
def scope_of(name: str, version: str) -> Scope:
    convention = by_scope(name)
    reader = None if convention is None else _reader(convention, name, version)
    return Scope(name, version, scope_fingerprint(name), is_ai_scope(name), reader)


def reader_by_names(scope: Scope, names: tuple[str, ...]) -> Reader | None:
    convention = by_names(names)
    return None if convention is None else _reader(convention, scope.name, scope.version)


def reader_of(convention: Convention, scope: Scope) -> Reader:
    return _reader(convention, scope.name, scope.version)


@lru_cache(maxsize=256)
def _interests(convention: Convention) -> AttributeTable:
    """One table a convention, with one memory of names."""
    return convention.interests()


@lru_cache(maxsize=4096)
def _reader(convention: Convention, name: str, version: str) -> Reader:
    source: Source = {
        "format": FORMAT,
        "convention": convention.name,
        "library": title(name),
        "library_version": title(version),
    }
    rank = rank_of(convention.name, SPAN)
    is_placed = rank > 0 or convention is LITELLM or convention.stream_part is not None
    return Reader(convention, _interests(convention), source, rank, is_placed)


def _call(
    span: Span,
    ids: tuple[bytes, bytes, bytes],
    picked: Extracted,
    reader: Reader,
    scope: Scope,
    made: ResourceContext,
    context: Context,
    failed: bool,  # noqa: FBT001 - called once, and positional arguments are the faster ones
) -> Call:
    """The call that *span* reports; *ids* are its trace's, its own, and its
    parent's (b"" for a root).

    A span without a start began, as far as anyone knows, when it ended.
    """
    trace_id, span_id, parent = ids
    end_ns = span.end_time_unix_nano
    start_ns = span.start_time_unix_nano or end_ns
    start_ms = start_ns // times.NS_PER_MS
    duration_ms = times.duration_ms(start_ns, end_ns)
    texts = picked.texts
    run_id = texts.get("run_id")
    error_type = texts.get("error_type")
    if error_type is not None or picked.numbers.get("succeeded") == 0 or texts.get("level") == "ERROR":
        failed = True
    record = call_record(
        picked,
        convention=reader.convention,
        source=reader.source,
        record_id=span_record_id(trace_id, span_id) if run_id is None else event_record_id(_RUN, run_id),
        start_ms=start_ms,
        duration_ms=duration_ms,
        failed=failed,
        trace={"trace_id": trace_id.hex(), "span_id": span_id.hex(), "parent_span_id": parent.hex() or None},
        base=made.attribution,
        context=context,
    )
    if made.host:
        name_machine(record["attribution"], made, picked.who, context)
    if failed:
        record["error_type"] = _error_type(error_type, span)
    if duration_ms is None and end_ns and "clock_skew" not in record["flags"]:
        record["flags"].append("clock_skew")
    end_ms = start_ms if duration_ms is None else end_ns // times.NS_PER_MS
    if run_id is not None:
        trace_id = span_id = parent = b""
    return Call(
        record,
        trace_id,
        span_id,
        parent,
        start_ms,
        end_ms,
        made.source,
        scope.fingerprint,
        None,
        picked.counts[SHOWN] << BASIS_SHIFT if SHOWN in picked.counts else 0,
        0,
        0,
        made.instance,
        made.place,
    )


_RUN: Final = "gen_ai.thread.run"
"""A run is known by its id, in whichever spans it is read."""


def _error_type(sent: str | None, span: Span) -> str:
    """The class or code of the error, never its message: `error.type`, else an exception
    event's type, else `error`.
    """
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
