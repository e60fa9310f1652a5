"""Records that are sent again, in the file: their chunks, their stretches, and a gateway at rest.

What is promised of them is tested on each home: `contract/test_dead_letters.py`,
`contract/test_sent_again.py`.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spool.data_dir import make_private_dir
from spool.dead_letters import Chosen, Requeued
from spool.errors import SpoolError, SpoolLocked
from spool.record import AI_TELEMETRY
from spool.sql.replay import ranges
from spool.sqlite import database
from spool.sqlite.at_rest import at_rest
from spool.sqlite.spool import SqliteSpool
from tests.support.sending_again import EACH, counts, numbers, refuse
from tests.support.spool_rig import Clock, append, assert_balanced, drained, freeze, frozen, open_spool


async def test_what_the_spool_could_not_read_is_not_sent_to_anyone(spool: SqliteSpool) -> None:
    await append(spool, numbers(3))
    await spool.ask(lambda connection, _: connection.execute("UPDATE chunk SET body=x'00'"))
    assert await freeze(spool) is None
    assert counts(spool) == (3, 0, 0, 3, 0)
    assert await spool.operator().replay_dead_letters(Chosen()) == Requeued({}, 3)
    assert counts(spool) == (3, 0, 0, 3, 0)


async def test_the_bytes_of_a_lane_that_is_given_up_go(data_dir: Path, clock: Clock) -> None:
    spool = open_spool(data_dir, clock, exporters=["archive"])
    await append(spool, numbers(4))
    await spool.bury(await frozen(spool, "archive"), "disk", "full")
    await spool.operator().replay_dead_letters(Chosen())
    await frozen(spool, "archive", max_records=1)
    await spool.close()
    spool = open_spool(data_dir, clock)
    await spool.run_maintenance()
    assert await again_chunks(spool) == 0
    await spool.close()


async def again_chunks(spool: SqliteSpool) -> int:
    found: int = await spool.ask(
        lambda connection, _: connection.execute("SELECT count(*) FROM chunk WHERE lane LIKE 'again:%'").fetchone()[0]
    )
    return found


async def test_the_bytes_go_once_they_are_delivered(spool: SqliteSpool) -> None:
    await refuse(spool, numbers(3))
    await spool.operator().replay_dead_letters(Chosen())
    batch = await frozen(spool, max_records=2)
    await spool.run_maintenance()
    assert await again_chunks(spool) == 1, "a batch under way needs it"
    await spool.ack(batch)
    await spool.run_maintenance()
    assert await again_chunks(spool) == 1, "the rest is not frozen yet"
    await drained(spool)
    await spool.run_maintenance()
    assert await again_chunks(spool) == 0


# ---- at rest


async def test_the_same_verbs_work_on_the_files_of_a_stopped_gateway(data_dir: Path, clock: Clock) -> None:
    spool = open_spool(data_dir, clock, exporters=["archive"])
    await refuse(spool, numbers(4))
    with pytest.raises(SpoolLocked), at_rest(data_dir, clock):
        pass
    await spool.close()
    with at_rest(data_dir, clock) as operator:
        assert [x.records for x in await operator.reasons()] == [4]
        assert await operator.drop_dead_letters(Chosen(), most=1) == 1
        assert (await operator.replay_dead_letters(Chosen())).replayed == {AI_TELEMETRY: 3}
    spool = open_spool(data_dir, clock, exporters=["archive"])
    assert counts(spool) == (4, 0, 3, 1, 0)
    assert counts(spool, "archive") == (4, 0, 4, 0, 0), "no exporter's records were given up"
    assert await drained(spool) == numbers(1, 4)
    assert await drained(spool, "archive") == numbers(4)
    await assert_balanced(spool)
    await spool.close()


async def test_a_file_of_an_earlier_layout_is_brought_forward_with_its_dead_letters(
    data_dir: Path, clock: Clock
) -> None:
    make_private_dir(data_dir)
    connection = sqlite3.connect(data_dir / "spool.db", isolation_level=None)
    for number, sql in database.migrations()[:2]:
        connection.executescript(f"{sql}; PRAGMA user_version={number};")
    connection.execute("INSERT INTO dead_letter VALUES (1, 'ai_telemetry', 5, 'bad', 'words', ?)", (b"record",))
    figures = '{"edge":{"received":1,"kept":1,"duplicate":0,"suppressed":0,"rejected":0,"ignored":0},"reasons":{},"lanes":{"ai_telemetry":{"kept":1,"delivered":0,"pending":0,"dead_lettered":1,"expired":0}}}'
    connection.execute("INSERT INTO meta VALUES ('figures', ?)", (figures,))
    connection.close()
    with pytest.raises(SpoolError, match="start the gateway once"), at_rest(data_dir, clock):
        pass
    spool = open_spool(data_dir, clock)
    (letter,) = await spool.operator().find(Chosen(), most=10)
    assert (letter.size_bytes, letter.reason, letter.message) == (6, "bad", "words")
    await spool.operator().replay_dead_letters(Chosen())
    assert await drained(spool) == [b"record"]
    await assert_balanced(spool)
    await spool.close()
    with closing(sqlite3.connect(data_dir / "spool.db")) as found:
        assert found.execute("PRAGMA user_version").fetchone()[0] >= 3


async def test_dead_letters_that_were_put_back_are_found_again_when_their_stretches_are_lost(
    spool: SqliteSpool,
) -> None:
    await refuse(spool, numbers(6))
    await spool.operator().replay_dead_letters(EACH)
    under_way = await frozen(spool, max_records=2)
    await spool.ask(lambda connection, _: connection.execute("DELETE FROM stretch"))
    await spool.ask(lambda connection, _: ranges.send_uncovered(connection, AI_TELEMETRY))
    await assert_balanced(spool)
    assert await drained(spool) == numbers(2, 6)
    await spool.ack(under_way)
    assert counts(spool) == (6, 6, 0, 0, 0)
