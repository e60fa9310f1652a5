"""Which key a request shows, and who is let in by it."""

import base64
import re
from collections.abc import Callable

import pytest
from multidict import CIMultiDict

from gateway.access import store as key_store
from gateway.access.key import _crc
from gateway.access.store import KeyStore
from gateway.common.contract.errors import Forbidden, Unauthenticated
from gateway.common.contract.scopes import EVENT_SCOPE, SEND_AI_TELEMETRY, Managed
from gateway.serve.auth_methods import shown_by
from gateway.serve.authenticator import KeyAuthenticator, OpenIntakeAuthenticator, credential, only_key
from gateway.serve.otlp import INGEST_SCOPE

BY = "ops@example.com"


def basic(pair: str | bytes) -> str:
    return "Basic " + base64.b64encode(pair.encode() if isinstance(pair, str) else pair).decode()


def headers(*pairs: tuple[str, str]) -> CIMultiDict[str]:
    return CIMultiDict(pairs)


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("Authorization", "the-key", "the-key"),
        ("AUTHORIZATION", "the-key", "the-key"),
        ("Authorization", "Bearer the-key", "the-key"),
        ("Authorization", "bearer  \t the-key\t ", "the-key"),
        ("Authorization", "BEARER\tthe-key", "the-key"),
        ("Authorization", basic("user:the:key"), "the:key"),
        ("Authorization", basic(":the-key").replace("Basic", "bAsIc"), "the-key"),
        ("Authorization", "Splunk the-key", "Splunk the-key"),
        ("Authorization", "Bearerthe-key", "Bearerthe-key"),
        ("X-API-Key", " the-key ", "the-key"),
        ("Api-Key", "the-key", "the-key"),
        ("x-api-key", "Bearer the-key", "Bearer the-key"),
        ("Authorization", "", None),
        ("Authorization", " \t ", None),
        ("Authorization", "Bearer", None),
        ("Authorization", "Bearer \t", None),
        ("Authorization", "Basic", None),
        ("Authorization", "Basic ???", None),
        ("Authorization", "Basic ké", None),
        ("Authorization", "Basic \udcff", None),
        ("Authorization", basic(b"user:\xff\xfe"), None),
        ("Authorization", basic("nopassword"), None),
        ("Authorization", basic("user:"), None),
        ("x-api-key", "", None),
        ("X-Other", "the-key", None),
    ],
)
def test_a_key_is_found_wherever_senders_put_it(name: str, value: str, key: str | None) -> None:
    assert credential(headers((name, value))) == key


@pytest.mark.parametrize(
    "shown",
    [
        [("Authorization", "k-one"), ("Authorization", "k-two")],
        [("Authorization", "k-one"), ("authorization", "Bearer k-two")],
        [("Authorization", "k-one"), ("x-api-key", "k-two")],
        [("x-api-key", "k-one"), ("api-key", "k-two")],
        [("api-key", "k-one"), ("api-key", "k-two")],
        [("Authorization", "k-one"), ("Authorization", "k-one"), ("Authorization", "K-one")],
    ],
)
def test_two_keys_that_differ_are_refused_and_neither_is_taken(shown: list[tuple[str, str]]) -> None:
    for order in (shown, shown[::-1]):
        with pytest.raises(Unauthenticated) as refused:
            credential(headers(*order))
        assert refused.value.reason == "keys_differ"
        assert not re.search("k-(one|two)", str(refused.value), re.IGNORECASE)


@pytest.mark.parametrize(
    "shown",
    [
        [("Authorization", "one"), ("Authorization", "Bearer one")],
        [("Authorization", basic("x:one")), ("x-api-key", "one")],
        [("Authorization", ""), ("x-api-key", "one")],
        [("Authorization", "Bearer "), ("Authorization", "one")],
    ],
)
def test_one_key_shown_twice_is_that_key(shown: list[tuple[str, str]]) -> None:
    assert credential(headers(*shown)) == "one"


def test_each_place_where_a_source_takes_keys_must_show_the_same() -> None:
    everywhere = shown_by(("key", "firehose_access_key", "vendor_headers"), url_token=True)
    same = headers(
        ("Authorization", "k"),
        ("X-Amz-Firehose-Access-Key", "k"),
        ("x-goog-api-key", "k"),
        ("cf-aig-authorization", "Bearer k"),
        ("hec", "k"),
    )
    assert only_key(everywhere(same, "k", "token=k&a=b")) == "k"
    for other in ("token=k&token=other", "token=other"):
        with pytest.raises(Unauthenticated):
            only_key(everywhere(same, "k", other))
    with pytest.raises(Unauthenticated):
        only_key(everywhere(same, "other", ""))
    for name in ("X-Amz-Firehose-Access-Key", "x-goog-api-key", "cf-aig-authorization", "hec"):
        with pytest.raises(Unauthenticated):
            only_key(everywhere(headers(*same.items(), (name, "other")), "k", ""))


