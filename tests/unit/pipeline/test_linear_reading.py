"""Reading a body takes work and memory in proportion to its bytes, whatever they are."""

import time

import pytest

from tests.support.worst_bodies import FULL, NO_LIMITS, WORST, OfSize, read, sound_items

BASE = 128 * 1024
SLACK_S = 0.002
LINEAR = 8.0
"""Work for 4n over work for n: 4, and what a noisy machine adds; quadratic work gives 16."""


@pytest.mark.parametrize("name", [*WORST, *FULL])
def test_four_times_the_bytes_are_four_times_the_work(name: str) -> None:
    body = {**WORST, **FULL}[name]
    few, many = float("inf"), float("inf")
    for _ in range(3):  # the machine may be at other work: the least of several runs counts
        few, many = min(few, cpu_s(body, BASE)), min(many, cpu_s(body, 4 * BASE))
        if many < LINEAR * few + SLACK_S:
            return
    assert many < LINEAR * few + SLACK_S


def cpu_s(body: OfSize, size: int) -> float:
    """With no limit in the way."""
    sent = body(size)
    began = time.thread_time()
    read(sent, NO_LIMITS)
    return time.thread_time() - began


@pytest.mark.parametrize("name", FULL)
def test_what_is_measured_as_sound_is_sound(name: str) -> None:
    """Else its first fault would be all that is measured."""
    assert sound_items(FULL[name](20_000)) > 20
