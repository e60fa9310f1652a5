"""What several packages' tests share: a client, an inbound key store, and a spool with its ledger
whose figures must balance.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gateway.access.store import KeyStore
from gateway.common.storage.database import Database
from gateway.stores.sqlite.keys import SqliteKeys
from tests.support.spool_rig import Rig


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    """Short enough for a unix socket."""
    return tmp_path / "s"


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[KeyStore]:
    database = await Database.open(tmp_path / "control.db")
    store = await KeyStore.open(
        await SqliteKeys.open(database),
        prefix="tgk",
        pepper=bytes(32),
        now_ms=lambda: 1_767_607_200_000,
        random_bytes=os.urandom,
    )
    yield store
    await store.close()
    await database.close()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = await Rig.opened(tmp_path / "data")
    yield rig
    await rig.close()
