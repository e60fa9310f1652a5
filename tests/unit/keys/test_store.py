"""The life cycle of service-interface part 3.1 on a real file."""

import sqlite3
from pathlib import Path

import pytest

from gateway.keys.database import Database
from gateway.keys.errors import InvalidKey, NameTaken, NoSuchKey, NotConfirmed, PepperMismatch
from gateway.keys.record import NOT_IN_USE
from gateway.keys.scopes import SEND_AI_TELEMETRY, SEND_BILLING_DATA, Fixed, Managed
from gateway.keys.store import KeyStore

from .conftest import Clock, open_store

SENDING = Managed(frozenset({SEND_AI_TELEMETRY}))
READING = Fixed(frozenset({"billing:read_costs", "insights:read_insights"}))
MAKER, EDITOR = "maker@example.com", "editor@example.com"


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_a_new_key_is_enabled_and_has_the_whole_record(keys: KeyStore) -> None:
    key, secret = await keys.create("gateway eu", READING, by=MAKER, description="reads")
    assert key.as_json() == {
        "id": key.key_id,
        "name": "gateway eu",
        "description": "reads",
        "scopes": ["billing:read_costs", "insights:read_insights"],
        "status": "Enabled",
        "display": f"tgk_{key.key_id}_…{secret.reveal()[-4:]}",
        "created_by": MAKER,
        "created_at": "2026-01-05T10:00:00.000Z",
        "updated_by": MAKER,
        "last_modified": "2026-01-05T10:00:00.000Z",
        "last_accessed": "Not In Use",
        "scope_count": 2,
    }
    assert await keys.list() == [key]
    assert await keys.show("gateway eu") == key


async def test_a_managed_key_stores_its_use_case_and_not_what_that_grants(keys: KeyStore, tmp_path: Path) -> None:
    key, _ = await keys.create("sender", SENDING, by=MAKER)
    assert key.as_json()["managed"] == ["send-ai-telemetry"]
    assert "scopes" not in key.as_json()
    assert key.scope_count == 1
    connection = sqlite3.connect(tmp_path / "control.db")
    assert connection.execute("SELECT mode, grants FROM keys").fetchall() == [("managed", '["send-ai-telemetry"]')]
    connection.close()


@pytest.mark.parametrize("name", ["", "ab", "  ab  ", "a\nb\nc", "x" * 257])
async def test_a_name_that_breaks_the_rule_is_refused(keys: KeyStore, name: str) -> None:
    with pytest.raises(InvalidKey, match="name"):
        await keys.create(name, SENDING, by=MAKER)
    assert not keys.ever_created()


async def test_a_name_is_unique_for_create_and_edit(keys: KeyStore) -> None:
    await keys.create("one", SENDING, by=MAKER)
    await keys.create("two", SENDING, by=MAKER)
    with pytest.raises(NameTaken):
        await keys.create("one", READING, by=MAKER)
    with pytest.raises(NameTaken):
        await keys.edit("two", by=EDITOR, new_name="one")
    assert [(key.name, key.updated_by) for key in await keys.list()] == [("one", MAKER), ("two", MAKER)]


async def test_a_key_needs_a_scope_or_a_use_case_that_exists(keys: KeyStore) -> None:
    for grant in (Fixed(frozenset()), Managed(frozenset()), Fixed(frozenset({"x:y"})), Managed(frozenset({"x"}))):
        with pytest.raises(InvalidKey, match="scopes"):
            await keys.create("sender", grant, by=MAKER)


async def test_the_secret_opens_the_key_and_is_in_no_file(keys: KeyStore, tmp_path: Path) -> None:
    key, secret = await keys.create("sender", SENDING, by=MAKER)
    found = keys.authenticate(secret.reveal())
    assert found is not None
    assert found.key_id == key.key_id
    secret_part = secret.reveal().split("_")[2].encode()
    assert secret_part not in all_bytes(tmp_path)
    assert secret_part.decode() not in repr(keys.__dict__)


async def test_another_secret_with_a_known_id_opens_nothing(keys: KeyStore, clock: Clock, tmp_path: Path) -> None:
    other = await Database.open(tmp_path / "other.db")
    others = await open_store(other, clock)
    _, foreign = await others.create("sender", SENDING, by=MAKER)
    await keys.create("sender", SENDING, by=MAKER)
    assert keys.authenticate(foreign.reveal()) is None
    await others.close()
    await other.close()


async def test_disabling_and_enabling_count_from_the_next_request_on(keys: KeyStore, clock: Clock) -> None:
    _, secret = await keys.create("sender", SENDING, by=MAKER)
    assert keys.authenticate(secret.reveal())
    clock.time_ms += 1000
    disabled = await keys.disable("sender", by=EDITOR)
    assert (disabled.status, disabled.updated_by, disabled.last_modified) == (
        "Disabled",
        EDITOR,
        "2026-01-05T10:00:01.000Z",
    )
    assert keys.authenticate(secret.reveal()) is None
    assert not keys.any_enabled()
    await keys.enable("sender", by=EDITOR)
    assert keys.authenticate(secret.reveal())
    assert keys.any_enabled()


