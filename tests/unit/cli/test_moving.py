"""What `store migrate` refuses, with the remedy; nothing is changed then."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import rmtree

import psycopg
import pytest
from click.testing import CliRunner, Result

from benchmarks.processes import PROJECT_ROOT
from gateway.app.cell.secrets import FILES, derived
from gateway.cli.main import main
from gateway.stores.moving.files import make_files
from spool.data_dir import MOVED, RESTORING
from spool.data_lock import DataLock
from spool.errors import SpoolError
from tests.support.postgres import needs_postgres, shared_server
from tests.support.spool_rig import open_spool

pytestmark = needs_postgres

SECRET = "a secret of a cell that is long enough for it"
PEPPER = b"00" * 32
BUDGET = ("--amount", "1", "--currency", "USD", "--period", "day")


class Rig:
    """A data directory that was used, and an empty cell, with the directory of its one gateway."""

    def __init__(self, folder: Path) -> None:
        self.source, self.own = folder / "source", folder / "own"
        self.source.mkdir(mode=0o700)
        self.own.mkdir(mode=0o700)
        asyncio.run(make_files(self.source))
        asyncio.run(self._used())
        for path in (self.source, self.own):
            (path / "control.pepper").write_bytes(PEPPER)
        self.config = folder / "cell.yaml"
        self.configure()

    async def _used(self) -> None:
        spool = open_spool(self.source)
        await spool.ask(lambda connection, _: connection.execute("INSERT INTO side_count VALUES ('a', 'b', 1)"))
        await spool.close()

    def configure(self, **store: str) -> None:
        of_store = {
            "type": "postgres",
            "dsn": shared_server().dsn(),
            "cell": "refusals",
            "durability": "storage",
            **store,
        }
        key = {"name": "k", "secret": "x" * 20, "managed": ["send-ai-telemetry"]}
        settings = {
            "data_dir": str(self.own),
            "store": of_store,
            "upstream": {"base_url": "https://x.example", "keys": [key]},
        }
        self.config.write_text(json.dumps(settings))

    def migrate(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["store", "migrate", "--config", str(self.config), *arguments])

    def move_in(self) -> Result:
        return self.migrate("--data-dir", str(self.source))

    def refused(self, result: Result, *texts: str) -> None:
        assert result.exit_code == 1, result.output
        for text in texts:
            assert text in " ".join(result.output.split())
        assert not (self.source / MOVED).exists()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    yield Rig(tmp_path)
    with psycopg.connect(shared_server().dsn(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS cell_refusals CASCADE")


def test_a_directory_is_moved_once_and_marked(rig: Rig) -> None:
    moved = rig.move_in()
    assert moved.exit_code == 0, moved.output
    assert "control.pepper" in moved.output
    assert (rig.source / MOVED).read_text().startswith("cell refusals of ")
    with pytest.raises(SpoolError, match=r"moved to the cell refusals .*store\.type: postgres"):
        open_spool(rig.source)
    checked = CliRunner().invoke(main, ["check", "--data-dir", str(rig.source)])
    assert "moved to the cell refusals" in checked.output
    made = CliRunner().invoke(main, ["budgets", "create", "b", *BUDGET, "--data-dir", str(rig.source)])
    assert "moved to the cell refusals" in made.output
    assert CliRunner().invoke(main, ["budgets", "list", "--data-dir", str(rig.source)]).exit_code == 0
    again = rig.move_in()
    assert "the cell is not empty (it holds side_count)" in again.output
    assert again.exit_code == 1
    assert (rig.source / MOVED).exists()
    rig.configure(cell="another")
    assert "moved to the cell refusals" in rig.move_in().output


def test_a_directory_of_a_running_gateway_is_refused(rig: Rig) -> None:
    with DataLock(rig.source):
        rig.refused(rig.move_in(), "another gateway runs on this data directory", "stop the gateway")


def test_a_directory_without_a_gateway_or_half_restored_is_refused(rig: Rig) -> None:
    (rig.source / RESTORING).mkdir()
    rig.refused(rig.move_in(), "a restore is under way")
    rig.refused(rig.migrate("--data-dir", str(rig.own)), "holds no spool.db and no control.db", "--data-dir")


def test_a_damaged_spool_is_refused(rig: Rig) -> None:
    with closing(sqlite3.connect(rig.source / "spool.db")) as connection, connection:
        connection.execute(
            "UPDATE meta SET value = replace(value, '\"received\":0', '\"received\":9') WHERE name = 'figures'"
        )
    rig.refused(
        rig.move_in(), "the spool is damaged", "an identity does not hold", "start the gateway on this directory once"
    )


@pytest.mark.parametrize("file", ["control.pepper", "user-secret", "machine-secret"])
def test_a_secret_that_differs_or_is_missing_is_named(rig: Rig, file: str) -> None:
    (rig.source / file).write_text("11" * 32)
    rig.refused(
        rig.move_in(),
        f"{file} of",
        "must go along",
        f"copy {', '.join(x for x in FILES if (rig.source / x).exists())} from",
    )
    (rig.own / file).write_text("11" * 32)
    assert rig.move_in().exit_code == 0


def test_secrets_that_store_secret_does_not_make_are_refused(rig: Rig) -> None:
    rig.configure(secret=SECRET)
    rig.refused(rig.move_in(), "control.pepper of", "store.secret makes others", "leave store.secret out")
    (rig.source / "control.pepper").write_bytes(derived("control.pepper", SECRET))
    moved = rig.move_in()
    assert moved.exit_code == 0, moved.output


def test_a_target_that_is_not_empty_is_refused(rig: Rig) -> None:
    assert rig.move_in().exit_code == 0
    into = str(rig.source)
    refused = rig.migrate("--to", "sqlite", "--data-dir", into)
    assert refused.exit_code == 1
    assert "a cell is moved into an empty directory alone" in " ".join(refused.output.split())


def test_the_way_back_brings_the_secrets_and_a_spool_that_opens(rig: Rig, tmp_path: Path) -> None:
    assert rig.move_in().exit_code == 0
    again = tmp_path / "again"
    moved = rig.migrate("--to", "sqlite", "--data-dir", str(again), "--json")
    assert moved.exit_code == 0, moved.output
    assert json.loads(moved.output)["to"] == str(again)
    assert (again / "control.pepper").read_bytes() == PEPPER
    assert not (again / RESTORING).exists()
    asyncio.run(opened_is_sound(again, json.loads(moved.output)["gateway_id"]))
    elsewhere = rig.migrate("--to", "sqlite", "--data-dir", str(tmp_path / "elsewhere"))
    assert "moved" in elsewhere.output
    assert elsewhere.exit_code == 1


async def opened_is_sound(folder: Path, gateway_id: str) -> None:
    spool = open_spool(folder)
    assert spool.gateway_id == gateway_id
    assert (await spool.verify()).findings == []
    await spool.close()


def test_after_an_error_in_between_nothing_was_moved(rig: Rig) -> None:
    def change(sql: str) -> None:
        with closing(sqlite3.connect(rig.source / "spool.db")) as connection, connection:
            connection.execute(sql)

    change("INSERT INTO side_count VALUES ('c', 'd' || char(0), 1), ('c', 'd' || char(0xfffd), 1)")  # one in Postgres
    rig.refused(rig.move_in(), "duplicate key", "side_count")
    with psycopg.connect(shared_server().dsn("cell_refusals")) as connection:
        assert connection.execute("SELECT count(*) FROM lane").fetchone() == (0,)
    change("DELETE FROM side_count WHERE name = 'd' || char(0)")
    assert rig.move_in().exit_code == 0


def test_a_move_that_was_killed_before_its_commit_is_repeated(rig: Rig) -> None:
    assert rig.move_in().exit_code == 0
    with psycopg.connect(shared_server().dsn(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA cell_refusals CASCADE")
    again = rig.move_in()  # marked, and the cell is empty
    assert again.exit_code == 0, again.output


def killed(rig: Rig, point: str, *arguments: str) -> None:
    """The command, which ends itself by kill -9 at *point* of `tests.support.dying`."""
    command = ["tests.support.dying", point, "1", "store", "migrate", "--config", str(rig.config), *arguments]
    ended = subprocess.run([sys.executable, "-m", *command], cwd=PROJECT_ROOT, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def rows_in_cell() -> int:
    with psycopg.connect(shared_server().dsn("cell_refusals")) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM side_count").fetchone() or (0,)
        return int(rows)


@pytest.mark.parametrize(
    ("point", "is_marked", "is_moved"),
    [
        ("move: rows are in the cell", False, False),
        ("move: the directory is marked", True, False),
        ("move: behind the commit", True, True),
    ],
)
def test_a_move_that_is_killed_moved_all_or_nothing_and_is_repeated(
    rig: Rig,
    tmp_path: Path,
    point: str,
    is_marked: bool,  # noqa: FBT001 - a parameter
    is_moved: bool,  # noqa: FBT001 - as above
) -> None:
    killed(rig, point, "--data-dir", str(rig.source))
    assert ((rig.source / MOVED).exists(), rows_in_cell()) == (is_marked, int(is_moved))
    again = rig.move_in()
    assert again.exit_code == int(is_moved), again.output
    assert ("the cell is not empty" in again.output) == is_moved
    assert ((rig.source / MOVED).exists(), rows_in_cell()) == (True, 1)
    moved = rig.migrate("--to", "sqlite", "--data-dir", str(tmp_path / "again"), "--json")
    asyncio.run(opened_is_sound(tmp_path / "again", json.loads(moved.output)["gateway_id"]))


@pytest.mark.parametrize(
    "point",
    [
        "move: rows are in files",
        "move: the cell is marked",
        "move: behind the commit",
        "move: before files get their place",
    ],
)
def test_a_move_back_that_is_killed_is_repeated_into_the_same_directory(rig: Rig, tmp_path: Path, point: str) -> None:
    assert rig.move_in().exit_code == 0
    again = tmp_path / "again"
    killed(rig, point, "--to", "sqlite", "--data-dir", str(again))
    with pytest.raises(SpoolError):
        open_spool(again)
    moved = rig.migrate("--to", "sqlite", "--data-dir", str(again), "--json")
    assert moved.exit_code == 0, moved.output
    asyncio.run(opened_is_sound(again, json.loads(moved.output)["gateway_id"]))


def test_a_directory_that_came_out_of_a_cell_is_backed_up_and_one_that_went_in_is_not(rig: Rig, tmp_path: Path) -> None:
    """A gateway that starts on a backup of what was moved in would count what the cell counts."""
    assert rig.move_in().exit_code == 0
    file, out, again = str(tmp_path / "backup.tar"), tmp_path / "out", tmp_path / "again"
    refused = CliRunner().invoke(main, ["backup", "--to", file, "--data-dir", str(rig.source)])
    assert refused.exit_code == 1
    assert "would be counted and sent twice" in refused.output
    moved = rig.migrate("--to", "sqlite", "--data-dir", str(out), "--json")
    made = CliRunner().invoke(main, ["backup", "--to", file, "--data-dir", str(out)])
    assert made.exit_code == 0, made.output
    restored = CliRunner().invoke(main, ["restore", file, "--data-dir", str(again)])
    assert restored.exit_code == 0, restored.output
    asyncio.run(opened_is_sound(again, json.loads(moved.output)["gateway_id"]))


def test_a_move_back_that_was_interrupted_is_repeated_into_the_same_directory(rig: Rig, tmp_path: Path) -> None:
    assert rig.move_in().exit_code == 0
    again = tmp_path / "again"
    for _ in range(2):
        moved = rig.migrate("--to", "sqlite", "--data-dir", str(again))
        assert moved.exit_code == 0, moved.output
        rmtree(again)
        again.mkdir(mode=0o700)
        (again / RESTORING).mkdir()  # as a kill after the commit leaves it


def test_a_configuration_without_a_cell_is_refused(rig: Rig) -> None:
    rig.config.write_text("{}")
    told = rig.move_in()
    assert told.exit_code == 2
    assert "store.type: postgres" in told.output
