"""The file of keys: what is in it, and what becomes of a damaged or an older one."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from exporters.secret import Secret
from gateway.access.limits import RateLimits
from gateway.access.store import KeyStore
from gateway.common.contract.scopes import SEND_AI_TELEMETRY, Fixed, Managed
from gateway.common.storage.database import Database, scripts_of
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.stores.sqlite.keys import SqliteKeys

from .conftest import Clock, open_store

LEGACY = Secret("a-token-that-senders-have-0123")
SENDING = Managed(frozenset({SEND_AI_TELEMETRY}))
READING = Fixed(frozenset({"billing:read_costs", "insights:read_insights"}))
MAKER, EDITOR = "maker@example.com", "editor@example.com"


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_a_managed_key_stores_its_use_case_and_not_what_that_grants(keys: KeyStore, tmp_path: Path) -> None:
    key, _ = await keys.create("sender", SENDING, by=MAKER)
    assert key.as_json()["managed"] == ["send-ai-telemetry"]
    assert "scopes" not in key.as_json()
    assert key.scope_count == 1
    connection = sqlite3.connect(tmp_path / "control.db")
    assert connection.execute("SELECT mode, grants FROM keys").fetchall() == [("managed", '["send-ai-telemetry"]')]
    connection.close()


async def test_the_secret_opens_the_key_and_is_in_no_file(keys: KeyStore, tmp_path: Path) -> None:
    key, secret = await keys.create("sender", SENDING, by=MAKER)
    found = keys.authenticate(secret.reveal())
    assert found is not None
    assert found.key_id == key.key_id
    secret_part = secret.reveal().split("_")[2].encode()
    assert secret_part not in all_bytes(tmp_path)
    assert secret_part.decode() not in repr(keys.__dict__)
    await keys.adopt(LEGACY, SENDING, by=MAKER)
    assert LEGACY.reveal().encode() not in all_bytes(tmp_path)


async def test_the_file_without_its_log_revokes_no_less_and_remembers_that_keys_were_made(
    keys: KeyStore, clock: Clock, tmp_path: Path
) -> None:
    async def told_by_the_file_alone(copy: Path) -> tuple[bool, bool]:
        shutil.copyfile(tmp_path / "control.db", copy)
        copied = await Database.open(copy)
        store = await open_store(await SqliteKeys.open(copied), clock)
        state = store.ever_created(), store.authenticate(secret.reveal()) is not None
        await store.close()
        await copied.close()
        return state

    _, secret = await keys.create("sender", SENDING, by=MAKER)
    assert await told_by_the_file_alone(tmp_path / "1.db") == (True, True)
    await keys.disable("sender", by=EDITOR)
    assert await told_by_the_file_alone(tmp_path / "2.db") == (True, False)
    await keys.enable("sender", by=EDITOR)
    await keys.delete("sender", typed_name="sender")
    assert await told_by_the_file_alone(tmp_path / "3.db") == (True, False)


async def test_no_key_is_made_in_a_file_that_was_taken_away(keys: KeyStore, tmp_path: Path) -> None:
    _, secret = await keys.create("before", SENDING, by=MAKER)
    (tmp_path / "control.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(DatabaseUnavailable, match=r"control\.db was removed"):
        await keys.create("after", SENDING, by=MAKER)
    assert keys.authenticate(secret.reveal()) is not None
    (tmp_path / "elsewhere.db").rename(tmp_path / "control.db")
    assert [key.name for key in await keys.list()] == ["before"]


async def test_a_row_that_cannot_be_read_refuses_no_key_as_unknown(keys: KeyStore, tmp_path: Path) -> None:
    _, secret = await keys.create("sender", SENDING, by=MAKER)
    with closing(sqlite3.connect(tmp_path / "control.db")) as connection, connection:
        connection.execute("UPDATE keys SET labels = '{'")
        connection.execute("UPDATE key_facts SET generation = generation + 1")
    for _ in range(2):  # in one turn of the loop
        with pytest.raises(DatabaseUnavailable):
            keys.authenticate(secret.reveal())


OLD_KEY = (
    "'0123456789', 'old key', '', 'managed', '[\"send-ai-telemetry\"]', 'Enabled', x'00', 'd', 'm', 1, 'm', 1, NULL"
)
"""The values of the first columns that keys had."""


async def test_a_file_from_before_labels_and_limits_is_brought_forward(database: Database, clock: Clock) -> None:
    first, *_ = scripts_of("gateway.stores.sqlite.migrations.keys")
    await database.migrate("keys", [first])
    await database.write(lambda connection: connection.execute(f"INSERT INTO keys VALUES ({OLD_KEY})"))
    store = await open_store(await SqliteKeys.open(database), clock)
    (key,) = await store.list()
    assert (key.name, dict(key.labels), key.limits, key.is_legacy) == ("old key", {}, RateLimits(), False)
    await store.close()


async def test_counting_knows_a_key_by_its_id_and_one_from_before_by_the_name_it_had_then(
    database: Database, clock: Clock
) -> None:
    await database.migrate("keys", scripts_of("gateway.stores.sqlite.migrations.keys")[:2])
    await database.write(
        lambda connection: connection.execute(f"INSERT INTO keys VALUES ({OLD_KEY}, '{{}}', NULL, NULL, 0)")
    )
    store = await open_store(await SqliteKeys.open(database), clock)
    new = (await store.create("new key", SENDING, by=MAKER)).key
    for name in ("old key", "new key"):
        await store.edit(name, by=EDITOR, new_name=f"{name}, renamed")
    assert {key.name: key.counted_as for key in await store.list()} == {
        "old key, renamed": "old key",
        "new key, renamed": new.key_id,
    }
    assert store.names() == {"old key": "old key, renamed", new.key_id: "new key, renamed"}
    await store.close()
