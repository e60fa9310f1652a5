"""Memory that large bodies leave behind, given back to the system.

A body that grows leaves each block that it outgrew behind, as a gap in the heap (measured: 110 MiB
beside 200 MiB of bodies); a block that is mapped by itself grows in place, and is gone once freed.
A gRPC message comes in thousands of small pieces; freed, they stay with the process as gaps that
only glibc itself can close (measured: 400 MiB after twenty messages of 60 MiB, 3 MiB of them in
use).

By itself glibc gives up to eight heaps a core to threads, and each keeps gaps of its own.
"""

import asyncio
import ctypes
import sys
from collections.abc import Callable
from typing import Final

LARGE_BYTES: Final = 1024 * 1024
"""What is smaller leaves gaps that the next one fills."""
TRIM_AFTER_BYTES: Final = 64 * 1024 * 1024
TRIM_IN_S: Final = 1.0
"""Others may be freed until then, and nothing is trimmed more often."""

MAPPED_BYTES: Final = 256 * 1024
"""What is smaller is in the heap; glibc would come to keep blocks of up to 32 MiB there."""
TOP_BYTES: Final = 8 * 1024 * 1024
"""Of the heap's end, kept for what comes next."""
HEAPS: Final = 2
"""The event loop's and one for all other threads: measured, 25 of 240 MiB less under requests of
512 spans, at the same speed."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of malloc.h


def configure_malloc() -> None:
    """From now on a large block is mapped by itself, in all threads, and these share `HEAPS`. Call
    before threads begin. Another C library than glibc is left as it is.
    """
    mallopt = of_libc("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, HEAPS)
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, TOP_BYTES)


class Heap:
    """Call `freed` for what was large."""

    def __init__(self) -> None:
        self._freed_bytes = 0
        self._trim = trim_of_libc()
        self._is_due = False

    def freed(self, n_bytes: int) -> None:
        """*n_bytes* that came in pieces are no longer needed, or soon."""
        if n_bytes < LARGE_BYTES:
            return
        self._freed_bytes += n_bytes
        if self._freed_bytes >= TRIM_AFTER_BYTES and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(TRIM_IN_S, self._begin)

    def _begin(self) -> None:
        self._freed_bytes, self._is_due = 0, False
        asyncio.get_running_loop().run_in_executor(None, self._trim)


def of_libc(name: str) -> Callable[..., None] | None:
    """A function of glibc; None where the C library is another."""
    if sys.platform == "win32":
        return None
    found: Callable[..., None] | None = getattr(ctypes.CDLL(None), name, None)
    return found


def trim_of_libc() -> Callable[[], None]:
    """Where the C library is another than glibc it does nothing."""
    trim = of_libc("malloc_trim")
    return (lambda: None) if trim is None else (lambda: trim(0))
