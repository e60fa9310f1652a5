"""The lock of a data directory: what it guards, and what it never writes to."""

import fcntl
import multiprocessing
import os
from pathlib import Path

import pytest

from spool.data_lock import DataLock
from spool.errors import SpoolError, SpoolLocked


def take(data_dir: Path) -> None:
    with DataLock(data_dir):
        pass


def test_a_lock_that_was_deleted_still_keeps_a_second_out(tmp_path: Path) -> None:
    with DataLock(tmp_path):
        (tmp_path / "lock").unlink()
        with pytest.raises(SpoolLocked, match="another gateway runs on this data directory"):
            DataLock(tmp_path)
    take(tmp_path)


def test_a_lock_file_alone_keeps_out_too(tmp_path: Path) -> None:
    """As an older release holds it."""
    with (tmp_path / "lock").open("w+") as older:
        older.write("4711")
        older.flush()
        fcntl.flock(older, fcntl.LOCK_EX)
        with pytest.raises(SpoolLocked, match=r"\(process 4711\)"):
            DataLock(tmp_path)
    take(tmp_path)


@pytest.mark.parametrize("plant", ["symlink_to", "hardlink_to"])
def test_a_link_in_the_place_of_the_lock_costs_its_target_nothing(tmp_path: Path, plant: str) -> None:
    target, data_dir = tmp_path / "precious", tmp_path / "data"
    target.write_text("kept as it is")
    target.chmod(0o644)
    data_dir.mkdir()
    getattr(data_dir / "lock", plant)(target)
    with pytest.raises(SpoolError, match=f"rm {data_dir / 'lock'}"):
        DataLock(data_dir)
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("kept as it is", 0o644)


@pytest.mark.timeout(120)
def test_a_pipe_in_the_place_of_the_lock_does_not_hang_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(SpoolError, match="no plain file"):
        DataLock(tmp_path)


def test_nothing_is_written_before_the_lock_is_held(tmp_path: Path) -> None:
    with DataLock(tmp_path):
        before = (tmp_path / "lock").stat()
        with pytest.raises(SpoolLocked):
            DataLock(tmp_path)
        after = (tmp_path / "lock").stat()
        assert (tmp_path / "lock").read_text() == str(os.getpid())
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)


@pytest.mark.parametrize("how", ["deleted", "replaced", "a link"])
def test_a_lost_lock_file_is_made_again_once(tmp_path: Path, how: str) -> None:
    data_dir, target = tmp_path / "data", tmp_path / "precious"
    data_dir.mkdir()
    target.write_text("kept as it is")
    with DataLock(data_dir) as lock:
        assert lock.guards()
        assert not lock.keep()
        (data_dir / "lock").unlink()
        if how == "replaced":
            (data_dir / "lock").write_text("1")
        elif how == "a link":
            (data_dir / "lock").symlink_to(target)
        assert lock.keep()
        assert not lock.keep()
        assert (data_dir / "lock").read_text() == str(os.getpid())
        with pytest.raises(SpoolLocked):
            DataLock(data_dir)
    assert target.read_text() == "kept as it is"


def test_a_lock_file_that_another_holds_by_now_is_reported(tmp_path: Path) -> None:
    with DataLock(tmp_path) as lock:
        (tmp_path / "lock").unlink()
        with (tmp_path / "lock").open("w+") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            with pytest.raises(SpoolLocked, match="another gateway runs"):
                lock.keep()


@pytest.mark.parametrize("how", ["moved", "replaced"])
def test_a_data_directory_that_is_no_longer_there_is_reported(tmp_path: Path, how: str) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with DataLock(data_dir) as lock:
        data_dir.rename(tmp_path / "elsewhere")
        if how == "replaced":
            data_dir.mkdir()
        assert not lock.guards()
        with pytest.raises(SpoolLocked, match=how):
            lock.keep()


def contend(data_dir: Path, rounds: int, together: Path) -> None:
    """Take the lock again and again while others do and the file is deleted; two at a time are one
    too many.
    """
    for _ in range(rounds):
        try:
            lock = DataLock(data_dir)
        except SpoolError:
            continue
        with lock:
            os.close(os.open(together, os.O_CREAT | os.O_EXCL))
            (data_dir / "lock").unlink(missing_ok=True)
            together.unlink()


def test_processes_that_start_while_the_file_is_deleted_never_hold_it_together(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    fork = multiprocessing.get_context("forkserver")
    contenders = [fork.Process(target=contend, args=(data_dir, 2000, tmp_path / "together")) for _ in range(3)]
    for contender in contenders:
        contender.start()
    for contender in contenders:
        contender.join(60)
    assert [contender.exitcode for contender in contenders] == [0, 0, 0]
