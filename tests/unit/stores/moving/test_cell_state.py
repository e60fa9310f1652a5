"""When a cell is not moved, nor moved to; and what it does once it was."""

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from gateway.common.storage.errors import DatabaseUnavailable
from gateway.stores.moving import cell_state
from gateway.stores.moving.cell_state import NotMovable
from gateway.stores.moving.files import make_every_table, make_files, reading
from gateway.stores.moving.tables import Table, shared_tables
from gateway.stores.postgres.cell import Itself, PostgresCell
from gateway.stores.postgres.database import PostgresDatabase
from gateway.stores.postgres.journal import PostgresJournal
from spool.counters import EDGE_OUTCOMES, Counters
from spool.postgres.migrating import spool_scripts
from spool.postgres.session import connect
from tests.support.postgres import needs_postgres, shared_server

pytestmark = needs_postgres

ITSELF = Itself("id-a", "machine-a", "0.2.0", [1], {})
LATER = "UPDATE member SET seen_at = clock_timestamp() - interval '11 s'"
COUNTED = json.dumps(asdict(Counters(edge=dict.fromkeys(EDGE_OUTCOMES, 1))))
DEVICE = (
    "INSERT INTO devices (device_id, state, epoch, kind, origin, details, first_seen_ms, last_contact_ms, cycles,"
    " forbidden, beat_no, beat_waits, enrolment_waits) VALUES ('d', 'new', 1, 'k', %s, '', 1, 1, '', 0, 0, 0, 0)"
)


class Rig(NamedTuple):
    database: PostgresDatabase
    cell: PostgresCell
    postgres: psycopg.Connection
    """Another connection, of whoever moves."""
    tables: list[Table]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    dsn = shared_server().new_schema()
    database = await PostgresDatabase.open(dsn, durability="storage")
    await make_every_table(database)
    await database.migrate("spool", spool_scripts())
    await make_files(tmp_path)
    with connect(dsn, "storage") as postgres, reading(tmp_path) as files:
        tables = shared_tables(files, postgres)
        yield Rig(database, await PostgresCell.open(database, ITSELF, 60), postgres, tables)
    await database.close()


async def test_a_cell_is_not_moved_while_a_gateway_is_alive_or_the_lease_runs(rig: Rig) -> None:
    def refuse() -> None:
        with rig.postgres.transaction(force_rollback=True):
            cell_state.refuse_running(rig.postgres)

    await rig.cell.note_itself(None, None)
    assert (await rig.cell.take()) is not None
    with pytest.raises(NotMovable, match=r"gateways run.*machine-a.*stop all of them"):
        refuse()
    rig.postgres.execute(LATER)
    with pytest.raises(NotMovable, match=r"lease .* still runs.*wait until it ends"):
        refuse()
    await rig.cell.release(1)
    refuse()
    assert (await rig.cell.take()) is not None
    rig.postgres.execute("UPDATE cell SET until = clock_timestamp()")
    refuse()


async def test_a_cell_that_was_only_started_is_empty(rig: Rig) -> None:
    rig.postgres.execute(DEVICE, ("gateway",))
    rig.postgres.execute("INSERT INTO meta VALUES ('gateway_id', 'gw-1'), ('time', '1 1')")
    cell_state.refuse_used(rig.tables, rig.postgres)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("INSERT INTO side_count VALUES ('ai_telemetry', 'x', 1)", "side_count"),
        ("INSERT INTO journal (form, payloads, packed, body) VALUES (1, 1, FALSE, '')", "journal"),
        ("UPDATE key_facts SET created = 1", "keys, devices or counts"),
        (DEVICE.replace("%s", "'heartbeat'"), "keys, devices or counts"),
        (f"INSERT INTO meta VALUES ('figures', '{COUNTED}')", "counts"),
    ],
)
async def test_a_cell_that_holds_something_is_not_moved_to(rig: Rig, change: str, named: str) -> None:
    rig.postgres.execute(change)
    with pytest.raises(NotMovable, match=rf"not empty \(it holds .*{named}.*store\.cell"):
        cell_state.refuse_used(rig.tables, rig.postgres)


async def test_a_journal_that_holds_something_is_counted_first(rig: Rig) -> None:
    cell_state.refuse_uncounted(rig.postgres)
    await PostgresJournal(rig.database).keep(1, b"body", 3)
    with pytest.raises(NotMovable, match="holds 3 payloads that no gateway has counted: start one gateway"):
        cell_state.refuse_uncounted(rig.postgres)


async def test_a_cell_that_was_moved_is_never_owned_and_takes_nothing(rig: Rig) -> None:
    for _ in range(2):  # a move that is repeated
        cell_state.leave(rig.postgres, "/data")
    assert await rig.cell.moved_to() == "/data"
    assert await rig.cell.take() is None
    with pytest.raises(DatabaseUnavailable, match="moved"):
        await PostgresJournal(rig.database).keep(1, b"body", 3)
    with pytest.raises(NotMovable, match="moved to /data"):
        cell_state.refuse_used(rig.tables, rig.postgres)
