"""One body while it is decompressed, in rounds that are bounded by what they give and by CPU.

Compressed bytes may cost much and give nothing: a dozen bytes make a decoder build its tables. So
steps of the decoder are counted that take `FACTOR` times the CPU of ordinary text, measured on this
machine. A body with many of them is refused; few are taken for the machine's.
"""

import random
import time
import zlib
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from typing import Final

from gateway.common.contract.errors import TooLarge
from gateway.serve.content_encoding import SLICE_BYTES, Decode

ROUND_S: Final = 0.1
SLOW_S: Final = 0.0002
"""No step that takes less CPU is slow."""
FACTOR: Final = 5
SLOW_STEPS: Final = 4
SLOW_SHARE: Final = 1 / 8
"""Of all steps of a body may be slow, besides `SLOW_STEPS`."""
SAMPLE_BYTES: Final = 64 * 1024
LETTERS: Final = 4096
MEASUREMENTS: Final = 3


class Decompression:
    """Of *raw*; `write` until it `is_done`."""

    __slots__ = ("_blocks", "_slow", "_steps", "_usual_s", "is_done")

    def __init__(self, raw: bytes, decode: Decode) -> None:
        self._blocks: Iterator[bytes] = decode(raw)
        self._steps = self._slow = 0
        self._usual_s: float | None = None
        """CPU that a byte of ordinary text takes; None while no step was slow."""
        self.is_done = False
        """Whether the decoder came to the end and found it sound."""

    def write(self, into: BytesIO, at_least_bytes: int, max_s: float = ROUND_S) -> int:
        """Write blocks until they hold *at_least_bytes*, took *max_s* of CPU, or are all; how many
        bytes they hold. Raises BadPayload, TooLarge.
        """
        size, cpu_s = 0, 0.0
        began_s = time.thread_time()
        while size < at_least_bytes and cpu_s < max_s:
            block = next(self._blocks, None)
            if block is None:
                self.is_done = True
                break
            size += into.write(block)
            step_s = time.thread_time() - began_s - cpu_s
            cpu_s += step_s
            self._note(step_s, len(block))
        return size

    def _note(self, cpu_s: float, n_bytes: int) -> None:
        """A step gave *n_bytes*. Raises TooLarge."""
        self._steps += 1
        if cpu_s < SLOW_S:
            return
        if self._usual_s is None:
            self._usual_s = usual_s_per_byte()
        self._slow += cpu_s > FACTOR * self._usual_s * (SLICE_BYTES + n_bytes)
        if self._slow > SLOW_STEPS + SLOW_SHARE * self._steps:
            raise TooLarge(
                "decompressing the body takes more work than its bytes may take: send it plain, or in fewer blocks"
            )


def usual_s_per_byte() -> float:
    """CPU for a byte of ordinary text, on this machine as it is now."""
    sample = _sample()
    took_s = []
    for _ in range(MEASUREMENTS):
        began_s = time.thread_time()
        zlib.decompress(sample)
        took_s.append(time.thread_time() - began_s)
    return min(took_s) / SAMPLE_BYTES


@cache
def _sample() -> bytes:
    """Text of which each letter is written by itself, the commonest in the fewest bits."""
    chance = random.Random(1)  # noqa: S311 - a sample, always the same
    letters = bytes(chance.choices(range(256), [1 / (n + 1) for n in range(256)], k=LETTERS))
    made = zlib.compressobj(strategy=zlib.Z_HUFFMAN_ONLY)
    return made.compress(letters * (SAMPLE_BYTES // LETTERS)) + made.flush()
