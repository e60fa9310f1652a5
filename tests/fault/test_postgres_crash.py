"""A Postgres that dies while calls come: what was answered is there, and each is counted once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from spool.errors import SpoolError
from tests.support.calls import call
from tests.support.polling import HANGS_S
from tests.support.postgres import Server, needs_postgres, running_server
from tests.support.spool_homes import InPostgres
from tests.support.spool_rig import Clock, Rig

pytestmark = needs_postgres
CALLS = 120
SENDERS = 4


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as found:
        yield found


async def send_all(rig: Rig, sender: int) -> int:
    """*sender*'s calls, one after the other; each again until it is answered. How often it was
    refused.
    """
    refused = 0
    for number in range(CALLS):
        while True:
            try:
                await rig.send(call(f"{sender}-{number}", trace=f"{sender}-{number}"))
                break
            except SpoolError:
                refused += 1
                if rig.counting.recovery is not None:
                    await rig.counting.recovery
    return refused


async def test_calls_that_come_while_it_crashes_are_counted_once(server: Server, tmp_path: Path) -> None:
    home = InPostgres(clock := Clock(), server.new_schema())
    rig = await Rig.opened(tmp_path, clock, home=home)
    sending = [asyncio.create_task(send_all(rig, sender)) for sender in range(SENDERS)]
    async with asyncio.timeout(HANGS_S):
        for kept in (40, 160):
            while rig.spool.edge()["kept"] < kept:  # noqa: ASYNC110 commits follow each other
                await asyncio.sleep(0)
            await asyncio.to_thread(server.crash)
        refused = sum(await asyncio.gather(*sending))
    assert refused > 0, "else nothing is shown"
    assert rig.spool.edge()["kept"] == SENDERS * CALLS
    await rig.settle()
    calls, tokens, _ = await rig.totals()
    assert (calls, tokens) == (SENDERS * CALLS, 100 * SENDERS * CALLS)
    await home.check()
    await rig.close()
