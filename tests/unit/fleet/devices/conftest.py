"""Devices in each home, with a real upstream, under a clock that tests move."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.devices import SCOPES, DeviceCalls
from exporters.destination import Destination
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.secret import Secret
from gateway.common.storage.database import Database
from gateway.fleet.devices.contacts import Taken
from gateway.fleet.devices.heartbeat_body import Heartbeat, decode_heartbeat
from gateway.fleet.devices.home import DeviceHome
from gateway.fleet.devices.lane import DeviceLane
from gateway.fleet.devices.lane_store import EnrolmentRate
from gateway.fleet.devices.rows import Device, New
from gateway.fleet.devices.store import DeviceStore
from gateway.operate.devices import OPERATIONS
from gateway.stores.postgres.database import PostgresDatabase
from tests.support.manual_clock import ManualClock
from tests.support.operations import perform
from tests.support.postgres import shared_server
from tests.support.stores import SQL_HOMES, Home, MemoryHome, PostgresHome, SqliteHome
from tests.support.upstream import Reply, Seen, Upstream, running_upstream

START_MS = 1_767_607_200_000
GATEWAY_ID = "gw-7f3a"
STEP_S = 1.0


def beat_of(sequence: int = 1, instance: str = "one", **fields: Any) -> Heartbeat:
    return decode_heartbeat(json.dumps({"instance_id": instance, "sequence": sequence, **fields}).encode())


class Rig:
    """One gateway's devices.

    `open` and `close` are a start and a stop; `kill` leaves the files as they are.
    """

    def __init__(
        self, folder: Path, upstream: Upstream, memory: MemoryHome | None = None, dsn: str | None = None
    ) -> None:
        """*memory*: the devices are kept there; *dsn*: in a schema of Postgres; else in
        control.db.
        """
        self.folder = folder
        self.memory = memory
        self.dsn = dsn
        self.database: Database | PostgresDatabase
        self.home: DeviceHome
        self.upstream = upstream
        self.clock = ManualClock()
        self.began_s = self.clock.now_s
        self.max_new_per_hour = 1000
        self.wall_ahead_ms = 0
        self.rate = EnrolmentRate(per_s=1000, burst=1000)
        self.grants: Callable[[str], bool] = frozenset(SCOPES.values()).__contains__
        self.itself: New | None = None
        self.own_beat: Callable[[], Mapping[str, Any]] = dict
        self.store: DeviceStore
        self.lane: DeviceLane
        self.has_lane = False
        self._open: list[Any] = []

    def now_ms(self) -> int:
        return START_MS + int((self.clock.now_s - self.began_s) * 1000)

    async def open(self, *, lane: bool = True) -> None:
        self.home = await (await self._opened()).devices()
        self.store = await DeviceStore.open(
            self.home,
            gateway_id=GATEWAY_ID,
            max_new_per_hour=self.max_new_per_hour,
            interval_ms=60_000,
            now_ms=self.now_ms,
            wall_ms=lambda: self.now_ms() + self.wall_ahead_ms,
        )
        self._open = [self.store.close, *self._open]
        if lane:
            await self._start_lane()

    async def _opened(self) -> Home:
        home: Home
        if self.memory is not None:
            return self.memory
        if self.dsn is None:
            self.database = await Database.open(self.folder / "control.db")
            home = SqliteHome(self.database)
        else:
            home = await PostgresHome.open(self.dsn)
            self.database = home.database
        self._open = [home.close]
        return home

    async def _start_lane(self) -> None:
        keyring = Keyring([KeySetting("k", Secret("device-key-4711"), self.grants)])
        destination = Destination(self.clock, lambda: 0.0)
        client = CostServiceClient(Endpoint(self.upstream.base_url), keyring, GATEWAY_ID, destination=destination)
        self.lane = DeviceLane(
            self.store,
            DeviceCalls(client),
            rate=self.rate,
            clock=self.clock,
            now_ms=self.now_ms,
            chance=lambda: 0.5,
            itself=self.itself,
            own_beat=self.own_beat,
        )
        await self.lane.start()
        self.has_lane = True
        self._open = [self.lane.stop, client.close, *self._open]

    async def lose(self, table: str) -> None:
        """Nothing of *table*, and of a home without tables nothing at all, can be read or
        written until `give_back`.
        """
        if self.memory is not None:
            self.memory.is_closed = True
        else:
            await self._execute(f"ALTER TABLE {table} RENAME TO gone")

    async def give_back(self, table: str) -> None:
        if self.memory is not None:
            self.memory.is_closed = False
        else:
            await self._execute(f"ALTER TABLE gone RENAME TO {table}")

    async def _execute(self, sql: str) -> None:
        if isinstance(self.database, Database):
            await self.database.write(lambda c: c.execute(sql))
        else:
            await self.database.write(lambda c: c.execute(sql))

    async def close(self) -> None:
        closers, self._open = self._open, []
        for close in closers:
            await close()

    async def until(self, condition: Callable[[], bool], *, most_s: float = 300.0) -> None:
        """Move the clock until *condition* holds; by *most_s* at most."""
        ends_s = self.clock.now_s + most_s
        while not condition():
            assert self.clock.now_s < ends_s, "it did not come true in time"
            await self.go_on(STEP_S)

    async def go_on(self, seconds: float) -> None:
        """Let that much time go by, in steps, and let what it brings be done."""
        while seconds > 0:
            self.clock.advance(min(STEP_S, seconds))
            seconds -= STEP_S
            await self._settle()

    async def _settle(self) -> None:
        """Return when nothing moves any more: the file and the socket are real, and time
        must not run ahead of them.
        """
        before: tuple[int, int, int] | None = None
        while True:
            await asyncio.sleep(0.01)
            now = (
                (len(self.upstream.seen), self.lane.pump.counts.sent_batches, self.lane.pump.holding)
                if self.has_lane
                else None
            )
            if now == before and not self._is_asking:
                return
            before = now

    @property
    def _is_asking(self) -> bool:
        """Postgres has not answered yet."""
        return self.dsn is not None and bool(self.database._busy)  # type: ignore[union-attr]  # of PostgresDatabase

    # ---- what happened

    def calls(self, kind: str = "") -> list[Seen]:
        """Requests that the upstream read: `enroll`, `heartbeat`, `ping`, or all."""
        return [seen for seen in self.upstream.seen if kind in {"", kind_of(seen)}]

    def enrolments(self, device_id: str | None = None) -> list[dict[str, Any]]:
        bodies = [json.loads(seen.body) for seen in self.calls("enroll")]
        return [body for body in bodies if device_id in {None, body["device_id"]}]

    async def device(self, device_id: str) -> Device:
        found = await self.store.read(lambda kept: kept.find(device_id))
        assert found is not None
        return found

    async def states(self) -> dict[str, str]:
        return {device.device_id: device.state for device in await self.store.read(lambda kept: kept.not_in(()))}

    async def beat(self, device_id: str, sequence: int = 1, instance: str = "one") -> Taken:
        return await self.store.heartbeat(device_id, beat_of(sequence, instance))

    async def telemetry(self, *device_ids: str) -> None:
        strangers = self.store.strangers(device_ids)
        await self.store.meet([New(name, "server", "telemetry") for name in strangers])

    async def operate(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        return await perform(OPERATIONS, self.store, method, path, body=body)


def kind_of(seen: Seen) -> str:
    last = seen.path.rpartition("/")[2]
    return last if last in {"heartbeat", "ping"} else "enroll"


def device_in(seen: Seen) -> str:
    if kind_of(seen) == "enroll":
        return str(json.loads(seen.body)["device_id"])
    return seen.path.split("/")[-2]


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with running_upstream() as running:
        running.respond = lambda seen: Reply(201 if kind_of(seen) == "enroll" else 204)
        yield running


@pytest.fixture(params=SQL_HOMES)
async def rig(request: pytest.FixtureRequest, tmp_path: Path, upstream: Upstream) -> AsyncIterator[Rig]:
    memory = MemoryHome() if request.param == "memory" else None
    made = Rig(tmp_path, upstream, memory, shared_server().new_schema() if request.param == "postgres" else None)
    yield made
    await made.close()
