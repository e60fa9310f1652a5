"""A record from outside, field by field -> a record. Pure.

Only what `spool.record` names is taken, each under its own rule; anything else is dropped, so a
record carries no text that the gateway would not have written itself. A field that breaks its rule
raises `Fault`, which names the field and never its value.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from gateway.normalise import times
from gateway.normalise.conventions.shared import is_unknown_usage
from gateway.normalise.extract import MAX_COUNT, MAX_TEXT_CHARS
from gateway.normalise.record import title
from gateway.normalise.texts import Json
from gateway.sources.reporting import epoch_ms
from spool.record import FLAGS, SCHEMA, Attribution, Cost, Flag, Period, Record, Source, Trace, Usage


class Fault(Exception):
    """Why it is no record."""

    def __init__(self, field: str, reason: str = "invalid_field") -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


Check = Callable[[Json], Any]
"""A value as it came -> as it is kept. Raises ValueError or TypeError."""

_NAME: Final = re.compile(r"[\w.:/$#@+=-]{1,256}", re.ASCII)
_HEX: Final = {size: re.compile(rf"[0-9a-f]{{{size}}}") for size in (16, 32)}
_AMOUNT: Final = re.compile(r"\d{1,12}(\.\d{1,24})?", re.ASCII)
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_LABEL: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_MAX_LABELS: Final = 32
_MAX_OTHER: Final = 32
_MAX_MS: Final = 400 * 24 * 3600 * 1000


def name(value: Json) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ValueError


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
    return times.rfc3339(ms)


def digits(size: int) -> Check:
    """Hex digits, *size* of them."""

    def check(value: Json) -> str:
        if isinstance(value, str) and _HEX[size].fullmatch(value):
            return value
        raise ValueError

    return check


def one_of(*words: str) -> Check:
    def check(value: Json) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise ValueError

    return check


def matching(pattern: re.Pattern[str]) -> Check:
    def check(value: Json) -> str:
        if isinstance(value, str) and pattern.fullmatch(value):
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


SOURCE: Final[Mapping[str, Check]] = {"format": name, "convention": name, "library": model, "library_version": model}
USAGE: Final[Mapping[str, Check]] = {
    "status": one_of("reported", "partial", "estimated", "missing", "none", "aggregate"),
    "input_tokens": count,
    "cache_read_input_tokens": count,
    "cache_creation_input_tokens": count,
    "cache_creation_1h_input_tokens": count,
    "output_tokens": count,
    "reasoning_output_tokens": count,
    "audio_input_tokens": count,
    "audio_output_tokens": count,
    "other": other,
}
COST: Final[Mapping[str, Check]] = {
    "amount": matching(_AMOUNT),
    "currency": matching(_CURRENCY),
    "source": one_of("reported", "estimated"),
    "price_version": model,
}
ATTRIBUTION: Final[Mapping[str, Check]] = {
    "service_name": who,
    "environment": who,
    "user": who,
    "session": who,
    "team": who,
    "project": who,
    "device_id": who,
    "key": who,
    "labels": labels,
}
TRACE: Final[Mapping[str, Check]] = {"trace_id": digits(32), "span_id": digits(16), "parent_span_id": digits(16)}
PERIOD: Final[Mapping[str, Check]] = {"start": time, "end": time}


def group(table: Mapping[str, Check], needed: tuple[str, ...] = ()) -> Check:
    """An object whose fields are in *table*; null is absent."""

    def check(value: Json) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError
        return taken(value, table, needed)

    return check


RECORD: Final[Mapping[str, Check]] = {
    "record_id": digits(32),
    "kind": one_of("call", "aggregate"),
    "billed": truth,
    "source": group(SOURCE, ("format", "convention")),
    "operation": name,
    "provider": name,
    "request_model": model,
    "response_model": model,
    "response_id": name,
    "request_id": name,
    "deployment": model,
    "region": name,
    "finish_reason": name,
    "started_at": time,
    "duration_ms": duration_ms,
    "time_to_first_token_ms": duration_ms,
    "stream": truth,
    "usage": group(USAGE, ("status",)),
    "cost": group(COST, ("amount", "currency", "source")),
    "service_tier": name,
    "batch": truth,
    "status": one_of("ok", "error"),
    "error_type": name,
    "attribution": group(ATTRIBUTION),
    "trace": group(TRACE),
    "calls": count,
    "period": group(PERIOD, ("start", "end")),
    "received_at": time,
    "flags": flags,
}
_NEEDED: Final = ("record_id", "kind", "started_at", "usage", "status")
_NULLABLE: Final = ("operation", "provider", "request_model", "response_model", "response_id", "duration_ms")
"""Fields that a record always has, also without a value."""


def record_of(value: Mapping[str, Json], received_at: str) -> Record:
    """The record that *value* is. Raises Fault."""
    if value.get("schema") != SCHEMA:
        raise Fault("schema", "unknown_schema")
    found = taken(value, RECORD, _NEEDED)
    if found["kind"] == "aggregate" and "period" not in found:
        raise Fault("period", "missing_field")
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "billed": True,
        "source": Source(format="records", convention="records", library=None, library_version=None),
        "attribution": Attribution(),
        "received_at": received_at,
        "flags": [],
        **dict.fromkeys(_NULLABLE),
        **found,
    }
    record["source"] = {"library": None, "library_version": None, **record["source"]}
    if "cost" in record:
        record["cost"] = {"price_version": None, **record["cost"]}
    if "trace" in record:
        record["trace"] = {**dict.fromkeys(TRACE), **record["trace"]}
    return cast("Record", record)


def taken(value: Mapping[str, Json], table: Mapping[str, Check], needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of *value* that *table* names. Raises Fault."""
    found: dict[str, Any] = {}
    for field, check in table.items():
        given = value.get(field)
        if given is None:
            if field in needed:
                raise Fault(field, "missing_field")
            continue
        try:
            found[field] = check(given)
        except Fault as fault:
            raise Fault(f"{field}.{fault.field}", fault.reason) from None
        except (ValueError, TypeError):
            raise Fault(field) from None
    return found


PARTS: Final = {
    "source": Source,
    "usage": Usage,
    "cost": Cost,
    "attribution": Attribution,
    "trace": Trace,
    "period": Period,
}
"""For the test that no field of a record is forgotten."""
