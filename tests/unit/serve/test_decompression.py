"""Decompressing a body takes CPU in proportion to its bytes, whatever its blocks are."""

from collections.abc import Iterator
from contextlib import nullcontext
from io import BytesIO

import pytest

from gateway.common.contract.errors import TooLarge
from gateway.serve import decompression
from gateway.serve.content_encoding import SLICE_BYTES, Decode, deflate_blocks, gzip_blocks, zstd_blocks
from gateway.serve.decompression import FACTOR, SLOW_STEPS, Decompression, usual_s_per_byte
from tests.support.grammars.coding import Deflate, Zstd
from tests.support.grammars.tree import Node

MIB = 2**20


class Clock:
    """CPU of a decoder, by the step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, usual_s: float) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(decompression.time, "thread_time", lambda: self.now_s)
        monkeypatch.setattr(decompression, "usual_s_per_byte", lambda: usual_s)

    def blocks(self, *steps: tuple[int, float]) -> Decode:
        """A decoder whose steps give so many bytes for so much CPU."""

        def decode(raw: bytes) -> Iterator[bytes]:
            for size, cpu_s in steps:
                self.now_s += cpu_s
                yield bytes(size)

        return decode


def test_a_round_ends_with_what_it_gave_or_with_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, usual_s=1.0)
    steps = [(100, 0.0625), (100, 0.0625), (0, 0.0625), (0, 0.0625), (0, 0.0625), (100, 0.0625)]
    undone, into = Decompression(b"", clock.blocks(*steps)), BytesIO()
    assert (undone.write(into, 150, max_s=1), undone.is_done) == (200, False)
    assert (undone.write(into, 150, max_s=0.125), undone.is_done) == (0, False)
    assert (undone.write(into, 150, max_s=1), undone.is_done) == (100, True)
    assert into.tell() == 300


USUAL_S = 1e-6
SLOW = (0, 1.1 * FACTOR * USUAL_S * SLICE_BYTES)
NOT_SLOW = (0, 0.9 * FACTOR * USUAL_S * SLICE_BYTES)
GIVES = (SLICE_BYTES, SLOW[1])
"""As much CPU as a slow one, and bytes for it."""


@pytest.mark.parametrize(
    ("steps", "is_refused"),
    [
        ([SLOW] * SLOW_STEPS, False),
        ([SLOW] * (SLOW_STEPS + 1), True),
        ([NOT_SLOW] * 100, False),
        ([GIVES] * 100, False),
        ([*[NOT_SLOW] * 8, SLOW] * 100, False),
        ([*[NOT_SLOW] * 6, SLOW] * 1000, True),
    ],
    ids=["the machine's", "one more", "none", "with bytes", "one of nine", "one of seven"],
)
def test_steps_that_cost_more_than_the_same_bytes_may_take_are_refused(
    monkeypatch: pytest.MonkeyPatch, steps: list[tuple[int, float]], *, is_refused: bool
) -> None:
    undone = Decompression(b"", Clock(monkeypatch, usual_s=USUAL_S).blocks(*steps))
    refusal = "takes more work than its bytes may take: send it plain"
    with pytest.raises(TooLarge, match=refusal) if is_refused else nullcontext():
        read_all(undone)


def read_all(undone: Decompression) -> int:
    into = BytesIO()
    while not undone.is_done:
        undone.write(into, MIB)
    return into.tell()


BOMBS: dict[str, tuple[Decode, bytes]] = {
    "tables of gzip": (gzip_blocks, Deflate(is_gzip=True).write(Node("", below=(Node("dynamic", times=400_000),)))),
    "tables of deflate": (
        deflate_blocks,
        Deflate(is_gzip=False).write(Node("", below=(Node("dynamic", value="5", times=400_000),))),
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_blocks_that_cost_more_than_they_give_are_refused(name: str) -> None:
    decode, raw = BOMBS[name]
    undone = Decompression(raw, decode)
    with pytest.raises(TooLarge):
        read_all(undone)


@pytest.mark.parametrize("decode", [gzip_blocks, zstd_blocks], ids=["gzip", "zstd"])
def test_empty_blocks_give_the_loop_its_turn(decode: Decode) -> None:
    below = (Node("stored" if decode is gzip_blocks else "raw", value="0", times=200_000),)
    grammar = Deflate(is_gzip=True) if decode is gzip_blocks else Zstd()
    undone = Decompression(grammar.write(Node("", below=below)), decode)
    rounds = 0
    while not undone.is_done:
        undone.write(BytesIO(), MIB, max_s=1e-9)
        rounds += 1
    assert rounds > 10


def test_text_that_compresses_badly_is_taken() -> None:
    grammar = Deflate(is_gzip=True)
    made = grammar.write(Node("", below=(Node("fixed", value="5000", times=400),)))
    for raw in (made, made * 3):
        assert read_all(Decompression(raw, gzip_blocks)) == 2_000_000 * (len(raw) // len(made))
    assert usual_s_per_byte() > 0
