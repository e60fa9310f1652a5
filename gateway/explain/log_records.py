"""Each log record of a payload by itself: what the normaliser makes of it, and why. Pure."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from gateway.common.traced import Recording
from gateway.counting.calls.digest import identity
from gateway.decode.view import Attributes, LogRecord, Logs, LogsRequest, ResourceLogs, ScopeLogs
from gateway.explain.records import Traced, fields_of_record, input_sum, output_sum, provenances_of
from gateway.explain.story import Explanation, Field, Single
from gateway.normalise.call import Call
from gateway.normalise.context import Context
from gateway.normalise.conventions.events import GENERIC_EVENT, EventRule, choose_event, known_event
from gateway.normalise.conventions.generic import RAW_NESTED, read_nested
from gateway.normalise.conventions.native import take_object
from gateway.normalise.extract import MAX_TEXT_CHARS, OBJECT
from gateway.normalise.logs import interests_of, normalise_logs
from gateway.normalise.provenance import Provenance, RecordedExtracted, deciding, pick_recorded
from gateway.normalise.record import read_names

_FIRST = "resourceLogs[0].scopeLogs[0].logRecords[0]"


def explain_log_records(logs: Logs, payload: int, context: Context) -> Iterator[Single]:
    """Every log record in its order, as a payload of it alone; what others change comes after."""
    for i, resource_logs in enumerate(logs.request.resource_logs):
        for j, scope_logs in enumerate(resource_logs.scope_logs):
            for k, record in enumerate(scope_logs.log_records):
                position = f"resourceLogs[{i}].scopeLogs[{j}].logRecords[{k}]"
                explanation = Explanation(payload, position, "log record")
                alone = _alone(resource_logs, scope_logs, record, logs.faults.get(position))
                yield _explain(explanation, alone, context)


def _alone(resource_logs: ResourceLogs, scope_logs: ScopeLogs, record: LogRecord, fault: str | None) -> Logs:
    scopes = [SimpleNamespace(scope=scope_logs.scope, log_records=[record])]
    resources = [SimpleNamespace(resource=resource_logs.resource, scope_logs=scopes)]
    request = cast("LogsRequest", SimpleNamespace(resource_logs=resources))
    return Logs(request, {} if fault is None else {_FIRST: fault})


def _explain(explanation: Explanation, alone: Logs, context: Context) -> Single:
    resource_logs = alone.request.resource_logs[0]
    scope_logs = resource_logs.scope_logs[0]
    record, scope = scope_logs.log_records[0], scope_logs.scope.name[:MAX_TEXT_CHARS]
    names = tuple(record.attributes)
    out = normalise_logs(alone, context)
    explanation.name = known_event(record, names, scope)
    rule = choose_event(record, names, scope)
    if isinstance(rule, EventRule):
        explanation.convention = rule.convention.name
        explanation.chosen_by = _chosen_by(rule)
    if out.calls:
        (call,) = out.calls
        assert isinstance(rule, EventRule)  # noqa: S101 - a call was read by a rule
        traced = _traced(call, record, rule, resource_logs.resource.attributes, context)
        explanation.record_id, explanation.record_id_from = call.record["record_id"], _identity(traced)
        explanation.input, explanation.output = input_sum(traced), output_sum(traced)
        explanation.fields = fields_of_record(traced)
        return Single(explanation, call, identity(call))
    if out.rejected:
        explanation.outcome, explanation.reason = "rejected", out.rejected[0].reason
        explanation.because = (
            "it has no time, or none that a call may have" if explanation.reason == "invalid_time" else "unreadable"
        )
    elif out.suppressed:
        explanation.outcome, (explanation.reason,) = "suppressed", out.suppressed
        explanation.because = _why_no_call(record, rule, explanation.reason)
    else:
        explanation.outcome, explanation.because = (
            "ignored",
            "no AI usage: neither its event's name nor an attribute is of a call",
        )
    return Single(explanation)


def _chosen_by(rule: EventRule) -> str:
    if rule is GENERIC_EVENT:
        return "no known event; the generic table, by a name that looks like usage"
    return f"the event's name ({rule.name})"


def _traced(call: Call, record: LogRecord, rule: EventRule, resource: Attributes, context: Context) -> Traced:
    picked = _picked(record, rule)
    read_names(picked, rule.convention, call.record["source"], failed=call.record["status"] == "error")
    return Traced(
        cast("dict[str, Any]", call.record),
        picked,
        picked.provenances(),
        provenances_of(resource),
        _envelope(record, rule),
        rule.convention,
        context,
    )


def _picked(record: LogRecord, rule: EventRule) -> RecordedExtracted:
    """The values as `normalise_logs` reads them, recorded."""
    picked = pick_recorded(record.attributes, interests_of(rule.convention), Recording())
    if RAW_NESTED in picked.texts:
        read_nested(picked)
    if OBJECT in picked.texts:
        take_object(picked)
    return picked


def _envelope(record: LogRecord, rule: EventRule) -> dict[str, Field]:
    """What a log record states without attributes."""
    envelope = Provenance("envelope")
    fields = dict.fromkeys(("trace.trace_id", "trace.span_id", "trace.parent_span_id"), Field(None, envelope))
    fields["started_at"] = _time(record)
    fields |= dict.fromkeys(("source.library", "source.library_version"), Field(None, Provenance("scope")))
    fields["source.format"] = Field(None, envelope, "the path that it was sent to")
    fields["source.convention"] = Field(None, Provenance("rule"), "see chosen_by")
    if rule.is_failure:
        fields["status"] = Field(None, Provenance("rule"), "the event reports failures only")
    return fields


def _time(record: LogRecord) -> Field:
    if record.time_unix_nano:
        return Field(None, Provenance("envelope"), "the event's time, less the duration where one is stated")
    if record.observed_time_unix_nano:
        return Field(None, Provenance("envelope"), "when its SDK saw it, less the duration where one is stated")
    return Field(None, Provenance("item", ("event.timestamp",)), "less the duration where one is stated")


def _identity(traced: Traced) -> str:
    explanation = traced.origins.get("event_id")
    return (
        "content, time and span"
        if explanation is None
        else f"the event's own id ({explanation.attributes[0]}) and its counts"
    )


def _why_no_call(record: LogRecord, rule: object, reason: str) -> str:
    if not isinstance(rule, EventRule):
        if reason == "content_only":
            return "the event holds content only; nothing of it is kept"
        return "a product's own metric, written as a log: a sum over calls"
    picked = _picked(record, rule)
    _, decided_by = deciding(picked, lambda: rule.outcome(picked))
    if reason == "content_only":
        return "it has names of a call, but neither usage nor a response"
    if rule.name.endswith(".api_request"):
        return "it reports a request; the answer comes in an event of its own"
    if decided_by is not None:
        return f"{', '.join(decided_by.attributes)} says that it is no call of its own"
    return f"of {rule.name or 'such events'} only those with usage are calls"
