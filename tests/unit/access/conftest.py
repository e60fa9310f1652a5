"""A key store on a real file, with a clock that tests move."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.access.home import KeyHome
from gateway.access.key import GATEWAY_PREFIX
from gateway.access.store import KeyStore
from gateway.common.storage.database import Database
from gateway.stores.sqlite.keys import SqliteKeys

PEPPER = b"p" * 32


class Clock:
    """Milliseconds since 1970, moved by hand."""

    def __init__(self) -> None:
        self.time_ms = 1_767_607_200_000

    def __call__(self) -> int:
        return self.time_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "control.db")
    yield opened
    await opened.close()


@pytest.fixture
async def keys(database: Database, clock: Clock) -> AsyncIterator[KeyStore]:
    store = await open_store(await SqliteKeys.open(database), clock)
    yield store
    await store.close()


async def open_store(home: KeyHome, clock: Clock, pepper: bytes = PEPPER) -> KeyStore:
    return await KeyStore.open(
        home,
        prefix=GATEWAY_PREFIX,
        pepper=pepper,
        now_ms=clock,
        random_bytes=secrets.token_bytes,
    )
