"""C15: a large backlog costs neither a slow start nor memory, and drains. `benchmarks/backlog.py`
measures the same at any size.

How fast is not asserted here but how much is read and kept: the start reads a bounded part of the
file, whatever its size. BACKLOG_TEST_MIB makes it larger.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from benchmarks.backlog import drain, running_gateway, write_backlog
from benchmarks.processes import Process
from benchmarks.scenario import running_sink

MIB = 1 << 20
BACKLOG_MIB = int(os.environ.get("BACKLOG_TEST_MIB", "200"))
HOURS_AGO_S = 7200.0
START_READS_BYTES = 16 * MIB
RSS_BYTES = 64 * MIB
DRAINED_S = 900
"""Measured are 15 s; what hangs ends then."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * DRAINED_S)]


def read_bytes(process: Process) -> int:
    """All that it has read so far, from the page cache or not."""
    lines = Path(f"/proc/{process.pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))


def test_a_backlog_makes_a_start_neither_slow_nor_large_and_all_of_it_is_delivered(tmp_path: Path) -> None:
    """C15."""
    records = asyncio.run(write_backlog(tmp_path / "backlog", BACKLOG_MIB * MIB, HOURS_AGO_S))
    with running_sink(tmp_path / "sink.log", mode="refuse") as sink:
        with running_gateway(tmp_path, tmp_path / "empty", sink) as (process, _, base_s):
            base_read_bytes, base_rss_bytes = read_bytes(process), process.rss_bytes("VmRSS")
        with running_gateway(tmp_path, tmp_path / "backlog", sink) as (process, admin, ready_s):
            assert read_bytes(process) - base_read_bytes < START_READS_BYTES
            sink.set_mode("accept")
            drained_s, most_rss_mib = drain(process, admin, DRAINED_S)
            assert sink.counts().unique_records == records
    sys.stderr.write(f"ready {ready_s:.2f} s (empty {base_s:.2f} s), {records / drained_s:.0f} records/s\n")
    assert most_rss_mib - base_rss_bytes / MIB <= RSS_BYTES / MIB
