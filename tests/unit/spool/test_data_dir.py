"""Which directory is taken as a data directory, and whose rights are left alone."""

import os
import stat
from pathlib import Path

import pytest

from spool.data_dir import make_data_dir
from spool.errors import SpoolError
from tests.support.spool_rig import open_spool


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def folder(path: Path, rights: int, *files: str) -> Path:
    path.mkdir(parents=True)
    for name in files:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"")
    path.chmod(rights)
    return path


def of_another_user(path: Path) -> Path:
    """Someone else's, that this user can enter."""
    if os.geteuid() != 0:
        return Path("/usr")
    folder(path, 0o755)
    os.chown(path, 12345, 12345)
    return path


def refused(path: Path, why: str) -> None:
    """Stated with *why* and a way out, and nothing is changed."""
    before, held = mode(path), sorted(path.iterdir())
    with pytest.raises(SpoolError, match=why) as caught:
        make_data_dir(path)
    assert f"{path}: others can enter this folder" in str(caught.value)
    assert (mode(path), sorted(path.iterdir())) == (before, held)


@pytest.mark.parametrize("name", ["data", "deep/er/data"])
def test_a_missing_one_is_made_private(tmp_path: Path, name: str) -> None:
    make_data_dir(tmp_path / name)
    assert mode(tmp_path / name) == 0o700


@pytest.mark.parametrize(
    "files",
    [(), ("lost+found",), ("lock", "notes.txt"), ("spool.db",), ("control.db",), ("service/service.db",)],
)
def test_an_empty_one_and_a_gateways_own_are_made_private(tmp_path: Path, files: tuple[str, ...]) -> None:
    path = folder(tmp_path / "data", 0o775, *files)
    make_data_dir(path)
    assert mode(path) == 0o700


def test_one_that_others_cannot_enter_is_taken_as_it_is(tmp_path: Path) -> None:
    path = folder(tmp_path / "data", 0o700, "provisioned-secret")
    make_data_dir(path)
    assert mode(path) == 0o700


def test_other_peoples_files_are_not_hidden_from_them(tmp_path: Path) -> None:
    refused(folder(tmp_path / "home", 0o755, "letters.txt"), "holds other files")
    (folder(tmp_path / "var", 0o755) / "lock").mkdir()
    refused(tmp_path / "var", "holds other files")


@pytest.mark.parametrize("files", [(), ("lock",)])
def test_a_folder_that_many_use_is_left_alone(tmp_path: Path, files: tuple[str, ...]) -> None:
    refused(folder(tmp_path / "tmp", 0o1777, *files), "many use it")


def test_another_users_folder_is_left_alone(tmp_path: Path) -> None:
    refused(of_another_user(tmp_path / "theirs"), "belongs to another user")


def test_the_spool_opens_nothing_there(tmp_path: Path) -> None:
    path = folder(tmp_path / "tmp", 0o1777)
    with pytest.raises(SpoolError, match="many use it"):
        open_spool(path)
    assert list(path.iterdir()) == []
