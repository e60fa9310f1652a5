"""The tap never waits for a reader: what one cannot take is dropped, counted and stated."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import Overloaded
from gateway.observability.tap import MAX_BEHIND, MAX_WAITING, MAX_WATCHERS, Line, Tap, Watcher, line_of
from spool.record import AI_TELEMETRY
from tests.support.calls import call
from tests.support.spool_rig import Rig


def lines(n: int, first: int = 0, **fields: str) -> list[Line]:
    return [{"record_id": str(first + i), **fields} for i in range(n)]


async def test_a_slow_reader_keeps_the_newest_lines_and_is_stated_how_many_it_lost() -> None:
    watcher = Watcher({})
    for first in range(0, 3 * MAX_WAITING, 100):
        watcher.put(lines(100, first), 0)
    taken, lost = await watcher.take(1)
    assert lost == 2 * MAX_WAITING
    assert [line["record_id"] for line in taken] == [str(n) for n in range(2 * MAX_WAITING, 3 * MAX_WAITING)]
    assert await watcher.take(0) == ([], 0)


async def test_what_the_tap_skips_is_lost_for_each_watcher() -> None:
    watcher = Watcher({"team": {"a"}})
    watcher.put([*lines(1, team="a"), *lines(1, team="b")], 7)
    taken, lost = await watcher.take(1)
    assert (len(taken), lost) == (1, 7)


async def test_a_reader_that_is_far_behind_skips_chunks_and_knows_how_many_records(tmp_path: Path) -> None:
    rig = await Rig.opened(tmp_path)
    for n in range(5):
        await rig.send(call(f"call {n}", tokens=(n + 1, 1)))
    await rig.settle()
    whole = await rig.spool.settled_outcomes(AI_TELEMETRY, 0, max_bytes=1 << 20, max_behind=MAX_BEHIND)
    assert ([outcome for outcome, _ in whole.items], whole.skipped) == (["kept"] * 5, 0)
    late = await rig.spool.settled_outcomes(AI_TELEMETRY, 0, max_bytes=1 << 20, max_behind=2)
    assert (len(late.items), late.skipped, late.through_seq) == (2, 3, whole.through_seq)
    paged = await rig.spool.settled_outcomes(AI_TELEMETRY, 0, max_bytes=1, max_behind=MAX_BEHIND)
    assert (len(paged.items), paged.is_more) == (1, True)
    await rig.spool.close()


async def test_taps_are_bounded_and_nothing_is_read_without_one(tmp_path: Path) -> None:
    rig = await Rig.opened(tmp_path)
    tap = Tap(rig.spool)
    opened: list[Any] = []
    for _ in range(MAX_WATCHERS):
        opened.append(tap.watch({}))
        await opened[-1].__aenter__()
    with pytest.raises(Overloaded, match="close one"):
        async with tap.watch({}):
            pass
    for watch in opened:
        await watch.__aexit__(None, None, None)
    async with tap.watch({}) as watcher:
        await rig.send(call("one", tokens=(10, 5)))
        await rig.settle()
        (line,), lost = await watcher.take(30)
    assert (line["outcome"], line["input_tokens"], lost) == ("kept", 10, 0)
    await tap.close()
    await rig.spool.close()


def test_bytes_that_are_no_record_make_no_line() -> None:
    assert line_of("kept", b"{") is None
    assert orjson.dumps(line_of("kept", b"")) == b"null"
