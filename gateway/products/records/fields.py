"""A record from outside, field by field -> a record. Pure.

Only what `spool.record` names is taken, each under the rule of its form; anything else is dropped.
So a record carries no text that the gateway would not have written itself. A field that breaks its
rule raises `InvalidField`, which names the field and never its value.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from gateway.common.operations import rfc3339
from gateway.products.reporting import epoch_ms
from gateway.rules import times
from gateway.rules.conventions.shared import is_unknown_usage
from gateway.rules.extract import MAX_COUNT, MAX_TEXT_CHARS
from gateway.rules.record import title
from gateway.rules.texts import Json
from spool.fields import Field, Form
from spool.record import FIELDS, FLAGS, SCHEMA, Attribution, Flag, Record, Source


class InvalidField(Exception):
    """Why it is no record."""

    def __init__(self, field: str, reason: str = "invalid_field") -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


Check = Callable[[Json], Any]
"""A value as it came -> as it is kept. Raises ValueError or TypeError."""

_LABEL: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_MAX_LABELS: Final = 32
_MAX_OTHER: Final = 32
_MAX_MS: Final = 400 * 24 * 3600 * 1000


def model(value: Json) -> str:
    found = title(value) if isinstance(value, str) and len(value) <= MAX_TEXT_CHARS else None
    if found is None:
        raise ValueError
    return found


def who(value: Json) -> str:
    if isinstance(value, str) and 0 < len(value) <= MAX_TEXT_CHARS:
        return value
    raise ValueError


def count(value: Json) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return value
    raise ValueError


def duration_ms(value: Json) -> int:
    if count(value) <= _MAX_MS:
        return count(value)
    raise ValueError


def truth(value: Json) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError


def time(value: Json) -> str:
    """RFC 3339, as the record writes it."""
    ms = epoch_ms(value) if isinstance(value, str) and not value.isdigit() else None
    if ms is None or not times.FIRST_NS <= ms * times.NS_PER_MS < times.LAST_NS:
        raise ValueError
    return rfc3339(ms)


def one_of(*words: str) -> Check:
    def check(value: Json) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise ValueError

    return check


def matching(pattern: str) -> Check:
    """A whole text of ASCII."""
    matches = re.compile(pattern, re.ASCII).fullmatch

    def check(value: Json) -> str:
        if isinstance(value, str) and matches(value):
            return value
        raise ValueError

    return check


def labels(value: Json) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > _MAX_LABELS or not all(_LABEL.fullmatch(key) for key in value):
        raise ValueError
    return {key: who(found) for key, found in value.items()}


def other(value: Json) -> dict[str, int | float]:
    """Counts under names of usage; anything else is dropped."""
    if not isinstance(value, dict):
        raise TypeError
    known = [key for key in value if key == "total_tokens" or is_unknown_usage(key)][:_MAX_OTHER]
    return {key: number(value[key]) for key in known}


def number(value: Json) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_COUNT:
        return value
    raise ValueError


def flags(value: Json) -> list[Flag]:
    """Those that are known."""
    if not isinstance(value, list):
        raise TypeError
    return [flag for flag in FLAGS if flag in value]


_CHECKS: Final[Mapping[Form, Check]] = {
    "record_id": matching(r"[0-9a-f]{32}"),
    "trace_id": matching(r"[0-9a-f]{32}"),
    "span_id": matching(r"[0-9a-f]{16}"),
    "name": matching(r"[\w.:/$#@+=-]{1,256}"),
    "model": model,
    "who": who,
    "time": time,
    "amount": matching(r"\d{1,12}(\.\d{1,24})?"),
    "currency": matching(r"[A-Z]{3}"),
    "count": count,
    "tokens": count,
    "ms": duration_ms,
    "truth": truth,
    "flags": flags,
    "labels": labels,
    "numbers": other,
}


def check_of(field: Field) -> Check:
    """The rule of *field*."""
    if field.form == "part":
        return group(FIELDS.of(field.name))
    return one_of(*field.words) if field.form == "word" else _CHECKS[field.form]


def group(fields: Sequence[Field]) -> Check:
    """An object of *fields*. Null is absent; a field that every such object has is null then."""
    table = {field.name: check_of(field) for field in fields if field.form != "schema"}
    needed = frozenset(field.name for field in fields if field.is_needed)
    unknown = dict.fromkeys(field.name for field in fields if field.is_required and field.is_nullable)

    def check(value: Json) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError
        return {**unknown, **taken(value, table, needed)}

    return check


_RECORD: Final = group(FIELDS.of())


def record_of(value: dict[str, Json], received_at: str) -> Record:
    """The record that *value* is. Raises Fault."""
    if value.get("schema") != SCHEMA:
        raise InvalidField("schema", "unknown_schema")
    found = _RECORD(value)
    if found["kind"] == "aggregate" and "period" not in found:
        raise InvalidField("period", "missing_field")
    record = {
        "schema": SCHEMA,
        "billed": True,
        "source": Source(library=None, library_version=None, format="records", convention="records"),
        "attribution": Attribution(),
        "received_at": received_at,
        "flags": [],
        **found,
    }
    return cast("Record", record)


def taken(value: Mapping[str, Json], table: Mapping[str, Check], needed: frozenset[str]) -> dict[str, Any]:
    """The fields of *value* that *table* names. Raises Fault."""
    found: dict[str, Any] = {}
    for field, check in table.items():
        given = value.get(field)
        if given is None:
            if field in needed:
                raise InvalidField(field, "missing_field")
            continue
        try:
            found[field] = check(given)
        except InvalidField as fault:
            raise InvalidField(f"{field}.{fault.field}", fault.reason) from None
        except (ValueError, TypeError):
            raise InvalidField(field) from None
    return found
