"""The gateway's own metrics and spans to an OTLP endpoint, once an interval.

Nothing waits for it: a push that fails is logged and counted, the next one states the same sums
again, and the spans of it are dropped.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from exporters.otlp.push import Push, Signal
from gateway.common.traceback_summary import places
from gateway.observability.telemetry.metrics import metrics_request
from gateway.observability.telemetry.spans import traces_request
from gateway.observability.telemetry.tracer import Tracer

log = structlog.get_logger()

LAST_S: Final = 2.0
"""How long the last push may take when the gateway stops."""


class TelemetryPush:
    def __init__(
        self,
        push: Push,
        registry: CollectorRegistry,
        tracer: Tracer | None,
        resource: Mapping[str, str],
        *,
        interval_s: float,
        pushes: Counter[tuple[str, str]],
    ) -> None:
        """*pushes*: (signal, `sent` or `failed`) -> requests."""
        self._push = push
        self._registry = registry
        self._tracer = tracer
        self._resource = resource
        self._interval_s = interval_s
        self._started_ns = time.time_ns()
        self._pushes = pushes

    async def run(self) -> None:
        """Push each interval, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.push()

    async def close(self) -> None:
        """Push once more, and close the connection."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await self.push()
        await self._push.close()

    async def push(self) -> None:
        """Metrics, and the spans that ended since; raises nothing."""
        try:
            await self._send("metrics", self._metrics())
            if self._tracer is not None and (spans := self._tracer.take()):
                await self._send("traces", traces_request(spans, self._resource).SerializeToString())
        except Exception as error:  # noqa: BLE001 the next push may succeed, whatever this one met
            log.warning("own telemetry not pushed", reason=type(error).__name__, at=places(error))

    def _metrics(self) -> bytes:
        families, now_ns = self._registry.collect(), time.time_ns()
        return metrics_request(families, self._resource, started_ns=self._started_ns, now_ns=now_ns).SerializeToString()

    async def _send(self, signal: Signal, body: bytes) -> None:
        reason = await self._push.send(signal, body)
        self._pushes[signal, "sent" if reason is None else "failed"] += 1
        if reason is not None:
            log.warning("own telemetry not pushed", signal=signal, reason=reason)
