"""The outcome of each item once all were counted, the records that stand for it,
and the fields of its record.

Takes what the items are by themselves (`spans`, `log_records`, `points`) and what was noted
while they were counted (`watch`).
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.common.contract.flags import BASIS_LEARNT
from gateway.counting.metrics.grouping import Aggregate, best_ranks
from gateway.pipeline.explain.points import aggregate_fields
from gateway.pipeline.explain.records import flagged, priced, unpriced
from gateway.pipeline.explain.story import Explanation, Field, Single, WholeSum, leaves
from gateway.pipeline.explain.watch import CountedReport, Outcome, WatchedAggregates, WatchedLedger
from gateway.pipeline.metrics import CountedPoints
from gateway.rules.context import Context
from gateway.rules.conventions.metric_tables import COST
from gateway.rules.points import UsagePoints
from gateway.rules.provenance import Provenance, joined
from gateway.rules.signal_precedence import ORDER

Records = Mapping[str, dict[str, Any]]
"""Record id -> the record as it would be forwarded."""

_REPEATED_ABOVE = "it repeats the call of the span above it, which came along"
BECAUSE: Final = {
    "same_span": "a report with the same identity, or of the span that it was emitted in, is counted already",
    "response_id": "another report has its response id, at the same time, with agreeing usage: it is the same call",
    "request_id": "another report of another scope has its request id and ended alike: it is the same call",
    "stream_end": "it is a part of a stream, and the report of the other part stands for both",
    "twin": "another instrumentation reports the same call at the same time",
    "other_report": "its product reports a call in several ways, and another one counts in this session",
    "ancestor": "the calls below it account for its usage",
    "part": "it is a part of the call above it, which the same scope reports and which used more",
    "parent_forwarded": "the call above it was forwarded already and accounts for it",
    "calls_reported": "its source reports these calls one by one; metrics never add to calls",
    "repeated_metric": "the same tokens are reported under a better metric, or by another instrumentation",
    "folded": "its numbers are in the record of the points that belong together",
    "repeated": "it adds nothing to what its series reported before",
}
"""The reason of an outcome -> why, in words."""


# ---- calls


def complete_calls(singles: Iterable[Single], ledger: WatchedLedger, records: Records) -> None:
    """Complete the explanations of all calls; *singles* in the
    order in which they were counted.
    """
    found = _reported(singles, ledger)
    own = {
        report.ref: _own_record(explanation)
        for explanation, report in found
        if report is not None and not report.is_duplicate
    }
    for explanation, report in found:
        if report is None:
            _drop(explanation, "suppressed.not_a_call", _REPEATED_ABOVE)
        elif report.is_duplicate or report.ref in ledger.outcomes:
            outcome = Outcome("duplicate.same_span", ()) if report.is_duplicate else ledger.outcomes[report.ref]
            _drop(explanation, outcome.reason, _why(explanation.convention, outcome))
            explanation.of = sorted(own[ref].record_id for ref in ledger.standing(report.ref) if ref in own)
        else:
            reports = ledger.merged.get(report.ref, [report.ref])
            _keep(explanation, [own[ref] for ref in reports if ref in own], records)


def _reported(singles: Iterable[Single], ledger: WatchedLedger) -> list[tuple[Explanation, CountedReport | None]]:
    """Each call with what the ledger took it for: reports of one identity in their order."""
    by_identity: dict[bytes, deque[CountedReport]] = defaultdict(deque)
    for report in ledger.reports:
        by_identity[report.identity].append(report)
    return [(single.explanation, _next(by_identity[single.identity])) for single in singles if single.identity]


def _next(waiting: deque[CountedReport]) -> CountedReport | None:
    """None for a call that the ledger never saw: it was dropped
    with the payload that it came in.
    """
    return waiting.popleft() if waiting else None


def further_reports(reports: Sequence[CountedReport], number: int, payload: int) -> list[Single]:
    """The last *number* of *reports*: those that counting made itself, of what a payload states
    of a whole trace and its earlier calls.
    """
    return [
        Single(Explanation(payload, f"what is said of a trace ({n})", "report"), identity=report.identity)
        for n, report in enumerate(reports[len(reports) - number :], start=1)
    ]


class _Own(NamedTuple):
    """What one report states by itself."""

    position: str
    payload: int
    record_id: str
    fields: dict[str, Field]
    input: WholeSum | None


def _own_record(explanation: Explanation) -> _Own:
    return _Own(
        explanation.position, explanation.payload, explanation.record_id or "", explanation.fields, explanation.input
    )


def _drop(explanation: Explanation, reason: str, because: str) -> None:
    """The item has no record of its own: none of its values is shown."""
    outcome, _, reason = reason.partition(".")
    explanation.end(outcome, reason, because)
    explanation.record_id = explanation.record_id_from = explanation.input = None
    explanation.fields = {}


def _why(product: str | None, outcome: Outcome) -> str:
    reason = outcome.reason.partition(".")[2]
    if reason == "other_report":
        ways = ORDER.get(product or "", ())
        better = ways[outcome.rank - 1] if 0 < outcome.rank <= len(ways) else "another way"
        return f"its product reports a call in several ways, and {better} is the one that counts in this session"
    return BECAUSE.get(reason, "")


def _keep(explanation: Explanation, reports: Sequence[_Own], records: Records) -> None:
    """The record of a call, of which *reports* are all reports, fullest first."""
    record = records[explanation.record_id or ""]
    explanation.outcome = "kept"
    explanation.because = "it is a call of its own"
    if len(reports) > 1:
        explanation.because = (
            f"{len(reports)} reports of one call: its record takes what each of them knows, fullest first"
        )
    own = next(i for i, report in enumerate(reports) if report.record_id == explanation.record_id)
    fields = {path: _traced(path, value, reports, own) for path, value in leaves(record).items()}
    if "cost" not in fields:
        fields["cost"] = unpriced(record)
    if BASIS_LEARNT in record["flags"]:
        explanation.input, fields["usage.input_tokens"] = _learnt(record, reports[own])
        explanation.fields = fields
        return
    given = record["usage"].get("input_tokens")
    stating = (
        x.input for x in reports if "usage.input_tokens" in x.fields and x.fields["usage.input_tokens"].value == given
    )
    explanation.input = next(stating, None)
    explanation.fields = fields


def _learnt(record: Mapping[str, Any], report: _Own) -> tuple[WholeSum, Field]:
    """How the input was made that is read as other calls proved it, and its field."""
    given, sent = record["usage"].get("input_tokens") or 0, report.fields["usage.input_tokens"]
    holds = "holds the cache" if given == sent.value else "excludes the cache, which is added"
    why = f"other calls of {record['source']['library'] or record['source']['convention']} prove that its input {holds}"
    if given == sent.value:
        return WholeSum("inclusive", why, str(given)), sent
    cached = report.fields.get("usage.cache_read_input_tokens"), report.fields.get("usage.cache_creation_input_tokens")
    parts = [sent, *(part for part in cached if part is not None and part.value)]
    origin = joined([part.provenance for part in parts])
    return WholeSum("exclusive", why, " + ".join(str(part.value) for part in parts)), Field(given, origin, sent.note)


def _traced(path: str, value: Any, reports: Sequence[_Own], own: int) -> Field:
    """The field as the first report has it that states *value*."""
    for i, report in enumerate(reports):
        field = report.fields.get(path)
        if field is not None and field.value == value:
            if i == own:
                return field
            return field._replace(note="; ".join(filter(None, (field.note, f"by the report at {report.position}"))))
    if path == "cost" and value["source"] == "estimated":
        return priced(value)
    if path == "flags":
        return flagged(value)
    return Field(value, Provenance("other_item"), "another item of the payloads states it")


# ---- points


def complete_points(
    payloads: Iterable[Sequence[Single]],
    aggregates: WatchedAggregates,
    records: Records,
    context: Context,
) -> None:
    """Complete the explanations of all points; *payloads* those that have any, in the order
    in which they were counted.
    """
    with_points = [(measured, counted) for measured, counted in aggregates.counted if measured.points]
    for singles, (measured, counted) in zip(payloads, with_points, strict=True):
        points = [single for single in singles if single.point is not None]
        at = {id(point): single for point, single in zip(measured.points, points, strict=True)}
        _complete_ungrouped(points, measured, counted)
        for aggregate in counted.folded.co_instrumented:
            _complete_grouped(aggregate, at, "suppressed.repeated_metric")
        for aggregate in counted.folded.aggregates:
            record_id = aggregate.record["record_id"]
            first = _complete_grouped(aggregate, at, aggregates.endings.get(record_id))
            if first.explanation.outcome == "kept":
                record = records[record_id]
                first.explanation.record_id, first.explanation.record_id_from = record_id, "its series and their time"
                first.explanation.fields, first.explanation.input = aggregate_fields(aggregate, record, first, context)
                first.explanation.fields.setdefault("cost", unpriced(record))


def _complete_ungrouped(points: Sequence[Single], measured: UsagePoints, counted: CountedPoints) -> None:
    """The outcome of points that are in no aggregate; the others' comes over it."""
    best = best_ranks(measured.points)
    for point, step, single in zip(measured.points, counted.steps, points, strict=True):
        at = point.labels.resource, point.labels.scope
        is_worse = point.kind != COST and point.table.rank > best[at]
        reason = "suppressed.repeated_metric" if is_worse and step.is_new else "duplicate.repeated"
        _drop(single.explanation, reason, _counting(single.explanation, reason))


def _complete_grouped(aggregate: Aggregate, at: Mapping[int, Single], ending: str | None) -> Single:
    """The outcomes of an aggregate's points: the first new one is the record, unless
    that came to an *ending*.
    """
    first, *others = [at[id(measure.point)] for measure in aggregate.measures if measure.step.is_new]
    record_id = aggregate.record["record_id"]
    for single in others:
        _drop(single.explanation, "duplicate.folded", _counting(single.explanation, "duplicate.folded"))
        single.explanation.of = [] if ending else [record_id]
    if ending is not None:
        _drop(first.explanation, ending, _counting(first.explanation, ending))
        return first
    first.explanation.outcome, first.explanation.reason = "kept", None
    first.explanation.because = f"{len(others) + 1} point(s) that belong together; {_counted(first.explanation)}"
    return first


def _counting(explanation: Explanation, reason: str) -> str:
    return f"{BECAUSE[reason.partition('.')[2]]}; {_counted(explanation)}"


def _counted(explanation: Explanation) -> str:
    """What the point counts: all that is explained of it so far."""
    return explanation.because.rpartition("; ")[2]
