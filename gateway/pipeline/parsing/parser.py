"""Where a payload is parsed: by the native reader where there is one, by a process for bodies where
that runs, in a thread where it takes long, else here.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from gateway.common.in_thread import HERE_BYTES
from gateway.pipeline.parsing.parse import Parsed, ParseRules, Payload, parse
from gateway.pipeline.parsing.process import WorkerGone
from gateway.pipeline.parsing.reader import ShapeReader
from gateway.pipeline.parsing.worker_client import WorkerClient
from gateway.rules.context import Context

LONG_BYTES: Final = 64 * 1024
"""The native reader may take more than ten milliseconds for a larger body."""


class Parser:
    """With a *worker*, Python reads no body here that is larger than `HERE_BYTES`; without one, one
    such body at a time.
    """

    def __init__(self, rules: ParseRules, worker: WorkerClient | None = None) -> None:
        self.rules = rules
        self.reader = ShapeReader(rules)
        self._worker = worker
        self._one_large = asyncio.Lock()

    @property
    def pids(self) -> Mapping[str, Callable[[], int | None]]:
        """Of the processes that read bodies, by the namespace of their metrics."""
        if self._worker is None:
            return {}
        quick, large = self._worker.worker, self._worker.large_worker
        return {"telemetry_gateway_parser": lambda: quick.pid, "telemetry_gateway_large_parser": lambda: large.pid}

    async def parse(self, payload: Payload, context: Context) -> Parsed:
        """Raises BadPayload for a body that can never be read, TooLarge for one over the limits,
        Overloaded where a process died over it.
        """
        if self.reader.reads(payload):
            parsed = await self._natively(payload, context)
            if parsed is not None:
                return parsed
        worker = self._worker
        if worker is not None and worker.takes(payload):
            try:
                parsed, unpriced = await worker.parse(payload, context)
            except WorkerGone:
                pass
            else:
                for model, calls in unpriced.items():
                    self.rules.prices.note_unpriced(model, calls)
                return parsed
        if len(payload.body) > HERE_BYTES:
            async with self._one_large:
                return await asyncio.to_thread(parse, payload, context, self.rules)
        return parse(payload, context, self.rules)

    async def _natively(self, payload: Payload, context: Context) -> Parsed | None:
        """None where Python has to read it."""
        if len(payload.body) > LONG_BYTES:
            async with self._one_large:
                return await asyncio.to_thread(self.reader.parse, payload, context)
        return self.reader.parse(payload, context)
