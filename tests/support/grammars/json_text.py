"""JSON: values of every kind, in any nesting and number, with what is no JSON in between."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Any

from tests.support.grammars.tree import Node
from tests.support.grammars.values import NUMBERED, OWN, TEXTS, made_text

NUMBERS = (b"0", b"7", b"-1", b"1e3", b"1.5", b"12345678901234567890", b"9" * 400, b"0." + b"123456789" * 30, b"1e999")
WORDS = (b"null", b"true", b"false", b"NaN", b"-Infinity", b"nul")
RAW = (
    b" ",
    b"\n",
    b"\t" * 50,
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x00",
    b"//",
)
KEYS = (b"a", b"", b"k" * 40, b"\\ud83d", b"\\u0061", b"\xff", b"usage", b"id", b"timestamp", b"model")
SHORTEST_ID = 8
OTHERS_IDS = {b"traceId", b"parentSpanId"}
RAW_TEXTS = (b"\\ud83d", b"\\ud83d" * 40, b"\\n" * 40, b"\\u0041" * 20, b"\\", b"\xff" * 30, b"\xed\xa0\x80" * 10)
"""As they are written, between quotes."""
SEPARATORS = {"array": b",", "one": b"", "lines": b"\n", "behind": b""}


class JsonText:
    """*keys*: names of members that the decoder reads."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = (*KEYS, *keys)

    def leaf(self, chance: Random) -> Node:
        kind = chance.choice(("string", "string", "string", "written", "number", "word", "raw"))
        values: dict[str, Sequence[str | bytes]] = {
            "string": (*TEXTS, *NUMBERED),
            "written": RAW_TEXTS,
            "number": NUMBERS,
            "word": WORDS,
            "raw": RAW,
        }
        return Node(kind, self._key(chance), chance.choice(values[kind]))

    def container(self, chance: Random) -> Node:
        return Node(chance.choice(("object", "array")), self._key(chance))

    def named(self, node: Node, chance: Random) -> Node:
        return node._replace(name=self._key(chance))

    def _key(self, chance: Random) -> bytes:
        return chance.choice(self._keys)

    def write(self, node: Node) -> bytes:
        return self._value(node, count())

    def _value(self, node: Node, numbers: Iterator[int]) -> bytes:
        match node.kind:
            case "object":
                return b"{" + b",".join(self._members(node, numbers)) + b"}"
            case "array":
                return b"[" + b",".join(self._entries(node, numbers)) + b"]"
            case "one" | "lines" | "behind":
                return SEPARATORS[node.kind].join(self._entries(node, numbers))
            case "string":
                return quoted(made_text(node.value, numbers))
            case "written":
                return b'"' + bytes(node.value) + b'"'  # type: ignore[arg-type]  # never a name
            case _:
                return made_text(node.value, numbers)

    def _members(self, node: Node, numbers: Iterator[int]) -> Iterator[bytes]:
        for each in node.below:
            for value in self._repeated(each, numbers):
                yield value if each.kind == "raw" else b'"' + each.name + b'":' + value

    def _entries(self, node: Node, numbers: Iterator[int]) -> Iterator[bytes]:
        for each in node.below:
            yield from self._repeated(each, numbers)

    def _repeated(self, node: Node, numbers: Iterator[int]) -> Iterator[bytes]:
        if is_fixed(node):
            yield from [self._value(node, numbers)] * node.times
        else:
            yield from (self._value(node, numbers) for _ in range(node.times))


def is_fixed(node: Node) -> bool:
    """Whether each repetition is the same."""
    return node.value not in NUMBERED and all(map(is_fixed, node.below))


def quoted(text: bytes) -> bytes:
    """As a JSON text; bytes that are no UTF-8 stay as they are."""
    written = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n").replace(b"\x00", b"\\u0000")
    return b'"' + written + b'"'


def tree_of(document: Any, layout: str = "one") -> Node:
    """The nodes of what a sender posts; texts of 16 characters and more that occur once are
    numbered where they look like ids.
    """
    return Node(layout, below=(_node(document),))


def _node(value: Any, name: bytes = b"") -> Node:
    match value:
        case dict():
            return Node(
                "object", name, below=tuple(_node(each, json.dumps(key).encode()[1:-1]) for key, each in value.items())
            )
        case list():
            return Node("array", name, below=tuple(_node(each) for each in value))
        case str():
            return Node("string", name, OWN + value if is_id(name, value) else value.encode())
        case bool() | None:
            return Node("word", name, json.dumps(value).encode())
        case _:
            return Node("number", name, json.dumps(value).encode())


def is_id(name: bytes, value: str) -> bool:
    return name.lower().endswith(b"id") and value.isascii() and len(value) >= SHORTEST_ID and name not in OTHERS_IDS


def keys_of(node: Node) -> set[bytes]:
    """Names of all members in *node*."""
    return {node.name, *(key for each in node.below for key in keys_of(each))} - {b""}
