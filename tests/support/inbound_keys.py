"""Inbound keys made in the data directory of a gateway, while it runs or before it does."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.keys.database import Database
from gateway.keys.key import GATEWAY_PREFIX
from gateway.keys.pepper import load_pepper
from gateway.keys.store import KeyStore
from spool.sqlite.database import make_private_dir

NOW_MS = 1_767_607_200_000


@asynccontextmanager
async def keys_of(data_dir: Path) -> AsyncIterator[KeyStore]:
    """The store of *data_dir*, made where there is none."""
    make_private_dir(data_dir)
    database = await Database.open(data_dir / "control.db")
    try:
        pepper = load_pepper(data_dir / "control.pepper", secrets.token_bytes)
        keys = await KeyStore.open(
            database, prefix=GATEWAY_PREFIX, pepper=pepper, now_ms=lambda: NOW_MS, random_bytes=secrets.token_bytes
        )
        try:
            yield keys
        finally:
            await keys.close()
    finally:
        await database.close()
