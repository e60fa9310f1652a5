"""Unit-cost records as senders post them -> changes of a stream's places. Pure.

The rules are the service's (wire contract 2.1 and 6.3), checked here so that the sender hears of a
fault while it can still remedy it. A request is taken whole or not at all, so the first fault ends
it. No number becomes a float on its way.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, get_args

from gateway.common.contract.errors import TooLarge
from gateway.common.contract.unit_cost import (
    DIMENSIONS,
    FREE_DIMENSION,
    GRANULARITIES,
    MAX_AHEAD_MS,
    MAX_DIMENSIONS,
    MAX_VALUES,
    METRIC_DEFAULT,
    STREAM_FIELDS,
    STREAM_IN_RECORD,
    Target,
    kind_of_record,
)
from gateway.read.json_size import has_more_values
from gateway.read.loose_json import place_of, whole_escapes
from gateway.usage.events.faults import KNOWN, OLDER_ELEMENT, RecordFault, unknown_field_text
from spool.unit_cost import (
    DIGITS,
    EXACT,
    ZERO,
    Change,
    Granularity,
    Kind,
    Metered,
    Operation,
    Shape,
    TotalKey,
    bucket_start_ms,
    filter_text,
)

STREAM_NAME = re.compile(r"(?!\.+\Z)[A-Za-z0-9_.-]{1,256}")
"""Not `..`: it would be another path."""
OURS = KNOWN["allocation"] | KNOWN["metric"]
MAX_RECORDS = 10_000
MAX_JSON_VALUES = 40 * MAX_RECORDS
"""Objects, arrays and commas of one body."""
MAX_TEXT = 256
MAX_DIGITS_AWAY = 30
"""Of a value's first digit from the decimal point: larger and smaller numbers are a mistake."""


class BadUnitCost(Exception):
    """Why a request is refused."""

    def __init__(self, fault: RecordFault, records: int = 0) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.records = records
        """How many records the request has, if that can be reported."""


def read_records(
    body: bytes, target: Target, now_ms: int, more_dimensions: AbstractSet[str] = frozenset()
) -> list[Metered]:
    """The records of *body*. Raises BadUnitCost with the first fault."""
    check_stream(target.stream)

    def read(record: object) -> Metered:
        shape, change = read_record(record, target.kind, target.operation, now_ms, more_dimensions)
        return Metered(target.stream, shape, change)

    return _each(_listed(body), read)


def read_posted(body: bytes, now_ms: int, more_dimensions: AbstractSet[str] = frozenset()) -> list[Metered]:
    """The records of *body*, each of the stream that it names, to be summed. Raises BadUnitCost
    with the first fault.
    """

    def read(record: object) -> Metered:
        if not isinstance(record, dict):
            raise BadUnitCost(RecordFault("invalid_record"))
        name = check_stream(record.get(STREAM_IN_RECORD))
        rest = {field: value for field, value in record.items() if field != STREAM_IN_RECORD}
        return Metered(name, *read_record(rest, kind_of_record(rest), "sum", now_ms, more_dimensions))

    return _each(_listed(body), read)


def _each(records: Sequence[object], read: Callable[[object], Metered]) -> list[Metered]:
    found: list[Metered] = []
    for index, record in enumerate(records):
        try:
            found.append(read(record))
        except BadUnitCost as error:
            raise BadUnitCost(error.fault._replace(position=f"records[{index}]"), len(records)) from error
    return found


def read_shape(body: bytes, more_dimensions: AbstractSet[str] = frozenset()) -> Shape:
    """The shape that *body* gives a stream. Raises BadUnitCost."""
    stated = _json(body)
    if not isinstance(stated, dict) or not stated.keys() <= STREAM_FIELDS:
        raise BadUnitCost(RecordFault("invalid_shape"))
    kind = next((known for known in get_args(Kind) if known == stated.get("kind")), None)
    if kind is None:
        raise BadUnitCost(RecordFault("invalid_kind"))
    names = stated.get("dimensions") or []
    texts = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    if not isinstance(names, list) or len(texts) < len(names) or len(names) > MAX_DIMENSIONS:
        raise BadUnitCost(RecordFault("invalid_dimensions"))
    if not all(is_dimension(name, more_dimensions) for name in names):
        raise BadUnitCost(RecordFault("unrecognized_filter"))
    return Shape(kind, _granularity(stated, kind), tuple(sorted(names)))


