"""C23: a wall clock ten years wrong, either way, at the start or while running, ends no record's
life and holds none back.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from benchmarks.bodies import Shape, Template
from gateway.app import Gateway
from gateway.common.lists.conventions import envelope, read_request
from gateway.common.storage.database import Database
from gateway.common.wall_clock import wall_ms
from gateway.config.loader import load_config
from gateway.stores.sql.insights import open_insights
from gateway.usage.insights.finding import INSIGHT_LIST, Finding
from gateway.usage.insights.store import InsightStore
from spool.record import AI_TELEMETRY
from tests.support.calls import call
from tests.support.metrics import export
from tests.support.metrics_rig import MetricsRig
from tests.support.polling import HANGS_S
from tests.support.ports import free_port
from tests.support.spool_rig import SETTINGS, Clock, Rig, append, assert_balanced, copied, drained, frozen, open_spool

DAY_MS = 86_400_000
YEARS_MS = 10 * 365 * DAY_MS
WEEK = replace(SETTINGS, max_age_ms=7 * DAY_MS, keep_delivered_ms=DAY_MS)

wrong = pytest.mark.parametrize("wrong_ms", [YEARS_MS, -YEARS_MS], ids=["ten years ahead", "ten years behind"])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@wrong
async def test_a_jump_while_running_expires_nothing_and_time_spent_still_does(
    tmp_path: Path, clock: Clock, wrong_ms: int
) -> None:
    spool = open_spool(tmp_path, clock, settings=WEEK)
    await append(spool, [b"before"])
    clock.wrong_ms = wrong_ms
    await append(spool, [b"meanwhile"])
    clock.now_ms += 6 * DAY_MS
    await spool.run_maintenance()
    clock.wrong_ms = 0
    await spool.run_maintenance()
    assert spool.depth(AI_TELEMETRY).expired == 0
    clock.now_ms += DAY_MS + 1
    await spool.run_maintenance()
    assert spool.depth(AI_TELEMETRY).expired == 2, "a week was spent: the promise of an end holds, too"
    await assert_balanced(spool)
    await spool.close()


@wrong
async def test_a_start_with_a_wrong_clock_expires_nothing_and_neither_does_the_next_with_the_right_one(
    tmp_path: Path, clock: Clock, wrong_ms: int
) -> None:
    spool = open_spool(tmp_path, clock, settings=WEEK)
    await append(spool, [b"right"])
    await spool.run_maintenance()
    for offset_ms in (wrong_ms, 0, wrong_ms, 0):
        await spool.close()
        clock.wrong_ms = offset_ms
        clock.now_ms += 60_000
        spool = open_spool(tmp_path, clock, settings=WEEK)
        await append(spool, [b"wrong" if offset_ms else b"right again"])
        await spool.run_maintenance()
    assert spool.depth(AI_TELEMETRY).expired == 0
    assert await drained(spool) == [b"right", b"wrong", b"right again", b"wrong", b"right again"]
    await assert_balanced(spool)
    await spool.close()


@wrong
async def test_after_a_kill_the_last_acceptance_has_the_time(tmp_path: Path, clock: Clock, wrong_ms: int) -> None:
    """Nothing was noted since the start: the times of the records are what is left of it."""
    spool = open_spool(tmp_path / "a", clock, settings=WEEK)
    await append(spool, [b"1"])
    killed = copied(tmp_path / "a", tmp_path / "killed")
    await spool.close()
    clock.wrong_ms = wrong_ms
    survivor = open_spool(killed, clock, settings=WEEK)
    await survivor.run_maintenance()
    assert survivor.depth(AI_TELEMETRY).expired == 0
    assert await drained(survivor) == [b"1"]
    await survivor.close()


@wrong
async def test_a_batch_under_retry_outlives_a_wrong_clock(tmp_path: Path, clock: Clock, wrong_ms: int) -> None:
    spool = open_spool(tmp_path, clock, settings=WEEK)
    await append(spool, [b"1", b"2"])
    batch = await frozen(spool)
    await spool.release(batch, answered=True)
    clock.wrong_ms = wrong_ms
    await spool.run_maintenance()
    again = await frozen(spool)
    assert (again.batch_id, again.sent_at, again.records) == (batch.batch_id, batch.sent_at, batch.records)
    await spool.ack(again)
    await spool.close()


@wrong
async def test_a_delivered_record_stays_for_its_time_and_then_goes(tmp_path: Path, clock: Clock, wrong_ms: int) -> None:
    spool = open_spool(tmp_path, clock, settings=WEEK)
    clock.wrong_ms = wrong_ms
    await append(spool, [b"1"])
    await drained(spool)
    clock.wrong_ms = 0
    await spool.run_maintenance()
    assert await chunks(spool) == 1, "the ledger needs its evidence"
    clock.now_ms += DAY_MS + 1
    await spool.run_maintenance()
    assert await chunks(spool) == 0, "nor is it there for ten years"
    await spool.close()


async def chunks(spool: object) -> int:
    (n,) = await spool.ask(lambda connection, _: connection.execute("SELECT count(*) FROM chunk").fetchone())  # type: ignore[attr-defined]
    return int(n)


@wrong
@pytest.mark.parametrize("restarts", [False, True], ids=["running", "over a restart"])
async def test_a_record_settles_in_its_time_and_its_resend_is_known(
    tmp_path: Path,
    wrong_ms: int,
    restarts: bool,  # noqa: FBT001 pytest passes by name
) -> None:
    rig = await Rig.opened(tmp_path)
    await rig.send(call("a"))
    rig.clock.wrong_ms = wrong_ms
    if restarts:
        await rig.reopen()
    await rig.send(call("a"), call("b", trace="u"))
    await rig.settle()
    rig.clock.wrong_ms = 0
    assert await rig.totals() == (2, 200, 40)
    await rig.close()


@wrong
@pytest.mark.parametrize("restarts", [False, True], ids=["running", "over a restart"])
async def test_aggregates_wait_their_time_and_know_what_was_counted(
    tmp_path: Path,
    wrong_ms: int,
    restarts: bool,  # noqa: FBT001 pytest passes by name
) -> None:
    rig = await MetricsRig(tmp_path).open()
    await rig.metrics(export(100, 20, at=60))
    rig.clock.wrong_ms = wrong_ms
    if restarts:
        await rig.reopen()
    await rig.metrics(export(250, 50, at=120))
    await rig.settle(after_ms=119_000)
    assert await rig.records() == [], "not before its time, either"
    await rig.settle()
    rig.clock.wrong_ms = 0
    assert await rig.used() == (250, 50)
    await rig.close()


async def test_a_list_is_whole_when_the_clock_jumps_between_its_pages(tmp_path: Path, clock: Clock) -> None:
    database = await Database.open(tmp_path / "control.db")
    store = await InsightStore.open(await open_insights(database), now_ms=clock)

    async def note(*models: str) -> None:
        found.extend(Finding("no_price", "", model, f"no price of {model}", "pricing", "low") for model in models)
        await store.note(found)

    found: list[Finding] = []
    await note("a", "b")
    clock.wrong_ms = YEARS_MS
    await note("c", "d")
    clock.wrong_ms = -YEARS_MS
    await note("e")
    seen: list[str] = []
    query: dict[str, str] = {"limit": "2"}
    while True:
        request = read_request(INSIGHT_LIST, query.items())
        answer = envelope(INSIGHT_LIST, request, await store.page(request))
        items = next(value for value in answer.values() if isinstance(value, list))
        seen += [item["title"] for item in items]
        clock.wrong_ms = -clock.wrong_ms
        cursor = answer["pagination"]["cursor"]["next_cursor"]  # type: ignore[index]
        if cursor is None:
            break
        query = {"limit": "2", "cursor": cursor}
    assert sorted(seen) == [f"no price of {model}" for model in "abcde"]
    await database.close()


class Wall:
    """The gateway's wall clock."""

    wrong_ms = 0

    def __call__(self) -> int:
        return wall_ms() + self.wrong_ms


