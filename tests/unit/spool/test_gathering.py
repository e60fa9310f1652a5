"""When the writer's thread is woken for what was gathered."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from spool.record import AI_TELEMETRY
from spool.sqlite.gathering import Gathering
from spool.store import ItemCounts
from tests.support.spool_rig import append, freeze, open_spool


class Iteration:
    """Of an event loop: what is to be called when it ends."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.gathering = Gathering(1, lambda: 0, self.soon.append)

    def end(self) -> None:
        callbacks, self.soon[:] = list(self.soon), []
        for callback in callbacks:
            callback()

    def add(self) -> None:
        self.gathering.add(AI_TELEMETRY, [b"{}"], ItemCounts(received=1, kept=1), b"", b"", future())


def future() -> Any:
    """Nothing awaits it."""
    return cast("asyncio.Future[Any]", Future())


@pytest.fixture
def impatient() -> Iterator[None]:
    """A thread that is woken runs at once."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_the_writer_sleeps_until_the_iteration_ends_and_is_woken_once() -> None:
    iteration = Iteration()
    gathering = iteration.gathering
    iteration.add()
    gathering.ask(lambda *_: None, future())
    iteration.add()
    assert not gathering.waiting.is_set()
    assert len(iteration.soon) == 1
    iteration.end()
    assert gathering.waiting.is_set()


def test_what_comes_after_the_writer_took_all_wakes_it_anew() -> None:
    iteration = Iteration()
    gathering = iteration.gathering
    iteration.add()
    iteration.end()
    assert len(gathering.take().appenders) == 1
    assert not gathering.waiting.is_set()
    gathering.ask(lambda *_: None, future())
    iteration.end()
    assert gathering.waiting.is_set()
    assert len(gathering.take().askers) == 1


async def test_the_requests_of_one_iteration_share_a_commit(tmp_path: Path, impatient: None) -> None:
    spool = open_spool(tmp_path)
    commits = spool.commit_seconds
    try:
        before = commits.read().buckets[-1][1]
        await asyncio.gather(*[append(spool, [b"{}"]) for _ in range(500)])
        assert commits.read().buckets[-1][1] - before == 1
        assert spool.edge()["kept"] == 500
    finally:
        await spool.close()


async def test_what_is_appended_last_is_on_disk_after_a_close(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    last = append(spool, [b"{}"])
    await spool.close()
    await last
    spool = open_spool(tmp_path)
    assert spool.edge()["kept"] == 1
    await spool.close()


async def test_a_lane_that_settles_wakes_when_its_records_are_settled_and_not_before(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, settling=(AI_TELEMETRY,))
    ready = asyncio.create_task(spool.wait_ready(AI_TELEMETRY, 60))
    await asyncio.sleep(0)
    await append(spool, [b"{}"])
    for _ in range(10):
        await asyncio.sleep(0)
    assert not ready.done()
    await spool.settle(AI_TELEMETRY, spool.sealed_seq)
    async with asyncio.timeout(30):
        await ready
    assert await freeze(spool) is not None
    await spool.close()


async def test_a_lane_that_does_not_settle_wakes_with_the_commit(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    ready = asyncio.create_task(spool.wait_ready(AI_TELEMETRY, 60))
    await asyncio.sleep(0)
    await append(spool, [b"{}"])
    async with asyncio.timeout(30):
        await ready
    assert await freeze(spool) is not None
    await spool.close()
