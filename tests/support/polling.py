"""Waiting for what states no one: a process that ends, a figure that moves."""

import asyncio
import time
from collections.abc import Callable

_POLL_S = 0.01


async def until_true(condition: Callable[[], bool], *, timeout_s: float, what: str) -> None:
    """Return when *condition* holds.

    Raises TimeoutError, naming *what*, when it does not in time.
    """
    ends_s = time.monotonic() + timeout_s
    while True:
        if condition():
            return
        if time.monotonic() > ends_s:
            raise TimeoutError(f"not {what} after {timeout_s} s")
        await asyncio.sleep(_POLL_S)
