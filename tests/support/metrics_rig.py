"""The intake of metrics and calls over a real spool, under a clock that a test moves;
closed, killed and opened again.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from gateway.common.contract.intake import Receipt, Sender
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.intake import GatewayIntake
from gateway.pipeline.metrics import Settings
from gateway.pipeline.parsing.parse import ParseRules
from gateway.pipeline.parsing.parser import Parser
from gateway.pipeline.parsing.worker_client import WorkerClient
from gateway.pipeline.settle import Settler
from gateway.usage.pricing.prices import Prices
from spool.record import AI_TELEMETRY, Lane
from spool.sqlite.spool import SqliteSpool
from tests.support.metrics import Export
from tests.support.spool_rig import SETTINGS, Clock, assert_balanced, copied, drained, metering, open_spool

SETTLE_MS = 10_000
METRICS_SETTLE_MS = 120_000
ANYONE = Sender(key=None, peer="192.0.2.1")


class MetricsRig:
    """One gateway's intake on *data_dir*, without sockets. `open` before use."""

    def __init__(
        self,
        data_dir: Path,
        *,
        metrics: Settings | None = None,
        exporters: Sequence[Lane] = (),
        clock: Clock | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.clock = clock or Clock()
        self.exporters = exporters
        self._metrics = metrics or Settings(settle_ms=METRICS_SETTLE_MS)

    async def open(self, *, worker: WorkerClient | None = None) -> "MetricsRig":
        self.spool: SqliteSpool = open_spool(
            self.data_dir, self.clock, settings=SETTINGS, exporters=self.exporters, settling=(AI_TELEMETRY,)
        )
        prices = Prices()
        self.counting = Settler(
            self.spool,
            settle_ms=SETTLE_MS,
            window_ms=self._metrics.window_ms,
            max_keys=100_000,
            now_ms=self.spool.age_ms,
            metrics=self._metrics,
            price=prices.price,
        )
        await self.counting.rebuild()
        rules = ParseRules(prices, self._metrics.prefer_metrics)
        front = Front(self.spool, Core(self.spool, self.counting), Parser(rules, worker), now_ms=self.clock)
        self.intake = GatewayIntake(self.spool, front, metering(self.spool, self.clock))
        return self

    async def reopen(self, *, exporters: Sequence[Lane] | None = None) -> None:
        """A restart."""
        await self.spool.close()
        self.exporters = self.exporters if exporters is None else exporters
        await self.open()

    async def killed(self, to: Path) -> "MetricsRig":
        """The gateway that a kill now would leave, started again on a copy of the files."""
        survivor = MetricsRig(
            copied(self.data_dir, to), metrics=self._metrics, exporters=self.exporters, clock=self.clock
        )
        return await survivor.open()

    async def close(self) -> None:
        await assert_balanced(self.spool)
        await self.spool.close()

    async def metrics(self, *exports: Export, sender: Sender = ANYONE) -> list[Receipt]:
        """Give payloads to the intake at once; their receipts."""
        return list(
            await asyncio.gather(*(self.intake.metrics(made.body, json=False, sender=sender) for made in exports))
        )

    async def traces(self, body: bytes, *, sender: Sender = ANYONE) -> Receipt:
        return await self.intake.traces(body, json=False, sender=sender)

    async def settle(self, after_ms: int = METRICS_SETTLE_MS + SETTLE_MS) -> None:
        """Move the clock and settle what is due, aggregates and the chunks that they come to."""
        self.clock.now_ms += after_ms
        await self.counting.settle_due(self.spool.age_ms())
        await assert_balanced(self.spool)

    async def records(self, lane: Lane = AI_TELEMETRY) -> list[dict[str, Any]]:
        """What is forwarded now, delivered."""
        return [orjson.loads(record) for record in await drained(self.spool, lane)]

    async def used(self, lane: Lane = AI_TELEMETRY) -> tuple[int, int]:
        """(input, output) tokens of what is forwarded now."""
        found = [record["usage"] for record in await self.records(lane)]
        return sum(x.get("input_tokens") or 0 for x in found), sum(x.get("output_tokens") or 0 for x in found)
