"""Content codings: members and blocks of gzip, deflate and zstd, and chunks of HTTP's transfer
coding, of every kind and size.
"""

import struct
import sys
import zlib
from collections.abc import Mapping
from functools import cache
from random import Random

from tests.support.grammars.tree import Node

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SIZES = (0, 1, 5, 14, 20, 60, 300, 5_000)
"""Plain bytes of a block."""
ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
"""Of the lengths of the code of lengths (RFC 1951, 3.2.7)."""
GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
ZSTD_HEAD = b"\x28\xb5\x2f\xfd\x00\x38"
FINAL = "1" + "10" + "0" * 7
"""An empty block of fixed codes, the last."""


class Deflate:
    """Members of gzip, or one raw stream: a tree of blocks, each named by its kind."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip

    def leaf(self, chance: Random) -> Node:
        return Node(chance.choice(("stored", "fixed", "dynamic", "dynamic")), value=str(chance.choice(SIZES)))

    def container(self, chance: Random) -> Node:
        return Node("member")

    def named(self, node: Node, chance: Random) -> Node:
        return node._replace(value=str(chance.choice(SIZES))) if node.kind != "member" else node

    def write(self, node: Node) -> bytes:
        if not self._is_gzip:
            return stream(bits(node) + FINAL)
        members = [each for each in node.below if each.kind == "member"]
        rest = [each for each in node.below if each.kind != "member"]
        return b"".join(member(each) * each.times for each in [*members, Node("member", below=tuple(rest))])


def member(node: Node) -> bytes:
    raw = stream(bits(node) + FINAL)
    plain = zlib.decompress(raw, -15)
    return GZIP_HEAD + raw + struct.pack("<II", zlib.crc32(plain), len(plain) % 2**32)


def bits(node: Node) -> str:
    """Of all blocks below *node*, the first bit first."""
    made = ""
    for each in node.below:
        if each.kind == "stored":
            size = int(each.value or 0)
            made += stored(size, len(made)) + stored(size, 0) * (each.times - 1)
        elif each.kind == "member":
            inner = bits(each)
            made += stored(0, len(made)) + (inner + stored(0, len(inner))) * each.times  # a stored block is aligned
        else:
            made += BLOCKS[each.kind](int(each.value or 0)) * each.times
    return made


def stored(size: int, at: int) -> str:
    """At bit *at* of its stream; it ends at a byte."""
    return "000" + "0" * (-(at + 3) % 8) + number(size, 16) + number(size ^ 0xFFFF, 16) + number(ord("{"), 8) * size


def fixed(size: int) -> str:
    return "010" + "01011010" * size + "0" * 7


@cache
def dynamic(size: int) -> str:
    """Two codes of one bit: a letter, and the end."""
    lengths = {18: 1, 1: 1}
    last = max(n for n, symbol in enumerate(ORDER) if symbol in lengths)
    head = "001" + number(0, 5) + number(0, 5) + number(last + 1 - 4, 4)
    head += "".join(number(lengths.get(ORDER[n], 0), 3) for n in range(last + 1))
    one, zeros = "0", lambda n: "1" + number(n - 11, 7)
    return head + zeros(97) + one + zeros(138) + zeros(20) + one + one + "0" * size + "1"


BLOCKS = {"fixed": fixed, "dynamic": dynamic}


def number(value: int, size: int) -> str:
    """Its lowest bit first."""
    return f"{value:0{size}b}"[::-1]


def stream(made: str) -> bytes:
    made += "0" * (-len(made) % 8)
    return int(made[::-1], 2).to_bytes(len(made) // 8, "little")


class Zstd:
    """Blocks of one or more frames."""

    def leaf(self, chance: Random) -> Node:
        kind = chance.choice(("raw", "rle", "compressed", "compressed", "compressed"))
        return Node(
            kind, value=chance.choice(tuple(compressed())) if kind == "compressed" else str(chance.choice(SIZES))
        )

    def container(self, chance: Random) -> Node:
        return Node("frame")

    def named(self, node: Node, chance: Random) -> Node:
        return node if node.kind == "frame" else self.leaf(chance)

    def write(self, node: Node) -> bytes:
        frames = [each for each in node.below if each.kind == "frame"]
        rest = tuple(each for each in node.below if each.kind != "frame")
        return b"".join(frame(each) * each.times for each in [*frames, Node("frame", below=rest)])


def frame(node: Node) -> bytes:
    return ZSTD_HEAD + b"".join(zstd_block(each) * each.times for each in node.below) + block_head(0, 0, is_last=True)


def zstd_block(node: Node) -> bytes:
    if node.kind == "frame":
        return b"".join(zstd_block(each) * each.times for each in node.below)
    if node.kind == "compressed":
        content = compressed()[str(node.value)]
        return block_head(2, len(content)) + content
    size = int(node.value or 0)
    return block_head(0, size) + b"{" * size if node.kind == "raw" else block_head(1, size) + b"{"


def block_head(kind: int, size: int, *, is_last: bool = False) -> bytes:
    return (is_last | kind << 1 | size << 3).to_bytes(3, "little")


@cache
def compressed() -> Mapping[str, bytes]:
    """Blocks as zstd makes them of different texts, each with all its tables."""
    chance, made = Random(1), {}
    for size in (40, 80, 150, 400, 2_000):
        for letters in (3, 20, 60):
            for level in (1, 19):
                text = bytes(chance.choices(range(60, 60 + letters), [1 / (n + 1) for n in range(letters)], k=size))
                block = first_block(zstd.compress(text * 2, level))
                if block is not None:
                    made[f"{size} {letters} {level}"] = block
    return made


def first_block(body: bytes) -> bytes | None:
    """Of a frame with its content size in one or two bytes; None unless it is compressed."""
    at = 4 + 1 + (1 if body[4] >> 6 == 0 else 2)
    head = int.from_bytes(body[at : at + 3], "little")
    return body[at + 3 : at + 3 + (head >> 3)] if head >> 1 & 3 == 2 else None


class Chunks:
    """HTTP's transfer coding: sizes of chunks, extensions, and zeros before a size."""

    def leaf(self, chance: Random) -> Node:
        return Node("chunk", chance.choice((b"", b"", b";a", b";" + b"x" * 100)), str(chance.choice(SIZES[1:])))

    def container(self, chance: Random) -> Node:
        return Node("some")

    def named(self, node: Node, chance: Random) -> Node:
        return self.leaf(chance) if node.kind == "chunk" else node

    def write(self, node: Node) -> bytes:
        return self._content(node) + b"0\r\n\r\n"

    def _content(self, node: Node) -> bytes:
        return b"".join(self._one(each) * each.times for each in node.below)

    def _one(self, node: Node) -> bytes:
        if node.kind == "some":
            return self._content(node)
        size = int(node.value or 1)
        return b"%x" % size + node.name + b"\r\n" + b" " * size + b"\r\n"


def plain_of_chunks(node: Node) -> int:
    """Bytes that the chunks below *node* carry."""
    return sum(
        each.times * (int(each.value or 1) if each.kind == "chunk" else plain_of_chunks(each)) for each in node.below
    )
