"""Each span of a payload by itself: what the normaliser makes of it, and why. Pure."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from gateway.common.traced import Recording, shown
from gateway.counting.calls.digest import identity
from gateway.decode.view import Attributes, Event, ResourceSpans, ScopeSpans, Span, Traces, TracesRequest
from gateway.explain.records import Traced, fields_of_record, input_sum, output_sum, provenances_of
from gateway.explain.story import Explanation, Field, Single, leaves, span_name
from gateway.normalise.call import Call
from gateway.normalise.context import Context
from gateway.normalise.conventions.choose import by_names, by_scope, mark_of
from gateway.normalise.conventions.native import take_object
from gateway.normalise.conventions.shared import NEUTRAL
from gateway.normalise.extract import MAX_TEXT_CHARS, OBJECT
from gateway.normalise.found_usage import FOUND, find_usage
from gateway.normalise.operation import step_word
from gateway.normalise.provenance import Provenance, RecordedExtracted, deciding, pick_recorded
from gateway.normalise.record import read_names
from gateway.normalise.traces import (
    Reader,
    normalise_traces,
    pick_who,
    read_details,
    reader_by_names,
    reader_of,
    scope_of,
)
from gateway.sources.records.source import read_stated
from spool.span_form import OF_RESOURCE, RECORD_ID, attribute_name

_FIRST = "resourceSpans[0].scopeSpans[0].spans[0]"
_STATUS_ERROR = 2
_MAX_NAMES = 3


class _Unnamed(NamedTuple):
    """A span without its name: a convention's rule reads nothing else of it but its attributes."""

    attributes: Attributes
    name: str = ""


_FOUND = "no known scope and no attribute of a convention; its usage is in an event or in the text of an answer"


class _Read(NamedTuple):
    """One span as its convention reads it, before its texts are."""

    reader: Reader
    picked: RecordedExtracted


def explain_spans(traces: Traces, payload: int, context: Context) -> Iterator[Single]:
    """Every span in its order.

    Its outcome is that of a payload of this span alone; counting completes it.
    """
    for i, resource_spans in enumerate(traces.request.resource_spans):
        for j, scope_spans in enumerate(resource_spans.scope_spans):
            for k, span in enumerate(scope_spans.spans):
                position = f"resourceSpans[{i}].scopeSpans[{j}].spans[{k}]"
                explanation = Explanation(payload, position, "span")
                alone = _alone(resource_spans, scope_spans, span, traces.faults.get(position))
                yield _explain(explanation, alone, context)


def _alone(resource_spans: ResourceSpans, scope_spans: ScopeSpans, span: Span, fault: str | None) -> Traces:
    scopes = [SimpleNamespace(scope=scope_spans.scope, spans=[span])]
    resources = [SimpleNamespace(resource=resource_spans.resource, scope_spans=scopes)]
    request = cast("TracesRequest", SimpleNamespace(resource_spans=resources))
    return Traces(request, {} if fault is None else {_FIRST: fault})


def _explain(explanation: Explanation, alone: Traces, context: Context) -> Single:
    resource_spans = alone.request.resource_spans[0]
    scope_spans = resource_spans.scope_spans[0]
    span = scope_spans.spans[0]
    out = read_stated(normalise_traces(alone, context), context)
    if out.stated and out.calls:
        return _explain_stated(explanation, span, out.calls[0])
    read = None if out.stated else _read(scope_spans, span)
    if read is not None:
        explanation.convention = read.reader.convention.name
        is_found = read.reader.convention is FOUND
        explanation.chosen_by = _FOUND if is_found else _chosen_by(scope_spans.scope.name, tuple(span.attributes))
    if out.calls:
        (call,) = out.calls
        assert read is not None  # noqa: S101 - a call was read by a convention
        traced = _traced(call, span, read, resource_spans.resource.attributes, context)
        explanation.name = span_name(span.name, call.record)
        explanation.record_id, explanation.record_id_from = call.record["record_id"], "trace id and span id"
        explanation.input, explanation.output = input_sum(traced), output_sum(traced)
        explanation.fields = fields_of_record(traced)
        return Single(explanation, call, identity(call))
    explanation.name = span_name(span.name, None)
    if out.rejected:
        explanation.outcome, explanation.reason = "rejected", out.rejected[0].reason
        explanation.because = _why_rejected(explanation.reason, is_record=bool(out.stated))
    elif out.suppressed:
        explanation.outcome, (explanation.reason,) = "suppressed", out.suppressed
        assert read is not None  # noqa: S101 - what no convention reads is ignored
        explanation.because = _why_no_call(read, span)
    else:
        explanation.outcome, explanation.because = "ignored", _why_ignored(read)
    return Single(explanation)


def _why_rejected(reason: str, *, is_record: bool) -> str:
    if is_record:
        return "it is of a gateway's scope, and states no sound record"
    return "the span cannot be identified" if "id" in reason else "no call has this time"


def _explain_stated(explanation: Explanation, span: Span, call: Call) -> Single:
    """A span that another gateway made of its record: each field is stated as it is."""
    record = cast("dict[str, Any]", call.record)
    explanation.name = span_name(span.name, call.record)
    explanation.convention, explanation.chosen_by = "records", "the instrumentation scope's name"
    explanation.record_id, explanation.record_id_from = call.record["record_id"], RECORD_ID
    explanation.fields = {path: _stated_field(path, value, span) for path, value in leaves(record).items()}
    return Single(explanation, call, identity(call))


