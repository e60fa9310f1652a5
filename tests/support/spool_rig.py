"""A real spool with its ledger under a clock that a test moves, that can be
closed, killed and opened again.
"""

import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import orjson

from gateway.pipeline.settle import Settler
from gateway.rules.call import Call
from gateway.rules.record import record_json
from gateway.usage.events.checks import EventRules
from gateway.usage.events.intake import Metering
from spool.record import AI_TELEMETRY, Batch, Lane
from spool.settings import SpoolSettings
from spool.sql.spool import SqlSpool
from spool.sqlite import writer
from spool.sqlite.spool import SqliteSpool
from spool.store import AppendStore, ItemCounts, LaneStore
from spool.unit_cost import Rules
from tests.support.calls import EPOCH_MS

if TYPE_CHECKING:
    from tests.support.spool_homes import SpoolHome

SETTLE_MS = 10_000
WINDOW_MS = 600_000
SETTINGS = SpoolSettings(linger_ms=0, reserve_bytes=0)
"""No waiting for fuller batches, and no room held back on the
disk, unless a test is about them."""
ROOMY = 1 << 30


class Clock:
    """Both clocks in ms; they stand still until a test moves them.

    Called, it is the wall clock, which may be wrong.
    """

    def __init__(self, now_ms: int = EPOCH_MS) -> None:
        self.now_ms = now_ms
        self.wrong_ms = 0
        """How far the wall clock is off."""

    def __call__(self) -> int:
        return self.now_ms + self.wrong_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


def open_spool(
    data_dir: Path,
    clock: Clock | None = None,
    *,
    settings: SpoolSettings = SETTINGS,
    exporters: Sequence[Lane] = (),
    settling: Sequence[Lane] = (),
) -> SqliteSpool:
    """A spool whose lanes do not settle unless *settling* names them."""
    clock = clock or Clock()
    return SqliteSpool(
        data_dir, settings, now_ms=clock, monotonic_ms=clock.monotonic_ms, exporters=exporters, settling=settling
    )


def metering(spool: SqliteSpool, clock: Clock) -> Metering:
    """An intake of events with nothing set."""
    return Metering(spool.events(Rules()), EventRules(), now_ms=clock)


def append(spool: AppendStore, records: Sequence[bytes], lane: Lane = AI_TELEMETRY) -> Awaitable[None]:
    return spool.append(lane, records, ItemCounts(received=len(records), kept=len(records)))


async def log_copied(spool: SqliteSpool) -> None:
    """Return when the writer has copied its log, which it does behind the answers, and the room was
    measured since; the last commit, asked here, is too short to be followed by a copy.
    """
    due_bytes = spool.writer.copied_from_bytes(is_awaited=False) - writer.COMMIT_BYTES
    while spool.writer.uncopied_bytes >= max(due_bytes, 1):
        await spool.ask(lambda *_: None)
    await spool.ask(lambda *_: None)


async def freeze(
    spool: LaneStore, lane: Lane = AI_TELEMETRY, *, max_records: int = 1000, max_bytes: int = ROOMY
) -> Batch | None:
    return await spool.freeze(lane, max_records=max_records, max_bytes=max_bytes)


async def frozen(
    spool: LaneStore, lane: Lane = AI_TELEMETRY, *, max_records: int = 1000, max_bytes: int = ROOMY
) -> Batch:
    """The next batch, which must be there."""
    batch = await freeze(spool, lane, max_records=max_records, max_bytes=max_bytes)
    assert batch is not None
    return batch


async def drained(spool: LaneStore, lane: Lane = AI_TELEMETRY, *, max_records: int = 1000) -> list[bytes]:
    """All that is ready in *lane*, in order, delivered."""
    records: list[bytes] = []
    while (batch := await freeze(spool, lane, max_records=max_records)) is not None:
        records += batch.records
        await spool.ack(batch)
    return records


async def assert_balanced(spool: SqlSpool[Any]) -> None:
    """The identities hold, and the figures state what the rows state."""
    assert spool.counters.is_balanced(), spool.counters
    own = ("ai_telemetry", "usage_events", "unit_cost", "devices")
    assert spool.edge()["kept"] == sum(spool.depth(lane).kept for lane in own)
    for lane, counted in (await spool.recount()).items():
        depth = spool.depth(lane)
        assert (depth.pending, depth.dead_lettered) == (counted["pending"], counted["dead_lettered"]), lane


