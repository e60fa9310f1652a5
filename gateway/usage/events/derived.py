"""A unit-cost stream made of AI records: their tokens, calls or cost, by who caused them.

It is a lane like that of any further exporter: it reads the records that were let go, in batches
that survive restarts. What a record adds is noted under the record's id, in the commit that changes
the total; so a batch that comes again, and an operator's replay, add nothing.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NamedTuple

import orjson

from exporters.base import Delivered, Hold, Outcome
from gateway.usage.events.faults import mismatch_text
from spool.clock import ms_of
from spool.events import NewEvent, RepeatKey
from spool.record import FIELDS, Batch
from spool.store import EventStore
from spool.unit_cost import Change, Granularity, Metered, Mismatch, Shape, TotalKey, bucket_start_ms, filter_text

Measure = Literal["tokens", "input_tokens", "output_tokens", "calls", "cost"]
UNKNOWN = "unknown"
"""Element or dimension of a record that does not state it: left out, its usage would be no one's.
"""
ATTRIBUTES = frozenset(field.name for field in FIELDS.of("attribution") if not field.is_free)
SOURCES = ATTRIBUTES | {field.name for field in FIELDS.of() if field.row.is_dimension}
"""Fields of a record that may be an element or a dimension."""
MAX_TEXT = 256


class Derivation(NamedTuple):
    """What an operator sets of one derived stream."""

    stream: str
    measure: Measure
    granularity: Granularity
    element: str | None
    """The field whose values are the elements of an allocation stream; None for a metric stream."""
    dimensions: Mapping[str, str]
    """Dimension -> field."""
    currency: str = "USD"


class DerivedStream:
    """An exporter whose target is a stream of our own."""

    def __init__(self, derivation: Derivation, store: EventStore) -> None:
        self._derivation = derivation
        self._store = store

    async def send(self, batch: Batch) -> Outcome:
        """Hold where the stream is there with another shape: the records wait."""
        found = (derived(orjson.loads(record), self._derivation) for record in batch.records)
        new = [event for event in found if event is not None]
        outcomes = await self._store.keep_events(new, Counter(), counts_repeats=False)
        mismatch = next((outcome for outcome in outcomes if isinstance(outcome, Mismatch)), None)
        return Delivered() if mismatch is None else Hold(f"{self._derivation.stream}: {mismatch_text(mismatch)}")

    async def close(self) -> None:
        """The spool is closed by its owner."""


def derived(record: Mapping[str, Any], derivation: Derivation) -> NewEvent | None:
    """What *record* adds to the stream; None when it was not billed, or does
    not state what is measured.
    """
    value = measured(record, derivation) if record.get("billed") else None
    if value is None or not value:
        return None
    start_ms = ms_of(record["started_at"])
    filter_ = {dimension: [text_of(record, field)] for dimension, field in derivation.dimensions.items()}
    element = "" if derivation.element is None else text_of(record, derivation.element)
    place = TotalKey(bucket_start_ms(start_ms, derivation.granularity), element, filter_text(filter_))
    shape = Shape(
        "metric" if derivation.element is None else "allocation", derivation.granularity, tuple(sorted(filter_))
    )
    repeat_key = f"derived\x00{derivation.stream}\x00{record['record_id']}".encode()
    digest = hashlib.sha256(repeat_key).digest()
    return NewEvent(
        RepeatKey(digest[:16], digest[16:24]), None, Metered(derivation.stream, shape, Change(place, "sum", value))
    )


def measured(record: Mapping[str, Any], derivation: Derivation) -> Decimal | None:
    """The record's quantity; None when it is unknown, for unknown is not zero."""
    usage = record.get("usage") or {}
    match derivation.measure:
        case "tokens":
            parts = [usage.get("input_tokens"), usage.get("output_tokens")]
            return None if parts == [None, None] else Decimal(sum(part or 0 for part in parts))
        case "input_tokens" | "output_tokens" as name:
            return None if usage.get(name) is None else Decimal(usage[name])
        case "calls":
            calls = 1 if record.get("kind") == "call" else record.get("calls")
            return None if calls is None else Decimal(calls)
        case "cost":
            return amount_of(record.get("cost"), derivation.currency)


def amount_of(cost: Mapping[str, Any] | None, currency: str) -> Decimal | None:
    """None for another currency: nothing here knows a rate."""
    if cost is None or cost.get("currency") != currency:
        return None
    try:
        amount = Decimal(cost["amount"])
    except (InvalidOperation, TypeError):
        return None
    return amount if amount.is_finite() and amount > 0 else None


def text_of(record: Mapping[str, Any], field: str) -> str:
    where = record.get("attribution") or {} if field in ATTRIBUTES else record
    return str(where.get(field) or UNKNOWN)[:MAX_TEXT]
