"""OTLP protobuf bytes -> wire view, slice by slice, so that at no moment more than a slice of the
bytes is objects. Pure.

A message of two bytes becomes an object of a hundred and more. A body larger than `SLICE_BYTES` is
therefore not parsed whole: a walk over its tags finds where the children of a container begin
and end (0.2 µs a child), and an iteration over them parses so many at a time as one slice holds. A
child that is larger than a slice is walked itself; an item that is larger is parsed whole where
it has no more attributes than `max_attributes`, else it becomes an empty one with a fault.

What the walk does not know (unknown fields, groups) it skips, as protobuf does, and counts.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from gateway.read import wire
from gateway.read.fields import BYTES, MORE, field_at, has_more_messages, not_valid
from gateway.read.limits import (
    FIELDS_EACH,
    OTHERS_EACH,
    TOO_MANY,
    Meter,
    ParseLimits,
    too_many_attributes,
    too_many_fields,
    too_many_items,
    too_many_other_fields,
)

SLICE_BYTES: Final = 64 * 1024
"""As objects: up to 4 MiB, a millisecond to make."""


class Level(NamedTuple):
    """A message that holds children of one kind."""

    kind: type[Message]
    field: str
    """Of the children."""
    json_name: str
    below: "Level | None"
    """What each child holds; None where the children are items."""

    @property
    def tag(self) -> int:
        """The one byte before each child: no field here has a number above 15."""
        return self.kind.DESCRIPTOR.fields_by_name[self.field].number << 3 | BYTES


class _Piece(NamedTuple):
    """Bytes of a container's children."""

    start: int
    end: int
    n: int
    """How many, with their tags; 0 for one large child, without its tag."""


class _Run(NamedTuple):
    """One request while it is read."""

    body: bytes
    limits: ParseLimits
    faults: dict[str, str]
    others: Meter
    """Fields of containers that are not simply one of their children."""
    fields: Meter
    """Fields of what is larger than a slice and holds no children."""


def parse(kind: type[Message], body: bytes) -> Message:
    """Raises BadPayload."""
    try:
        return kind.FromString(body)
    except DecodeError:
        # Its text may quote a field's value, so it is not passed on.
        raise not_valid() from None


def sliced(level: Level, body: bytes, limits: ParseLimits, faults: dict[str, str]) -> Any:
    """*body* as a view of the message of *level*.

    Its lists raise BadPayload and TooLarge while they are read, and then add to *faults*.
    """
    others = Meter(OTHERS_EACH * limits.max_items, too_many_other_fields)
    fields = Meter(FIELDS_EACH * limits.max_items, too_many_fields)
    return _Sliced(_Run(body, limits, faults, others, fields), level, 0, len(body), "")


class _Children(Sequence[Any]):
    """The children of a container."""

    def __init__(self, run: _Run, level: Level, pieces: Sequence[_Piece], at: str) -> None:
        self._run, self._level, self._pieces, self._at = run, level, pieces, at

    def __len__(self) -> int:
        return sum(piece.n or 1 for piece in self._pieces)

    def __iter__(self) -> Iterator[Any]:
        body, level, number = self._run.body, self._level, 0
        for start, end, n in self._pieces:
            if n:
                yield from getattr(parse(level.kind, body[start:end]), level.field)
            else:
                yield self._large(start, end, f"{self._at}[{number}]")
            number += n or 1

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def _large(self, start: int, end: int, at: str) -> Any:
        run, level = self._run, self._level
        if level.below is not None:
            return _Sliced(run, level.below, start, end, at + ".")
        kind = _child_kind(level)
        if kind is wire.METRIC:
            return _SlicedMetric(run, start, end, at + ".")
        if has_more_messages(run.body, start, end, kind, run.limits.max_attributes, run.fields):
            run.faults[at] = TOO_MANY
            return kind()
        return parse(kind, run.body[start:end])


class _Sliced:
    """A container. What is no child of it (its resource, its scope) is parsed whole."""

    def __init__(self, run: _Run, level: Level, start: int, end: int, at: str) -> None:
        pieces, rest = cut(run.body, start, end, level.tag, run.limits.max_items, run.others)
        self._rest = parse_rest(level.kind, rest, run)
        setattr(self, level.field, _Children(run, level, pieces, at + level.json_name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rest, name)


class _SlicedMetric:
    """A metric: it has its points one level further down, in a field a kind."""

    def __init__(self, run: _Run, start: int, end: int, at: str) -> None:
        found, rest = _metric_parts(run.body, start, end, run.others)
        self._rest = parse_rest(wire.METRIC, rest, run)
        for (name, level), ranges in zip(METRIC_KINDS.values(), found, strict=True):
            if not ranges:
                continue
            getattr(self._rest, name).SetInParent()
            below, within = run, ranges[0]
            if len(ranges) > 1:  # protobuf merges what comes twice: the same as one behind the other
                whole = b"".join(run.body[a:b] for a, b in ranges)
                below, within = run._replace(body=whole), (0, len(whole))
            setattr(self, name, _Sliced(below, level, *within, f"{at}{_json_name(name)}."))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rest, name)


