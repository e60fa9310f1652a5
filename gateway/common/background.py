"""Work that runs beside everything else until the gateway stops."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any


def run_in_background(stack: AsyncExitStack, work: Coroutine[Any, Any, None], name: str) -> None:
    """Run *work* in a task called *name*; *stack* cancels it and waits for its end."""
    task = asyncio.create_task(work, name=name)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)
