"""A backup that is killed leaves nothing for good: neither a hidden file nor half a copy."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.processes import Process
from spool.sqlite.backup import UNFINISHED, back_up, remove_unfinished
from tests.support.gateway_process import GatewayProcess

DIES = """
import os, sys
from pathlib import Path
from spool.sqlite import backup
backup.sync_path = lambda _: os.kill(os.getpid(), 9)
backup.back_up(Path(sys.argv[1]), Path(sys.argv[2]))
"""
WAITS = """
import sys
from pathlib import Path
from spool.sqlite import backup
copied = backup.sync_path
def wait(path):
    print("copied", flush=True)
    sys.stdin.readline()
    backup.sync_path = copied
    copied(path)
backup.sync_path = wait
backup.back_up(Path(sys.argv[1]), Path(sys.argv[2]))
print("done", flush=True)
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Of a gateway that was stopped."""
    with GatewayProcess(tmp_path) as gateway:
        assert gateway.stop() == 0
        return gateway.data_dir


def killed_backup(data_dir: Path, to: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, str(data_dir), str(to)], check=False, timeout=60)
    assert done.returncode == -9


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_the_next_backup_deletes_what_a_killed_one_left(data_dir: Path, tmp_path: Path) -> None:
    killed_backup(data_dir, tmp_path / "monday.db")
    (left,) = hidden(tmp_path)
    assert left.endswith(UNFINISHED)
    (tmp_path / f"{left}-journal").touch()
    (tmp_path / ".of another").touch()
    back_up(data_dir, tmp_path / "tuesday.db")
    assert hidden(tmp_path) == [".of another"]
    assert not (tmp_path / "monday.db").exists()
    with closing(sqlite3.connect(tmp_path / "tuesday.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_next_start_deletes_it_in_the_data_directory(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        assert gateway.stop() == 0
        killed_backup(gateway.data_dir, gateway.data_dir / "copy.db")
        assert len(hidden(gateway.data_dir)) == 1
        gateway.start()
        assert hidden(gateway.data_dir) == []


def test_a_backup_that_is_under_way_is_left_alone(data_dir: Path, tmp_path: Path) -> None:
    backup = Process(
        [sys.executable, "-c", WAITS, str(data_dir), str(tmp_path / "monday.db")], log=tmp_path / "backup.log"
    )
    try:
        assert backup.read_line() == "copied\n"
        before = hidden(tmp_path)
        assert len(before) == 1
        (tmp_path / f"{before[0]}-journal").touch()
        back_up(data_dir, tmp_path / "tuesday.db")
        assert sorted(hidden(tmp_path)) == sorted([*before, f"{before[0]}-journal"])
        backup.write_line("")
        assert backup.read_line() == "done\n"
    finally:
        backup.kill()
    remove_unfinished(tmp_path)
    assert hidden(tmp_path) == []
    assert (tmp_path / "monday.db").stat().st_size == (tmp_path / "tuesday.db").stat().st_size
    assert (tmp_path / "monday.db").stat().st_nlink == 1
