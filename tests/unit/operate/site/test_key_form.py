"""The form of a key and the body of its operation."""

import pytest
from multidict import MultiDict

from gateway.access.requests import KeyChange, NewKey
from gateway.common.contract.scopes import Fixed
from gateway.operate.site.key_form import body_of, next_name, typed_of, values_of
from gateway.operate.site.view import FormFault

FORM = MultiDict({"name": "n", "kind": "scopes", "managed": "send-ai-telemetry", "labels": "team = a\r\n\r\nb=c=d"})
FORM.add("scopes", "billing:read_costs")
FORM.add("scopes", "views:read_view")


def test_only_the_chosen_kind_of_grant_counts() -> None:
    body = body_of(FORM, typed_of(FORM), {})
    assert "managed" not in body
    key = NewKey.checked({**body, "name": "name"})
    assert key.grant == Fixed(frozenset({"billing:read_costs", "views:read_view"}))
    assert key.labels == {"team": "a", "b": "c=d"}


def test_a_label_that_is_no_longer_in_the_form_is_removed() -> None:
    body = body_of(FORM, typed_of(FORM), {"gone": "x", "team": "z"})
    assert body["labels"] == {"gone": None, "team": "a", "b": "c=d"}
    assert KeyChange.checked({**body, "name": "name"}).labels_on({"gone": "x"}) == {"team": "a", "b": "c=d"}


@pytest.mark.parametrize(
    ("text", "limit"), [("", None), (" 60 ", 60), ("6e3", "6e3"), ("-1", "-1"), ("٣", "٣"), ("9" * 19, "9" * 19)]
)
def test_an_empty_limit_is_none_and_what_is_no_number_is_left_to_be_refused(text: str, limit: object) -> None:
    form = MultiDict(FORM, requests_per_minute=text)
    assert body_of(form, typed_of(form), {})["limits"]["requests_per_minute"] == limit


def test_a_line_without_a_name_and_a_value_is_a_fault_at_its_field() -> None:
    form = MultiDict({"labels": "a=b\nteam"})
    with pytest.raises(FormFault) as fault:
        body_of(form, typed_of(form), {})
    assert fault.value.fields == {"labels": "line 2: name=value is needed"}
    assert fault.value.typed["labels"] == "a=b\nteam"


def test_what_the_form_shows_of_a_key_is_what_it_sends_back() -> None:
    key = {
        "name": "n", "description": "", "scopes": ["billing:read_costs", "views:read_view"],
        "labels": {"team": "a", "b": "c=d"}, "limits": {"requests_per_minute": 60, "bytes_per_minute": None, "team": ["a", "b c"], "project": None, "tag:feature": ["x=y", "z"]},
    }  # fmt: skip
    shown = values_of(key)
    names = ("name", "description", "kind", "labels", "requests_per_minute", "team", "tags")
    form = MultiDict({name: shown[name] for name in names})
    form.extend([("scopes", name) for name in shown["chosen"].split()])
    assert typed_of(form) == {**shown, "bytes_per_minute": ""}
    assert body_of(form, typed_of(form), key["labels"]) == key


@pytest.mark.parametrize(
    ("name", "following"),
    [("checkout", "checkout 2"), ("checkout 2", "checkout 3"), ("team 9", "team 10"), ("v 1b", "v 1b 2"), ("7", "7 2")],
)
def test_a_key_that_replaces_another_has_the_next_name(name: str, following: str) -> None:
    assert next_name(name) == following
