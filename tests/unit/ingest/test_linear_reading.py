"""Reading a body takes work and memory in proportion to its bytes, whatever they are."""

import time

import pytest

from tests.support.worst_bodies import FULL, NO_LIMITS, WORST, OfSize, read

BASE = 256 * 1024
LINEAR = 8.0
"""Work for 4n over work for n: 4, and what a noisy machine adds; quadratic work gives 16."""


@pytest.mark.parametrize("name", [*WORST, *FULL])
def test_four_times_the_bytes_are_four_times_the_work(name: str) -> None:
    body = {**WORST, **FULL}[name]
    few, many = cpu_s(body, BASE), cpu_s(body, 4 * BASE)
    assert many < LINEAR * few + 0.002


def cpu_s(body: OfSize, size: int) -> float:
    """The least of three runs, with no limit in the way."""
    sent = body(size)
    runs = []
    for _ in range(3):
        began = time.thread_time()
        read(sent, NO_LIMITS)
        runs.append(time.thread_time() - began)
    return min(runs)
