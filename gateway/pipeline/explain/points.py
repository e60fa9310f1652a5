"""Each metric point of a payload by itself, and the fields of the aggregates that points become.

Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

from gateway.common.traced import Recording
from gateway.counting.metrics.grouping import Aggregate, Measure
from gateway.pipeline.explain.otlp import ENVELOPE, Item, items_of
from gateway.pipeline.explain.records import Origins, Traced, by_table, fields_of_record, provenances_of
from gateway.pipeline.explain.story import Explanation, Field, Single, WholeSum
from gateway.read.view import Metric, Metrics
from gateway.rules.context import Context
from gateway.rules.conventions.metric_tables import (
    COST,
    POINT_INTERESTS,
    SHAPE,
    SHAPE_INTERESTS,
    MetricTable,
    metric_table,
)
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import MAX_TEXT_CHARS
from gateway.rules.metrics import by_shape, normalise_metrics
from gateway.rules.provenance import Provenance, add_tags, joined, pick_recorded
from gateway.rules.usage import Basis

_KINDS = (
    ("gauge", "gauge"),
    ("sum", "sum"),
    ("histogram", "histogram"),
    ("exponential_histogram", "exponentialHistogram"),
    ("summary", "summary"),
)
"""Field of the view, and its name in positions."""
_PARTS = {
    "usage.cache_read_input_tokens": "cache_read",
    "usage.cache_creation_input_tokens": "cache_creation",
    "usage.reasoning_output_tokens": "reasoning",
    "usage.audio_input_tokens": "audio_input",
    "usage.audio_output_tokens": "audio_output",
}


def explain_points(metrics: Metrics, payload: int, context: Context) -> Iterator[Single]:
    """Every point, those of one metric by kind; its outcome as a payload of it alone.

    Counting completes what it adds.
    """
    for item in items_of(metrics):
        for field, name in _KINDS:
            for n, point in enumerate(getattr(item.value, field).data_points):
                explanation = Explanation(payload, f"{item.position}.{name}.dataPoints[{n}]", "data point")
                alone = item.alone(
                    _metric(item.value, field, point), f".{name}.dataPoints[{n}]", f".{name}.dataPoints[0]"
                )
                yield _explain(explanation, item, alone, point, context)


def _metric(metric: Metric, field: str, point: Any) -> Metric:
    """*metric* with one point only."""
    kind = getattr(metric, field)
    points = SimpleNamespace(
        data_points=[point],
        aggregation_temporality=getattr(kind, "aggregation_temporality", 0),
        is_monotonic=getattr(kind, "is_monotonic", False),
    )
    none = SimpleNamespace(data_points=[], aggregation_temporality=0, is_monotonic=False)
    kinds = {name: points if name == field else none for name, _ in _KINDS}
    return cast("Metric", SimpleNamespace(name=metric.name, unit=metric.unit, **kinds))


def _explain(explanation: Explanation, item: Item, alone: Metrics, point: Any, context: Context) -> Single:
    metric: Metric = item.value
    out = normalise_metrics(alone, context)
    table = metric_table(item.scope.name[:MAX_TEXT_CHARS], metric.name)
    if table is not None:
        explanation.name = metric.name
        explanation.read_as(table.convention, "the metric's name")
    elif out.points:
        explanation.name, table = metric.name, by_shape(metric)
        explanation.read_as(SHAPE, "its name speaks of tokens, and its points name a kind of tokens and a model")
    if out.points:
        resource = provenances_of(item.resource.attributes, context.tags)
        interests = SHAPE_INTERESTS if table is not None and table.convention == SHAPE else POINT_INTERESTS
        picked = pick_recorded(point.attributes, interests, Recording())
        add_tags(picked, point.attributes, context.tags)
        explanation.because = _counts(out.points[0].kind, table, picked.provenance("kind"))
        return Single(explanation, point=out.points[0], picked=picked, origins=picked.provenances(), resource=resource)
    if out.rejected:
        explanation.end("rejected", out.rejected[0].reason, "its time, value or temporality cannot be right")
    elif out.suppressed:
        (reason,) = out.suppressed
        explanation.end("suppressed", reason, "a total, which repeats its parts")
    elif table is None:
        explanation.end("ignored", None, "no table knows this metric")
    else:
        explanation.end("ignored", None, "a gauge, a sum that may fall, or a point without a value")
    return Single(explanation)


def _counts(kind: str, table: MetricTable | None, named: Provenance | None) -> str:
    """What the point counts, and what states it; *named*: its type's attribute."""
    by = "the metric's name" if table is not None and table.kind is not None else "its type"
    by = f"{by} ({named.attributes[0]})" if named is not None and by == "its type" else by
    return f"counts {kind if kind in _SAFE_KINDS else 'a kind that no table knows'}, by {by}"


_SAFE_KINDS = frozenset({"input", "output", COST, *_PARTS.values()})


