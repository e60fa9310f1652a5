"""Protobuf: fields of every wire type, known and unknown, in any order and nesting."""

import struct
from collections.abc import Iterator
from itertools import count
from random import Random

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.support.grammars.tree import Node
from tests.support.grammars.values import NUMBERED, OWN, TEXTS, made_text
from tests.support.otlp_bytes import varint

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
NUMBERS = (*range(17), 100, 2**29 - 1)
VARINTS = (0, 1, 127, 300, 2**32, 2**64 - 1, 2**70)
WIRE_TYPES = {"varint": VARINT, "fixed64": FIXED64, "fixed32": FIXED32, "text": BYTES, "message": BYTES}
TYPES = {
    FieldDescriptor.TYPE_FIXED64: "fixed64",
    FieldDescriptor.TYPE_SFIXED64: "fixed64",
    FieldDescriptor.TYPE_DOUBLE: "fixed64",
    FieldDescriptor.TYPE_FIXED32: "fixed32",
    FieldDescriptor.TYPE_STRING: "text",
    FieldDescriptor.TYPE_BYTES: "text",
}
SPAN_ID_BYTES = 8


class Protobuf:
    """A node's name is its tag without the wire type, as a varint, possibly a longer one."""

    def leaf(self, chance: Random) -> Node:
        kind = chance.choice(("varint", "varint", "fixed32", "fixed64", "text", "text", "text", "wrong"))
        value: str | bytes = b""
        if kind == "varint":
            value = long_varint(chance.choice(VARINTS), chance)
        elif kind == "text":
            value = chance.choice((*TEXTS, *NUMBERED))
        return Node(kind, number(chance), value)

    def container(self, chance: Random) -> Node:
        return Node(chance.choice(("message", "message", "message", "group")), number(chance))

    def named(self, node: Node, chance: Random) -> Node:
        return node._replace(name=number(chance))

    def write(self, node: Node) -> bytes:
        return self._content(node, count())

    def _content(self, node: Node, numbers: Iterator[int]) -> bytes:
        return b"".join(self._repeated(each, numbers) for each in node.below)

    def _repeated(self, node: Node, numbers: Iterator[int]) -> bytes:
        if is_fixed(node):
            return self._one(node, numbers) * node.times
        return b"".join(self._one(node, numbers) for _ in range(node.times))

    def _one(self, node: Node, numbers: Iterator[int]) -> bytes:
        if node.kind == "group":
            return tag(node.name, GROUP) + self._content(node, numbers) + tag(node.name, GROUP_END)
        if node.kind == "wrong":
            return tag(node.name, 7)
        return tag(node.name, WIRE_TYPES[node.kind]) + self._value(node, numbers)

    def _value(self, node: Node, numbers: Iterator[int]) -> bytes:
        if node.kind in {"fixed32", "fixed64"}:
            size = 4 if node.kind == "fixed32" else 8
            return node.value if isinstance(node.value, bytes) and len(node.value) == size else bytes(size)
        if node.kind == "varint":
            return node.value if isinstance(node.value, bytes) and node.value else b"\x00"
        content = self._content(node, numbers) if node.kind == "message" else made_text(node.value, numbers)
        return varint(len(content)) + content


def is_fixed(node: Node) -> bool:
    """Whether each repetition is the same."""
    return node.value not in NUMBERED and all(map(is_fixed, node.below))


def number(chance: Random) -> bytes:
    return long_varint(chance.choice(NUMBERS) << 3, chance)


def tag(name: bytes, wire_type: int) -> bytes:
    return bytes((name[0] | wire_type, *name[1:]))


def long_varint(value: int, chance: Random) -> bytes:
    """One in ten takes more bytes than it needs."""
    made = varint(value)
    if chance.random() < 0.1:
        made = bytes(byte | 0x80 for byte in made) + b"\x80" * chance.randint(0, 3) + b"\x00"
    return made


def tree_of(message: Message) -> Node:
    """The nodes of a request as a sender encodes it; ids are numbered."""
    return Node("message", varint(0), below=tuple(_nodes(message)))


def _nodes(message: Message) -> Iterator[Node]:
    for descriptor, value in message.ListFields():
        name = varint(descriptor.number << 3)
        for each in value if descriptor.is_repeated else (value,):
            if descriptor.message_type is not None:
                yield tree_of(each)._replace(name=name)
            else:
                yield _leaf(name, descriptor, each)


def _leaf(name: bytes, descriptor: FieldDescriptor, value: object) -> Node:
    kind = TYPES.get(descriptor.type, "varint")
    if kind == "text":
        sent = value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]
        is_own = descriptor.name == "span_id" and len(sent) == SPAN_ID_BYTES
        return Node("text", name, OWN + sent.decode("latin-1") if is_own else sent)
    if kind == "varint":
        return Node(kind, name, varint(int(value) % 2**64))  # type: ignore[call-overload]
    return Node(kind, name, _fixed(descriptor, value))


def _fixed(descriptor: FieldDescriptor, value: object) -> bytes:
    match descriptor.type:
        case FieldDescriptor.TYPE_DOUBLE:
            return struct.pack("<d", value)
        case FieldDescriptor.TYPE_FIXED32:
            return struct.pack("<I", value)
        case FieldDescriptor.TYPE_SFIXED64:
            return struct.pack("<q", value)
        case _:
            return struct.pack("<Q", value)