def _stated_field(path: str, value: Any, span: Span) -> Field:
    name = attribute_name(("cost", "amount") if path == "cost" else tuple(path.split(".", 2)))
    if name in span.attributes:
        return Field(value, Provenance("item", (name,)))
    if name in OF_RESOURCE.values():
        return Field(value, Provenance("resource", (name,)))
    return Field(value, Provenance("envelope"))


def _read(scope_spans: ScopeSpans, span: Span) -> _Read | None:
    """The span as `normalise_traces` reads it, recorded; None where no convention reads it."""
    sent, names = scope_spans.scope, tuple(span.attributes)
    scope = scope_of(sent.name[:MAX_TEXT_CHARS], sent.version[:MAX_TEXT_CHARS])
    reader = scope.reader or reader_by_names(scope, names)
    if reader is None:
        found = find_usage(span, names, failed=span.status.code == _STATUS_ERROR)
        if found is None:
            return None
        pick_who(found, span.attributes, names)
        return _Read(reader_of(FOUND, scope), RecordedExtracted.of(found, Recording()))
    recording = Recording()
    picked = pick_recorded(span.attributes, reader.interests, recording)
    if OBJECT in picked.texts:
        take_object(picked)
    if "input" not in picked.counts and "output" not in picked.counts:
        read_details(span, picked, lambda attributes: pick_recorded(attributes, reader.interests, recording, "event"))
    if reader.convention.read_span is not None:
        reader.convention.read_span(picked, span)
    return _Read(reader, picked)


def _chosen_by(scope: str, names: tuple[str, ...]) -> str:
    if by_scope(scope) is not None:
        return "the instrumentation scope's name"
    name = mark_of(names)
    if by_names((name,)) is by_names(("gen_ai.",)):
        return "attributes that begin with gen_ai., under a scope that is not known"
    found = by_names(names)
    if found is not None and found.is_generic:
        return f"no known scope; the generic table, by a name that looks like usage ({shown(name)})"
    return f"an attribute that only this convention has ({shown(name)})"


# ---- calls


def _traced(call: Call, span: Span, read: _Read, resource: Attributes, context: Context) -> Traced:
    convention = read.reader.convention
    read_names(read.picked, convention, call.record["source"], failed=call.record["status"] == "error")
    return Traced(
        cast("dict[str, Any]", call.record),
        read.picked,
        read.picked.provenances(),
        provenances_of(resource),
        _envelope(span),
        convention,
        context,
    )


def _envelope(span: Span) -> dict[str, Field]:
    """What a span states without attributes."""
    ids, times = Provenance("envelope"), Provenance("envelope")
    fields = dict.fromkeys(("trace.trace_id", "trace.span_id", "trace.parent_span_id"), Field(None, ids))
    fields["started_at"] = Field(None, times, "the span's start" if span.start_time_unix_nano else "the span's end")
    fields["duration_ms"] = Field(None, times, "the span's end less its start")
    scope = Provenance("scope")
    fields |= dict.fromkeys(("source.library", "source.library_version"), Field(None, scope))
    fields["source.format"] = Field(None, Provenance("envelope"), "the path that it was sent to")
    fields["source.convention"] = Field(None, Provenance("rule"), "see chosen_by")
    if span.status.code == _STATUS_ERROR:
        fields["status"] = Field(None, Provenance("envelope"), "the span's status")
    fields["error_type"] = _error(span.events)
    return fields


def _error(events: Any) -> Field:
    found: list[Event] = [event for event in events if event.name == "exception"]
    if any("exception.type" in event.attributes for event in found):
        return Field(None, Provenance("event", ("exception.type",)))
    return Field(None, Provenance("default"), "it failed, and no attribute names its error")


# ---- no calls


def _why_no_call(read: _Read, span: Span) -> str:
    """What makes a span of AI work no call: an attribute, its
    name, or that it states too little.
    """
    convention, picked = read.reader.convention, read.picked
    failed = span.status.code == _STATUS_ERROR
    if picked.texts.get("span_type") == "pending_span":
        return "it announces a span that is reported when it ends (logfire.span_type)"

    outcome, decided_by = deciding(picked, lambda: convention.outcome(picked, span, failed=failed))
    if outcome == "undecided":
        return _states_too_little(read)
    if convention.outcome(picked, cast("Span", _Unnamed(span.attributes)), failed=failed) != "not_a_call":
        return "its name is that of a step, not of a call"
    if decided_by is not None:
        return f"{' and '.join(decided_by.attributes)} says that it is a step, not a call{_step_said(picked)}"
    return "it has names of a call, but neither a response nor usage of its own"


def _step_said(picked: RecordedExtracted) -> str:
    """The word of our own table that was found in the operation; nothing of what was sent."""
    word = step_word(picked.texts.get("operation", ""))
    return f" ({word})" if word else ""


def _states_too_little(read: _Read) -> str:
    marks = sorted(
        name
        for field, found in read.picked.provenances().items()
        if field not in NEUTRAL and not field.startswith("raw_")
        for name in found.attributes
    )[:_MAX_NAMES]
    return f"AI work ({', '.join(marks)}), but neither a response nor usage of a call"


def _why_ignored(read: _Read | None) -> str:
    if read is None:
        return "no AI usage: its scope is of no AI library that is known, and none of its attributes is of AI"
    return "no AI usage: its scope is known, but this span has no attribute of AI"