def check_stream(name: object) -> str:
    """The name of a stream. Raises BadUnitCost for text that is not one."""
    if not isinstance(name, str) or STREAM_NAME.fullmatch(name) is None:
        raise BadUnitCost(RecordFault("invalid_stream"))
    return name


def _listed(body: bytes) -> Sequence[object]:
    if has_more_values(body, MAX_JSON_VALUES):
        raise TooLarge(f"the body holds more than {MAX_JSON_VALUES} values: send the records in several requests")
    content = _json(body)
    records = content.get("records") if isinstance(content, dict) else None
    if not isinstance(records, list) or not records:
        raise BadUnitCost(RecordFault("invalid_records"))
    if len(records) > MAX_RECORDS:
        raise BadUnitCost(RecordFault("too_many_records"), len(records))
    return records


def _json(body: bytes) -> Any:
    try:
        text = whole_escapes(body).decode("utf-8-sig")
        return json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise BadUnitCost(RecordFault("invalid_json", place_of(error))) from error
    except (ValueError, RecursionError, InvalidOperation) as error:
        raise BadUnitCost(RecordFault("invalid_json")) from error


def _no_number(_: str) -> None:
    """NaN and Infinity are values that are refused as such."""


def read_record(
    record: object, kind: Kind, operation: Operation, now_ms: int, more_dimensions: AbstractSet[str]
) -> tuple[Shape, Change]:
    """One record; raises BadUnitCost without its position."""
    if not isinstance(record, dict):
        raise BadUnitCost(RecordFault("invalid_record"))
    _check_fields(record, kind)
    is_delete = operation == "delete"
    granularity = _granularity(record, kind)
    filter_ = _filter(record, kind, more_dimensions, required=not is_delete)
    place = TotalKey(
        bucket_start_ms(time_ms(record, now_ms), granularity),
        "" if kind == "metric" else _element(record, required=not is_delete),
        "" if filter_ is None else filter_text(filter_),
    )
    value = _no_value(record) if is_delete else value_in(record.get("value"), kind)
    return Shape(kind, granularity, tuple(sorted(filter_ or ()))), Change(place, operation, value)


def _check_fields(record: Mapping[str, Any], kind: Kind) -> None:
    """A field of the other kind is reported before one of neither: it
    states which mistake was made.
    """
    unknown = [(number, name) for number, name in enumerate(record, start=1) if name not in KNOWN[kind]]
    if unknown:
        number, name = next((x for x in unknown if x[1] in OURS), unknown[0])
        raise BadUnitCost(RecordFault("unknown_field", words=unknown_field_text(number, name, kind)))


def _granularity(record: Mapping[str, Any], kind: Kind) -> Granularity:
    value = record.get("granularity")
    if value is None:
        if kind == "metric":
            return METRIC_DEFAULT
        raise BadUnitCost(RecordFault("missing_granularity"))
    for known in get_args(Granularity):
        if value == known and known in GRANULARITIES[kind]:
            granularity: Granularity = known
            return granularity
    raise BadUnitCost(RecordFault("invalid_granularity"))


