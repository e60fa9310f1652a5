"""What the worst bodies of each decoder cost, by the byte: `python -m benchmarks.bounded_work`.

Prints a table: microseconds of CPU and bytes of memory for each byte that is read, at 1 and at
4 MiB, with no limit of items in the way. Each body is read in a process of its own.
"""

import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.worst_bodies import FULL, NO_LIMITS, WORST, OfSize, read

MIB = 1024 * 1024
SIZES = (MIB, 4 * MIB)


class Cost(NamedTuple):
    us: float
    """CPU for a byte."""
    memory: float
    """Bytes of memory at the most, for a byte."""


def main() -> None:
    print("| body | µs a byte, 1 MiB | 4 MiB | bytes a byte, 4 MiB |\n|---|---|---|---|")
    for name, body in {**WORST, **FULL}.items():
        few, many = (cost_apart(body, size) for size in SIZES)
        print(f"| {name} | {few.us:.3f} | {many.us:.3f} | {many.memory:.1f} |", flush=True)


def cost_apart(body: OfSize, size: int) -> Cost:
    """By a process that ends behind it: memory of one body is not there for the next."""
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: there.send(cost(body, size)))
    process.start()
    found: Cost = here.recv()
    process.join()
    return found


def cost(body: OfSize, size: int) -> Cost:
    sent = body(size)
    read(body(10_000), NO_LIMITS)
    Path("/proc/self/clear_refs").write_text("5")  # the highest resident memory is that of now
    before = dict(memory())
    began = time.process_time()
    read(sent, NO_LIMITS)
    took_s = time.process_time() - began
    highest = dict(memory())["VmHWM"]
    return Cost(took_s * 1e6 / len(sent.body), (highest - before["VmRSS"]) / len(sent.body))


def memory() -> Iterator[tuple[str, int]]:
    """Names and bytes of this process's memory, as Linux states them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if value.endswith("kB"):
            yield name, int(value.split()[0]) * 1024


if __name__ == "__main__":
    main()
