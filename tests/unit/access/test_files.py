"""The files beside the keys: database, pepper, kept secrets."""

import stat
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.access.errors import PepperMismatch
from gateway.access.local_key_file import kept_key
from gateway.access.pepper import load_pepper
from gateway.access.store import KeyStore
from gateway.common.contract.scopes import SEND_AI_TELEMETRY, Fixed, Managed
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.storage.private_files import read_or_create, write_private
from gateway.stores.sqlite.keys import open_control

SENDING = Managed(frozenset({SEND_AI_TELEMETRY}))
READING = Fixed(frozenset({"billing:read_costs"}))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_the_owners_alone_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret"
    write_private(path, b"one")
    write_private(path, b"two")
    assert (path.read_bytes(), mode_of(path)) == (b"two", 0o600)
    assert [each.name for each in path.parent.iterdir()] == ["secret"]


def test_a_file_that_exists_is_read_and_its_rights_are_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert read_or_create(path, lambda: b"first") == b"first"
    path.chmod(0o644)
    assert read_or_create(path, lambda: b"second") == b"first"
    assert mode_of(path) == 0o600


def test_the_pepper_is_made_once_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pepper"
    pepper = load_pepper(path, lambda count: bytes(range(count)))
    assert pepper == bytes(range(32)) == load_pepper(path, bytes)
    assert mode_of(path) == 0o600
    path.write_text("abc")
    with pytest.raises(PepperMismatch):
        load_pepper(path, bytes)


async def test_a_file_that_lost_its_keys_and_has_a_pepper_is_refused(tmp_path: Path) -> None:
    database = await open_control(tmp_path)
    await database.close()
    await (await open_control(tmp_path)).close()  # ended before the pepper was made: nothing is lost
    load_pepper(tmp_path / "control.pepper", bytes)
    with pytest.raises(DatabaseUnavailable, match="its keys are gone"):
        await open_control(tmp_path)


async def test_a_kept_key_stays_the_same_until_it_no_longer_fits(keys: KeyStore, tmp_path: Path) -> None:
    path = tmp_path / "service-key"

    async def kept(grant: Fixed | Managed = SENDING) -> str:
        return (await kept_key(keys, path, name="local reader", grant=grant, by="gateway@localhost")).reveal()

    first = await kept()
    assert mode_of(path) == 0o600
    assert path.read_text() == f"{first}\n"
    assert await kept() == first
    assert await kept(READING) == first, "another gateway may have a copy of it"
    key = keys.authenticate(first)
    assert key is not None
    assert (key.grant, key.updated_by) == (READING, "gateway@localhost")
    await keys.disable("local reader", by="operator@example.com")
    after_disabling = await kept(READING)
    assert after_disabling != first
    path.unlink()
    assert await kept(READING) != after_disabling
    assert [key.name for key in await keys.list()] == ["local reader"]


async def test_a_kept_key_that_is_replaced_is_in_the_log(keys: KeyStore, tmp_path: Path) -> None:
    path = tmp_path / "service-key"
    with capture_logs() as lines:
        await kept_key(keys, path, name="local reader", grant=READING, by="gateway@localhost")
        await kept_key(keys, path, name="local reader", grant=READING, by="gateway@localhost")
        assert lines == []
        for spoil in (partial(path.write_text, ""), partial(path.write_text, "tgk_other"), path.unlink):
            spoil()
            await kept_key(keys, path, name="local reader", grant=READING, by="gateway@localhost")
    assert [(line["log_level"], line["file"], line["key"]) for line in lines] == [
        ("warning", "service-key", "local reader")
    ] * 3
