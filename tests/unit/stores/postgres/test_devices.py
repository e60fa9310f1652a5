"""Devices of several gateways at one Postgres: one device and one enrolment, whoever met it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import psycopg
import pytest

from gateway.fleet.devices.heartbeat_body import decode_heartbeat
from gateway.fleet.devices.home import DeviceHome
from gateway.fleet.devices.rows import New
from gateway.fleet.devices.store import DeviceStore
from gateway.stores.postgres.database import PostgresConnection, PostgresDatabase
from gateway.stores.sql.devices import SqlDevices
from tests.support.polling import until_true
from tests.support.postgres import needs_postgres, shared_server

pytestmark = needs_postgres

START_MS = 1_767_607_200_000


@pytest.fixture
def dsn() -> str:
    return shared_server().new_schema()


@pytest.fixture
async def databases(dsn: str) -> AsyncIterator[list[PostgresDatabase]]:
    async with AsyncExitStack() as stack:
        opened = [await PostgresDatabase.open(dsn, durability="storage") for _ in range(3)]
        for each in opened:
            stack.push_async_callback(each.close)
        yield opened


async def store_at(home: DeviceHome) -> DeviceStore:
    return await DeviceStore.open(
        home, gateway_id="gw", max_new_per_hour=1000, interval_ms=60_000,
        now_ms=lambda: START_MS, wall_ms=lambda: START_MS,
    )  # fmt: skip


async def test_first_contacts_of_one_device_at_three_gateways_are_one_device_and_one_enrolment(
    dsn: str, databases: list[PostgresDatabase]
) -> None:
    homes = [await SqlDevices.open(each) for each in databases]
    stores = [await store_at(home) for home in homes]
    beats = [
        decode_heartbeat(json.dumps({"instance_id": "one", "sequence": n, "health": "healthy"}).encode())
        for n in range(250)
    ]
    contacts = [stores[n % 3].meet([New("device", "server", "telemetry")]) for n in range(250)]
    answers = [stores[n % 3].heartbeat("device", beat) for n, beat in enumerate(beats)]
    await asyncio.gather(*contacts, *answers)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT device_id, epoch FROM devices").fetchall() == [("device", 1)]
        assert connection.execute("SELECT epoch, attempts FROM enrolments").fetchall() == [(1, 0)]
        figures = dict(connection.execute("SELECT name, n FROM device_figures").fetchall())
    assert figures["edge.received"] == 250, "each heartbeat is counted, at whichever gateway"
    taken = Counter({each: figures.get(f"edge.{each}", 0) for each in ("kept", "duplicate", "suppressed", "ignored")})
    assert (taken.total(), figures["lane.kept"]) == (250, taken["kept"])
    for store in stores:
        await store.close()


async def test_a_change_of_devices_waits_for_no_other_change(dsn: str, databases: list[PostgresDatabase]) -> None:
    home = await SqlDevices.open(databases[0])
    with psycopg.connect(dsn) as other:
        own = PostgresConnection(other)
        own.execute("SELECT pg_advisory_xact_lock(hashtextextended('ai-telemetry-gateway ' || current_schema(), 0))")
        waiting = asyncio.create_task(databases[1].write(lambda c: c.execute("SELECT 1").fetchone()))
        await until_true(lambda: waits(dsn), what="a change that waits for its turn")
        await home.commit(lambda kept: kept.note("name", 7))
        assert not waiting.done()
    assert await waiting == (1,)
    assert await home.read(lambda kept: kept.noted("name")) == 7
    await home.close()


def waits(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        return (
            connection.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone()
            is not None
        )


async def test_nothing_of_a_change_that_raised_is_kept_and_the_others_of_its_group_are(
    databases: list[PostgresDatabase],
) -> None:
    home = await SqlDevices.open(databases[0])

    def failing(kept: object) -> None:
        kept.insert(New("lost", "server", "telemetry"), START_MS)  # type: ignore[attr-defined]  # DeviceRows
        raise LookupError

    async def insert(name: str) -> None:
        await home.commit(lambda kept: kept.insert(New(name, "server", "telemetry"), START_MS))

    results = await asyncio.gather(insert("a"), home.commit(failing), insert("b"), return_exceptions=True)
    assert [type(each) for each in results] == [type(None), LookupError, type(None)]
    assert sorted(each.device_id for each in await home.read(lambda kept: kept.not_in(()))) == ["a", "b"]
    await home.close()
