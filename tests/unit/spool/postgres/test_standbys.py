"""A commit that no standby has is not answered, whatever the server says."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from spool.errors import SpoolError, SpoolFull
from spool.postgres import spool as postgres_spool
from spool.record import AI_TELEMETRY
from spool.store import ItemCounts
from tests.support.polling import HANGS_S, until_true
from tests.support.postgres import Server, needs_postgres, running_server
from tests.support.spool_homes import InPostgres
from tests.support.spool_rig import Clock, append, drained

pytestmark = needs_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as found:
        yield found


@pytest.fixture
def home(server: Server, clock: Clock) -> Iterator[InPostgres]:
    yield InPostgres(clock, server.new_schema())
    await_standby(server, "")


def await_standby(server: Server, name: str) -> None:
    """From now on each commit waits for the standby of that *name*, which never comes."""
    with psycopg.connect(server.dsn(), autocommit=True) as other:
        other.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        other.execute("SELECT pg_reload_conf()")
        waits = "SELECT 1 FROM pg_settings WHERE name = 'synchronous_standby_names' AND setting = %s"
        while other.execute(waits, (name,)).fetchone() is None:
            other.execute("SELECT pg_sleep(0.01)")
        if name:
            until_commits_wait(server, other)


def until_commits_wait(server: Server, other: psycopg.Connection) -> None:
    """Commits wait only once the checkpointer has read the setting too: commit until one does."""
    with psycopg.connect(server.dsn(), autocommit=True) as probe:
        waits = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep'"

        def cancelled() -> bool:
            return other.execute(waits, (probe.info.backend_pid,)).fetchone() is not None

        with ThreadPoolExecutor(1) as thread:
            is_waiting = False
            while not is_waiting:
                commit = thread.submit(probe.execute, "SELECT pg_logical_emit_message(true, 'probe', '')")
                while not commit.done() and not (is_waiting := cancelled()):
                    other.execute("SELECT pg_sleep(0.001)")


async def until_a_commit_waits(server: Server) -> None:
    def waits() -> bool:
        with psycopg.connect(server.dsn(), autocommit=True) as other:
            return other.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone() is not None

    await until_true(waits, what="a commit that waits for a standby")


async def test_a_wait_that_was_cancelled_is_no_success(server: Server, home: InPostgres) -> None:
    spool = home.open()
    await_standby(server, "nobody")
    waiting = append(spool, [b"1"])
    await until_a_commit_waits(server)
    with psycopg.connect(server.dsn(), autocommit=True) as other:
        other.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    with pytest.raises(SpoolError, match="the outcome of a commit is unknown: canceling wait for synchronous"):
        await waiting
    await_standby(server, "")
    assert spool.edge()["received"] == 0, "as committed last"
    await append(spool, [b"2"])
    assert spool.edge()["received"] == 2, "as the database has it"
    assert await drained(spool) == [b"1", b"2"]
    await home.check()
    await spool.close()


async def test_while_none_is_there_no_more_is_taken_than_fits_into_memory(
    server: Server, home: InPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_spool, "MAX_WAITING_BYTES", 1000)
    spool = home.open()
    await_standby(server, "nobody")
    waiting = append(spool, [b"x" * 900])
    await until_a_commit_waits(server)
    with pytest.raises(SpoolFull, match="too much waits for a commit"):
        spool.admit(200)
    await_standby(server, "")
    await waiting
    spool.admit(200)
    await spool.close()


async def test_a_stop_ends_and_what_waited_was_not_answered(
    server: Server, home: InPostgres, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_spool, "STOP_S", 0.2)
    spool = home.open()
    await_standby(server, "nobody")
    waiting = [append(spool, [b"1"])]
    await until_a_commit_waits(server)
    waiting.append(spool.append(AI_TELEMETRY, [b"2"], ItemCounts(received=1, kept=1)))
    async with asyncio.timeout(HANGS_S):
        await spool.close()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(answer, SpoolError) for answer in answers), answers
    await_standby(server, "")
    assert await drained(home.open()) == [b"1"], "it was on its way; the second never left"
    await home.check()
    await home.close()
