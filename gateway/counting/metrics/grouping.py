"""Points that belong together become one aggregate record. Pure.

Together belong points of one payload that share source, provider, model, operation and attribution,
and whose times lie within a second (an SDK reads its series one after the other). Their kinds are
the parts of one usage, brought to the record's partition: input with cache, output with reasoning.
A cost metric's point is the cost of the same record.

Of each record the first new point is the item that is kept, the others are duplicates
(`folded`). Points that add nothing are duplicates too (`repeated`): they only state that
a part was 0 in that time.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Final, NamedTuple

from gateway.common.operations import rfc3339
from gateway.counting.calls.models import short_model
from gateway.counting.metrics.series import Delta
from gateway.rules import times
from gateway.rules.attribution import attribute
from gateway.rules.context import Context
from gateway.rules.conventions.metric_tables import COST, REQUESTS, SHAPE, MetricTable
from gateway.rules.points import PICO, Labels, MetricSource, Point, UsagePoints
from gateway.rules.usage import Basis
from spool.record import SCHEMA, Cost, Record, Usage

TOGETHER_MS: Final = 1_000
TOGETHER_NS: Final = TOGETHER_MS * 10**6
"""Points of one export lie closer together in time than this; exports lie further apart."""
_RECORD_DOMAIN = b"aggregate\x00"
_ID_HEX = 32
_SORT_AT_ONCE = 5_000
_PARTS: Final = (
    ("cache_read", "cache_read_input_tokens"),
    ("cache_creation", "cache_creation_input_tokens"),
    ("reasoning", "reasoning_output_tokens"),
    ("audio_input", "audio_input_tokens"),
    ("audio_output", "audio_output_tokens"),
)


class Family(NamedTuple):
    """One way in which a source reports its tokens by metrics."""

    scope: str
    rank: int


class Measure(NamedTuple):
    point: Point
    step: Delta
    """What it adds."""


class Aggregate(NamedTuple):
    """One record, and what decides whether it is billed."""

    record: Record
    reporter: MetricSource
    family: Family
    start_ms: int
    end_ms: int
    tokens: int
    """Input and output."""
    is_costed: bool
    """Its source reports the cost of this model by a metric of its own: an
    estimate would be added to that."""
    measures: Sequence[Measure] = ()
    """What it was made of."""


@dataclass(slots=True)
class Folded:
    """What one payload's points came to; the counts are of points."""

    aggregates: list[Aggregate] = field(default_factory=list)
    duplicate: Counter[str] = field(default_factory=Counter)
    suppressed: Counter[str] = field(default_factory=Counter)
    co_instrumented: list[Aggregate] = field(default_factory=list)
    """Those that were dropped for another of the same calls."""


class _Costed(NamedTuple):
    scope: str
    resource: int
    model: str | None


def fold(measured: UsagePoints, steps: Sequence[Delta], context: Context) -> Folded:
    """The aggregates of one payload; *steps* are what its points add, in their order."""
    out = Folded()
    best = best_ranks(measured.points)
    costed = {_costed(point.labels) for point in measured.points if point.kind == COST}
    groups: dict[Labels, list[Measure]] = {}
    for point, step in zip(measured.points, steps, strict=True):
        if not step.is_new:
            out.duplicate["repeated"] += 1
        if point.kind != COST and point.table.rank > best[point.labels.resource, point.labels.scope]:
            out.suppressed["repeated_metric"] += step.is_new
        elif step.is_new or step.is_idle:
            groups.setdefault(point.labels, []).append(Measure(point, step))
    for labels, measures in groups.items():
        for together in _together(measures):
            _aggregate(out, labels, together, measured, context, is_costed=_costed(labels) in costed)
    _drop_co_instrumented(out)
    return out


