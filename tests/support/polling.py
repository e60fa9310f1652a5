"""Waiting for what has no event: a process that ends, a figure that moves, a port that listens.

A condition is looked at again and again; the pauses between only spare the CPU, and nothing is
concluded from their length, nor from how long it took: `HANGS_S` ends what would never come.
"""

import asyncio
import socket
import subprocess
import time
from collections.abc import Callable

from benchmarks.processes import HANGS_S

_POLL_S = 0.01


async def until_true(condition: Callable[[], bool], *, timeout_s: float = HANGS_S, what: str) -> None:
    """Return when *condition* holds.

    Raises TimeoutError, naming *what*, when it does not in time.
    """
    ends_s = time.monotonic() + timeout_s
    while not condition():
        _check(ends_s, timeout_s, what)
        await asyncio.sleep(_POLL_S)


def wait_until_true(condition: Callable[[], bool], *, timeout_s: float = HANGS_S, what: str) -> None:
    """The same for code without an event loop."""
    ends_s = time.monotonic() + timeout_s
    while not condition():
        _check(ends_s, timeout_s, what)
        time.sleep(_POLL_S)


def wait_until_listening(port: int, process: subprocess.Popen[bytes], *, timeout_s: float = HANGS_S) -> None:
    """Return when *process* takes connections on *port* of loopback.

    Raises TimeoutError when it does not in time, and AssertionError when it ended.
    """

    def listens() -> bool:
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            return False
        return True

    wait_until_true(listens, timeout_s=timeout_s, what=f"listening on port {port}")


def _check(ends_s: float, timeout_s: float, what: str) -> None:
    if time.monotonic() > ends_s:
        raise TimeoutError(f"not {what} after {timeout_s} s")
