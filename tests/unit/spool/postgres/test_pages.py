"""psycopg has a whole answer in memory: none grows with the backlog."""

from collections.abc import Sequence
from typing import Any

import pytest

from spool.dead_letters import Chosen
from spool.postgres.connection import PostgresConnection
from spool.record import AI_TELEMETRY
from spool.sql.chunks import LONGEST_PAGE
from tests.support.postgres import needs_postgres
from tests.support.spool_homes import InPostgres
from tests.support.spool_rig import append, drained

pytestmark = needs_postgres

CHUNKS = 3 * LONGEST_PAGE


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each answer that holds bodies."""
    rows: list[int] = []
    execute = PostgresConnection.execute

    def counted(self: PostgresConnection, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        cursor = execute(self, sql, parameters)
        if sql.startswith("SELECT") and "body" in sql:
            rows.append(cursor.rowcount)
        return cursor

    monkeypatch.setattr(PostgresConnection, "execute", counted)
    return rows


async def test_a_backlog_is_read_in_pages(home: InPostgres, answers: list[int]) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    for number in range(CHUNKS):  # each in a commit of its own, so in a chunk
        await append(spool, [b"%d" % number])
    await spool.settle(AI_TELEMETRY, spool.sealed_seq)
    every = [b"%d" % number for number in range(CHUNKS)]
    assert (await spool.settled_records(AI_TELEMETRY, 0, max_bytes=1 << 20)).records == every
    outcomes = await spool.settled_outcomes(AI_TELEMETRY, 0, max_bytes=1 << 20, max_behind=CHUNKS)
    assert len(outcomes.items) == CHUNKS
    before = await spool.outcomes_before(AI_TELEMETRY, CHUNKS + 1, max_bytes=1 << 20)
    assert before.items == outcomes.items[::-1]
    bodies = [body async for body in spool.pending_bodies(AI_TELEMETRY)]
    assert bodies == every
    assert await drained(spool) == every
    assert max(answers) == LONGEST_PAGE
    assert await spool.operator().count(Chosen()) == 0
    await home.check()
    await spool.close()


async def test_who_needs_little_reads_little(home: InPostgres, answers: list[int]) -> None:
    spool = home.open()
    for number in range(CHUNKS):
        await append(spool, [b"%d" % number])
    batch = await spool.freeze(AI_TELEMETRY, max_records=3, max_bytes=1 << 20)
    assert batch is not None
    assert batch.records == (b"0", b"1", b"2")
    assert sum(answers) <= 8
    await spool.close()
