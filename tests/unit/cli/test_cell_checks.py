"""`check` and `doctor` with `store.type: postgres`: what a real server says, and what to do."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.app.cell.secrets import derive_files, digests
from gateway.cli.cell_checks import cell_notes, connections_of, database_faults, database_notes, standbys_needed
from gateway.cli.cell_facts import CellFacts, facts_of
from gateway.cli.start_checks import StartChecks
from gateway.common.release import release
from gateway.config.loader import load_config
from gateway.config.model import Config
from gateway.operate.findings.finding import Found
from gateway.stores.postgres.cell import Itself, PostgresCell
from gateway.stores.postgres.database import PostgresDatabase
from tests.support.commands import run_telemetry_gateway
from tests.support.polling import until_true
from tests.support.postgres import Server, needs_postgres, running_server, shared_server

pytestmark = needs_postgres

SECRET = "the secret of a cell of the tests, long enough"
UPSTREAM = {
    "base_url": "http://127.0.0.1:9",
    "keys": [{"name": "telemetry", "secret": "not-asked", "managed": ["send-ai-telemetry"]}],
}
FREE = {"http": "127.0.0.1:0", "grpc": "off", "admin": "127.0.0.1:0"}
INTERNAL = {"http": "127.0.0.1:0", "admin": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """Whose settings a test may change."""
    with running_server() as server:
        yield server


class Rig:
    """A configuration of a gateway whose cell has a name of its own."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self.name = folder, f"t{os.urandom(6).hex()}"
        self.store: dict[str, Any] = {
            "type": "postgres",
            "dsn": dsn,
            "cell": self.name,
            "durability": "storage",
            "secret": SECRET,
            "internal": INTERNAL,
        }
        self.listen = FREE

    @property
    def options(self) -> dict[str, Any]:
        return {
            "data_dir": str(self.folder / "data"),
            "listen": self.listen,
            "store": self.store,
            "upstream": UPSTREAM,
        }

    @property
    def file(self) -> Path:
        path = self.folder / "gateway.yaml"
        path.write_text(json.dumps(self.options))
        return path

    @property
    def config(self) -> Config:
        return load_config(self.file, {}, {})

    def facts(self) -> CellFacts:
        return facts_of(self.config.store)

    async def found(self) -> tuple[list[Found], list[Found]]:
        """Faults and notes."""
        checks = StartChecks(self.config)
        await checks.look()
        return checks.faults, checks.notes

    async def fault(self) -> Found:
        faults, _ = await self.found()
        assert len(faults) == 1, faults
        return faults[0]

    async def note(self) -> Found:
        faults, notes = await self.found()
        assert faults == []
        assert len(notes) == 1, notes
        return notes[0]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, shared_server().dsn())


