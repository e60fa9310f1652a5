"""Unit cost for tests of the spool: records to put in, and an upstream that keeps what it is
sent as the contract states.
"""

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from spool.events import IntakeOutcome, NewEvent, RepeatKey
from spool.record import UNIT_COST, Batch
from spool.unit_cost import (
    CREATE_STREAM,
    DELETE_STREAM,
    BaseRecord,
    Change,
    Metered,
    Operation,
    Rules,
    Shape,
    TotalKey,
    filter_text,
)
from tests.support.calls import EPOCH_MS
from tests.support.spool_homes import SpoolHome, spool_home_of
from tests.support.spool_rig import Clock

HOUR_MS = 3_600_000
SHAPE = Shape("allocation", "HOURLY", ("custom:Product",))
METRIC = Shape("metric", "DAILY", ())
STREAM = "tokens"


def place(element: str = "acme", hour: int = 0, product: str = "chat") -> TotalKey:
    return TotalKey(EPOCH_MS + hour * HOUR_MS, element, filter_text({"custom:Product": [product]}))


def metered(
    value: str | int = 0,
    at: TotalKey | None = None,
    operation: Operation = "sum",
    stream: str = STREAM,
    shape: Shape = SHAPE,
) -> Metered:
    return Metered(stream, shape, Change(at or place(), operation, Decimal(value)))


class FarEnd:
    """Applies batches as the service would; keeps (stream, timestamp, element, filter) -> value."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str, str, str], Decimal] = {}
        self.operations: list[tuple[str, str]] = []
        """(stream, operation) of each batch."""
        self.streams: dict[str, Any] = {}
        """Those that were made before their first record, with their shapes."""

    def apply(self, batch: Batch) -> None:
        items = [orjson.loads(record) for record in batch.records]
        self.operations.append((items[0]["stream"], items[0]["operation"]))
        assert len({(item["stream"], item["operation"]) for item in items}) == 1
        for item in items:
            self._apply(item["stream"], item["operation"], item["record"])

    def _apply(self, stream: str, operation: str, record: dict[str, Any]) -> None:
        if operation == CREATE_STREAM:
            self.streams[stream] = record
            return
        if operation == DELETE_STREAM:
            self.values = {key: value for key, value in self.values.items() if key[0] != stream}
            return
        element = record.get("element_name")
        filter_ = orjson.dumps(record["filter"]).decode() if "filter" in record else None
        if operation == "delete":
            assert "value" not in record
            for key in list(self.values):
                if key[:2] == (stream, record["timestamp"]) and element in {None, key[2]} and filter_ in {None, key[3]}:
                    del self.values[key]
            return
        value = Decimal(record["value"])
        assert operation == "sum" or value, "a value of zero is deleted, not sent"
        key = (stream, record["timestamp"], element or "", filter_ or "")
        self.values[key] = value if operation == "replace" else self.values.get(key, Decimal(0)) + value

    def at(self, element: str = "acme", hour: int = 0, product: str = "chat", stream: str = STREAM) -> Decimal | None:
        where = place(element, hour, product)
        stamp = f"2026-01-05T{10 + hour:02}:00:00Z"
        return self.values.get((stream, stamp, element, where.filter))


class UnitRig:
    """A spool with its unit-cost lane and an upstream."""

    def __init__(self, home: SpoolHome, clock: Clock, *, ships: str = "replace", can_read: bool = False) -> None:
        """*home* has the same clock."""
        self.may_create = self.may_delete = True
        self.home, self.clock = home, clock
        self.far = FarEnd()
        self.rules = Rules("sum" if ships == "sum" else "replace", 100)
        self.can_read = can_read
        self.open_spool()

    @classmethod
    def in_folder(cls, data_dir: Path, *, ships: str = "replace", can_read: bool = False) -> "UnitRig":
        clock = Clock()
        return cls(spool_home_of("sqlite", data_dir, clock), clock, ships=ships, can_read=can_read)

    def open_spool(self) -> None:
        self.spool = self.home.open()
        self.store = self.spool.events(self.rules)
        self.lane = self.spool.unit_cost(
            can_read=lambda: self.can_read, can_create=lambda: self.may_create, can_delete=lambda: self.may_delete
        )

    async def keep(self, *records: Metered, mark: RepeatKey | None = None) -> IntakeOutcome:
        return await self.store.keep_records(records, mark)

    async def event(self, name: str, *records: Metered, says: str = "") -> list[IntakeOutcome]:
        mark = RepeatKey(name.encode().ljust(16), says.encode().ljust(8))
        return await self.store.keep_events([NewEvent(mark, None, record) for record in records], Counter())

    async def freeze(self, *, max_records: int = 3000, max_bytes: int = 1 << 22) -> Batch | None:
        return await self.lane.freeze(UNIT_COST, max_records=max_records, max_bytes=max_bytes)

    async def frozen(self) -> Batch:
        batch = await self.freeze()
        assert batch is not None
        return batch

    async def ship(self) -> None:
        """Everything that waits, to the upstream."""
        while (batch := await self.freeze()) is not None:
            if orjson.loads(batch.records[0])["operation"] == "read":
                await self.lane.learn_base(STREAM, self.base() if self.can_read else None)
            else:
                self.far.apply(batch)
            await self.lane.ack(batch)

    def base(self) -> list[BaseRecord]:
        """What the upstream holds, as a read states it."""
        found = []
        for (_, stamp, element, filter_), value in self.far.values.items():
            found.append(BaseRecord(TotalKey(EPOCH_MS + (int(stamp[11:13]) - 10) * HOUR_MS, element, filter_), value))
        return found

    async def reopen(self) -> None:
        await self.close()
        self.open_spool()

    async def kill(self) -> None:
        """Go on with what kill -9 leaves now; the upstream is the same."""
        self.home.kill()
        await self.spool.close()
        self.open_spool()

    async def close(self) -> None:
        await self.home.check()
        await self.spool.close()
