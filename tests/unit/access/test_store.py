"""The life cycle of service-interface part 3.1, wherever the keys are kept."""

import string
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from secrets import token_bytes
from unittest.mock import patch

import pytest

from exporters.secret import Secret
from gateway.access.errors import InvalidKey, LegacyKeyExists, NameTaken, NoSuchKey, NotConfirmed, PepperMismatch
from gateway.access.key import GATEWAY_PREFIX, SERVICE_PREFIX, mint
from gateway.access.limits import RateLimits
from gateway.access.record import NOT_IN_USE, KeyId
from gateway.access.store import KeyStore
from gateway.common.contract.scopes import SEND_AI_TELEMETRY, SEND_BILLING_DATA, Fixed, Managed
from tests.support.stores import HOMES, SQL_HOMES, Home, MemoryHome, home_of

from .conftest import Clock, open_store

SENDING = Managed(frozenset({SEND_AI_TELEMETRY}))
READING = Fixed(frozenset({"billing:read_costs", "insights:read_insights"}))
MAKER, EDITOR = "maker@example.com", "editor@example.com"


@pytest.fixture(params=SQL_HOMES)
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Home]:
    async with home_of(request.param, tmp_path) as home:
        yield home


@pytest.fixture
async def keys(home: Home, clock: Clock) -> AsyncIterator[KeyStore]:
    store = await open_store(await home.keys(), clock)
    yield store
    await store.close()


async def test_a_new_key_is_enabled_and_has_the_whole_record(keys: KeyStore) -> None:
    key, secret = await keys.create("gateway eu", READING, by=MAKER, description="reads")
    assert key.as_json() == {
        "id": key.key_id,
        "name": "gateway eu",
        "description": "reads",
        "scopes": ["billing:read_costs", "insights:read_insights"],
        "labels": {},
        "limits": {"requests_per_minute": None, "bytes_per_minute": None},
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


async def test_an_accent_makes_no_second_name_that_looks_the_same(keys: KeyStore) -> None:
    key, _ = await keys.create("cafe\u0301", READING, by=MAKER)
    assert key.name == "caf\u00e9"
    with pytest.raises(NameTaken):
        await keys.create("caf\u00e9", READING, by=MAKER)
    await keys.delete(KeyId(key.key_id), typed_name="cafe\u0301")


async def test_a_key_needs_a_scope_or_a_use_case_that_exists(keys: KeyStore) -> None:
    for grant in (Fixed(frozenset()), Managed(frozenset()), Fixed(frozenset({"x:y"})), Managed(frozenset({"x"}))):
        with pytest.raises(InvalidKey, match=r"scopes|managed"):
            await keys.create("sender", grant, by=MAKER)


async def test_another_secret_with_a_known_id_opens_nothing(keys: KeyStore, clock: Clock) -> None:
    others = await open_store(await MemoryHome().keys(), clock)
    _, foreign = await others.create("sender", SENDING, by=MAKER)
    await keys.create("sender", SENDING, by=MAKER)
    assert keys.authenticate(foreign.reveal()) is None
    await others.close()


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


@pytest.mark.parametrize("home", HOMES, indirect=True)  # in Postgres: within a second
async def test_a_change_by_another_process_counts_from_the_next_request_on(
    home: Home, keys: KeyStore, clock: Clock
) -> None:
    _, secret = await keys.create("sender", SENDING, by=MAKER)
    assert keys.authenticate(secret.reveal())
    other = await open_store(await home.keys(), clock)
    await other.disable("sender", by=EDITOR)
    assert keys.authenticate(secret.reveal()) is None
    await other.enable("sender", by=EDITOR)
    assert keys.authenticate(secret.reveal())
    await other.delete("sender", typed_name="sender")
    assert keys.authenticate(secret.reveal()) is None
    await other.close()


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
    home: Home, keys: KeyStore, clock: Clock
) -> None:
    async def written() -> list[int | None]:
        again = await home.keys()
        every = await again.read(lambda kept: kept.every())
        await again.close()
        return [key.accessed_at_ms for key in every]

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


async def test_keys_survive_a_restart_with_their_access_times(home: Home, clock: Clock) -> None:
    first = await open_store(await home.keys(), clock)
    _, secret = await first.create("sender", SENDING, by=MAKER)
    first.authenticate(secret.reveal())
    await first.close()
    second = await open_store(await home.keys(), clock)
    assert second.authenticate(secret.reveal())
    assert (await second.show("sender")).last_accessed == "2026-01-05T10:00:00.000Z"
    await second.close()


async def test_another_pepper_is_refused_at_start_in_place_of_refusing_every_sender(home: Home, clock: Clock) -> None:
    first = await open_store(await home.keys(), clock)
    await first.close()
    refused = await home.keys()
    with patch.object(refused, "close", wraps=refused.close) as closed, pytest.raises(PepperMismatch):
        await open_store(refused, clock, pepper=b"q" * 32)
    closed.assert_called_once()


