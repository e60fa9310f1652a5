"""Prints records as lines: for a first look at what the gateway would send."""

import asyncio
from typing import BinaryIO

from exporters.base import Delivered, Outcome, Retry
from spool.record import Batch


class ConsoleExporter:
    """Writes to *stream* (such as `sys.stdout.buffer`), one record a line; the
    stream stays open at `close`.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._turn = asyncio.Lock()

    async def send(self, batch: Batch) -> Outcome:
        text = b"".join(record + b"\n" for record in batch.records)
        async with self._turn:
            try:
                await asyncio.to_thread(self._print, text)
            except OSError as error:
                return Retry(f"cannot print: {error.strerror}", answered=False)
        return Delivered()

    async def close(self) -> None:
        """Nothing of ours is open."""

    def _print(self, text: bytes) -> None:
        self._stream.write(text)
        self._stream.flush()
