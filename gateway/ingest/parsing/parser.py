"""Where a payload is parsed: in the worker process where that pays, in a thread where
it takes long, else here.
"""

import asyncio
import sys
from typing import Final

from gateway.ingest.parsing.parse import Parsed, ParseRules, Payload, parse
from gateway.ingest.parsing.process import WorkerGone
from gateway.ingest.parsing.worker_client import WorkerClient
from gateway.normalise.context import Context

LONG_BYTES: Final = {"traces": sys.maxsize, "logs": sys.maxsize, "metrics": 256 * 1024}
LONG_SOURCE_BYTES: Final = 1024 * 1024
"""Parsing a larger body takes some ten milliseconds, too long for the loop. Spans and log
records are faster by far."""


class Parser:
    """Nothing depends on its worker but speed: what that does not answer is parsed here."""

    def __init__(self, rules: ParseRules, worker: WorkerClient | None = None) -> None:
        self._rules = rules
        self._worker = worker

    async def parse(self, payload: Payload, context: Context) -> Parsed:
        """Raises BadPayload for a body that can never be read."""
        worker = self._worker
        if worker is not None and worker.is_free:
            try:
                parsed, unpriced = await worker.parse(payload, context)
            except WorkerGone:
                pass
            else:
                for model, calls in unpriced.items():
                    self._rules.prices.note_unpriced(model, calls)
                return parsed
        if len(payload.body) > LONG_BYTES.get(payload.kind, LONG_SOURCE_BYTES):
            return await asyncio.to_thread(parse, payload, context, self._rules)
        return parse(payload, context, self._rules)
