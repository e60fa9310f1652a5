"""The fields of a protobuf message, walked one by one in Python. Pure.

A field takes about a microsecond, and two bytes are a field. Every step therefore counts: those
of groups and of unknown fields, too. What is no protobuf raises BadPayload: the field number 0,
the wire types 6 and 7, a number or length that is longer than protobuf's own reader takes, and a
group that has no end, has another field's end, or is nested too deep.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from gateway.common.contract.errors import BadPayload
from gateway.read.limits import Meter

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
MORE: Final = 0x80
"""A byte of a number that is no smaller is not its last."""
_MAX_VARINT_BYTES: Final = 10
_MAX_TAG_BYTES: Final = 5
"""Of a tag or a length."""
_MAX_TAG: Final = 2**32 - 1
_MAX_GROUPS: Final = 100
"""Levels of groups inside a group, as protobuf's own reader has it."""
_STEPS_EACH: Final = 5
"""Fields that an attribute may take: its entry, name, value, and what the value is; and one more
of the item itself."""


def field_at(body: bytes, at: int, end: int, steps: Meter) -> tuple[int, int, int, int]:
    """The field at *at*: its number and wire type, where its value begins (behind its length, if it
    has one) and where it ends.

    Raises BadPayload where it does not end before *end*, and what *steps* raises.
    """
    steps.take(1)
    tag, value = _varint(body, at, end, _MAX_TAG_BYTES)
    kind = tag & 7
    if not 8 <= tag <= _MAX_TAG:  # noqa: PLR2004 - the field number 1
        raise not_valid()
    if kind == BYTES:
        size, value = _varint(body, value, end, _MAX_TAG_BYTES)
        after = value + size
    elif kind == VARINT:
        after = _varint(body, value, end, _MAX_VARINT_BYTES)[1]
    elif kind == FIXED64:
        after = value + 8
    elif kind == FIXED32:
        after = value + 4
    elif kind == GROUP:
        after = _group_end(body, value, end, tag >> 3, steps)
    else:
        raise not_valid()
    if after > end:
        raise not_valid()
    return tag >> 3, kind, value, after


def _group_end(body: bytes, at: int, end: int, number: int, steps: Meter) -> int:
    """Behind the group *number* whose first field is at *at*."""
    open_groups = [number]
    while open_groups:
        tag, after = _varint(body, at, end, _MAX_TAG_BYTES)
        if tag & 7 == GROUP:
            open_groups.append(tag >> 3)
            if len(open_groups) > _MAX_GROUPS:
                raise not_valid()
        elif tag & 7 == GROUP_END:
            if tag >> 3 != open_groups.pop():
                raise not_valid()
        else:
            at = field_at(body, at, end, steps)[3]
            continue
        steps.take(1)
        at = after
    return at


def _varint(body: bytes, at: int, end: int, max_bytes: int) -> tuple[int, int]:
    """The number at *at*, and where it ends."""
    if at < end and body[at] < MORE:
        return body[at], at + 1
    value = 0
    for n, byte in enumerate(body[at : min(at + max_bytes, end)]):
        value |= (byte & 0x7F) << 7 * n
        if byte < MORE:
            return value, at + n + 1
    raise not_valid()


def has_more_messages(body: bytes, start: int, end: int, kind: type[Message], most: int, steps: Meter) -> bool:
    """Whether the message of *kind* in *body* from *start* to *end* has more than *most* messages
    in it, at any depth, or more fields than so many messages need. Raises as `field_at`.

    A message without so many bytes that could begin a message is not walked.
    """
    descriptor = cast("Descriptor", kind.DESCRIPTOR)
    if sum(body.count(tag, start, end) for tag in _begins(descriptor)) <= most:
        return False
    ahead = [(start, end, descriptor)]
    messages, left = 0, _STEPS_EACH * most
    while ahead:
        at, stop, message = ahead.pop()
        nested, is_entry = _nested(message), message.GetOptions().map_entry
        while at < stop:
            number, wire_kind, value, after = field_at(body, at, stop, steps)
            left -= 1
            below = nested.get(number) if wire_kind == BYTES else None
            if below is not None:
                ahead.append((value, after, below))
                messages += not is_entry  # an attribute is one, not its entry and its value
            if messages > most or left < 0:
                return True
            at = after
    return False


@cache
def _nested(descriptor: Descriptor) -> Mapping[int, Descriptor]:
    """Field number -> the message in it."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}


@cache
def _begins(descriptor: Descriptor) -> Sequence[bytes]:
    """The bytes with which a field can begin that holds a message, at any depth of *descriptor*;
    also where its tag is written longer than it needs to be.
    """
    seen: dict[str, Descriptor] = {}
    ahead = [descriptor]
    while ahead:
        each = ahead.pop()
        if each.full_name not in seen:
            seen[each.full_name] = each
            ahead += _nested(each).values()
    tags = {number << 3 | BYTES for each in seen.values() for number in _nested(each)}
    return [bytes([first]) for tag in sorted(tags) for first in (tag, tag | MORE)]


def not_valid() -> BadPayload:
    return BadPayload("the body is not a valid OTLP protobuf message")
