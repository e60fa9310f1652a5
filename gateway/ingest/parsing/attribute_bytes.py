"""Attributes of spans as the bytes that they were sent in, one `KeyValue` each. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from gateway.decode import wire
from gateway.normalise.templates import MOST_HOLE_CHARS, WORDS

_TEXT, _NUMBER, _VALUE, _MORE = 0x0A, 0x18, 0x12, 0x80
_FLAT: Final = frozenset(b"\x0a\x10\x18\x21")
"""Tags of values in which nothing is nested."""
_NAME_CHARS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/$#@+=-"
"""What `gateway.normalise.templates.is_hole` takes."""
_SHORT_CHARS: Final = 125
"""Of a text whose lengths take one byte each."""
_MAX_VARINT_BYTES: Final = 10
_MAX_KNOWN: Final = 4096
_MAX_KNOWN_BYTES: Final = 256
_ATTRIBUTE: Final[type[Message]] = wire.class_of("RawAttribute")


class OddAttribute(Exception):
    """An attribute has another form than senders write."""


def heads_of(entries: Sequence[bytes]) -> tuple[bytes, ...]:
    """The beginning of each attribute, with its name, up to the size of its value. Raises
    OddAttribute.
    """
    heads = []
    for entry in entries:
        end = 3 + entry[1] if len(entry) > 1 else 0
        if len(entry) <= end or entry[0] != _TEXT or entry[1] >= _MORE or entry[end - 1] != _VALUE:
            raise OddAttribute
        heads.append(entry[:end])
    return tuple(heads)


def name_in(head: bytes) -> str:
    """The name in one of `heads_of`, of an attribute that protobuf takes."""
    return head[2:-1].decode()


def count_in(entry: bytes, head: bytes) -> int | None:
    """The whole number that is the value of *entry*; None where it is none, or *entry* begins with
    another head.
    """
    at = len(head)
    if entry[:at] != head or entry[at + 1 : at + 2] != bytes([_NUMBER]) or entry[at] != len(entry) - at - 1:
        return None
    digits = entry[at + 2 :]
    if not 0 < len(digits) <= _MAX_VARINT_BYTES or digits[-1] >= _MORE or min(digits[:-1], default=_MORE) < _MORE:
        return None
    value = sum((digit & 0x7F) << 7 * n for n, digit in enumerate(digits)) & 0xFFFF_FFFF_FFFF_FFFF
    return value - (1 << 64) if value >> 63 else value


def text_in(entry: bytes, head: bytes) -> str | None:
    """The text that is the value of *entry*, where it may stand for others
    (`gateway.normalise.templates.is_hole`).
    """
    at = len(head)
    text = entry[at + 3 :]
    size = len(text)
    if size > _SHORT_CHARS:
        return _long_text_in(entry, head)
    if (
        entry[:at] != head
        or not size
        or entry[at] != size + 2
        or entry[at + 1] != _TEXT
        or entry[at + 2] != size
        or text.translate(None, _NAME_CHARS)
    ):
        return None
    found = text.decode()
    return None if found in WORDS else found


def _long_text_in(entry: bytes, head: bytes) -> str | None:
    for size in range(_SHORT_CHARS + 1, MOST_HOLE_CHARS + 1):
        text = entry[-size:]
        if entry == head[:-1] + field(2, field(1, text)) and not text.translate(None, _NAME_CHARS):
            return text.decode()
    return None


class UnreadAttributes:
    """Attributes that no rule reads, and that protobuf takes."""

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}
        """Attribute -> its name; some, within a bound."""

    def take(self, entry: bytes, name: str) -> bool:
        """Whether *entry* is an attribute of that *name* that protobuf takes."""
        value = 3 + entry[1] if len(entry) > 1 else 0
        is_flat = value + 1 < len(entry) and entry[value + 1] in _FLAT
        try:
            if not is_flat:  # the limit of nesting counts the levels outside, too
                wire.TRACES.FromString(request_of(b"", b"", field(9, entry)))
            found: Any = _ATTRIBUTE.FromString(entry)
        except DecodeError:
            return False
        if found.key != name:
            return False
        if len(entry) <= _MAX_KNOWN_BYTES:
            if len(self.known) >= _MAX_KNOWN:
                self.known.clear()
            self.known[entry] = name
        return True


def request_of(resource: bytes, scope: bytes, span: bytes) -> bytes:
    """A request of one span."""
    scope_spans = (field(1, scope) if scope else b"") + field(2, span)
    return field(1, (field(1, resource) if resource else b"") + field(2, scope_spans))


def field(number: int, value: bytes) -> bytes:
    """A field of bytes."""
    size, written = len(value), bytearray([number << 3 | 2])
    while size >= _MORE:
        written.append(size & 0x7F | _MORE)
        size >>= 7
    written.append(size)
    return bytes(written) + value
