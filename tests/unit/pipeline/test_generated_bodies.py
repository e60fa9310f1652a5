"""Four times the bytes take some four times the steps, whatever the grammar of their format makes
of them: the short form of `python -m tests.fault.worst_bytes`, with fixed seeds and no clock.

A step is a call of a function. `test_linear_reading.py` has the CPU of what happens within one.
"""

from random import Random

import pytest

from tests.support.grammars.decoders import Decoder, decoders_of
from tests.support.grammars.tree import Shape, changed
from tests.support.steps import steps_of
from tests.support.worst_bodies import NO_LIMITS, Sent, read

BYTES = 6_000
TIMES = 4
MAX_TIMES = 6.0
"""Of the steps; quadratic work gives sixteen."""
LEAST_STEPS = 4_000
"""Below, what is done once for a body, and for its first item of a kind, outweighs the rest."""
SENT, CHANGED = 60, 15
"""Shapes of each decoder as senders post them, and made one of the other."""
OTHERS = {"enrolment", "heartbeat", "unit-cost stream", "unit cost posted"}
"""Bodies that are bounded by their size."""
READ = [decoder for decoder in decoders_of("http") if not decoder.coding and decoder.name not in OTHERS]


@pytest.mark.parametrize("decoder", READ, ids=[decoder.name for decoder in READ])
def test_four_times_the_bytes_are_four_times_the_steps(decoder: Decoder) -> None:
    chance = Random(decoder.name)
    shapes = chance.sample(list(decoder.seeds), min(SENT, len(decoder.seeds)))
    for _ in range(CHANGED):
        shapes.append(changed(chance.choice(shapes), decoder.grammar, chance, decoder.seeds))
    for shape in shapes:
        assert_linear(decoder, shape)


def assert_linear(decoder: Decoder, shape: Shape) -> None:
    few, many = (shape.body(decoder.grammar, size) for size in (BYTES, TIMES * BYTES))
    if len(many) < 0.8 * TIMES * len(few):  # it is larger by itself
        return
    steps_of(lambda: read_by(decoder, few))  # what is remembered of names is no work of the second
    least, most = (steps_of(lambda body=body: read_by(decoder, body)) for body in (few, many))  # type: ignore[misc]  # at once
    assert most < MAX_TIMES * max(least, LEAST_STEPS), (least, most, many[:300], many[-300:])


def read_by(decoder: Decoder, body: bytes) -> None:
    path = "/v1/sources/records" if decoder.name == "records" else decoder.path
    read(Sent(path, body, decoder.kind), NO_LIMITS)