# ---- aggregates


def aggregate_fields(
    aggregate: Aggregate, record: Mapping[str, Any], single: Single, context: Context
) -> tuple[dict[str, Field], WholeSum | None]:
    """The fields of the record that an aggregate became, *single* being one of its points."""
    is_sum = any(measure.point.until_ns for measure in aggregate.measures)
    traced = Traced(
        record,
        single.picked,
        single.origins,
        single.resource,
        sum_envelope(single.origins) if is_sum else _ENVELOPE,
        Convention(record["source"]["convention"], own={}, default_provider=_table(aggregate).default_provider),
        context,
    )
    tokens = {path: value for path, value in record["usage"].items() if path != "status"}
    rest = {**record, "usage": {"status": "aggregate"}}
    fields = fields_of_record(traced._replace(record=rest))
    for name, value in tokens.items():
        for path, inner in {f"usage.other.{k}": v for k, v in value.items()}.items() if name == "other" else ():
            fields[path] = Field(inner, _type(traced), "a type that no table knows, kept by its name")
        if name != "other":
            path = f"usage.{name}"
            explanation = _of_kinds(traced, _kinds(aggregate, path, value)) if is_sum else _type(traced)
            fields[path] = Field(value, explanation, _summed(aggregate.measures, path))
    if is_sum:
        if "total" in traced.origins and "usage.other.total_tokens" in fields:
            total = fields["usage.other.total_tokens"].value
            fields["usage.other.total_tokens"] = Field(total, traced.origins["total"])
    elif record.get("cost") is not None and record["cost"]["source"] == "reported":
        fields["cost"] = Field(record["cost"], Provenance("item"), "the points of a cost metric")
    return fields, _input(aggregate, tokens.get("input_tokens"))


def _kinds(aggregate: Aggregate, path: str, given: int) -> tuple[str, ...]:
    """The kinds of tokens that the field was made of."""
    if path == "usage.output_tokens":
        return ("output",)
    if path != "usage.input_tokens":
        return (_PARTS[path],)
    is_whole = sum(_values(aggregate.measures, "input")) == given
    return ("input",) if is_whole else ("input", "cache_read", "cache_creation")


def _of_kinds(traced: Traced, kinds: Sequence[str]) -> Provenance:
    explanation = [traced.origins[kind] for kind in kinds if kind in traced.origins]
    return joined(explanation) if explanation else Provenance("rule")


def _type(traced: Traced) -> Provenance:
    return joined([traced.origins["kind"]]) if "kind" in traced.origins else Provenance("rule")


def sum_envelope(origins: Origins) -> dict[str, Field]:
    """What the row of a sum states of its time and number."""
    notes = {"calls": "how many calls are summed up", "started_at": "the beginning of its interval"}
    paths = ("period.start", "period.end", "started_at", "calls")
    fields = {path: Field(None, origins[path], notes.get(path, "")) for path in paths if path in origins}
    return {**fields, **source_fields()}


def source_fields() -> dict[str, Field]:
    """What every record of a source has from the path that it was sent to."""
    paths = ("source.format", "source.convention", "source.library")
    return dict.fromkeys(paths, Field(None, Provenance("envelope"), "the path that it was sent to"))


_ENVELOPE: Final = {
    **ENVELOPE,
    **dict.fromkeys(
        ("period.start", "started_at"), Field(None, Provenance("envelope"), "since the series was counted last")
    ),
    "period.end": Field(None, Provenance("envelope"), "the latest point's time"),
    "calls": Field(None, Provenance("envelope"), "measurements of a histogram"),
}
"""What points state without attributes."""


def _table(aggregate: Aggregate) -> MetricTable:
    """Of its tokens, else of its cost."""
    tables = [measure.point.table for measure in aggregate.measures]
    return next((table for table in tables if table.kind != COST), tables[0])


def _values(measures: Sequence[Measure], kind: str) -> list[int]:
    return [m.step.value for m in measures if m.point.kind == kind and m.point.is_known]


def _summed(measures: Sequence[Measure], path: str) -> str:
    kind = _PARTS.get(path)
    values = _values(measures, kind) if kind is not None else ()
    return " + ".join(map(str, values)) if len(values) > 1 else ""


def _input(aggregate: Aggregate, given: int | None) -> WholeSum | None:
    """How the input was made of the points' steps."""
    if given is None:
        return None
    measures = aggregate.measures
    basis = _table(aggregate).basis
    values = _values(measures, "input")
    cached = [*_values(measures, "cache_read"), *_values(measures, "cache_creation")]
    if sum(values) != given:
        values += [value for value in cached if value]
    why = (
        f"{by_table(basis)}, by the metric's table" if any(cached) else "it states no cache, so there is nothing to add"
    )
    return WholeSum(
        basis.name.lower() if any(cached) else Basis.UNSTATED.name.lower(), why, " + ".join(map(str, values)) or "0"
    )
