"""The owner of a cell counts each payload of the journal once, whatever fails in between."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from gateway.common.contract.journal import Row
from gateway.fleet.senders.noting import SenderNotes
from gateway.pipeline.journal import owner as owner_module
from gateway.pipeline.journal.form import FORMS, OLDEST, read_row, write_row
from gateway.pipeline.parsing.parse import Payload
from gateway.rules.context import Context
from spool.errors import SpoolError
from tests.support.cell_rig import CellRig
from tests.support.metrics import Export
from tests.support.polling import until_true
from tests.support.spans import call_span
from tests.support.spool_homes import HOMES

NEWER = max(FORMS) + 1


@pytest.fixture(params=HOMES)
async def cell(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CellRig]:
    opened = await CellRig.opened(tmp_path, request.param)
    yield opened
    await opened.rig.close()


def calls_of(number: int) -> Payload:
    return Payload("traces", call_span(f"call {number}", (100 + number, 20)), json=False)


def inputs(records: list[bytes]) -> list[int]:
    return sorted(orjson.loads(record)["usage"]["input_tokens"] for record in records)


async def put_ten(cell: CellRig) -> None:
    for number in range(10):
        await cell.put(calls_of(number), number % 3)


async def test_what_edges_keep_is_counted_once_and_leaves_the_journal(cell: CellRig) -> None:
    await put_ten(cell)
    await cell.put(calls_of(3), 0)  # a resend, at another edge
    await cell.count()
    assert cell.journal.rows == []
    edge = cell.rig.spool.edge()
    assert (edge["received"], edge["kept"], edge["duplicate"]) == (11, 10, 1)
    assert inputs(await cell.forwarded()) == [100 + number for number in range(10)]


async def test_an_owner_that_dies_before_its_commit_leaves_the_rows_to_the_next(cell: CellRig) -> None:
    await put_ten(cell)
    rows = list(cell.journal.rows)
    await cell.home.kill_at_commit(cell.count, after=False)
    cell.journal.rows = rows  # which only a commit deletes
    await cell.taken_over()
    await cell.count()
    edge = cell.rig.spool.edge()
    assert (edge["received"], edge["kept"], edge["duplicate"]) == (10, 10, 0)
    assert inputs(await cell.forwarded()) == [100 + number for number in range(10)]


async def test_a_row_that_comes_before_what_was_read_is_counted_too(
    cell: CellRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose commit took longer."""
    await put_ten(cell)
    await cell.put(calls_of(10), 0)
    late = cell.journal.rows.pop()
    await cell.count()
    cell.journal.rows.append(late._replace(place=(0, 1)))
    monkeypatch.setattr(owner_module, "FIRST_S", 0.0)
    reading = asyncio.create_task(cell.reader.run())
    await until_true(lambda: cell.reader.rows == 11, what="the late row counted")
    reading.cancel()
    assert inputs(await cell.forwarded()) == [100 + number for number in range(11)]


async def test_rows_stay_where_their_calls_could_not_be_kept(cell: CellRig) -> None:
    await put_ten(cell)
    await cell.home.break_appends()
    with pytest.raises(SpoolError):
        await cell.count()
    assert len(cell.journal.rows) == 10
    await cell.home.mend_appends()
    if cell.rig.counting.recovery is not None:
        await cell.rig.counting.recovery
    reading = asyncio.create_task(cell.reader.run())
    await until_true(lambda: cell.reader.rows == 10, what="a journal that was counted")
    reading.cancel()
    edge = cell.rig.spool.edge()
    assert (edge["received"], edge["kept"], edge["duplicate"]) == (10, 10, 0)
    assert inputs(await cell.forwarded()) == [100 + number for number in range(10)]


async def test_a_payload_of_several_commits_is_counted_before_its_row_leaves(cell: CellRig) -> None:
    spans = b"".join(call_span(f"of many {number}", (1, 1)) for number in range(1_200))
    await cell.put(Payload("traces", spans, json=False), 2)
    await cell.count()
    assert cell.journal.rows == []
    assert inputs(await cell.forwarded()) == [1] * 1_200


async def test_metrics_of_several_edges_are_one_series(cell: CellRig) -> None:
    await cell.put(Payload("metrics", Export(at=60).point(100).body, json=False), 0)
    await cell.put(Payload("metrics", Export(at=120).point(250).body, json=False), 1)
    await cell.count()
    assert cell.journal.rows == []
    assert sum(inputs(await cell.forwarded())) == 250