@pytest.fixture
async def wall() -> AsyncIterator[Wall]:
    return Wall()


async def gateway_on(data_dir: Path, wall: Wall, *, upstream: str) -> Gateway:
    """Its upstream is not there: what it takes stays pending."""
    (data_dir.parent / "key").write_text("secret")
    config = data_dir.parent / "config.yaml"
    config.write_text(
        f"data_dir: {data_dir}\n"
        "listen: {http: '127.0.0.1:0', grpc: 'off', admin: '127.0.0.1:0', service: 'off'}\n"
        "counting: {settle: 0s}\nworkers: 'off'\n"
        f"upstream: {{base_url: '{upstream}', keys: [{{name: k, secret: '${{file:{data_dir.parent / 'key'}}}',"
        " managed: [send-ai-telemetry]}]}\n"
    )
    return await Gateway.start(load_config(config, {}, {}), now_ms=wall)


@wrong
async def test_the_whole_gateway_starts_and_runs_on_a_wrong_clock_and_reports_true_ages(
    tmp_path: Path, wall: Wall, wrong_ms: int
) -> None:
    template = Template(Shape(spans=4))
    nobody = f"http://127.0.0.1:{free_port()}"
    for number, offset_ms in enumerate((0, wrong_ms, 0)):
        wall.wrong_ms = offset_ms
        gateway = await gateway_on(tmp_path / "data", wall, upstream=nobody)
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"http://{gateway.ports.http}/v1/traces", data=template.body(number), headers=template.headers()
            ) as answer,
        ):
            assert answer.status == 200
        wall.wrong_ms = wrong_ms - offset_ms
        async with asyncio.timeout(HANGS_S):
            while gateway.status()["lanes"][AI_TELEMETRY]["oldest_pending_age_s"] is None:  # noqa: ASYNC110 upkeep has no event
                await asyncio.sleep(0.01)
        lane = gateway.status()["lanes"][AI_TELEMETRY]
        assert (lane["pending"], lane["expired"]) == (4 * (number + 1), 0)
        age_s = lane["oldest_pending_age_s"]
        assert age_s is not None
        assert age_s <= 2 * DAY_MS / 1000 + 60, "each stop was at most a day"
        assert gateway.settler.now_ms() == pytest.approx(gateway.spool.age_ms(), abs=60_000), "settling, too"
        await gateway.stop()
