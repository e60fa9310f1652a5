"""What the disk under a data directory takes to make 4 KiB durable: the floor
under every acknowledgement.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

_BLOCK = bytes(4096)


class SyncLatency(NamedTuple):
    p50_ms: float
    p99_ms: float


def fdatasync_latency_ms(folder: Path, *, writes: int = 200) -> SyncLatency:
    """Append 4 KiB and fdatasync, *writes* times, in a file in *folder* that is removed again."""
    path = folder / "fdatasync.probe"
    taken_ns = []
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        for _ in range(writes):
            os.write(file, _BLOCK)
            started_ns = time.perf_counter_ns()
            os.fdatasync(file)
            taken_ns.append(time.perf_counter_ns() - started_ns)
    finally:
        os.close(file)
        path.unlink()
    taken_ns.sort()
    return SyncLatency(taken_ns[writes // 2] / 1e6, taken_ns[writes * 99 // 100] / 1e6)
