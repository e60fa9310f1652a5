"""When the writer's thread is woken for what was gathered."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from spool.errors import SpoolError
from spool.record import AI_TELEMETRY
from spool.sql.gathering import Gathering
from spool.store import ItemCounts
from tests.support.polling import HANGS_S
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


def test_what_comes_after_the_writer_took_all_wakes_it_again() -> None:
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


def test_what_waits_behind_is_taken_apart_and_hurries_no_append() -> None:
    iteration = Iteration()
    gathering = iteration.gathering
    gathering.enough = 2
    iteration.add()
    gathering.ask_behind(lambda *_: None, future())
    iteration.end()
    assert gathering.waiting.is_set()
    assert not gathering.urgent.is_set(), "the append may wait for more"
    assert not gathering.take().askers
    assert len(gathering.take_behind().askers) == 1
    gathering.ask_behind(lambda *_: None, future())
    iteration.end()
    assert gathering.urgent.is_set(), "nothing else is to be waited for"


def test_what_was_left_behind_comes_before_what_came_since() -> None:
    iteration = Iteration()
    gathering = iteration.gathering
    operations = [lambda *_, n=n: n for n in range(4)]
    for operation in operations[:3]:
        gathering.ask_behind(operation, future())
    behind = gathering.take_behind()
    gathering.ask_behind(operations[3], future())
    gathering.take()
    gathering.put_back(behind, 1)
    assert len(behind.askers) == 1
    assert gathering.waiting.is_set()
    assert gathering.take_behind().group.operations == operations[1:]


class Held:
    """Operations that run until they are let go; the order of all that ended."""

    def __init__(self) -> None:
        self.runs, self.may_end = threading.Event(), threading.Event()
        self.ended: list[object] = []

    def operation(self, *_: object) -> None:
        self.runs.set()
        assert self.may_end.wait(30)

    def note(self, name: str) -> Callable[[object], None]:
        return lambda _: self.ended.append(name)


async def test_an_append_waits_for_no_operation_behind_it(tmp_path: Path) -> None:
    spool, held = open_spool(tmp_path), Held()
    behind = asyncio.ensure_future(spool.ask_behind(held.operation))
    async with asyncio.timeout(HANGS_S):
        await append(spool, [b"{}"])
    assert not behind.done()
    held.may_end.set()
    await behind
    await spool.close()


async def test_appends_come_between_operations_that_wait_behind(tmp_path: Path) -> None:
    spool, held = open_spool(tmp_path), Held()
    first = asyncio.ensure_future(spool.ask_behind(held.operation))
    second = asyncio.ensure_future(spool.ask_behind(lambda *_: None))
    assert await asyncio.to_thread(held.runs.wait, 30)
    third = asyncio.ensure_future(append(spool, [b"{}"]))
    for name, ends in (("first", first), ("second", second), ("append", third)):
        ends.add_done_callback(held.note(name))
    while not spool.writer.is_awaited():  # noqa: ASYNC110 until the append is gathered, which has no event
        await asyncio.sleep(0)
    held.may_end.set()
    await asyncio.gather(first, second, third)
    assert held.ended == ["first", "append", "second"]
    await spool.close()


async def test_an_operation_behind_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    asked = [spool.ask_behind(lambda *_: 1), spool.ask_behind(lambda c, _: c.execute("no SQL")), append(spool, [b"{}"])]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert (found[0], type(found[1]), found[2]) == (1, SpoolError, None)
    assert spool.edge()["kept"] == 1
    await spool.close()


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
    async with asyncio.timeout(HANGS_S):
        await ready
    assert await freeze(spool) is not None
    await spool.close()


async def test_a_lane_that_does_not_settle_wakes_with_the_commit(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    ready = asyncio.create_task(spool.wait_ready(AI_TELEMETRY, 60))
    await asyncio.sleep(0)
    await append(spool, [b"{}"])
    async with asyncio.timeout(HANGS_S):
        await ready
    assert await freeze(spool) is not None
    await spool.close()
