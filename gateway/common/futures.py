"""The outcome of a future, for its callback."""

import asyncio
from typing import Any


def failure_of(done: "asyncio.Future[Any]") -> Exception | None:
    """Why *done* has no result; None where it has one."""
    if done.cancelled():
        return RuntimeError("nobody waits for it any more")
    error = done.exception()
    return error if error is None or isinstance(error, Exception) else RuntimeError(type(error).__name__)
