"""What an explanation says: of each item its fate and the reason, of each record which name gave each field. Types only.

Names are attribute names that a table knows, values are those of the record. Nothing else of a payload is in here.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from gateway.normalise.provenance import Provenance


class Field(NamedTuple):
    """One field of a record."""

    value: Any
    """As the record has it."""
    told: Provenance
    note: str = ""


class InputSum(NamedTuple):
    """How `usage.input_tokens` was made."""

    basis: str
    """`inclusive`, `exclusive` or `unstated`."""
    why: str
    sum: str
    """Such as `57 + 4096 + 2048`: input, cache reads, cache writes."""


@dataclass(slots=True)
class Explanation:
    """One item: what became of it, and why."""

    payload: int
    """Number of the payload, from 0."""
    position: str
    item: Literal["span", "log record", "data point", "event", "entry", "sum", "report"]
    name: str | None = None
    """Of the span, event or metric, where a table knows it; span names may hold anything."""
    fate: str = ""
    """`kept`, `duplicate`, `suppressed`, `rejected` or `ignored`."""
    reason: str | None = None
    """As in `/v2/status`, such as `twin`; None for kept and ignored."""
    because: str = ""
    of: list[str] = field(default_factory=list)
    """Ids of the records that stand for it."""
    convention: str | None = None
    chosen_by: str | None = None
    record_id: str | None = None
    """Of the record that this item became; None unless it is kept."""
    record_id_from: str | None = None
    input: InputSum | None = None
    fields: dict[str, Field] = field(default_factory=dict)
    """Of a kept item: the record's fields by path (`usage.input_tokens`)."""


def as_object(told: Explanation) -> dict[str, Any]:
    """One explanation as the object that `--explain --json` prints."""
    return {
        "position": told.position,
        "item": told.item,
        "name": told.name,
        "fate": told.fate,
        "reason": told.reason,
        "because": told.because,
        "of": told.of,
        "convention": told.convention,
        "chosen_by": told.chosen_by,
        "record_id": told.record_id,
        "record_id_from": told.record_id_from,
        "input": None if told.input is None else told.input._asdict(),
        "fields": {
            path: {
                "value": x.value,
                "from": x.told.by,
                "attributes": list(x.told.attributes),
                "passed_over": list(x.told.passed_over),
                "note": x.note or None,
            }
            for path, x in told.fields.items()
        },
    }


def leaves(record: dict[str, Any]) -> dict[str, Any]:
    """The record's fields by path, less those without a value, those that every record has, and the time of receipt."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if name in _SAME_FOR_ALL or value is None:
            continue
        if name in _OPENED:
            for part, inner in value.items():
                if isinstance(inner, dict):
                    found.update({f"{name}.{part}.{key}": x for key, x in inner.items()})
                elif inner is not None:
                    found[f"{name}.{part}"] = inner
        else:
            found[name] = value
    return found


_SAME_FOR_ALL = frozenset({"schema", "kind", "received_at", "record_id"})
_OPENED = frozenset({"source", "usage", "attribution", "trace", "period"})