async def test_a_change_by_another_process_counts_from_the_next_request_on(
    keys: KeyStore, clock: Clock, tmp_path: Path
) -> None:
    _, secret = await keys.create("sender", SENDING, by=MAKER)
    assert keys.authenticate(secret.reveal())
    elsewhere = await Database.open(tmp_path / "control.db")
    other = await open_store(elsewhere, clock)
    await other.disable("sender", by=EDITOR)
    assert keys.authenticate(secret.reveal()) is None
    await other.enable("sender", by=EDITOR)
    assert keys.authenticate(secret.reveal())
    await other.delete("sender", typed_name="sender")
    assert keys.authenticate(secret.reveal()) is None
    await other.close()
    await elsewhere.close()


async def test_an_edit_changes_what_is_given_and_notes_who_and_when(keys: KeyStore, clock: Clock) -> None:
    before, secret = await keys.create("sender", SENDING, by=MAKER, description="first")
    clock.time_ms += 5000
    after = await keys.edit("sender", by=EDITOR, new_name="sender two", grant=READING)
    assert (after.name, after.grant, after.description) == ("sender two", READING, "first")
    assert (after.created_by, after.updated_by) == (MAKER, EDITOR)
    assert after.modified_at_ms == before.modified_at_ms + 5000
    found = keys.authenticate(secret.reveal())
    assert found is not None
    assert found.grant == READING
    with pytest.raises(InvalidKey):
        await keys.edit("sender two", by=EDITOR, new_name="x")
    with pytest.raises(NoSuchKey):
        await keys.edit("sender", by=EDITOR, description="gone")


async def test_a_key_may_go_from_fixed_to_managed_but_never_has_both(keys: KeyStore) -> None:
    await keys.create("sender", READING, by=MAKER)
    both = frozenset({SEND_AI_TELEMETRY, SEND_BILLING_DATA})
    after = await keys.edit("sender", by=EDITOR, grant=Managed(both))
    assert after.as_json()["managed"] == ["send-ai-telemetry", "send-billing-data"]
    assert "scopes" not in after.as_json()
    assert after.scope_count == 3


async def test_deleting_needs_the_exact_name_and_cannot_be_undone(keys: KeyStore) -> None:
    _, secret = await keys.create("Sender", SENDING, by=MAKER)
    for typed in ("sender", "Sender ", ""):
        with pytest.raises(NotConfirmed):
            await keys.delete("Sender", typed_name=typed)
    assert keys.authenticate(secret.reveal())
    await keys.delete("Sender", typed_name="Sender")
    assert keys.authenticate(secret.reveal()) is None
    assert await keys.list() == []
    assert keys.ever_created()
    with pytest.raises(NoSuchKey):
        await keys.delete("Sender", typed_name="Sender")


async def test_last_accessed_is_the_literal_text_until_first_use_and_then_written_in_one_batch(
    keys: KeyStore, clock: Clock, database: Database
) -> None:
    async def written() -> list[int | None]:
        rows = await database.read(lambda connection: connection.execute("SELECT accessed_at_ms FROM keys").fetchall())
        return [row[0] for row in rows]

    _, secret = await keys.create("sender", SENDING, by=MAKER)
    assert (await keys.show("sender")).last_accessed == NOT_IN_USE == "Not In Use"
    for _ in range(50):
        clock.time_ms += 10
        keys.authenticate(secret.reveal())
    assert (await keys.show("sender")).last_accessed == "2026-01-05T10:00:00.500Z"
    assert await written() == [None]
    await keys.flush_last_accessed()
    assert await written() == [clock.time_ms]
    clock.time_ms -= 3_600_000  # a clock that was set back
    keys.authenticate(secret.reveal())
    await keys.flush_last_accessed()
    assert await written() == [clock.time_ms + 3_600_000]


async def test_a_wrong_secret_is_no_access(keys: KeyStore) -> None:
    _, secret = await keys.create("sender", SENDING, by=MAKER)
    await keys.disable("sender", by=EDITOR)
    keys.authenticate(secret.reveal())
    assert (await keys.show("sender")).last_accessed == NOT_IN_USE


async def test_keys_survive_a_restart_with_their_access_times(database: Database, clock: Clock) -> None:
    first = await open_store(database, clock)
    _, secret = await first.create("sender", SENDING, by=MAKER)
    first.authenticate(secret.reveal())
    await first.close()
    second = await open_store(database, clock)
    assert second.authenticate(secret.reveal())
    assert (await second.show("sender")).last_accessed == "2026-01-05T10:00:00.000Z"
    await second.close()


async def test_another_pepper_is_refused_at_start_in_place_of_refusing_every_sender(
    database: Database, clock: Clock
) -> None:
    first = await open_store(database, clock)
    await first.close()
    with pytest.raises(PepperMismatch):
        await open_store(database, clock, pepper=b"q" * 32)
