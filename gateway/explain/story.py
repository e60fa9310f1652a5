"""What an explanation says: of each item its fate and the reason, of each record which name gave each field. Types only.

Names are attribute names that a table knows, values are those of the record. Nothing else of a payload is in here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

By = Literal[
    "item",  # an attribute of the item itself, a place in the document
    "text",  # inside an attribute's text: JSON, a raw answer
    "event",  # an attribute of an event on the span
    "resource",  # an attribute of the resource
    "scope",  # the instrumentation scope
    "envelope",  # ids, times, status of the span or log record
    "rule",  # a rule of the convention
    "default",  # nothing said it
    "price_list",
    "other_item",  # another item of what was sent
]

_SAFE_NAME = re.compile(r"[\w-]+([./][\w-]+)*", re.ASCII)
_MAX_NAME_CHARS = 128
UNSHOWN = "(a name that is not shown)"


class Provenance(NamedTuple):
    """Where a value came from."""

    by: By
    attributes: tuple[str, ...] = ()
    """Names, as sent; more than one where a value is made of several."""
    passed_over: tuple[str, ...] = ()
    """Names present that could have given it: without them the value is the same."""


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


def shown(name: str) -> str:
    """*name* if it has the shape of an attribute's name: a generic table takes names by their last word only."""
    return name if len(name) <= _MAX_NAME_CHARS and _SAFE_NAME.fullmatch(name) else UNSHOWN


def joined(parts: Sequence[Provenance]) -> Provenance:
    """Several origins of one value as one."""
    attributes = tuple(dict.fromkeys(name for told in parts for name in told.attributes))
    passed = dict.fromkeys(name for told in parts for name in told.passed_over if name not in attributes)
    return Provenance(parts[0].by, attributes, tuple(passed))


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