def _drop_co_instrumented(out: Folded) -> None:
    """Two scopes of one process that state the same counts of one model at one
    time measured the same calls.

    The one with a cost stands, else the first.
    """
    standing: dict[tuple[object, ...], Aggregate] = {}
    dropped: set[int] = set()
    for aggregate in sorted(out.aggregates, key=lambda x: x.record.get("cost") is None):
        usage = aggregate.record["usage"]
        if not aggregate.tokens:
            continue
        model = short_model(aggregate.record["response_model"] or aggregate.record["request_model"] or "")
        measured = (aggregate.reporter, model, usage.get("input_tokens"), usage.get("output_tokens"))
        other = standing.setdefault(measured, aggregate)
        if other.family.scope != aggregate.family.scope and abs(other.end_ms - aggregate.end_ms) <= TOGETHER_MS:
            dropped.add(id(aggregate))
            out.co_instrumented.append(aggregate)
            out.suppressed["repeated_metric"] += 1
    if dropped:
        out.aggregates = [aggregate for aggregate in out.aggregates if id(aggregate) not in dropped]


def best_ranks(points: Iterable[Point]) -> dict[tuple[int, str], int]:
    """(resource, scope) -> the smallest rank among its token metrics."""
    best: dict[tuple[int, str], int] = {}
    for point in points:
        if point.kind != COST:
            at = point.labels.resource, point.labels.scope
            best[at] = min(best.get(at, point.table.rank), point.table.rank)
    return best


def _costed(labels: Labels) -> _Costed:
    return _Costed(labels.scope, labels.resource, labels.response_model or labels.request_model)


def _together(measures: Sequence[Measure]) -> Iterator[list[Measure]]:
    """Cut where more than `TOGETHER_NS` lies between two points."""
    group: list[Measure] = []
    for measure in sorted(measures, key=lambda m: m.point.time_ns):
        if group and measure.point.time_ns - group[-1].point.time_ns > TOGETHER_NS:
            yield group
            group = []
        group.append(measure)
    yield group


def _aggregate(
    out: Folded,
    labels: Labels,
    measures: Sequence[Measure],
    measured: UsagePoints,
    context: Context,
    *,
    is_costed: bool,
) -> None:
    """Add the record of *measures*, unless they hold no usage."""
    new = [measure for measure in measures if measure.step.is_new]
    if not any(measure.step.value or measure.step.measurements > 0 for measure in new):
        out.duplicate["repeated"] += len(new)
        return
    out.duplicate["folded"] += len(new) - 1
    tables = [measure.point.table for measure in measures if measure.point.kind != COST]
    table = tables[0] if tables else new[0].point.table
    usage, is_consistent = _usage(measures, table)
    start_ms = times.ms_of(min(measure.step.start_ns for measure in new))
    last_ms = times.ms_of(max(measure.point.time_ns for measure in new))
    until_ms = times.ms_of(max(measure.point.until_ns for measure in new))
    end_ms = max(last_ms, until_ms)
    flags = times.time_flags(min(end_ms, max(last_ms, context.received_at_ms)), context.received_at_ms)
    if not is_consistent:
        flags.append("inconsistent_usage")
    if table.convention == SHAPE:
        flags.append("unknown_convention")
    record: Record = {
        "schema": SCHEMA,
        "record_id": _record_id(new),
        "kind": "aggregate",
        "billed": True,
        "source": {
            "format": table.format,
            "convention": table.convention,
            "library": labels.scope or None,
            "library_version": labels.scope_version or None,
        },
        "operation": labels.operation,
        "provider": labels.provider,
        "request_model": labels.request_model,
        "response_model": labels.response_model,
        "response_id": None,
        "started_at": rfc3339(start_ms),
        "duration_ms": None,
        "usage": usage,
        "status": "ok",
        "attribution": attribute(measured.attributions[labels.resource], dict(labels.who), context),
        "received_at": context.received_at,
        "flags": flags,
        "period": {"start": rfc3339(start_ms), "end": rfc3339(end_ms)},
    }
    if labels.service_tier is not None:
        record["service_tier"] = labels.service_tier
    calls = _calls(measures) if table.counts_calls else None
    if calls is not None:
        record["calls"] = calls
    cost = _cost(measures)
    if cost is not None:
        record["cost"] = cost
    tokens = (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0)
    family = Family(labels.scope, table.rank)
    out.aggregates.append(Aggregate(record, labels.reporter, family, start_ms, end_ms, tokens, is_costed, measures))


