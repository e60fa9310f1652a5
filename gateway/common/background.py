"""Work that runs beside everything else until the gateway stops."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

import structlog

from gateway.common.traceback_summary import places

log = structlog.get_logger()


def run_in_background(stack: AsyncExitStack, work: Coroutine[Any, Any, None], name: str) -> None:
    """Run *work* in a task called *name*; *stack* cancels it and waits for its end."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_failure)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log that *task* ended by an error: its work is no longer done."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a background task ended", task=task.get_name(), error=type(error).__name__, at=places(error))