def noise(size_bytes: int, seed: int = 0) -> bytes:
    """A record that compression makes no shorter, the same for each seed."""
    return Random(seed).randbytes(size_bytes)


def copied(data_dir: Path, to: Path) -> Path:
    """The files of an open spool as a kill or a power cut after
    the last commit would leave them.
    """
    shutil.copytree(data_dir, to)
    return to


class Rig:
    """Spool and ledger of one gateway."""

    def __init__(self, data_dir: Path, clock: Clock, *, open_spool: Callable[[], Any], max_keys: int) -> None:
        self.data_dir = data_dir
        self.clock = clock
        self._open_spool = open_spool
        self._max_keys = max_keys
        self._open()

    @classmethod
    async def opened(
        cls,
        data_dir: Path,
        clock: Clock | None = None,
        *,
        settings: SpoolSettings = SETTINGS,
        max_keys: int = 100_000,
        home: "SpoolHome | None" = None,
    ) -> "Rig":
        """In *data_dir*, or at *home*, which has the same clock."""
        clock = clock or Clock()
        opened = partial(open_spool, data_dir, clock) if home is None else home.open
        opened = partial(opened, settings=settings, settling=(AI_TELEMETRY,))
        rig = cls(data_dir, clock, open_spool=opened, max_keys=max_keys)
        await rig.counting.rebuild()
        return rig

    def _open(self) -> None:
        self.spool = self._open_spool()
        self.counting = Settler(
            self.spool, settle_ms=SETTLE_MS, window_ms=WINDOW_MS, max_keys=self._max_keys, now_ms=self.spool.age_ms
        )

    async def reopen(self) -> None:
        """A restart."""
        await self.spool.close()
        self._open()
        await self.counting.rebuild()

    async def send(self, *calls: Call, links: Sequence[bytes] = ()) -> None:
        """One payload, on disk when this returns; counted as the intake does."""
        await self.append(*calls, links=links)

    def append(self, *calls: Call, links: Sequence[bytes] = ()) -> Awaitable[None]:
        """Count one payload and give it to the spool; done when it is on disk."""
        self.spool.admit(1)
        with self.spool.reserve():
            seq, first = self.spool.position(AI_TELEMETRY)
            counted = self.counting.ledger.count(calls, links, seq, first, self.spool.age_ms())
            kept = [record_json(call.record) for i, call in enumerate(calls) if i not in counted.duplicates]
            tally = ItemCounts(received=len(calls), kept=len(kept), duplicate=len(counted.duplicates))
            if counted.duplicates:
                tally.reasons["duplicate.same_span"] = len(counted.duplicates)
            self.counting.counted()
            return self.spool.append(AI_TELEMETRY, kept, tally, facts=bytes(counted.facts), links=bytes(counted.links))

    async def settle(self, *, after_ms: int = SETTLE_MS) -> int:
        """Move the clock and settle what is due; how many chunks."""
        self.clock.now_ms += after_ms
        return await self.counting.settle_due(self.spool.age_ms())

    async def records(self) -> list[dict[str, Any]]:
        """What is forwarded now, delivered."""
        return [orjson.loads(record) for record in await drained(self.spool)]

    async def totals(self) -> tuple[int, int, int]:
        """(billed calls, input tokens, output tokens) of what is forwarded now."""
        return totals(await self.records())

    async def close(self) -> None:
        if isinstance(self.spool, SqlSpool):
            await assert_balanced(self.spool)
        await self.spool.close()


def totals(records: Sequence[dict[str, Any]]) -> tuple[int, int, int]:
    """(billed calls, input tokens, output tokens)."""
    sums: Counter[str] = Counter()
    for record in records:
        if record["billed"]:
            sums["calls"] += 1
            sums["input"] += record["usage"].get("input_tokens") or 0
            sums["output"] += record["usage"].get("output_tokens") or 0
    return sums["calls"], sums["input"], sums["output"]
