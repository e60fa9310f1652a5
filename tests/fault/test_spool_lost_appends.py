"""A commit that fails: its senders are reported, what was counted upon it is void, and
a resend is no duplicate.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from spool.errors import SpoolCorrupt, SpoolError
from spool.sqlite.database import PAGE_BYTES
from spool.sqlite.spool import SqliteSpool
from tests.support.calls import call
from tests.support.spool_rig import Rig, append, assert_balanced, drained, noise, open_spool


async def break_appends(spool: SqliteSpool) -> None:
    """From now on every commit with records in it fails; all others go on."""
    await _run(spool, "CREATE TRIGGER broken BEFORE INSERT ON chunk BEGIN SELECT RAISE(ABORT, 'broken'); END")


async def mend_appends(spool: SqliteSpool) -> None:
    await _run(spool, "DROP TRIGGER broken")


async def _run(spool: SqliteSpool, sql: str) -> None:
    await spool.ask(lambda connection, _: connection.execute(sql))


async def rebuilt(rig: Rig) -> None:
    """The ledger was read from the disk after the loss."""
    assert rig.counting.recovery is not None
    await rig.counting.recovery


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = await Rig.opened(tmp_path / "data")
    yield rig
    await rig.close()


async def test_what_was_counted_while_the_commit_failed_is_refused_with_it(rig: Rig) -> None:
    """The second payload waits for the next commit when the first one fails; a
    third one repeats the first.
    """
    await break_appends(rig.spool)
    blocker = sqlite3.connect(rig.data_dir / "spool.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    first = rig.append(call("a"))
    await asyncio.sleep(0)  # the writer is woken when this iteration of the loop ends
    while rig.spool.writer.is_awaited():  # noqa: ASYNC110 until the writer took it, which cannot go on
        await asyncio.sleep(0)
    others = [rig.append(call("b", trace="u")), rig.append(call("a"))]
    blocker.execute("ROLLBACK")
    blocker.close()
    answers = await asyncio.gather(first, *others, return_exceptions=True)
    assert all(isinstance(answer, SpoolError) for answer in answers), answers
    assert len({id(answer) for answer in answers}) == 3, "an error that many raise keeps all their frames alive"
    await mend_appends(rig.spool)
    await rebuilt(rig)
    await rig.send(call("a"), call("b", trace="u"))
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)
    assert rig.spool.edge()["duplicate"] == 0


async def test_settling_that_cannot_be_written_decides_nothing(rig: Rig) -> None:
    await rig.send(call("sdk"), call("beside", trace="u", scope="other"))
    await _run(rig.spool, "CREATE TRIGGER no BEFORE INSERT ON change BEGIN SELECT RAISE(ABORT, 'no'); END")
    rig.clock.now_ms += 10_000
    for _ in range(3):
        with pytest.raises(SpoolError):
            await rig.counting.settle_due(rig.clock.now_ms)
    await rig.send(call("gateway", trace="v", at=(0, 999), scope="third"))
    await _run(rig.spool, "DROP TRIGGER no")
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)
    assert rig.spool.edge()["duplicate"] == 2
    assert rig.counting.rebuilds == 0


async def test_c03_a_file_that_rots_while_it_is_open_is_salvaged_and_ends_no_thread(tmp_path: Path) -> None:
    """A page of records is damaged under the open spool: what asks for it is refused once,
    and all others are given.
    """
    data_dir = tmp_path / "data"
    spool = open_spool(data_dir)
    for n in range(50):
        await append(spool, [noise(2000, n)])
    await spool.close()
    spool = open_spool(data_dir)
    root = await spool.ask(
        lambda c, _: c.execute("SELECT rootpage FROM sqlite_master WHERE name='chunk'").fetchone()[0]
    )
    with (data_dir / "spool.db").open("r+b") as file:
        file.seek((root - 1) * PAGE_BYTES)
        file.write(b"\xee" * 100)
    await spool.ask(lambda c, _: c.execute("PRAGMA shrink_memory").fetchall())
    with pytest.raises(SpoolError):
        await _run(spool, "SELECT sum(length(body)) FROM chunk NOT INDEXED")
    await append(spool, [b"after"])
    assert await drained(spool) == [*(noise(2000, n) for n in range(50)), b"after"]
    assert [entry.records for entry in spool.quarantined] == [0]
    await assert_balanced(spool)
    await spool.close()


async def test_c03_the_ledger_is_read_again_after_a_salvage(rig: Rig) -> None:
    await rig.send(call("earlier"))
    await _damaged_while_open(rig)
    await rebuilt(rig)
    await rig.send(call("earlier"), call("later", trace="u"))
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)
    assert rig.spool.edge()["duplicate"] == 1
    assert rig.spool.quarantined


async def _damaged_while_open(rig: Rig) -> None:
    """Something reads a page that is damaged, as SQLite states it."""

    def read(*_: object) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    with pytest.raises(SpoolCorrupt):
        await rig.spool.ask(read)


async def test_settling_goes_on_after_an_append_that_found_the_file_damaged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is lost, and so may be what was on disk: two losses, of which one is reported."""
    await rig.send(call("a"))
    writer = rig.spool.writer
    commit = writer.transaction

    def damaged(*_: object) -> None:
        monkeypatch.setattr(writer, "transaction", commit)
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    monkeypatch.setattr(writer, "transaction", damaged)
    with pytest.raises(SpoolCorrupt):
        await rig.send(call("b", trace="u"))
    await rebuilt(rig)
    await rig.send(call("b", trace="u"))
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)
