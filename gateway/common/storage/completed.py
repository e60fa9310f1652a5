"""Work that nobody may cancel half-way, as it uses a connection."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def completed(work: Awaitable[T]) -> T:
    """The result of *work*; a cancelled caller waits until *work* no longer uses the connection."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # a caller that is cancelled again waits as well
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        raise
