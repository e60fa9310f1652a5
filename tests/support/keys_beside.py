"""The keys of a data directory, from another process than the one that runs on it, if any
does: no lock is asked for.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from gateway.access.key_files import INBOUND, KeyFiles
from gateway.access.store import KeyStore
from gateway.common.contract.scopes import INGEST_SCOPE, Fixed
from gateway.common.wall_clock import wall_ms
from gateway.stores.sqlite.keys import keys_in

BY = "ops@example.com"


def keys_beside(data_dir: Path, files: KeyFiles = INBOUND) -> AbstractAsyncContextManager[KeyStore]:
    """Made where there are none; `OF_SERVICE` for the local service's."""
    return keys_in(data_dir, files, wall_ms)


def inbound_key(data_dir: Path) -> str:
    """A key that may send AI telemetry, made before the gateway starts."""
    return asyncio.run(_made(data_dir))


async def _made(data_dir: Path) -> str:
    async with keys_beside(data_dir) as keys:
        return (await keys.create("senders", Fixed(frozenset({INGEST_SCOPE})), by=BY)).secret.reveal()
