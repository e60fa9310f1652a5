"""Unit cost as it is kept: streams, places, running totals, and what of a total is sent. Pure.

A *place* is (bucket, element, filter) in a stream. Senders add to it, replace it or delete it; kept
is what it comes to. What is sent is the total as it stands (`replace`, or `delete` where it is
zero), so a resend and late data do no harm. A total is *whole* when nothing at the upstream's place
can be another's; one that is not travels as what came since the last batch (`sum`).

All numbers are decimals. Totals are exact; what is sent has `DIGITS` significant digits, which is
all that the upstream keeps.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final, Literal, NamedTuple

import orjson

Kind = Literal["allocation", "metric"]
Granularity = Literal["HOURLY", "DAILY", "MONTHLY"]
Operation = Literal["sum", "replace", "delete"]
Ships = Literal["replace", "sum"]
StreamOperation = Literal["create_stream", "delete_stream"]
"""What is done to a stream itself; the one item of its batch."""
CREATE_STREAM: Final[StreamOperation] = "create_stream"
DELETE_STREAM: Final[StreamOperation] = "delete_stream"
NAME_BLOCKED_MS: Final = 5 * 60_000
"""After its deletion a stream's name is blocked at the upstream for minutes: nothing is sent to it
for so long, and then for as long as the upstream states it."""
Created = Literal["made", "exists"]

DIGITS = 15
EXACT = Context(prec=200)
"""More digits than a sum of numbers of everyday size can have: nothing is rounded."""
_SENT = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)
NEVER_WHOLE_MS = 1 << 62
"""`whole_from_ms` of a stream that others send to as well."""
ALWAYS_WHOLE_MS = -(1 << 62)
ZERO = Decimal(0)


class Shape(NamedTuple):
    """What the first records of a stream fix for all later ones."""

    kind: Kind
    granularity: Granularity
    dimensions: tuple[str, ...]
    """The filter's keys, sorted."""


class TotalKey(NamedTuple):
    bucket_ms: int
    """Start of its hour, day or month, in UTC."""
    element: str
    """Empty in a metric stream; in an allocation stream, of a delete: every element."""
    filter: str
    """Canonical JSON, dimension -> sorted values; empty, of a delete: whatever the filter."""

    def is_wide(self, kind: Kind) -> bool:
        """Whether it stands for more than one place."""
        return not self.filter or (kind == "allocation" and not self.element)

    def covers(self, other: "TotalKey") -> bool:
        """Whether a delete of this place takes *other* with it."""
        return (
            self.bucket_ms == other.bucket_ms
            and self.element in {"", other.element}
            and self.filter in {"", other.filter}
        )


class Change(NamedTuple):
    """One record of a sender."""

    place: TotalKey
    operation: Operation
    value: Decimal
    """Zero for a delete."""


class Metered(NamedTuple):
    """A record and the stream that it belongs to."""

    stream: str
    shape: Shape
    change: Change


class BaseRecord(NamedTuple):
    """What the upstream holds at a place."""

    place: TotalKey
    value: Decimal


class Mismatch(NamedTuple):
    """Why a stream does not take a record; closed codes, documented in docs/unit-cost.md."""

    code: Literal[
        "stream_kind",
        "stream_granularity",
        "stream_dimensions",
        "stream_unknown",
        "stream_holds_records",
        "too_many_streams",
    ]
    known: str
    """What the stream has; of names that its first sender gave."""
    number: int = 0
    """Which record of the request it is, from 0."""
    is_new: bool = False
    """Whether the request's first record would have made the stream; it is then that
    record's shape which is known."""


class Stream(NamedTuple):
    stream_id: int
    name: str
    shape: Shape
    ships: Ships
    whole_from_ms: int | None
    """None until it is known what the upstream holds already."""
    is_gone: bool = False
    """It was deleted, and nothing came to it since."""


class StreamState(NamedTuple):
    """A stream in use, as lists show it."""

    stream_id: int
    name: str
    shape: Shape
    pending: int
    """Items of it that wait to be sent."""


class Rules(NamedTuple):
    """What a new stream begins with."""

    ships: Ships = "replace"
    max_streams: int = 1000


class Total(NamedTuple):
    """What a place comes to."""

    value: Decimal
    """The whole total; where it is not whole, what no batch holds yet."""
    is_whole: bool
    records: int
    """Kept records that it stands for and that no batch holds yet."""


def mismatch(known: Shape, new: Shape, *, is_wide: bool) -> Mismatch | None:
    """Why a record of shape *new* does not belong to a stream of shape *known*; a wide delete
    may leave the filter out.
    """
    if new.kind != known.kind:
        return Mismatch("stream_kind", known.kind)
    if new.granularity != known.granularity:
        return Mismatch("stream_granularity", known.granularity)
    if new.dimensions != known.dimensions and not (is_wide and not new.dimensions):
        return Mismatch("stream_dimensions", ", ".join(known.dimensions) or "none")
    return None


