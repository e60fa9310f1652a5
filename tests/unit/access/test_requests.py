"""Bodies about keys: each refusal lists every fault."""

import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.access.errors import InvalidKey
from gateway.access.key import mint
from gateway.access.limits import RateLimits
from gateway.access.record import KeyRecord
from gateway.access.requests import KeyChange, KeyDeletion, NewKey
from gateway.common.contract.scopes import SEND_AI_TELEMETRY, Fixed, Managed
from gateway.common.suggestions import nearest

NAME_AND_GRANT = {"name": "sender", "managed": ["send-ai-telemetry"]}
READING = Fixed(frozenset({"billing:read_costs"}))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
FIELDS = ("name", "description", "scopes", "managed", "labels", "limits", "by", "secret", "confirmed")


def key(**fields: Any) -> KeyRecord:
    made: dict[str, Any] = {"key_id": "0123456789", "name": "sender", "description": "d", "grant": READING}
    made |= {"status": "Enabled", "display": "tgk_0123456789_…abcd", "created_by": "a", "created_at_ms": 1}
    return KeyRecord(**{**made, "updated_by": "a", "modified_at_ms": 1, "accessed_at_ms": None, **fields})


def faults_of(fields: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidKey) as refused:
        NewKey.checked(fields)
    return str(refused.value).split("; ")


@pytest.mark.parametrize(
    "typed",
    ["send-ai-telemetry", "Send AI Telemetry", " SEND ai\ttelemetry ", "send_ai_telemetry", "Send  AI-Telemetry"],
)
def test_a_use_case_is_known_by_the_name_that_people_see(typed: str) -> None:
    assert NewKey.checked({**NAME_AND_GRANT, "managed": [typed]}).grant == Managed(frozenset({SEND_AI_TELEMETRY}))


def test_a_scope_is_known_in_any_case_and_with_blanks() -> None:
    asked = {"name": "sender", "scopes": ["Billing:Read_Costs", " billing : read_costs "]}
    assert NewKey.checked(asked).grant == READING


@pytest.mark.parametrize(
    ("field", "typed", "expected"),
    [
        ("scopes", "billing:read_cost", "did you mean 'billing:read_costs'?"),
        ("scopes", "read_insights", "did you mean 'insights:read_insights'?"),
        ("scopes", "ingest", "did you mean 'ai-telemetry-ingest:ingest-ai-telemetry'?"),
        ("scopes", "Send AI Telemetry", "it is a managed use case"),
        ("managed", "send-telemetry", "did you mean 'send-ai-telemetry'?"),
        ("managed", "billing", "did you mean 'send-billing-data'?"),
        ("managed", "billing:read_costs", "it is a fixed scope"),
    ],
)
def test_an_unknown_name_is_refused_with_the_one_that_comes_near(field: str, typed: str, expected: str) -> None:
    (fault,) = faults_of({"name": "sender", field: [typed]})
    assert fault.startswith(f"{field}: unknown ")
    assert expected in fault


def test_what_resembles_nothing_is_refused_without_a_guess() -> None:
    assert faults_of({"name": "sender", "scopes": ["zzz"]}) == ["scopes: unknown scope 'zzz'"]
    assert nearest("", ["a"]) is None


def test_a_key_that_was_put_in_a_wrong_field_is_not_repeated() -> None:
    secret = mint("tgk", Random(5).randbytes).secret.reveal()
    text = "; ".join(faults_of({"name": secret * 9, "scopes": [secret], "by": [secret], secret: 1, "secret": secret}))
    assert secret not in text
    assert secret.split("_")[2] not in text


def test_every_fault_is_reported_at_once_and_names_its_field() -> None:
    faults = faults_of(
        {
            "name": "ab",
            "description": "a\x00b",
            "scopes": ["x:y"],
            "managed": [],
            "labels": {"ok": "", "": "x"},
            "limits": {"requests_per_minute": 0, "bytes_per_minute": -1},
            "by": " ",
            "confirmed": "yes",
            "odd": 1,
        }
    )
    fields = [re.split("[:.]| may", fault)[0] for fault in faults]
    expected = ["the body", "name", "description", "scopes, managed", "scopes", "managed", "labels", "labels"]
    assert fields == [*expected, "limits", "by", "confirmed"]


@pytest.mark.parametrize(
    ("given_", "fault"),
    [
        ({"scopes": []}, "scopes: a key with fixed scopes needs at least one scope"),
        ({"managed": []}, "managed: a key with managed scopes needs at least one use case"),
        ({}, "scopes, managed: one of them is needed, with at least one entry"),
        ({"scopes": None, "managed": None}, "scopes, managed: one of them is needed, with at least one entry"),
        ({"scopes": "billing:read_costs"}, "scopes: a list of names is needed"),
        ({"managed": [1]}, "managed: a list of names is needed"),
        (
            {"limits": {"per_day": 1}},
            "limits: an object of requests_per_minute, bytes_per_minute, team, project and tags such as tag:feature is needed",
        ),
        (
            {"limits": {"requests_per_minute": True}},
            "limits.requests_per_minute: a whole number from 1 on is needed, or null for no limit",
        ),
        ({"labels": ["a"]}, "labels: an object of texts, with null for a label to remove, is needed"),
    ],
)
def test_a_field_of_another_form_is_refused(given_: dict[str, Any], fault: str) -> None:
    grant = {} if given_.keys() & {"scopes", "managed"} or not given_ else {"managed": ["send-ai-telemetry"]}
    assert faults_of({"name": "sender", **grant, **given_}) == [fault]


def refusal(read: Callable[[dict[str, Any]], object], fields: dict[str, Any]) -> str | None:
    """None when it was read."""
    try:
        read(fields)
    except InvalidKey as refused:
        return str(refused)
    return None


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), ANY_JSON))
def test_any_json_is_a_key_or_is_refused_in_words(fields: dict[str, Any]) -> None:
    for read in (NewKey.checked, KeyChange.checked, KeyDeletion.checked):
        assert refusal(read, fields) != ""


def test_labels_and_limits_of_a_change_are_merged_and_the_rest_stays() -> None:
    before = key(labels={"team": "search", "stage": "dev"}, limits=RateLimits(5, 1000))
    change = KeyChange.checked(
        {"labels": {"stage": None, "app": "x"}, "limits": {"bytes_per_minute": None}, "by": "b@example.com"}
    )
    after = change.apply(before)
    assert dict(after.labels) == {"app": "x", "team": "search"}
    assert after.limits == RateLimits(5, None)
    assert (after.name, after.description, after.grant, change.by) == ("sender", "d", READING, "b@example.com")


def test_a_change_goes_from_one_kind_of_grant_to_the_other_but_never_to_none() -> None:
    assert KeyChange.checked({"managed": ["Send AI Telemetry"]}).apply(key()).grant == Managed(
        frozenset({SEND_AI_TELEMETRY})
    )
    for nothing in ({"scopes": []}, {"managed": []}, {"by": "x"}, {}):
        with pytest.raises(InvalidKey):
            KeyChange.checked(nothing)


def test_a_merge_that_makes_too_many_labels_is_refused() -> None:
    full = key(labels={f"l{n}": "x" for n in range(32)})
    with pytest.raises(InvalidKey, match="at most 32"):
        KeyChange.checked({"labels": {"one more": "x"}}).apply(full)
    assert len(KeyChange.checked({"labels": {"one more": "x", "l0": None}}).apply(full).labels) == 32