def test_a_place_that_is_not_turned_on_shows_nothing() -> None:
    plain = shown_by(("key",), url_token=False)
    assert plain(headers(("X-Amz-Firehose-Access-Key", "k"), ("x-goog-api-key", "k")), "k", "token=k") == []


def test_a_long_query_is_cut_before_it_is_parsed() -> None:
    shown = shown_by(("key",), url_token=True)
    assert shown(headers(), "", "token=" + "x" * 100_000) == ["x" * 4090]


async def secret_of(keys: KeyStore, name: str = "team-a") -> str:
    made = await keys.create(name, Managed(frozenset({SEND_AI_TELEMETRY})), by=BY)
    return made.secret.reveal()


@pytest.mark.parametrize(
    "change",
    [
        str.upper,
        str.lower,
        lambda key: key[:-1],
        lambda key: key[1:],
        lambda key: key + "0",
        lambda key: key + " " + key,
        lambda key: key.replace("tgk_", "csk_"),
        lambda key: key.replace("_", "-"),
        lambda key: key[:4] + "0" * 10 + key[14:],
        lambda key: key[:20] + ("A" if key[20] != "A" else "B") + key[21:],
        lambda key: key + "\n",
        lambda key: key + "\x00",
        lambda key: key + "é",
        lambda key: "\udcff" + key,
        lambda key: key * 1000,
        lambda key: "x" * 16_000,
    ],
)
async def test_what_is_not_the_key_to_the_letter_is_unknown(keys: KeyStore, change: Callable[[str], str]) -> None:
    wrong = change(await secret_of(keys))
    with pytest.raises(Unauthenticated) as refused:
        KeyAuthenticator(keys).admit(headers(("x-api-key", wrong)), INGEST_SCOPE)
    assert refused.value.reason == "key_unknown_or_disabled"


async def test_the_missing_scope_is_named_and_so_is_the_key_to_the_operator(keys: KeyStore) -> None:
    secret = await secret_of(keys)
    with pytest.raises(Forbidden, match=EVENT_SCOPE) as refused:
        KeyAuthenticator(keys).admit(headers(("Authorization", secret)), EVENT_SCOPE)
    assert (refused.value.reason, refused.value.key) == ("scope_missing", "team-a")


async def test_a_key_of_the_local_service_opens_nothing_here(keys: KeyStore) -> None:
    foreign = (await secret_of(keys)).replace("tgk_", "csk_")
    with pytest.raises(Unauthenticated):
        KeyAuthenticator(keys).admit(headers(("Authorization", foreign)), INGEST_SCOPE)


async def test_an_unknown_id_takes_the_same_way_as_a_wrong_secret(
    keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of form, known or not, enabled or not: one keyed hash and one comparison in constant
    time, and the same answer.
    """
    right, off = await secret_of(keys, "kept"), await secret_of(keys, "disabled")
    gone = await secret_of(keys, "gone")
    await keys.disable("disabled", by=BY)
    await keys.delete("gone", typed_name="gone")
    wrong_secret = with_crc(right[:15] + ("A" if right[15] != "A" else "B") + right[16:-7])
    compared: list[str] = []
    real = key_store.matches

    def counted(pepper: bytes, text: str, stored: bytes) -> bool:
        compared.append(text)
        return real(pepper, text, stored)

    monkeypatch.setattr(key_store, "matches", counted)
    assert keys.authenticate(right) is not None
    for wrong in (wrong_secret, off, gone):
        assert keys.authenticate(wrong) is None
    assert compared == [right, wrong_secret, off, gone]


def with_crc(body: str) -> str:
    """*body* as a key of sound form."""
    return f"{body}_{_crc(body)}"


@pytest.mark.parametrize(
    ("hosts", "outcome"),
    [
        (["localhost"], "let in"),
        (["127.0.0.1:4318"], "let in"),
        (["[::1]:4318"], "let in"),
        (["LOCALHOST.:1"], "let in"),
        ([], "refused"),
        ([""], "refused"),
        (["evil.example"], "refused"),
        (["127.0.0.1.evil.example"], "refused"),
        (["localhost.evil.example"], "refused"),
        (["localhost@evil.example"], "refused"),
        (["evil.example#localhost"], "refused"),
        (["localhost:80:80"], "refused"),
        (["2130706433"], "refused"),
        (["0x7f.1"], "refused"),
        (["192.168.0.1"], "refused"),
        (["localhost", "evil.example"], "refused"),
        (["evil.example", "localhost"], "refused"),
    ],
)
def test_open_intake_answers_to_loopback_names_alone(hosts: list[str], outcome: str) -> None:
    gate, sent = OpenIntakeAuthenticator(check_host=True), headers(*(("Host", host) for host in hosts))
    if outcome == "let in":
        gate.admit(sent, INGEST_SCOPE)
    else:
        with pytest.raises(Forbidden) as refused:
            gate.admit(sent, INGEST_SCOPE)
        assert refused.value.reason == "foreign_host"