async def test_labels_and_limits_are_kept_edited_and_given_to_authenticated_senders(
    home: Home, keys: KeyStore, clock: Clock
) -> None:
    made, secret = await keys.create(
        "sender", SENDING, by=MAKER, labels={"team": "search", "app": "x"}, limits=RateLimits(60, 1024)
    )
    assert list(made.labels) == ["app", "team"]
    assert made.as_json()["limits"] == {"requests_per_minute": 60, "bytes_per_minute": 1024}
    with pytest.raises(TypeError):
        made.labels["team"] = "other"  # type: ignore[index]
    again = await open_store(await home.keys(), clock)
    found = again.authenticate(secret.reveal())
    assert found == made
    await again.close()
    edited = await keys.edit("sender", by=EDITOR, labels={"team": "ads"}, limits=RateLimits(None, 5))
    assert (dict(edited.labels), edited.limits) == ({"team": "ads"}, RateLimits(None, 5))
    assert keys.authenticate(secret.reveal()) == edited
    untouched = await keys.edit("sender", by=EDITOR, description="other")
    assert (untouched.labels, untouched.limits) == (edited.labels, edited.limits)


@pytest.mark.parametrize(
    "labels",
    [{"": "x"}, {"x": ""}, {"x" * 257: "x"}, {"x": "x" * 257}, {"x": "a\nb"}, {f"l{n}": "x" for n in range(33)}],
)
async def test_labels_that_break_the_rule_are_refused(keys: KeyStore, labels: dict[str, str]) -> None:
    with pytest.raises(InvalidKey, match="labels"):
        await keys.create("sender", SENDING, by=MAKER, labels=labels)
    assert await keys.list() == []


async def test_every_fault_of_a_new_key_is_reported_at_once(keys: KeyStore) -> None:
    with pytest.raises(InvalidKey, match=r"name: .*; scopes: .*; labels.*; limits\.bytes_per_minute"):
        await keys.create("x", Fixed(frozenset()), by=MAKER, labels={"x": ""}, limits=RateLimits(1, 0))


async def test_a_key_can_be_named_by_its_id_whatever_it_is_called(keys: KeyStore) -> None:
    key, secret = await keys.create("sender", SENDING, by=MAKER)
    which = KeyId(key.key_id)
    await keys.edit(which, by=EDITOR, new_name=key.key_id)
    with pytest.raises(NoSuchKey):
        await keys.show("sender")
    assert (await keys.disable(which, by=EDITOR)).status == "Disabled"
    with pytest.raises(NotConfirmed):
        await keys.delete(which, typed_name="sender")
    await keys.delete(which, typed_name=key.key_id)
    assert keys.authenticate(secret.reveal()) is None
    with pytest.raises(NoSuchKey, match="id"):
        await keys.show(which)


LEGACY = Secret("a-token-that-senders-have-0123")


async def test_the_single_key_from_before_is_listed_as_legacy_and_has_the_whole_life_cycle(keys: KeyStore) -> None:
    assert keys.authenticate(LEGACY.reveal()) is None
    key, _ = await keys.adopt(LEGACY, SENDING, by=MAKER, labels={"from": "before"})
    assert key.name == "Legacy API Key"
    assert LEGACY.reveal()[-4:] not in key.display
    assert keys.authenticate(LEGACY.reveal()) == key
    assert keys.authenticate(LEGACY.reveal() + "x") is None
    await keys.disable("Legacy API Key", by=EDITOR)
    assert keys.authenticate(LEGACY.reveal()) is None
    await keys.enable("Legacy API Key", by=EDITOR)
    await keys.edit("Legacy API Key", by=EDITOR, new_name="renamed", grant=READING)
    assert keys.authenticate(LEGACY.reveal())
    shown = await keys.show("renamed")
    assert (shown.grant, shown.last_accessed) == (READING, "2026-01-05T10:00:00.000Z")
    await keys.delete("renamed", typed_name="renamed")
    assert keys.authenticate(LEGACY.reveal()) is None


async def test_a_key_that_another_gateway_made_is_the_same_key_here(
    keys: KeyStore, clock: Clock, tmp_path: Path
) -> None:
    made, secret = await keys.create("search", SENDING, by=MAKER, labels={"team": "search"})
    other = await open_store(await MemoryHome().keys(), clock, b"q" * 32)
    try:
        taken = await other.take(secret, "search", SENDING, by=MAKER, labels={"team": "search"})
        assert (taken.key_id, taken.counted_as, taken.display) == (made.key_id, made.counted_as, made.display)
        assert other.authenticate(secret.reveal()) == taken
        clock.time_ms += 1000
        again = await other.take(secret, "search", SENDING, by=EDITOR, labels={"team": "search"})
        assert again.last_modified == made.last_modified, "nothing is new"
        await other.disable("search", by=MAKER)
        changed = await other.take(secret, "find", READING, by=EDITOR, limits=RateLimits(6, None))
        assert (changed.name, changed.grant, dict(changed.labels), changed.limits) == (
            "find",
            READING,
            {},
            RateLimits(6),
        )
        assert (changed.status, changed.updated_by) == ("Disabled", EDITOR)
    finally:
        await other.close()