def _metric_parts(body: bytes, start: int, end: int, fields: Meter) -> tuple[list[list[tuple[int, int]]], bytes]:
    found: dict[int, list[tuple[int, int]]] = {number: [] for number in METRIC_KINDS}
    rest = bytearray()
    at = start
    while at < end:
        number, kind, value, after = field_at(body, at, end, fields)
        if kind == BYTES and number in found:
            found[number].append((value, after))
        else:
            rest += body[at:after]
        at = after
    return list(found.values()), bytes(rest)


def _json_name(name: str) -> str:
    return wire.METRIC.DESCRIPTOR.fields_by_name[name].json_name


def _child_kind(level: Level) -> type[Message]:
    child = cast("Descriptor", level.kind.DESCRIPTOR.fields_by_name[level.field].message_type)
    return wire.class_of(child.name)


def parse_rest(kind: type[Message], rest: bytes, run: _Run) -> Message:
    """What a container holds besides its children. Raises BadPayload, TooLarge."""
    most = run.limits.max_attributes
    if len(rest) > SLICE_BYTES and has_more_messages(rest, 0, len(rest), kind, most, run.fields):
        raise too_many_attributes("a resource, scope or metric", most)
    return parse(kind, rest)


def cut(  # noqa: C901, PLR0912 - the hot loop
    body: bytes, start: int, end: int, tag: int, most: int, others: Meter
) -> tuple[list[_Piece], bytes]:
    """The children in *body* from *start* to *end*, which begin with the byte *tag*, in pieces of
    at most `SLICE_BYTES`; and the bytes of all other fields, which *others* counts.

    Raises BadPayload; TooLarge for more than *most* children.
    """
    pieces: list[_Piece] = []
    rest = bytearray()
    at = begun = start
    n = total = 0
    try:
        while at < end:
            first = at
            if body[at] == tag and (size := body[at + 1]) < MORE:
                value = at + 2
                at = value + size
            elif body[at] == tag and (high := body[at + 2]) < MORE:
                value = at + 3
                at = value + (size & 0x7F | high << 7)
            else:
                number, kind, value, at = field_at(body, at, end, others)
                if number << 3 | kind != tag:
                    if n:
                        pieces.append(_Piece(begun, first, n))
                    rest += body[first:at]
                    begun, total, n = at, total + n, 0
                    continue
            n += 1
            if at - begun > SLICE_BYTES:
                if n > 1:
                    pieces.append(_Piece(begun, first, n - 1))
                begun, total, n = first, total + n - 1, 1
                if at - first > SLICE_BYTES:
                    pieces.append(_Piece(value, at, 0))
                    begun, total, n = at, total + 1, 0
                if total > most:
                    raise too_many_items(most)
    except IndexError:
        raise not_valid() from None
    if at != end:
        raise not_valid()
    if total + n > most:
        raise too_many_items(most)
    if n:
        pieces.append(_Piece(begun, end, n))
    return pieces, bytes(rest)


def _levels(*path: tuple[str, str, str]) -> Level:
    """Containers, the outermost first: message, field of its children, and that in JSON."""
    below: Level | None = None
    for kind, field, json_name in reversed(path):
        below = Level(wire.class_of(kind), field, json_name, below)
    return cast("Level", below)


TRACES: Final = _levels(
    ("ExportTraceServiceRequest", "resource_spans", "resourceSpans"),
    ("ResourceSpans", "scope_spans", "scopeSpans"),
    ("ScopeSpans", "spans", "spans"),
)
LOGS: Final = _levels(
    ("ExportLogsServiceRequest", "resource_logs", "resourceLogs"),
    ("ResourceLogs", "scope_logs", "scopeLogs"),
    ("ScopeLogs", "log_records", "logRecords"),
)
METRICS: Final = _levels(
    ("ExportMetricsServiceRequest", "resource_metrics", "resourceMetrics"),
    ("ResourceMetrics", "scope_metrics", "scopeMetrics"),
    ("ScopeMetrics", "metrics", "metrics"),
)
METRIC_KINDS: Final = {
    field.number: (field.name, Level(wire.class_of(field.message_type.name), "data_points", "dataPoints", None))
    for field in wire.METRIC.DESCRIPTOR.fields
    if field.message_type is not None
}
"""Field number -> its name, and what holds its points."""
