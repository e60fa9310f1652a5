"""When a commit waits for more to share it."""

import asyncio
from pathlib import Path

from spool.commit_delay import DELAY_S, IDLE_S, MAX_APPENDS, PROBE_EVERY, STRETCH_EVERY, CommitDelay
from spool.record import AI_TELEMETRY
from spool.sql.gathering import Gathering
from spool.store import ItemCounts
from tests.support.spool_rig import append, open_spool

COMMIT_S = 0.0005


class Load:
    """Commits of one delay after another, on a clock of its own."""

    def __init__(self) -> None:
        self.delay = CommitDelay()
        self.now_s = 0.0

    def commit(self, *, gap_s: float, appends: int) -> bool:
        """One that begins *gap_s* after the last; whether it waited for more."""
        first_s = self.now_s + gap_s
        until_s = self.delay.until_s(first_s)
        assert 0 <= until_s - first_s <= DELAY_S + 1e-9
        self.now_s = until_s + COMMIT_S
        self.delay.committed(appends, self.now_s)
        return until_s > first_s


def test_appends_that_keep_coming_share_commits() -> None:
    load = Load()
    waits = [load.commit(gap_s=0.001, appends=3) for _ in range(200)]
    assert not any(waits[: PROBE_EVERY - 1])
    assert all(waits[PROBE_EVERY + 1 :])


def test_a_wait_for_one_more_append_is_worth_it() -> None:
    """As at a thousand requests a second, each of one span."""
    load = Load()
    waits = [load.commit(gap_s=0.001, appends=2) for _ in range(3 * PROBE_EVERY)]
    assert all(waits[PROBE_EVERY + 1 :])


def test_a_lone_sender_waits_for_a_probe_now_and_then_only() -> None:
    load = Load()
    waits = [load.commit(gap_s=0.0005, appends=1) for _ in range(100 * PROBE_EVERY)]
    assert sum(waits) <= 100


def test_a_spool_that_is_seldom_written_never_waits() -> None:
    load = Load()
    assert not any(load.commit(gap_s=2 * IDLE_S, appends=5) for _ in range(10 * PROBE_EVERY))


def test_waiting_ends_with_the_load() -> None:
    load = Load()
    for _ in range(100):
        load.commit(gap_s=0.001, appends=4)
    waits = [load.commit(gap_s=0.0005, appends=1) for _ in range(PROBE_EVERY)]
    assert sum(waits) <= 3


def test_a_commit_waits_for_no_more_than_came_of_late() -> None:
    """Senders that all wait for their answers have no more to send."""
    load = Load()
    for _ in range(10):
        load.commit(gap_s=0.0005, appends=4)
    assert load.delay.enough == 4
    load.commit(gap_s=0.0005, appends=9)
    assert load.delay.enough == 9
    load.commit(gap_s=0.0005, appends=MAX_APPENDS + 1)
    assert load.delay.enough == MAX_APPENDS


def test_one_commit_in_many_looks_whether_more_would_come() -> None:
    load = Load()
    enough = []
    for _ in range(2 * STRETCH_EVERY + 2):
        load.commit(gap_s=0.0005, appends=2)
        enough.append(load.delay.enough)
    assert enough[STRETCH_EVERY - 1] == enough[2 * STRETCH_EVERY] == MAX_APPENDS
    assert sorted(enough[8:]).count(2) == len(enough) - 8 - 2


async def gathered(appends: int) -> Gathering:
    gathering = Gathering(1, lambda: 0, lambda wake: wake())
    for _ in range(appends):
        gathering.add(AI_TELEMETRY, [b"{}"], ItemCounts(received=1, kept=1), b"", b"", asyncio.Future())
    return gathering


async def test_an_operation_and_enough_appends_wait_for_no_more() -> None:
    gathering = await gathered(MAX_APPENDS - 1)
    assert gathering.waiting.is_set()
    assert not gathering.urgent.is_set()
    gathering.ask(lambda *_: None, asyncio.Future())
    assert gathering.urgent.is_set()
    gathering.take()
    assert not gathering.urgent.is_set(), "what comes next is not urgent"
    assert (await gathered(MAX_APPENDS)).urgent.is_set()


async def test_requests_that_keep_coming_one_by_one_share_commits(data_dir: Path) -> None:
    """As many senders as wait for their answers, each with one record at a time."""
    spool = open_spool(data_dir)

    async def sender(records: int) -> None:
        for _ in range(records):
            await append(spool, [b"{}"])

    await asyncio.gather(*(sender(100) for _ in range(8)))
    (chunks,) = await spool.ask(lambda c, _: c.execute("SELECT count(*) FROM chunk").fetchone())
    assert chunks < 800 / 3
    assert spool.depth(AI_TELEMETRY).pending == 800
    await spool.close()
