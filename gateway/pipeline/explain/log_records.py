"""Each log record of a payload by itself: what the normaliser makes of it, and why. Pure."""

from collections.abc import Iterator

from gateway.common.traced import Recording
from gateway.pipeline.explain.otlp import Item, items_of, traced_call
from gateway.pipeline.explain.records import Traced, explain_call
from gateway.pipeline.explain.story import Explanation, Field, Single
from gateway.read.view import LogRecord, Logs
from gateway.rules.context import Context
from gateway.rules.conventions.events import GENERIC_EVENT, EventRule, choose_event, known_event
from gateway.rules.conventions.generic import RAW_NESTED, read_nested
from gateway.rules.conventions.native import take_object
from gateway.rules.extract import MAX_TEXT_CHARS, OBJECT
from gateway.rules.logs import interests_of, normalise_logs
from gateway.rules.provenance import Provenance, RecordedExtracted, add_tags, deciding, pick_recorded
from gateway.rules.tags import NO_TAGS, Tags


def explain_log_records(logs: Logs, payload: int, context: Context) -> Iterator[Single]:
    """Every log record in its order, as a payload of it alone; what others change comes after."""
    return (_explain(Explanation(payload, item.position, "log record"), item, context) for item in items_of(logs))


def _explain(explanation: Explanation, item: Item, context: Context) -> Single:
    record, scope = item.value, item.scope.name[:MAX_TEXT_CHARS]
    names = tuple(record.attributes)
    out = normalise_logs(item.alone(), context)
    explanation.name = known_event(record, names, scope)
    rule = choose_event(record, names, scope)
    if isinstance(rule, EventRule):
        explanation.read_as(rule.convention.name, _chosen_by(rule))
    if out.calls:
        (call,) = out.calls
        assert isinstance(rule, EventRule)  # noqa: S101 - a call was read by a rule
        traced = traced_call(
            item, call, _picked(record, rule, context.tags), rule.convention, _envelope(record, rule), context
        )
        return explain_call(explanation, call, traced, _identity(traced))
    if out.rejected:
        reason = out.rejected[0].reason
        because = "it has no time, or none that a call may have" if reason == "invalid_time" else "unreadable"
        explanation.end("rejected", reason, because)
    elif out.suppressed:
        (reason,) = out.suppressed
        explanation.end("suppressed", reason, _why_no_call(record, rule, reason))
    else:
        explanation.end("ignored", None, "no AI usage: neither its event's name nor an attribute is of a call")
    return Single(explanation)


def _chosen_by(rule: EventRule) -> str:
    if rule is GENERIC_EVENT:
        return "no known event; the generic table, by a name that looks like usage"
    return f"the event's name ({rule.name})"


def _picked(record: LogRecord, rule: EventRule, tags: Tags = NO_TAGS) -> RecordedExtracted:
    """The values as `normalise_logs` reads them, recorded."""
    picked = pick_recorded(record.attributes, interests_of(rule.convention), Recording())
    add_tags(picked, record.attributes, tags)
    if RAW_NESTED in picked.texts:
        read_nested(picked)
    if OBJECT in picked.texts:
        take_object(picked)
    return picked


def _envelope(record: LogRecord, rule: EventRule) -> dict[str, Field]:
    """What a log record states without attributes."""
    failure = {"status": Field(None, Provenance("rule"), "the event reports failures only")} if rule.is_failure else {}
    return {"started_at": _time(record), **failure}


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
