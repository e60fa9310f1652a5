"""Memory of large messages goes back to the system, and small ones cost nothing."""

import asyncio
import subprocess
import sys

import pytest

import gateway.common.heap
from gateway.common.heap import HEAPS, LARGE_BYTES, TRIM_AFTER_BYTES, Heap
from tests.support.polling import until_true


async def test_large_messages_are_followed_by_one_trim_and_small_ones_by_none(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    monkeypatch.setattr(gateway.common.heap, "TRIM_IN_S", 0.01)
    heap = Heap()
    monkeypatch.setattr(heap, "_trim", lambda: trims.append(1))
    for _ in range(TRIM_AFTER_BYTES // LARGE_BYTES + 10):
        heap.freed(LARGE_BYTES - 1)
    await asyncio.sleep(0.05)
    assert trims == []
    for _ in range(3):
        heap.freed(TRIM_AFTER_BYTES)
    await until_true(lambda: bool(trims), what="trimmed")
    await asyncio.sleep(0.05)
    assert trims == [1]


GROW_AND_FREE = """
from io import BytesIO
from gateway.common.heap import configure_malloc

configure_malloc()

def rss_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

bytearray(30 << 20)  # freed: from now on glibc would keep blocks of this size in the heap
before, piece = rss_bytes(), b"x" * 300_000
bodies = [BytesIO() for _ in range(60)]
for _ in range(10):
    for body in bodies:
        body.write(piece)
held_bytes = sum(body.tell() for body in bodies)
bodies = bodies[-1:]
print((rss_bytes() - before) / held_bytes)
"""


def test_what_bodies_that_grew_at_the_same_time_held_is_given_back() -> None:
    """60 bodies grow to 3 MB, and all but the last are freed: glibc by itself keeps 0.4 of them."""
    done = subprocess.run([sys.executable, "-c", GROW_AND_FREE], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.1


MANY_THREADS = """
import ctypes
from threading import Barrier, Thread
from gateway.common.heap import configure_malloc

configure_malloc()
together = Barrier(12)

def take():
    together.wait()
    blocks = [bytearray(50_000) for _ in range(40)]
    together.wait()

threads = [Thread(target=take) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
ctypes.CDLL(None).malloc_stats()
"""


def test_threads_share_two_heaps() -> None:
    done = subprocess.run([sys.executable, "-c", MANY_THREADS], capture_output=True, text=True, check=True)
    assert done.stderr.count("Arena ") == HEAPS