async def test_what_is_no_whole_key_and_another_key_s_id_are_not_taken(keys: KeyStore) -> None:
    made, secret = await keys.create("search", SENDING, by=MAKER)
    _, another = mint(GATEWAY_PREFIX, lambda count: bytes(range(count)))
    for text in (secret.reveal()[:-1], mint(SERVICE_PREFIX, token_bytes).secret.reveal(), LEGACY.reveal()):
        with pytest.raises(InvalidKey, match="secret: a whole key is needed"):
            await keys.take(Secret(text), "taken", SENDING, by=MAKER)
    with pytest.raises(NameTaken):
        await keys.take(another, "search", SENDING, by=MAKER)
    assert [key.key_id for key in await keys.list()] == [made.key_id]
    same_id = mint(GATEWAY_PREFIX, _id_then_random(made.key_id)).secret
    with pytest.raises(InvalidKey, match="another key has its id"):
        await keys.take(same_id, "forged", SENDING, by=MAKER)
    assert keys.authenticate(secret.reveal()) is not None
    assert keys.authenticate(same_id.reveal()) is None


def _id_then_random(key_id: str) -> Callable[[int], bytes]:
    """Random bytes of which `mint` makes *key_id*."""
    alphabet = string.digits + string.ascii_uppercase + string.ascii_lowercase
    first = iter([bytes(alphabet.index(char) for char in key_id)])
    return lambda count: next(first, None) or token_bytes(count)


async def test_there_is_one_legacy_key_and_its_name_is_no_other_keys(keys: KeyStore) -> None:
    with pytest.raises(InvalidKey, match="Legacy API Key"):
        await keys.create("Legacy API Key", SENDING, by=MAKER)
    await keys.create("sender", SENDING, by=MAKER)
    with pytest.raises(InvalidKey, match="Legacy API Key"):
        await keys.edit("sender", by=EDITOR, new_name="Legacy API Key")
    await keys.adopt(LEGACY, SENDING, by=MAKER)
    await keys.edit("Legacy API Key", by=EDITOR, new_name="renamed")
    with pytest.raises(LegacyKeyExists):
        await keys.adopt(Secret("another-token-0123456789"), SENDING, by=MAKER)
    assert keys.authenticate(LEGACY.reveal()) is not None


async def test_an_imported_key_takes_another_secret_and_keeps_the_rest(keys: KeyStore) -> None:
    assert await keys.replace_legacy(LEGACY, SENDING, by=MAKER) is None
    await keys.adopt(LEGACY, SENDING, by=MAKER, labels={"from": "before"})
    before = await keys.show("Legacy API Key")
    assert await keys.replace_legacy(LEGACY, SENDING, by=EDITOR) == before, "nothing is new"
    after = await keys.replace_legacy(Secret("another-token-0123456789"), READING, by=EDITOR)
    assert after == replace(before, grant=READING, updated_by=EDITOR)
    assert keys.authenticate(LEGACY.reveal()) is None
    assert keys.authenticate("another-token-0123456789") == after
    await keys.disable("Legacy API Key", by=EDITOR)
    await keys.replace_legacy(LEGACY, SENDING, by=MAKER)
    assert keys.authenticate(LEGACY.reveal()) is None, "an operator disabled it"


@pytest.mark.parametrize(
    "text", ["short", "x" * 257, "with a blank in it", "ümlaut-0123456789", "tgk_0123456789abcdef"]
)
async def test_a_text_that_cannot_be_a_key_from_before_is_refused_unquoted(keys: KeyStore, text: str) -> None:
    with pytest.raises(InvalidKey) as refused:
        await keys.adopt(Secret(text), SENDING, by=MAKER)
    assert text not in str(refused.value)
    with pytest.raises(InvalidKey):
        await keys.replace_legacy(Secret(text), SENDING, by=MAKER)
    assert not keys.ever_created()


@pytest.mark.parametrize(
    "text", ["", "x" * 100_000, "caf\udce9-0123456789abcdef", "\x00" * 20, "a-token-that-senders-have-0124"]
)
async def test_whatever_a_header_holds_opens_no_legacy_key(keys: KeyStore, text: str) -> None:
    await keys.adopt(LEGACY, SENDING, by=MAKER)
    assert keys.authenticate(text) is None
