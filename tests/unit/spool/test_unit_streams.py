"""Unit-cost streams in the file: a backup's deletions, and what many of them cost.

What is promised of streams is tested on each home: `contract/test_unit_streams.py`.
"""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from spool.record import UNIT_COST
from spool.sql import unit_streams
from spool.sqlite.recovery.restoring import settle_restored
from spool.unit_cost import Rules
from tests.support.polling import HANGS_S
from tests.support.unit_streams import STREAM, UnitRig, metered


async def test_a_deletion_from_a_backup_waits_for_an_operator(data_dir: Path) -> None:
    rig = UnitRig.in_folder(data_dir)
    await rig.keep(metered(1))
    await rig.store.delete_stream(STREAM, None, forced=True)
    await rig.close()
    settle_restored(data_dir, 0)
    rig.open_spool()
    assert await rig.freeze() is None
    depth = rig.spool.depth(UNIT_COST)
    assert (depth.pending, depth.dead_lettered) == (0, 2)
    await rig.close()


async def test_shipping_costs_as_much_for_a_stream_however_many_wait(tmp_path: Path) -> None:
    """Counted in steps of SQLite; the longest wait goes first, and what comes meanwhile last."""
    work = []
    for streams in (200, 800):
        rig = UnitRig.in_folder(tmp_path / str(streams))
        rig.store = rig.spool.events(Rules("replace", 1000))
        for first in range(0, streams, 100):
            await rig.keep(*(metered(1, stream=f"s{number:04}") for number in range(first, first + 100)))
            rig.clock.now_ms += 1
        hundreds_of_steps = [0]

        def count(connection: sqlite3.Connection, _: object, steps: list[int] = hundreds_of_steps) -> None:
            def tick() -> int:
                steps[0] += 1
                return 0

            connection.set_progress_handler(tick, 100)

        await rig.spool.ask(count)
        batch = await rig.frozen()
        await rig.keep(metered(1, stream="new"))
        rig.far.apply(batch)
        await rig.lane.ack(batch)
        await rig.ship()
        work.append(hundreds_of_steps[0])
        order = [stream for stream, _ in rig.far.operations]
        waited = [int(stream[1:]) // 100 for stream in order[:-1]]
        assert (waited, order[-1]) == (sorted(waited), "new")
        await rig.close()
    assert work[1] < 8 * work[0], "quadratic is 16"


async def test_no_record_waits_for_a_list_of_streams(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = UnitRig.in_folder(data_dir)
    may_end = threading.Event()
    monkeypatch.setattr(unit_streams, "states", lambda _: may_end.wait(30))
    listed = asyncio.ensure_future(rig.store.streams())
    async with asyncio.timeout(HANGS_S):
        await rig.keep(metered(1))
    assert not listed.done()
    may_end.set()
    assert await listed
    await rig.close()
