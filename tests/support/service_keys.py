"""The keys of a local service's data, whether it runs or not: what an operator does beside it, from another process."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.keys.database import Database
from gateway.keys.key import SERVICE_PREFIX
from gateway.keys.pepper import load_pepper
from gateway.keys.store import KeyStore
from gateway.local_service.service import DATABASE_NAME, PEPPER_NAME

BY = "ops@example.com"


@asynccontextmanager
async def service_keys(data_path: Path) -> AsyncIterator[KeyStore]:
    """*data_path*: the folder that `Service` is given."""
    await asyncio.to_thread(data_path.mkdir, parents=True, exist_ok=True)
    database = await Database.open(data_path / DATABASE_NAME)
    try:
        store = await KeyStore.open(
            database,
            prefix=SERVICE_PREFIX,
            pepper=load_pepper(data_path / PEPPER_NAME, os.urandom),
            now_ms=lambda: time.time_ns() // 1_000_000,
            random_bytes=os.urandom,
        )
        try:
            yield store
        finally:
            await store.close()
    finally:
        await database.close()