def _record_id(new: Sequence[Measure]) -> str:
    """Of the series and their time: the same whoever counts them."""
    digest = sha256(_RECORD_DOMAIN)
    for series, start_ns, time_ns in _in_order([(m.point.series, m.step.start_ns, m.point.time_ns) for m in new]):
        digest.update(series + start_ns.to_bytes(8, "big") + time_ns.to_bytes(8, "big"))
    return digest.hexdigest()[:_ID_HEX]


def _in_order(parts: list[tuple[bytes, int, int]]) -> Iterable[tuple[bytes, int, int]]:
    """Sorted, in pieces: the interpreter is handed over in no single sort."""
    pieces = [sorted(parts[start : start + _SORT_AT_ONCE]) for start in range(0, len(parts), _SORT_AT_ONCE)]
    return pieces[0] if len(pieces) == 1 else heapq.merge(*pieces)


def _usage(measures: Iterable[Measure], table: MetricTable) -> tuple[Usage, bool]:
    """The parts as one usage, and whether each fits its whole."""
    sums: dict[str, int] = {}
    usage: Usage = {"status": "aggregate"}
    other: dict[str, int | float] = {}
    for measure in measures:
        kind, value = measure.point.kind, measure.step.value
        if not measure.point.is_known:
            if value:
                other[kind] = other.get(kind, 0) + value
        elif kind != COST:
            sums[kind] = sums.get(kind, 0) + value
    cached = sums.get("cache_read", 0) + sums.get("cache_creation", 0)
    if "input" in sums or (cached and table.basis is Basis.EXCLUSIVE):
        given = sums.get("input", 0)
        is_apart = table.basis is Basis.EXCLUSIVE or (table.basis is Basis.UNSTATED and given < cached)
        usage["input_tokens"] = given + cached if is_apart else given
    if "output" in sums or ("reasoning" in sums and table.output_excludes_reasoning):
        apart = sums.get("reasoning", 0) if table.output_excludes_reasoning else 0
        usage["output_tokens"] = sums.get("output", 0) + apart
    for kind, name in _PARTS:
        if kind in sums:
            usage[name] = sums[kind]  # type: ignore[literal-required]  # the names of `_PARTS` are keys of Usage
    if other:
        usage["other"] = other
    return usage, _fits(sums, usage, cached)


def _fits(sums: Mapping[str, int], usage: Usage, cached: int) -> bool:
    given, output = usage.get("input_tokens"), usage.get("output_tokens")
    inputs = max(cached, sums.get("audio_input", 0))
    outputs = max(sums.get("reasoning", 0), sums.get("audio_output", 0))
    return inputs <= (given or 0) and outputs <= (output or 0)


def _calls(measures: Sequence[Measure]) -> int | None:
    """How many measurements one kind had: of the input, else of the output; of
    sums, whatever they state.
    """
    for kind in ("input", "output", COST, REQUESTS):
        counts = [
            m.step.measurements for m in measures if m.point.kind == kind and m.step.is_new and m.step.measurements >= 0
        ]
        if counts:
            return sum(counts)
    return None


def _cost(measures: Iterable[Measure]) -> Cost | None:
    """What the cost metric states of the same time; an idle one states 0."""
    amounts: Counter[str] = Counter()
    for measure in measures:
        if measure.point.kind == COST:
            amounts[measure.point.currency] += measure.step.value
    if not amounts:
        return None
    currency, pico = amounts.most_common(1)[0]
    amount = Decimal(pico) / PICO
    return {"amount": _plain(amount), "currency": currency, "source": "reported", "price_version": None}


def _plain(amount: Decimal) -> str:
    """Without exponent or idle zeros."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
