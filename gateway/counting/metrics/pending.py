"""A held aggregate's facts, and the outcomes of a payload's points. Pure.

Facts are what decides whether a held aggregate is billed; they lie beside its
record in the spool, as JSON.
"""

from collections.abc import Iterator
from typing import NamedTuple

import orjson

from gateway.common.json_bytes import json_bytes
from gateway.counting.metrics.grouping import Aggregate, Family, Folded
from gateway.counting.metrics.sources import KNOWN, cost_topic, family_topic
from gateway.rules.conventions.metric_tables import COST, SHAPE
from gateway.rules.points import MetricSource, Point, UsagePoints
from spool.store import ItemCounts


class Facts(NamedTuple):
    """What decides about a held aggregate, beside its record."""

    reporter: MetricSource
    family: Family
    start_ms: int
    end_ms: int
    tokens: int
    model: str | None
    is_costed: bool


def facts_of(aggregate: Aggregate) -> bytes:
    """The digest that a pending aggregate is kept by in the spool."""
    model = aggregate.record["response_model"] or aggregate.record["request_model"]
    return json_bytes(
        [
            list(aggregate.reporter),
            list(aggregate.family),
            aggregate.start_ms,
            aggregate.end_ms,
            aggregate.tokens,
            model,
            aggregate.is_costed,
        ]
    )


def facts_in(row: bytes) -> Facts:
    reporter, family, *rest = orjson.loads(row)
    return Facts(MetricSource(*reporter), Family(*family), *rest)


def topics_of(point: Point) -> Iterator[tuple[str, MetricSource]]:
    """What its source is seen to report by *point*."""
    labels = point.labels
    if point.kind == COST:
        yield cost_topic(labels.scope, labels.response_model or labels.request_model), labels.reporter
        return
    yield family_topic(Family(labels.scope, point.table.rank)), labels.reporter
    if point.table.convention != SHAPE:
        yield KNOWN, labels.reporter


def tally_of(measured: UsagePoints, folded: Folded) -> ItemCounts:
    """Every point of one payload, by its outcome."""
    tally = ItemCounts(
        received=measured.items,
        kept=len(folded.aggregates),
        duplicate=folded.duplicate.total(),
        suppressed=measured.suppressed.total() + folded.suppressed.total(),
        rejected=len(measured.rejected),
        ignored=measured.ignored,
    )
    reasons = tally.reasons
    for name, counts in (
        ("duplicate", folded.duplicate),
        ("suppressed", measured.suppressed),
        ("suppressed", folded.suppressed),
    ):
        for reason, n in counts.items():
            if n:
                reasons[f"{name}.{reason}"] = reasons.get(f"{name}.{reason}", 0) + n
    for rejection in measured.rejected:
        reasons[f"rejected.{rejection.reason}"] = reasons.get(f"rejected.{rejection.reason}", 0) + 1
    return tally


def add_tally(to: ItemCounts, tally: ItemCounts) -> None:
    to.received += tally.received
    to.kept += tally.kept
    to.duplicate += tally.duplicate
    to.suppressed += tally.suppressed
    to.rejected += tally.rejected
    to.ignored += tally.ignored
    for reason, n in tally.reasons.items():
        to.reasons[reason] = to.reasons.get(reason, 0) + n
