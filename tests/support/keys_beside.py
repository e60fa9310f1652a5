"""The keys of a data directory, from another process than the one that runs on it, if any
does: no lock is asked for.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from gateway.common.wall_clock import wall_ms
from gateway.keys.control_store import INBOUND, KeyFiles, keys_in
from gateway.keys.store import KeyStore

BY = "ops@example.com"


def keys_beside(data_dir: Path, files: KeyFiles = INBOUND) -> AbstractAsyncContextManager[KeyStore]:
    """Made where there are none; `OF_SERVICE` for the local service's."""
    return keys_in(data_dir, files, wall_ms)
