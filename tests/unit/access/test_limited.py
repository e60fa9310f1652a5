"""Limits of keys, and viewers' tokens, wherever they are kept."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.access.errors import InvalidKey, NameTaken, NoSuchKey
from gateway.access.key import SERVICE_PREFIX
from gateway.access.record import KeyId
from gateway.access.requests import KeyChange, NewKey
from gateway.access.store import KeyStore
from gateway.access.viewers import MAX_TOKENS, ViewerTokens, viewer_json
from gateway.common.contract.errors import Forbidden
from gateway.common.contract.reach import is_within, narrowed, reach_of, reach_text
from gateway.common.contract.scopes import Fixed
from tests.support.polling import until_true
from tests.support.stores import SQL_HOMES, Home, home_of

from .conftest import PEPPER, Clock, open_store

READING = Fixed(frozenset({"billing:read_costs"}))
CHECKOUT = reach_of({"team": ["checkout", "cart"], "project": ["web"]})
MAKER = "maker@example.com"


@pytest.fixture(params=SQL_HOMES)
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Home]:
    async with home_of(request.param, tmp_path) as home:
        yield home


@pytest.fixture
async def keys(home: Home, clock: Clock) -> AsyncIterator[KeyStore]:
    store = await open_store(await home.keys(), clock)
    yield store
    await store.close()


@pytest.fixture
def tokens(keys: KeyStore) -> ViewerTokens:
    return keys.viewer_tokens()


# ---- keys


async def test_a_key_keeps_what_it_is_limited_to(home: Home, keys: KeyStore, clock: Clock) -> None:
    made = await keys.create("reader", READING, by=MAKER, reach=CHECKOUT)
    assert made.key.as_json()["limits"] == {
        "requests_per_minute": None, "bytes_per_minute": None, "team": ["cart", "checkout"], "project": ["web"],
    }  # fmt: skip
    again = await open_store(await home.keys(), clock)
    found = again.authenticate(made.secret.reveal())
    assert found is not None
    assert found.reach == CHECKOUT
    await again.close()


async def test_a_change_of_a_key_sets_and_removes_its_limits_one_by_one(keys: KeyStore) -> None:
    key_id = KeyId((await keys.create("reader", READING, by=MAKER, reach=CHECKOUT)).key.key_id)
    other = KeyChange.checked({"limits": {"team": ["search"], "requests_per_minute": 5}})
    changed = await keys.revise(key_id, other.apply, by=MAKER)
    assert (changed.reach, changed.limits.requests_per_minute) == (
        reach_of({"team": ["search"], "project": ["web"]}),
        5,
    )
    changed = await keys.revise(key_id, KeyChange.checked({"limits": {"project": None}}).apply, by=MAKER)
    assert changed.reach == reach_of({"team": ["search"]})
    assert (await keys.revise(key_id, KeyChange.checked({"description": "x"}).apply, by=MAKER)).reach == changed.reach
    assert (await keys.revise(key_id, KeyChange.checked({"limits": {"team": None}}).apply, by=MAKER)).reach == ()


@pytest.mark.parametrize("names", [[], "checkout", [""], ["a\nb"], [1], ["x" * 257], ["x"] * 51])
def test_a_limit_of_another_form_is_refused_and_named(names: object) -> None:
    """An empty list would see nothing, or everything: nobody knows what was meant."""
    with pytest.raises(InvalidKey, match=r"^limits.team: a list of 1 to 50 names"):
        NewKey.checked({"name": "reader", "scopes": ["billing:read_costs"], "limits": {"team": names}})


def test_a_dimension_that_cannot_limit_is_refused() -> None:
    with pytest.raises(InvalidKey, match="limits: an object of requests_per_minute"):
        NewKey.checked({"name": "reader", "scopes": ["billing:read_costs"], "limits": {"user": ["ann"]}})


async def test_keys_of_the_local_service_cannot_be_limited(home: Home, clock: Clock) -> None:
    store = await KeyStore.open(
        await home.keys(), prefix=SERVICE_PREFIX, pepper=PEPPER, now_ms=clock, random_bytes=lambda n: bytes(range(n))
    )
    with pytest.raises(InvalidKey, match="local service"):
        await store.create("reader", READING, by=MAKER, reach=CHECKOUT)
    await store.close()


# ---- viewers' tokens


async def test_a_token_is_found_by_its_secret_until_it_is_revoked(tokens: ViewerTokens, keys: KeyStore) -> None:
    made = await tokens.create("Checkout leads", CHECKOUT, by=MAKER)
    secret = made.secret.reveal()
    assert secret.startswith("tgv_")
    assert tokens.find(secret) == tokens.of_id(made.token.token_id) == made.token
    assert viewer_json(made.token) == {
        "id": made.token.token_id,
        "name": "Checkout leads",
        "limits": {"team": ["cart", "checkout"], "project": ["web"]},
        "display": f"tgv_{made.token.token_id}_…{secret[-4:]}",
        "created_by": MAKER,
        "created_at": "2026-01-05T10:00:00.000Z",
    }
    for wrong in ("", "x" * 66, secret[:-1] + "!", secret.replace("tgv_", "tgk_")):
        assert tokens.find(wrong) is None
    assert keys.authenticate(secret) is None, "it is no key of a sender"
    assert not keys.ever_created(), "and ends no open intake"
    await tokens.revoke(made.token.token_id)
    assert tokens.find(secret) is None
    assert tokens.of_id(made.token.token_id) is None
    with pytest.raises(NoSuchKey):
        await tokens.revoke(made.token.token_id)


async def test_tokens_are_listed_by_name_and_have_each_a_name_of_its_own(tokens: ViewerTokens) -> None:
    for name in ("two", "one"):
        await tokens.create(name, (), by=MAKER)
    with pytest.raises(NameTaken, match="one"):
        await tokens.create(" one ", CHECKOUT, by=MAKER)
    with pytest.raises(InvalidKey, match=r"name: 3 to 256 characters are needed; limits.team: a list"):
        await tokens.create("x", (("team", ()),), by=MAKER)
    assert [token.name for token in await tokens.list()] == ["one", "two"]


async def test_another_process_knows_a_change_within_a_second(home: Home, tokens: ViewerTokens, clock: Clock) -> None:
    other = await open_store(await home.keys(), clock)
    theirs = other.viewer_tokens()
    made = await tokens.create("leads", CHECKOUT, by=MAKER)
    async with asyncio.timeout(1):
        await until_true(lambda: theirs.find(made.secret.reveal()) is not None, what="it is known")
    await tokens.revoke(made.token.token_id)
    async with asyncio.timeout(1):
        await until_true(lambda: theirs.find(made.secret.reveal()) is None, what="it is unknown")
    await other.close()


async def test_no_secret_is_kept(home: Home, tokens: ViewerTokens, tmp_path: Path) -> None:
    secret = (await tokens.create("leads", CHECKOUT, by=MAKER)).secret.reveal().encode()
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]  # noqa: ASYNC240 - nothing else runs
    assert not [each for each in kept if secret in each]


async def test_there_is_a_bound(tokens: ViewerTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_TOKENS == 1_000
    monkeypatch.setattr("gateway.access.viewers.MAX_TOKENS", 1)
    await tokens.create("one", (), by=MAKER)
    with pytest.raises(InvalidKey, match="1 are kept already"):
        await tokens.create("two", (), by=MAKER)


# ---- what is inside


def test_a_filter_is_inside_where_it_keeps_some_of_the_names_and_no_other() -> None:
    reach = reach_of({"team": ["a", "b"]})
    for inside in ({"team": ["a"]}, {"team": ["a", "b"], "user": ["x"]}):
        assert is_within(inside, reach)
    for beyond in ({}, {"user": ["a"]}, {"team": ["a", "c"]}, {"team": ["a", None]}):
        assert not is_within(beyond, reach)


def test_a_question_is_narrowed_and_one_about_others_is_refused() -> None:
    reach = reach_of({"team": ["a", "b"], "project": ["web"]})
    assert narrowed({"user": ["x"]}, reach) == {"team": ("a", "b"), "project": ("web",), "user": ["x"]}
    assert narrowed({"team": ["a"]}, reach) == {"team": ["a"], "project": ("web",)}
    for beyond in (["c"], ["a", "c"], [None]):
        with pytest.raises(Forbidden, match="team: this credential is limited to project web, team a or b"):
            narrowed({"team": beyond}, reach)
    assert reach_text(reach) == "project web, team a or b"