@pytest.fixture
async def member(rig: Rig, tmp_path: Path) -> AsyncIterator[PostgresCell]:
    """Another gateway of the cell, which is alive and has its secrets."""
    home = tmp_path / "other"
    home.mkdir()
    derive_files(home, SECRET)
    with psycopg.connect(rig.store["dsn"], autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA cell_{rig.name}")
    dsn = shared_server().dsn(f"cell_{rig.name}")
    database = await PostgresDatabase.open(dsn, durability="storage", connections=1)
    cell = await PostgresCell.open(database, Itself("gw-other", "other", release(), [1], digests(home)), 60)
    await cell.note_itself(None, None)
    yield cell
    await database.close()


def ask(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(sql).fetchall()


def change(dsn: str, sql: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql)


async def test_a_sound_database_has_no_fault_and_nothing_is_made_in_it(rig: Rig) -> None:
    """No schema, no table, and no file of the data directory."""
    assert await rig.found() == ([], [])
    assert ask(rig.store["dsn"], f"SELECT 1 FROM pg_namespace WHERE nspname = 'cell_{rig.name}'") == []
    assert not (rig.folder / "data").exists()


async def test_a_cell_that_runs_has_no_fault_for_one_more_gateway(rig: Rig, member: PostgresCell) -> None:
    assert await member.take() is not None
    assert await rig.found() == ([], [])


async def test_a_database_that_is_not_there_is_named_without_its_password(rig: Rig) -> None:
    rig.store |= {"dsn": "host=127.0.0.1 port=1 dbname=telemetry user=gateway", "password": "hunter2-of-the-database"}
    found = await rig.fault()
    assert found.part == "database"
    assert "the database cannot be asked" in found.text
    assert "port 1" in found.text
    ended = run_telemetry_gateway("doctor", "--config", str(rig.file))
    assert ended.code == 1
    assert "FAULT   database: the database cannot be asked" in ended.out
    assert "hunter2" not in found.text + ended.out + ended.err


def test_without_psycopg_the_extra_is_named(rig: Rig) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from gateway.cli.main import main\n"
        f"sys.argv = ['telemetry-gateway', 'check', '--config', {str(rig.file)!r}]\n"
        "main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "pip install 'ai-telemetry-gateway[postgres]'" in ended.stderr


def test_a_postgres_that_is_too_old_is_a_fault(rig: Rig) -> None:
    facts = rig.facts()
    assert list(database_faults(rig.config, facts)) == []
    (found,) = database_faults(rig.config, replace(facts, version=120_019))
    assert found.text == "Postgres 12 is older than 13"


async def test_each_unsafe_setting_has_its_remedy(rig: Rig, tmp_path: Path) -> None:
    with running_server(["fsync=off", "synchronous_commit=off"]) as server:
        rig.store |= {"dsn": server.dsn(), "durability": "quorum"}
        faults, _ = await rig.found()
    assert [found.text.partition(":")[0] for found in faults] == [
        "fsync is off",
        "synchronous_commit is off for this role",
        "synchronous_standby_names is empty",
    ]
    assert [found.remedy for found in faults][:2] == ["set fsync = on", "set synchronous_commit = on"]
    assert "durability: storage" in (faults[2].remedy or "")


async def test_a_role_without_rights_is_told_which_schema_to_have(rig: Rig) -> None:
    role = f"r{rig.name}"
    for sql in (f"CREATE ROLE {role} LOGIN", "REVOKE CREATE ON DATABASE postgres FROM PUBLIC"):
        change(rig.store["dsn"], sql)
    rig.store["dsn"] = psycopg.conninfo.make_conninfo(rig.store["dsn"], user=role)
    found = await rig.fault()
    assert f"CREATE SCHEMA cell_{rig.name}" in (found.remedy or "")
    change(shared_server().dsn(), f"CREATE SCHEMA cell_{rig.name} AUTHORIZATION {role}")
    assert await rig.found() == ([], [])


async def test_a_timeout_of_the_role_is_no_fault_as_each_session_switches_it_off(rig: Rig) -> None:
    role = f"r{rig.name}"
    change(rig.store["dsn"], f"CREATE ROLE {role} LOGIN SUPERUSER")
    change(rig.store["dsn"], f"ALTER ROLE {role} SET statement_timeout = '30s'")
    rig.store["dsn"] = psycopg.conninfo.make_conninfo(rig.store["dsn"], user=role)
    assert await rig.found() == ([], [])
    (found,) = database_faults(rig.config, replace(rig.facts(), timeout_is_off=False))
    assert "pooler" in (found.remedy or "")


async def test_secrets_of_another_cell_are_a_fault(rig: Rig, member: PostgresCell) -> None:
    await member.take()
    rig.store["secret"] = "another secret that is long enough for a cell"
    found = await rig.fault()
    assert found.part == "secrets"
    assert found.text.startswith("control.pepper in ")
    assert "the gateway on other" in found.text
    assert str(rig.folder / "data") in found.text
    rig.store["secret"] = "too short"
    assert "32 characters or more" in (await rig.fault()).text


async def test_secrets_that_only_the_others_have_are_named(rig: Rig, member: PostgresCell) -> None:
    await member.take()
    del rig.store["secret"]
    found = await rig.note()
    assert found.part == "secrets"
    assert "user-secret, viewer-token are missing here" in found.text


async def test_a_cell_without_an_owner_is_named_while_gateways_are_alive(rig: Rig, member: PostgresCell) -> None:
    found = await rig.note()
    assert found.part == "cell"
    assert found.text.startswith("no gateway owns it, and 1 gateway is alive (other)")
    await member.take()
    assert await rig.found() == ([], [])
    await member._database.commit(lambda c: c.execute("UPDATE cell SET until = now() - interval '1 s'"))
    assert (await rig.note()).part == "cell"
    await member._database.commit(lambda c: c.execute("UPDATE member SET seen_at = now() - interval '11 s'"))
    assert await rig.found() == ([], []), "none is alive"


async def test_a_cell_that_was_moved_is_a_fault(rig: Rig, member: PostgresCell) -> None:
    await member._database.commit(lambda c: c.execute("UPDATE cell SET moved_to = 'the folder new'"))
    found = await rig.fault()
    assert found.part == "cell"
    assert found.text == f"what the cell {rig.name} held was moved to the folder new"


async def test_gateways_of_different_releases_are_named(rig: Rig, member: PostgresCell) -> None:
    await member.take()
    await member._database.commit(lambda c: c.execute("UPDATE member SET release = '0.0.1'"))
    found = await rig.note()
    assert "different releases: 0.0.1" in found.text


def test_a_clock_that_differs_by_more_than_5_s_is_named(rig: Rig) -> None:
    facts = rig.facts()
    assert abs(facts.clock_ahead_s) < 1, "of one machine"
    assert list(database_notes(rig.config, replace(facts, clock_ahead_s=4.9), ())) == []
    (ahead,) = database_notes(rig.config, replace(facts, clock_ahead_s=7.2), ())
    (behind,) = database_notes(rig.config, replace(facts, clock_ahead_s=-61), ())
    assert ahead.text == "this machine's is 7 s ahead of the database's"
    assert behind.text == "this machine's is 61 s behind the database's"


async def test_a_database_with_too_few_connections_is_named(rig: Rig, tmp_path: Path) -> None:
    with running_server(["max_connections=20"]) as server:
        rig.store |= {"dsn": server.dsn(), "connections": 8}
        found = await rig.note()
        assert found.part == "connections"
        needed = connections_of(rig.config, 1)
        assert f"1 gateway needs up to {needed}, and the database leaves 20" in found.text
        rig.store["connections"] = 2
        assert await rig.found() == ([], [])


async def test_synchronous_standbys_that_are_not_connected_are_a_fault(
    rig: Rig, own_server: Server, tmp_path: Path
) -> None:
    dsn = own_server.dsn()
    change(dsn, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (one, two)'")
    change(dsn, "SELECT pg_reload_conf()")
    rig.store |= {"dsn": dsn, "durability": "quorum"}
    waits = "SELECT 1 FROM pg_settings WHERE name = 'synchronous_standby_names' AND setting <> ''"
    await until_true(lambda: bool(ask(dsn, waits)), what="the new setting")
    found = await rig.fault()
    assert found.text.startswith("0 of 1 synchronous standby is connected")
    at = psycopg.conninfo.make_conninfo(dsn, application_name="two", dbname=None)
    async with synchronous_receiver(at, tmp_path):
        await until_true(lambda: rig.facts().standbys.synchronous == 1, what="a standby that is connected")
        assert await rig.found() == ([], [])
        change(dsn, "CREATE ROLE plain LOGIN")
        change(dsn, f"CREATE SCHEMA cell_{rig.name} AUTHORIZATION plain")
        rig.store["dsn"] = psycopg.conninfo.make_conninfo(dsn, user="plain")
        hidden = await rig.note()
    assert hidden.text == "the role may not see whether the synchronous standbys are connected"
    assert "GRANT pg_monitor" in (hidden.remedy or "")


@asynccontextmanager
async def synchronous_receiver(at: str, folder: Path) -> AsyncIterator[None]:
    """It confirms what it has on disk, as a standby does."""
    receiver = await asyncio.create_subprocess_exec("pg_receivewal", "-D", str(folder), "--synchronous", "-d", at)
    try:
        yield
    finally:
        receiver.kill()
        await receiver.wait()


@pytest.mark.parametrize(
    ("names", "needed"),
    [("", 0), ("a", 1), ("a, b", 1), ("ANY 2 (a, b, c)", 2), ("first 3 (a,b,c)", 3), ("2 (a, b)", 2), ("*", 1)],
)
def test_how_many_standbys_a_commit_waits_for(names: str, needed: int) -> None:
    assert standbys_needed(names) == needed


async def test_an_intake_that_is_open_to_all_is_a_fault_until_there_is_a_key(rig: Rig) -> None:
    rig.listen = {**FREE, "http": "0.0.0.0:0"}
    assert (await rig.fault()).part == "open intake"
    made = run_telemetry_gateway(
        "keys", "create", "--config", str(rig.file), "--name", "shop", "--managed", "send-ai-telemetry"
    )
    assert made.code == 0, made.err
    assert await rig.found() == ([], [])


def test_doctor_looks_at_no_file_of_a_store(rig: Rig) -> None:
    ended = run_telemetry_gateway("doctor", "--json", "--config", str(rig.file))
    found = {each["what"]: each["level"] for each in json.loads(ended.out)["findings"]}
    assert found.keys().isdisjoint({"SQLite", "spool", "keys", "disk", "local service"})
    assert [found[part] for part in ("database", "clock", "connections", "cell", "secrets")] == ["ok"] * 5


def test_nothing_is_said_of_a_cell_that_never_ran(rig: Rig) -> None:
    assert list(cell_notes(rig.facts())) == []
