"""How work grows with its input, by the CPU of this process: a ratio, which a busy machine leaves
as it is.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

TIMES: Final = 4
LINEAR: Final = 8.0
"""Work of `TIMES` as much input, over that of it, is below this where it is linear, and some 16
where it is quadratic."""
LEAST_S: Final = 0.005
"""Shorter ones are noise."""
ATTEMPTS: Final = 3


def assert_linear(work: Callable[[int], object], n: int) -> None:
    """*work* of 4 *n* costs at most some four times that of *n*; the best of three."""
    ratios = []
    for _ in range(ATTEMPTS):
        ratios.append(cpu_s(work, TIMES * n) / max(cpu_s(work, n), LEAST_S))
        if ratios[-1] < LINEAR:
            return
    raise AssertionError(f"{TIMES} times the input cost {ratios} times the work")


async def assert_linear_async(work: Callable[[int], Awaitable[object]], n: int) -> None:
    """The same of what is awaited."""
    ratios = []
    for _ in range(ATTEMPTS):
        costs = []
        for size in (n, TIMES * n):
            begun_s = time.process_time()
            await work(size)
            costs.append(time.process_time() - begun_s)
        ratios.append(costs[1] / max(costs[0], LEAST_S))
        if ratios[-1] < LINEAR:
            return
    raise AssertionError(f"{TIMES} times the input cost {ratios} times the work")


def cpu_s(work: Callable[[int], object], n: int) -> float:
    begun_s = time.process_time()
    work(n)
    return time.process_time() - begun_s
