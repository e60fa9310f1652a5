"""Unit-cost records: validated, assigned to their bucket, keyed. Pure.

The limits are those of `gateway.common.contract.unit_cost`. A request is taken whole or not at all,
so the first fault ends it; the message names the record's position.
"""

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from gateway.common.contract.unit_cost import (
    DIMENSIONS,
    FREE_DIMENSION,
    GRANULARITIES,
    MAX_AHEAD_MS,
    MAX_DIMENSIONS,
    MAX_VALUES,
    METRIC_DEFAULT,
)
from gateway.local_service.amounts import decimal_text, parse_decimal
from gateway.local_service.checks import Fields, as_list, as_object, choice, optional_text, present, text
from gateway.local_service.errors import Invalid
from gateway.local_service.times import parse_utc
from spool.unit_cost import DIGITS, Granularity, Kind, Operation

STREAM_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_EVERYTHING = "*"


class UnitRecord(NamedTuple):
    bucket_ms: int
    granularity: Granularity
    element_name: str | None
    """"" in a metric stream; None: a delete of every element."""
    filter: str | None
    """Canonical JSON; None: a delete whatever the filter."""
    dimensions: tuple[str, ...]
    """The filter's keys, sorted."""
    value: str
    """Decimal; "" for a delete."""


def unit_records(body: Fields, kind: Kind, action: Operation, now_ms: int) -> list[UnitRecord]:
    """The request's records. Raises Invalid with the record's position."""
    records = as_list(present(body, "records"), "records")
    if not records:
        raise Invalid("invalid_records", "records: at least one is needed")
    return [located_record(record, index, kind, action, now_ms) for index, record in enumerate(records)]


def located_record(value: object, index: int, kind: Kind, action: Operation, now_ms: int) -> UnitRecord:
    """One record; a fault names its position. Raises Invalid."""
    try:
        return _unit_record(as_object(value, "record"), kind, action, now_ms)
    except Invalid as error:
        raise Invalid(error.code, f"records[{index}]: {error}") from error


def _unit_record(record: Fields, kind: Kind, action: Operation, now_ms: int) -> UnitRecord:
    granularity = granularity_of(record, kind)
    filter_ = _filter(record, kind, required=action != "delete")
    return UnitRecord(
        bucket_ms=_bucket_ms(text(record, "timestamp"), granularity, now_ms),
        granularity=granularity,
        element_name="" if kind == "metric" else _element_name(record, required=action != "delete"),
        filter=None if filter_ is None else json.dumps(filter_, sort_keys=True, separators=(",", ":")),
        dimensions=tuple(sorted(filter_ or ())),
        value=_no_value(record) if action == "delete" else _value(record, kind),
    )


def granularity_of(record: Fields, kind: Kind) -> Granularity:
    """A metric's has a default. Raises Invalid."""
    if kind == "metric" and record.get("granularity") is None:
        return METRIC_DEFAULT
    stated = choice(record, "granularity", GRANULARITIES[kind])
    return next(known for known in GRANULARITIES[kind] if known == stated)


def _bucket_ms(timestamp: str, granularity: str, now_ms: int) -> int:
    """Start of the hour, day or month in UTC."""
    time = parse_utc(timestamp)
    if time is None:
        raise Invalid("invalid_timestamp", "timestamp: an ISO 8601 time is needed")
    if time.timestamp() * 1000 > now_ms + MAX_AHEAD_MS:
        raise Invalid("invalid_timestamp", "timestamp: it is too far in the future")
    return round(_start(time, granularity).timestamp() * 1000)


def _start(time: datetime, granularity: str) -> datetime:
    hour = time.replace(minute=0, second=0, microsecond=0)
    if granularity == "HOURLY":
        return hour
    return hour.replace(hour=0) if granularity == "DAILY" else hour.replace(hour=0, day=1)


def _element_name(record: Fields, *, required: bool) -> str | None:
    """Older clients write it with a hyphen."""
    name = "element-name" if "element_name" not in record and "element-name" in record else "element_name"
    return text(record, name) if required else optional_text(record, name)


def _filter(record: Fields, kind: Kind, *, required: bool) -> dict[str, list[str]] | None:
    """Dimension -> values, sorted; empty stands for all spend. None when a delete leaves it out."""
    if kind == "metric":
        costs = record.get("associated_cost")
        if costs is None:
            return {} if required else None
        return _sound_filter({name: [value] for name, value in as_object(costs, "associated_cost").items()})
    if record.get("filter") == _EVERYTHING:
        return {}
    if record.get("filter") is None and not required:
        return None
    return _sound_filter(as_object(present(record, "filter"), "filter"))


def _sound_filter(filter_: Fields) -> dict[str, list[str]]:
    if len(filter_) > MAX_DIMENSIONS:
        raise Invalid("invalid_filter", f"filter: {MAX_DIMENSIONS} dimensions are the most")
    return {name: _values(name, values) for name, values in filter_.items()}


def _values(name: str, values: object) -> list[str]:
    if name not in DIMENSIONS and FREE_DIMENSION.fullmatch(name) is None:
        raise Invalid("unrecognized_filter", "filter: a key is not a known dimension")
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_VALUES:
        raise Invalid("invalid_filter", f"filter: each dimension needs 1 to {MAX_VALUES} values")
    texts = [value for value in values if isinstance(value, str) and value]
    if len(texts) < len(values):
        raise Invalid("invalid_filter", "filter: each value needs to be text")
    return sorted(set(texts))


def _value(record: Fields, kind: Kind) -> str:
    value = present(record, "value")
    number = parse_decimal(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if number is None or len(number.normalize().as_tuple().digits) > DIGITS:
        raise Invalid("invalid_value", f"value: a number of up to {DIGITS} digits is needed")
    if kind == "allocation" and number <= 0:
        raise Invalid("invalid_value", "value: it needs to be greater than 0")
    return decimal_text(number)


def _no_value(record: Fields) -> str:
    if "value" in record:
        raise Invalid("invalid_value", "value: a delete takes none")
    return ""


def one_shape(records: Iterable[UnitRecord]) -> tuple[Granularity, tuple[str, ...]]:
    """(granularity, dimensions) that all *records* share. Raises Invalid when they differ."""
    shapes = {(record.granularity, record.dimensions) for record in records}
    if len(shapes) > 1:
        raise Invalid("stream_mismatch", "records of one stream share one granularity and one set of filter keys")
    return shapes.pop()
