"""Gateways of a cell notice that their secrets differ, by digests from which no secret is found."""

import hashlib
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from gateway.app.building import Build, Stop
from gateway.app.cell.home import prepare_files
from gateway.app.cell.secrets import FILES, derive_files, differing, digests, missing, refuse_others
from gateway.common.contract.errors import CannotStart
from gateway.config.model import Config
from gateway.stores.postgres.cell import Member

SECRET = "the secret of a cell of the tests, long enough"
SHORT = b"letmein"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """With a token that was made by hand."""
    return made(tmp_path / "a", SECRET)


def made(folder: Path, secret: str) -> Path:
    folder.mkdir()
    derive_files(folder, secret)
    (folder / "admin-token").write_bytes(SHORT + b"\n")
    return folder


def noted_by_the_release_before(data_dir: Path) -> dict[str, str]:
    return {name: hashlib.sha256((data_dir / name).read_bytes().strip()).hexdigest() for name in FILES}


def member(noted: dict[str, str]) -> Member:
    return Member("id", "other", "0.1.0", 1.0, 0.0, [1], noted)


def test_a_token_that_was_made_by_hand_is_not_found_from_its_digest(data_dir: Path, tmp_path: Path) -> None:
    noted = digests(data_dir)
    assert len(noted) == len(FILES)
    assert hashlib.sha256(SHORT).hexdigest() not in noted.values()
    of_another_cell = digests(made(tmp_path / "b", SECRET[::-1]))
    assert not {*noted.values()} & {*of_another_cell.values()}


async def test_the_first_start_notes_all_that_others_are_compared_with(tmp_path: Path) -> None:
    """Also without `store.secret`, where each file is made at that start."""
    async with AsyncExitStack() as stack:
        prepare_files(Build(Config(data_dir=tmp_path), stack, Stop(), lambda: 0, lambda: 0.0, {}, None))
        assert {name.removesuffix(" hmac") for name in digests(tmp_path)} >= set(FILES) - {"user-secret"}


def test_a_file_that_differs_is_named(data_dir: Path, tmp_path: Path) -> None:
    other = made(tmp_path / "b", SECRET)
    assert differing(data_dir, digests(other)) == []
    (other / "viewer-token").write_text("another")
    assert differing(data_dir, digests(other)) == ["viewer-token"]
    (other / "control.pepper").write_text("1" * 64)
    assert differing(data_dir, digests(other)) == ["control.pepper"]
    with pytest.raises(CannotStart, match=r"control\.pepper in .* the gateway on other"):
        refuse_others(data_dir, [member(digests(other))])


def test_a_file_that_only_the_other_has_is_missing(data_dir: Path, tmp_path: Path) -> None:
    other = digests(data_dir)
    (data_dir / "user-secret").unlink()
    assert missing(data_dir, other) == ["user-secret"]
    assert differing(data_dir, other) == []


def test_a_gateway_of_the_release_before_is_compared_too_and_finds_nothing_that_differs(data_dir: Path) -> None:
    before = noted_by_the_release_before(data_dir)
    refuse_others(data_dir, [member(before)])
    assert not before.keys() & digests(data_dir).keys(), "it compares entries of the same name"
    (data_dir / "viewer-token").write_text("another")
    assert differing(data_dir, before) == ["viewer-token"]
    assert missing(data_dir, before) == []
