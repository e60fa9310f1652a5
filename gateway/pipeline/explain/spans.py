"""Each span of a payload by itself: what the normaliser makes of it, and why. Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from gateway.common.traced import Recording, shown
from gateway.counting.calls.digest import identity
from gateway.pipeline.explain.otlp import Item, items_of, traced_call
from gateway.pipeline.explain.records import explain_call
from gateway.pipeline.explain.story import Explanation, Field, Single, leaves, span_name
from gateway.products.records.source import read_stated
from gateway.read.view import Attributes, Event, Scope, Span, Traces
from gateway.rules.call import Call
from gateway.rules.context import Context
from gateway.rules.conventions.choose import by_names, by_scope, mark_of
from gateway.rules.conventions.native import take_object
from gateway.rules.conventions.shared import NEUTRAL
from gateway.rules.extract import MAX_TEXT_CHARS, OBJECT
from gateway.rules.found_usage import FOUND, find_usage
from gateway.rules.operation import step_word
from gateway.rules.provenance import Provenance, RecordedExtracted, TracedSpan, add_tags, deciding, pick_recorded
from gateway.rules.tags import Tags
from gateway.rules.traces import (
    Reader,
    complete_found,
    normalise_traces,
    pick_who,
    read_details,
    reader_by_names,
    reader_of,
    scope_of,
)
from spool.span_form import OF_RESOURCE, RECORD_ID, attribute_name

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
    return (_explain(Explanation(payload, item.position, "span"), item, context) for item in items_of(traces))


def _explain(explanation: Explanation, item: Item, context: Context) -> Single:
    span: Span = item.value
    out = read_stated(normalise_traces(item.alone(), context), context)
    if out.stated and out.calls:
        return _explain_stated(explanation, span, out.calls[0])
    read = None if out.stated else _read(item.scope, span, context.tags)
    if read is not None:
        is_found = read.reader.convention is FOUND
        chosen_by = _FOUND if is_found else _chosen_by(item.scope.name, tuple(span.attributes))
        explanation.read_as(read.reader.convention.name, chosen_by)
    if out.calls:
        (call,) = out.calls
        assert read is not None  # noqa: S101 - a call was read by a convention
        explanation.name = span_name(span.name, call.record)
        traced = traced_call(item, call, read.picked, read.reader.convention, _envelope(span), context)
        return explain_call(explanation, call, traced, "trace id and span id")
    explanation.name = span_name(span.name, None)
    if out.rejected:
        reason = out.rejected[0].reason
        explanation.end("rejected", reason, _why_rejected(reason, is_record=bool(out.stated)))
    elif out.suppressed:
        assert read is not None  # noqa: S101 - what no convention reads is ignored
        (reason,) = out.suppressed
        explanation.end("suppressed", reason, _why_no_call(read, span))
    else:
        explanation.end("ignored", None, _why_ignored(read))
    return Single(explanation)


def _why_rejected(reason: str, *, is_record: bool) -> str:
    if is_record:
        return "it is of a gateway's scope, and states no sound record"
    return "the span cannot be identified" if "id" in reason else "no call has this time"


def _explain_stated(explanation: Explanation, span: Span, call: Call) -> Single:
    """A span that another gateway made of its record: each field is stated as it is."""
    record = cast("dict[str, Any]", call.record)
    explanation.name = span_name(span.name, call.record)
    explanation.read_as("records", "the instrumentation scope's name")
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


def _read(sent: Scope, span: Span, tags: Tags) -> _Read | None:
    """The span as `normalise_traces` reads it, recorded; None where no convention reads it."""
    names = tuple(span.attributes)
    scope = scope_of(sent.name[:MAX_TEXT_CHARS], sent.version[:MAX_TEXT_CHARS])
    reader, recording = scope.reader or reader_by_names(scope, names), Recording()
    if reader is None:
        traced = TracedSpan.of(span, recording)
        found = find_usage(traced, names, failed=span.status.code == _STATUS_ERROR)
        if found is None:
            return None
        pick_who(found, traced.attributes, names)
        read = _Read(reader_of(FOUND, scope), RecordedExtracted.of(found, recording))
        add_tags(read.picked, span.attributes, tags)
        return read
    picked = pick_recorded(span.attributes, reader.interests, recording)
    add_tags(picked, span.attributes, tags)
    if OBJECT in picked.texts:
        take_object(picked)
    if "input" not in picked.counts and "output" not in picked.counts:
        read_details(span, picked, lambda attributes: pick_recorded(attributes, reader.interests, recording, "event"))
    if reader.convention.read_span is not None:
        reader.convention.read_span(picked, span)
    if reader.convention.is_generic:
        complete_found(picked, TracedSpan.of(span, recording), names, failed=span.status.code == _STATUS_ERROR)
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


def _envelope(span: Span) -> dict[str, Field]:
    """What a span states without attributes."""
    envelope = Provenance("envelope")
    fields = {
        "started_at": Field(None, envelope, "the span's start" if span.start_time_unix_nano else "the span's end"),
        "duration_ms": Field(None, envelope, "the span's end less its start"),
        "error_type": _error(span.events),
    }
    return fields | (
        {"status": Field(None, envelope, "the span's status")} if span.status.code == _STATUS_ERROR else {}
    )


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
