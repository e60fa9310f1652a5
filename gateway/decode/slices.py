"""OTLP protobuf bytes -> wire view, slice by slice, so that at no moment more than a slice of the
bytes is objects. Pure.

A message of two bytes becomes an object of a hundred and more. A body larger than `SLICE_BYTES` is
therefore not parsed whole: a walk over its tags finds where the children of a container begin
and end (0.2 µs a child), and an iteration over them parses so many at a time as one slice holds. A
child that is larger than a slice is walked itself; an item that is larger is parsed whole where
it has no more attributes than `max_attributes`, else it becomes an empty one with a fault.

What the walk does not know (unknown fields, groups) it skips, as protobuf does.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from gateway.contract.errors import BadPayload
from gateway.decode import wire
from gateway.decode.limits import TOO_MANY, ParseLimits, too_many_attributes, too_many_items

SLICE_BYTES: Final = 64 * 1024
"""As objects: up to 4 MiB, a millisecond to make."""

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_MAX_VARINT_BYTES: Final = 10
_MORE: Final = 0x80
"""A byte of a number that is no smaller is not its last."""


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
        return self.kind.DESCRIPTOR.fields_by_name[self.field].number << 3 | _BYTES


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


def parse(kind: type[Message], body: bytes) -> Message:
    """Raises BadPayload."""
    try:
        return kind.FromString(body)
    except DecodeError:
        # Its text may quote a field's value, so it is not passed on.
        raise _not_valid() from None


def sliced(level: Level, body: bytes, limits: ParseLimits, faults: dict[str, str]) -> Any:
    """*body* as a view of the message of *level*.

    Its lists raise BadPayload and TooLarge while they are read, and then add to *faults*.
    """
    return _Sliced(_Run(body, limits, faults), level, 0, len(body), "")


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
        is_unread = kind is wire.RAW_SPAN  # its attributes are not counted: only the rules read one so large
        if is_unread or has_more_messages(run.body, start, end, kind, run.limits.max_attributes):
            run.faults[at] = TOO_MANY
            return kind()
        return parse(kind, run.body[start:end])


class _Sliced:
    """A container. What is no child of it (its resource, its scope) is parsed whole."""

    def __init__(self, run: _Run, level: Level, start: int, end: int, at: str) -> None:
        pieces, rest = cut(run.body, start, end, level.tag, run.limits.max_items)
        self._rest = parse_rest(level.kind, rest, run.limits)
        setattr(self, level.field, _Children(run, level, pieces, at + level.json_name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rest, name)


class _SlicedMetric:
    """A metric: it has its points one level further down, in a field a kind."""

    def __init__(self, run: _Run, start: int, end: int, at: str) -> None:
        found, rest = _metric_parts(run.body, start, end)
        self._rest = parse_rest(wire.METRIC, rest, run.limits)
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


def _metric_parts(body: bytes, start: int, end: int) -> tuple[list[list[tuple[int, int]]], bytes]:
    found: dict[int, list[tuple[int, int]]] = {number: [] for number in METRIC_KINDS}
    rest = bytearray()
    at = start
    while at < end:
        number, kind, value, after = field_at(body, at, end)
        if kind == _BYTES and number in found:
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


def parse_rest(kind: type[Message], rest: bytes, limits: ParseLimits) -> Message:
    """What a container holds beside its children. Raises BadPayload, TooLarge."""
    if len(rest) > SLICE_BYTES and has_more_messages(rest, 0, len(rest), kind, limits.max_attributes):
        raise too_many_attributes("a resource, scope or metric", limits.max_attributes)
    return parse(kind, rest)


def cut(  # noqa: C901, PLR0912 - the hot loop
    body: bytes, start: int, end: int, tag: int, most: int
) -> tuple[list[_Piece], bytes]:
    """The children in *body* from *start* to *end*, which begin with the byte *tag*, in pieces of
    at most `SLICE_BYTES`; and the bytes of all other fields.

    Raises BadPayload; TooLarge for more than *most* children.
    """
    pieces: list[_Piece] = []
    rest = bytearray()
    at = begun = start
    n = total = 0
    try:
        while at < end:
            first = at
            if body[at] == tag and (size := body[at + 1]) < _MORE:
                value = at + 2
                at = value + size
            elif body[at] == tag and (high := body[at + 2]) < _MORE:
                value = at + 3
                at = value + (size & 0x7F | high << 7)
            else:
                number, kind, value, at = field_at(body, at, end)
                if number << 3 | kind != tag:
                    if n:
                        pieces.append(_Piece(begun, first, n))
                    rest += body[first:at]
                    begun, n = at, 0
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
        raise _not_valid() from None
    if at != end:
        raise _not_valid()
    if n:
        pieces.append(_Piece(begun, end, n))
    return pieces, bytes(rest)


def has_more_messages(body: bytes, start: int, end: int, kind: type[Message], most: int) -> bool:
    """Whether the message of *kind* in *body* from *start* to *end* has more than *most* messages
    in it, at any depth. Raises BadPayload.
    """
    ahead = [(start, end, cast("Descriptor", kind.DESCRIPTOR))]
    n = 0
    while ahead:
        at, stop, message = ahead.pop()
        nested, is_entry = _nested(message), message.GetOptions().map_entry
        while at < stop:
            number, wire_kind, value, after = field_at(body, at, stop)
            below = nested.get(number) if wire_kind == _BYTES else None
            if below is not None:
                ahead.append((value, after, below))
                n += not is_entry  # an attribute is one, not its entry and its value
                if n > most:
                    return True
            at = after
    return False


@cache
def _nested(descriptor: Descriptor) -> dict[int, Descriptor]:
    """Field number -> the message in it."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}


def field_at(body: bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """The field at *at*: its number and wire type, where its value begins and where it ends.

    Raises BadPayload where it does not end before *end*.
    """
    tag, value = _varint(body, at, end)
    kind = tag & 7
    if kind == _BYTES:
        size, value = _varint(body, value, end)
        after = value + size
    elif kind == _VARINT:
        after = _varint(body, value, end)[1]
    elif kind in {_FIXED32, _FIXED64}:
        after = value + (4 if kind == _FIXED32 else 8)
    elif kind == _GROUP:
        after = _group_end(body, value, end)
    else:
        raise _not_valid()
    if after > end:
        raise _not_valid()
    return tag >> 3, kind, value, after


def _group_end(body: bytes, at: int, end: int) -> int:
    """Behind a group whose first field is at *at*; groups in it are counted, not entered."""
    depth = 1
    while depth:
        tag, after = _varint(body, at, end)
        if tag & 7 in {_GROUP, _GROUP_END}:
            depth += 1 if tag & 7 == _GROUP else -1
            at = after
        else:
            at = field_at(body, at, end)[3]
    return at


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at *at*, and where it ends."""
    value = 0
    for n, byte in enumerate(body[at : min(at + _MAX_VARINT_BYTES, end)]):
        value |= (byte & 0x7F) << 7 * n
        if byte < _MORE:
            return value, at + n + 1
    raise _not_valid()


def _not_valid() -> BadPayload:
    return BadPayload("the body is not a valid OTLP protobuf message")


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
RAW_TRACES: Final = _levels(
    ("RawTraces", "resource_spans", "resourceSpans"),
    ("RawResourceSpans", "scope_spans", "scopeSpans"),
    ("RawScopeSpans", "spans", "spans"),
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
