"""Keys of several gateways at one Postgres: a check asks memory, a change is everywhere soon."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import psycopg
import pytest
from structlog.testing import capture_logs

from gateway.access.record import KeyRecord
from gateway.access.store import KeyStore
from gateway.common.contract.scopes import SEND_AI_TELEMETRY, Managed
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.wall_clock import wall_ms
from gateway.stores.postgres import database as postgres_database
from gateway.stores.postgres import keys as postgres_keys
from gateway.stores.postgres.database import PostgresDatabase
from gateway.stores.postgres.keys import PostgresKeys
from gateway.stores.sql.keys import EVERY
from tests.support.polling import until_true
from tests.support.postgres import needs_postgres, running_server, shared_server

pytestmark = needs_postgres

SENDING = Managed(frozenset({SEND_AI_TELEMETRY}))
OPERATOR = "ops@example.com"


class Gateway:
    """Its keys, over connections of its own."""

    def __init__(self, home: PostgresKeys, keys: KeyStore) -> None:
        self.home, self.keys = home, keys

    async def takes(self, secret: str) -> bool:
        await asyncio.sleep(0)  # another turn of the event loop
        return self.keys.authenticate(secret) is not None

    async def until(self, condition: Callable[[], bool]) -> None:
        await until_true(condition, what="a change of keys")

    async def until_taken(self, secret: str) -> None:
        await self.until(lambda: self.keys.authenticate(secret) is not None)

    async def until_refused(self, secret: str) -> None:
        await self.until(lambda: self.keys.authenticate(secret) is None)


@asynccontextmanager
async def gateway_at(dsn: str) -> AsyncIterator[Gateway]:
    async with AsyncExitStack() as stack:
        database = await PostgresDatabase.open(dsn, durability="storage")
        stack.push_async_callback(database.close)
        home = await PostgresKeys.open(database)
        keys = await KeyStore.open(
            home, prefix="tgk", pepper=bytes(32), now_ms=wall_ms, random_bytes=secrets.token_bytes
        )
        stack.push_async_callback(home.close)
        yield Gateway(home, keys)


@pytest.fixture
def dsn() -> str:
    return shared_server().new_schema()


@pytest.fixture
async def gateways(dsn: str) -> AsyncIterator[list[Gateway]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(gateway_at(dsn)) for _ in range(3)]


async def made(gateways: list[Gateway]) -> str:
    """The secret of a key that each of *gateways* takes."""
    secret = (await gateways[0].keys.create("sender", SENDING, by=OPERATOR)).secret.reveal()
    for each in gateways:
        await each.until_taken(secret)
    return secret


async def test_a_disabled_key_is_refused_at_once_where_it_was_disabled_and_soon_everywhere(
    gateways: list[Gateway],
) -> None:
    secret = await made(gateways)
    await gateways[1].keys.disable("sender", by=OPERATOR)
    assert not await gateways[1].takes(secret)
    for each in gateways:
        await each.until_refused(secret)
    await gateways[2].keys.enable("sender", by=OPERATOR)
    assert await gateways[2].takes(secret)
    for each in gateways:
        await each.until_taken(secret)


async def test_a_change_that_notified_no_one_is_found_by_polling(dsn: str, gateways: list[Gateway]) -> None:
    secret = await made(gateways)
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE keys SET status = 'Disabled'")
        connection.execute("UPDATE key_facts SET generation = generation + 1")
    for each in gateways:
        await each.until_refused(secret)


async def test_a_change_is_seen_without_waiting_for_a_poll(
    dsn: str, gateways: list[Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_keys, "POLL_S", 3600.0)
    async with gateway_at(dsn) as patient:
        secret = await made([gateways[0], patient])
        await gateways[0].keys.delete("sender", typed_name="sender")
        await patient.until_refused(secret)


async def test_a_broken_connection_is_replaced(dsn: str, gateways: list[Gateway]) -> None:
    secret = await made(gateways)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'ai-telemetry-gateway' AND pid <> pg_backend_pid()"
        )
        other.execute("UPDATE keys SET status = 'Disabled'")
        other.execute("UPDATE key_facts SET generation = generation + 1")
    for each in gateways:
        await each.until_refused(secret)


async def test_without_postgres_the_known_keys_are_valid_and_no_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_keys, "WARN_S", 0.0)
    monkeypatch.setattr(postgres_database, "WAIT_S", 0.2)
    async with AsyncExitStack() as stack:
        with running_server() as server:
            gateway = await stack.enter_async_context(gateway_at(server.dsn()))
            secret = await made([gateway])
        with capture_logs() as logs:
            await gateway.until(lambda: bool(logs))
            with pytest.raises(DatabaseUnavailable):
                await gateway.keys.disable("sender", by=OPERATOR)
            await gateway.until(lambda: gateway.home.unasked_s > 2 * postgres_keys.POLL_S)
        assert [line["event"] for line in logs] == ["changes of keys are not seen"]
        assert await gateway.takes(secret)
        assert not await gateway.takes(secret[:-1] + ("a" if secret[-1] != "a" else "b"))


async def test_of_changes_at_the_same_time_the_last_is_seen(gateways: list[Gateway]) -> None:
    await made(gateways)
    changes = [each.keys.edit("sender", by=OPERATOR, description=f"{n}") for n in range(5) for each in gateways]
    await asyncio.gather(*changes)
    kept = await gateways[0].home.read(lambda rows: rows.every())
    for home in [each.home for each in gateways]:
        await until_true(partial(has, home, kept), what="the last change")


def has(home: PostgresKeys, kept: list[KeyRecord]) -> bool:
    return [each.key for each in home.now(-1).keys or ()] == kept


class Slow:
    """A connection whose rows come only after *meanwhile*."""

    def __init__(self, connection: psycopg.AsyncConnection, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._connection, self._meanwhile = connection, meanwhile
        self.transaction = connection.transaction

    async def execute(self, sql: str) -> psycopg.AsyncCursor:
        cursor = await self._connection.execute(sql)
        if sql == EVERY:
            await self._meanwhile()
        return cursor


async def test_what_was_asked_before_a_change_of_this_gateway_does_not_undo_it(
    dsn: str, gateways: list[Gateway]
) -> None:
    secret = await made(gateways)
    gateway = gateways[0]
    gateway.home._following.cancel()
    await asyncio.gather(gateway.home._following, return_exceptions=True)
    await gateways[1].keys.edit("sender", by=OPERATOR, description="a change that it asks for")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        slow = Slow(connection, lambda: gateway.keys.disable("sender", by=OPERATOR))
        await gateway.home._ask(slow)  # type: ignore[arg-type]  # as much of a connection as it needs
    assert not await gateway.takes(secret)


async def test_a_closed_home_lets_no_one_in(gateways: list[Gateway]) -> None:
    secret = await made(gateways)
    await gateways[0].home.close()
    await asyncio.sleep(0)
    with pytest.raises(DatabaseUnavailable):
        gateways[0].keys.authenticate(secret)
