"""A body is cut into pieces of whole lines, however it comes."""

from random import Random

import pytest

from gateway.common.contract.errors import TooLarge
from gateway.serve.body import BodyLimits
from gateway.serve.http.streaming import MANY_SMALL_BYTES, PIECE_BYTES, SMALL_BLOCK_BYTES, Cutter, Piece, is_json
from tests.support.growth import LEAST_S, cpu_s

LINE = b'{"a":"' + b"x" * 900 + b'"}\n'


def pieces_of(body: bytes, sizes: tuple[int, ...], seed: int) -> list[Piece]:
    """The pieces of *body*, which comes in blocks of these sizes."""
    cutter, random, at = Cutter(BodyLimits()), Random(seed), 0
    found: list[Piece | None] = []
    while at < len(body):
        size = random.choice(sizes)
        found.append(cutter.take(body[at : at + size]))
        at += size
    return [piece for piece in (*found, cutter.rest(is_damaged=False)) if piece is not None]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"[" + b"1," * PIECE_BYTES + b"1]",
        b"[\n" + b"1,\n" * (PIECE_BYTES // 2) + b"1]",
        LINE * (3 * PIECE_BYTES // len(LINE)),
        b"\n\n" + LINE * (2 * PIECE_BYTES // len(LINE)) + b'{"a":1}',
    ],
    ids=["empty", "blank", "one line", "one document", "lines", "blank lines first"],
)
def test_pieces_are_the_body_whatever_its_blocks_are(body: bytes, seed: int) -> None:
    random = Random(seed)
    sizes = (1 << random.randrange(10, 14), SMALL_BLOCK_BYTES - 1, SMALL_BLOCK_BYTES, MANY_SMALL_BYTES, PIECE_BYTES)
    found = pieces_of(body, sizes, seed)
    assert b"".join(piece.body for piece in found) == body
    lines = 1
    for piece in found:
        assert piece.first_line == lines
        lines += piece.body.count(b"\n")
    is_of_lines = body.lstrip().startswith(b"{")
    assert all(piece.body.endswith(b"\n") for piece in found[:-1])
    assert (len(found) > 1) == is_of_lines


@pytest.mark.parametrize("block", [b"1" * 100, b"1" * (1 << 18)])
def test_one_line_over_the_limit_is_refused(block: bytes) -> None:
    cutter = Cutter(BodyLimits(max_decompressed_bytes=2 * PIECE_BYTES))
    for _ in range(2 * PIECE_BYTES // len(block)):
        cutter.take(block)
    with pytest.raises(TooLarge):
        cutter.take(b"1" * len(block))


@pytest.mark.parametrize(
    ("line", "is_whole"),
    [
        (b'{"a":1}', True),
        (b"[1]", True),
        (b'{"a":"\\ud83d"}', True),
        (b'{"a":"\xff"}', True),
        (b'{"a":NaN}', True),
        (b"{", False),
        (b'{"a":{"b":1}', False),
        (b'{"a":1},', False),
        (b"[1", False),
        (b'{"a":1}{"b":2}', False),
        (b'[{"a":NaN}', False),
        (b"a line of a log", False),
    ],
)
def test_a_body_is_cut_where_its_first_line_is_a_document_or_is_one_when_mended(line: bytes, *, is_whole: bool) -> None:
    body = line + b"\n" + LINE * (3 * PIECE_BYTES // len(LINE))
    assert (len(pieces_of(body, (PIECE_BYTES,), 1)) > 1) == is_whole


def test_a_first_line_of_what_must_be_mended_takes_no_longer_than_any_other() -> None:
    """On the event loop: mending takes ten times as long as reading."""
    sound, odd = (b'{"a":"' + text * 100_000 + b'"}' for text in (b"\\u0041x", b"\\ud83dx"))
    assert is_json(sound)
    assert is_json(odd)
    assert cpu_s(lambda _: is_json(odd), 0) < 3 * max(cpu_s(lambda _: is_json(sound), 0), LEAST_S)