def time_ms(record: Mapping[str, Any], now_ms: int) -> int:
    """The record's time.

    A date is its midnight in UTC; a time without an offset might be any, and is refused.
    """
    value = record.get("timestamp")
    if value is None:
        raise BadUnitCost(RecordFault("missing_timestamp"))
    time = _time(value) if isinstance(value, str) else None
    if time is None:
        raise BadUnitCost(RecordFault("invalid_timestamp"))
    ms = int(time.timestamp() * 1000)
    if ms > now_ms + MAX_AHEAD_MS:
        raise BadUnitCost(RecordFault("future_timestamp"))
    return ms


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = datetime.fromisoformat(date.fromisoformat(text).isoformat()).replace(tzinfo=UTC)
        return time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _element(record: Mapping[str, Any], *, required: bool) -> str:
    """Empty for a delete of every element."""
    value = record.get("element_name", record.get(OLDER_ELEMENT))
    if value is None:
        if required:
            raise BadUnitCost(RecordFault("missing_element_name"))
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
        raise BadUnitCost(RecordFault("invalid_element_name"))
    return value


def _filter(
    record: Mapping[str, Any], kind: Kind, more_dimensions: AbstractSet[str], *, required: bool
) -> Mapping[str, Sequence[str]] | None:
    """Dimension -> values; empty for all spend; None where a delete leaves it out."""
    if kind == "metric":
        return _associated_cost(record, more_dimensions, required=required)
    filter_ = record.get("filter")
    if filter_ is None:
        if required:
            raise BadUnitCost(RecordFault("missing_filter"))
        return None
    if filter_ == "*":
        return {}
    if not isinstance(filter_, dict) or not all(isinstance(values, list) for values in filter_.values()):
        raise BadUnitCost(RecordFault("invalid_filter"))
    check_dimensions(filter_, more_dimensions)
    return filter_


def _associated_cost(
    record: Mapping[str, Any], more_dimensions: AbstractSet[str], *, required: bool
) -> Mapping[str, Sequence[str]] | None:
    costs = record.get("associated_cost")
    if costs is None:
        return {} if required else None
    if not isinstance(costs, dict) or not all(isinstance(value, str) and value for value in costs.values()):
        raise BadUnitCost(RecordFault("invalid_associated_cost"))
    filter_ = {name: [value] for name, value in costs.items()}
    check_dimensions(filter_, more_dimensions)
    return filter_


def check_dimensions(filter_: Mapping[str, Sequence[object]], more_dimensions: AbstractSet[str]) -> None:
    """Raises BadUnitCost for dimensions that are too many, too long, or not known."""
    if len(filter_) > MAX_DIMENSIONS:
        raise BadUnitCost(RecordFault("too_many_dimensions"))
    for name, values in filter_.items():
        if not is_dimension(name, more_dimensions):
            raise BadUnitCost(RecordFault("unrecognized_filter"))
        if not 1 <= len(values) <= MAX_VALUES:
            raise BadUnitCost(RecordFault("too_many_values"))
        if not all(isinstance(value, str) and value for value in values):
            raise BadUnitCost(RecordFault("invalid_filter"))


def is_dimension(name: str, more_dimensions: AbstractSet[str]) -> bool:
    """Whether *name* is known, or has a prefix that allows any name."""
    return name in DIMENSIONS or name in more_dimensions or FREE_DIMENSION.fullmatch(name) is not None


def value_in(value: object, kind: Kind) -> Decimal:
    """The record's value, exactly as it was written. Raises BadUnitCost."""
    if value is None:
        raise BadUnitCost(RecordFault("missing_value"))
    number = _decimal(value)
    if number is None:
        raise BadUnitCost(RecordFault("invalid_value"))
    if len(number.normalize(EXACT).as_tuple().digits) > DIGITS:
        raise BadUnitCost(RecordFault("value_too_long"))
    if kind == "allocation" and number <= 0:
        raise BadUnitCost(RecordFault("value_not_positive"))
    return number


def _decimal(value: object) -> Decimal | None:
    """A finite number of everyday size; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    text = value if isinstance(value, str) else str(value)
    if len(text) > 64 or not text.isascii() or "_" in text:  # noqa: PLR2004 - far more than any number needs
        return None
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= MAX_DIGITS_AWAY else None


def _no_value(record: Mapping[str, Any]) -> Decimal:
    if "value" in record:
        raise BadUnitCost(RecordFault("value_in_delete"))
    return ZERO