async def test_a_damaged_row_is_set_aside_and_holds_nothing_up(cell: CellRig) -> None:
    await cell.journal.keep(OLDEST, b"garbage", 1)
    await cell.put(calls_of(1), 0)
    await cell.count()
    assert ([row.body for row in cell.journal.damaged], cell.journal.rows) == ([b"garbage"], [])
    assert inputs(await cell.forwarded()) == [101]


async def test_a_row_of_a_newer_release_waits_for_one(cell: CellRig) -> None:
    await cell.journal.keep(NEWER, b"of the future", 1)
    await cell.put(calls_of(1), 0)
    with pytest.raises(SpoolError, match="newer release"):
        await cell.count()
    assert len(cell.journal.rows) == 2


async def test_rows_before_one_of_a_newer_release_are_counted_once(cell: CellRig) -> None:
    """Also those that take a commit of their own, which would be read again with each try."""
    await cell.put(Payload("metrics", Export(at=60).point(100).body, json=False), 0)
    await cell.journal.keep(NEWER, b"of the future", 1)
    for _ in range(3):
        with pytest.raises(SpoolError, match="newer release"):
            await cell.count()
    edge = cell.rig.spool.edge()
    assert (len(cell.journal.rows), edge["received"], edge["duplicate"]) == (1, 1, 0)


async def test_an_owner_is_behind_while_more_waits_than_it_counts_at_once(
    cell: CellRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_module, "MAX_ROWS", 2)
    assert cell.reader.progress.behind_s is None
    for number in range(3):
        await cell.put(calls_of(number), 0)
    await cell.reader.take_page()
    first_s = cell.reader.progress.behind_s
    assert first_s is not None
    assert (cell.reader.progress.behind_s or 0) > first_s
    await cell.reader.take_page()
    assert cell.reader.progress.behind_s is None


async def test_an_owner_that_cannot_count_is_behind(cell: CellRig) -> None:
    await cell.journal.keep(NEWER, b"of the future", 1)
    counting = asyncio.create_task(cell.reader.run())
    await until_true(lambda: cell.reader.progress.behind_s is not None, what="an owner that is behind")
    counting.cancel()
    cell.journal.rows.clear()
    await cell.reader.take_page()
    assert cell.reader.progress.behind_s is None


async def test_a_row_that_fails_for_no_foreseen_reason_keeps_none_behind_it(
    cell: CellRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays, and is tried again later."""
    monkeypatch.setattr(owner_module, "RETRY_S", 0.0)
    fails_at = read_rows_but(monkeypatch, 4)
    await put_ten(cell)
    reading = asyncio.create_task(cell.reader.run())
    await until_true(lambda: cell.reader.rows == 9, what="the other rows counted")
    assert [row.place for row in cell.journal.rows] == [(4, 1)]
    assert fails_at.count(4) == 1 + owner_module.TRIES
    fails_at.clear()
    await put_ten(cell)
    await until_true(lambda: cell.reader.rows == 19, what="rows that came later")
    assert 4 not in fails_at
    reading.cancel()
    monkeypatch.undo()
    cell.take_over()
    await cell.count()
    assert cell.journal.rows == []
    assert inputs(await cell.forwarded()) == [100 + number for number in range(10)]


def read_rows_but(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """The rows that are read from now on, of which the one with *number* fails."""
    found: list[int] = []

    async def read(row: Row) -> object:
        found.append(row.place[0])
        if row.place[0] == number:
            raise KeyError
        return read_row(row.body or b"")

    monkeypatch.setattr(owner_module, "_read", read)
    return found


async def test_the_owner_lists_what_senders_did_at_edges(cell: CellRig) -> None:
    notes = SenderNotes(
        [(("a key", "otlp.traces", "sdk/1"), [("app", 1, 2, 1, 0, 300)])], [((None, "litellm", ""), "no", 2)]
    )
    await cell.journal.keep(OLDEST, write_row([], notes), 0)
    await cell.count()
    assert [(sender.service, activity.items) for sender, activity in cell.senders.known.items()] == [
        ("app", 2),
        (None, 0),
    ]


async def test_the_key_of_a_payload_is_its_senders(cell: CellRig) -> None:
    """As its edge knew it; what the owner's own configuration states is added."""
    cell.fronts[0].base = Context(0, "", key_fixes={"team": "edge's"})
    cell.fronts[0].context_of = lambda _: Context(1, "2026-01-05T10:00:00.000Z", "a key", "k1", peer="10.0.0.7")  # type: ignore[method-assign]
    await cell.put(calls_of(1), 0)
    await cell.count()
    (record,) = await cell.forwarded()
    assert orjson.loads(record)["attribution"]["key"] == "a key"