def changed(before: Total | None, change: Change, *, starts_whole: bool, records: int = 1) -> Total:
    """The total after *change*; *starts_whole* states whether a place that was never seen
    holds nothing at the upstream.
    """
    total = before or Total(ZERO, starts_whole, 0)
    match change.operation:
        case "sum":
            return total._replace(value=EXACT.add(total.value, change.value), records=total.records + records)
        case "replace" | "delete":
            return Total(change.value, is_whole=True, records=total.records + records)


class Judged(NamedTuple):
    """What a read at the upstream states of a total that was in doubt."""

    delivered: int
    """How many of its values were delivered."""
    total: Decimal


def judged(held: Decimal | None, values: Sequence[Decimal], found: Decimal) -> Judged | None:
    """What became of a total that the upstream held *held* of (None: not known), and that was to be
    *values*, one after the other, where it holds *found* by now; None where that does not state it.

    A total that no one else changes has one of these values there, or one that came after the last.
    As long as totals grow, that one is larger. If *found* is smaller than the last one and none of
    them, a record was deleted or replaced, another one sends there, or the read is late.
    """
    if held is None:  # it holds nothing only if nothing was delivered
        return Judged(0, values[-1] if values else found) if not (found and values) else None
    there = [held, *map(sent_value, values)]
    for delivered in reversed(range(len(there))):
        if there[delivered] == found:
            return Judged(delivered, values[-1] if values else held)
    return Judged(len(values), found) if found > there[-1] >= held else None


def operation_of(total: Total) -> Operation:
    """How the total is sent.

    A value of zero cannot be kept at the upstream: what came to nothing is deleted there.
    """
    if not total.is_whole:
        return "sum"
    return "replace" if total.value else "delete"


def sent_value(value: Decimal) -> Decimal:
    """*value* as it is sent: rounded, where it has more digits than the upstream keeps."""
    return _SENT.plus(value)


def decimal_text(value: Decimal) -> str:
    """Plain digits: no exponent, no trailing zeros, no negative zero."""
    return format(value.normalize(EXACT), "f") if value else "0"


def bucket_start_ms(time_ms: int, granularity: Granularity) -> int:
    """Start of the hour, day or month that *time_ms* lies in, in UTC."""
    time = datetime.fromtimestamp(time_ms // 1000, UTC).replace(minute=0, second=0)
    if granularity != "HOURLY":
        time = time.replace(hour=0)
    if granularity == "MONTHLY":
        time = time.replace(day=1)
    return int(time.timestamp()) * 1000


def next_bucket_ms(time_ms: int, granularity: Granularity) -> int:
    """Start of the bucket after the one that *time_ms* lies in."""
    longest_ms = {"HOURLY": 1, "DAILY": 24, "MONTHLY": 24 * 31}[granularity] * 3_600_000
    return bucket_start_ms(bucket_start_ms(time_ms, granularity) + longest_ms, granularity)


def wire_record(shape: Shape, place: TotalKey, value: Decimal | None) -> dict[str, object]:
    """A record as the contract has it; *value* is None for a delete."""
    stamp = datetime.fromtimestamp(place.bucket_ms // 1000, UTC).replace(tzinfo=None).isoformat()
    record: dict[str, object] = {"timestamp": f"{stamp}Z", "granularity": shape.granularity}
    filter_: dict[str, list[str]] | None = orjson.loads(place.filter) if place.filter else None
    if shape.kind == "allocation":
        if place.element:
            record["element_name"] = place.element
        if filter_ is not None:
            record["filter"] = filter_
    elif filter_:
        record["associated_cost"] = {name: values[0] for name, values in filter_.items()}
    if value is not None:
        record["value"] = decimal_text(value)
    return record


def item_body(stream: Stream, operation: Operation, place: TotalKey, value: Decimal) -> bytes:
    """A total that is sent, as the exporter and a dead letter have it."""
    sent = None if operation == "delete" else sent_value(value)
    record = wire_record(stream.shape, place, sent)
    return orjson.dumps({"stream": stream.name, "kind": stream.shape.kind, "operation": operation, "record": record})


def place_in(shape: Shape, record: dict[str, Any]) -> TotalKey:
    """The place of a `wire_record`, or of one that the upstream states in its own way: with
    `element-name`, a time in the bucket, no offset.

    Raises KeyError, TypeError, ValueError, AttributeError when it is none.
    """
    start = datetime.fromisoformat(record["timestamp"])
    start_ms = int((start.replace(tzinfo=UTC) if start.tzinfo is None else start).timestamp() * 1000)
    filter_ = record.get("filter")
    if shape.kind == "metric":
        costs = record.get("associated_cost")
        filter_ = (
            None if costs is None and shape.dimensions else {name: [value] for name, value in (costs or {}).items()}
        )
    text = "" if filter_ is None else filter_text(filter_)
    element = record.get("element_name", record.get("element-name", ""))
    return TotalKey(bucket_start_ms(start_ms, shape.granularity), element, text)


def filter_text(filter_: Mapping[str, Sequence[str]]) -> str:
    """The filter as a place has it: one text for every order of keys and values."""
    return orjson.dumps(
        {name: sorted(set(values)) for name, values in filter_.items()}, option=orjson.OPT_SORT_KEYS
    ).decode()
