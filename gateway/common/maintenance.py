"""What each part of the gateway does now and then. One schedule; no part waits for another."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog

log = structlog.get_logger()


class Maintained(NamedTuple):
    """A part, and its maintenance."""

    name: str
    run_maintenance: Callable[[], Awaitable[object]]
    every_s: float = 1.0
    """Pause between two rounds."""


async def maintain(parts: Sequence[Maintained]) -> None:
    """Run the maintenance of each of *parts*, until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        for part in parts:
            tasks.create_task(_maintain(part), name=f"maintenance of {part.name}")


async def _maintain(part: Maintained) -> None:
    while True:
        try:
            await part.run_maintenance()
        except Exception as error:  # noqa: BLE001 the next round may succeed, whatever this one met
            log.warning("maintenance failed", part=part.name, error=type(error).__name__)
        await asyncio.sleep(part.every_s)
