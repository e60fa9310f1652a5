"""Attributes that the configuration lists as tags become labels of the record: these and no
others, bounded, and no secret.
"""

from typing import Any

import pytest

from gateway.rules.tags import MAX_TAG_CHARS, Tags, is_value
from tests.unit.rules import log_records
from tests.unit.rules.spans import CONTEXT, record_of

CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 1}
TAGGED = CONTEXT._replace(
    tags=Tags({"feature": ("app.feature", "feature.name"), "environment": ("stage",), "cost_center": ("owner.cc",)})
)
OTHERS = Tags({"feature": ("app.other",)})


def labels(attributes: dict[str, Any], **rest: Any) -> dict[str, str]:
    return dict(
        record_of(CALL | attributes, context=rest.pop("context", TAGGED), **rest)["attribution"].get("labels", {})
    )


def test_a_listed_attribute_is_a_label_and_no_other_is() -> None:
    assert labels({"app.feature": "search", "app.prompt": "CANARY", "feature": "x"}) == {"feature": "search"}
    assert labels({"app.feature": "search"}, context=CONTEXT) == {}


def test_the_first_listed_attribute_with_a_value_wins() -> None:
    assert labels({"feature.name": "b", "app.feature": "a"}) == {"feature": "a"}
    assert labels({"feature.name": "b", "app.feature": ""}) == {"feature": "b"}


def test_a_span_states_it_before_its_resource_and_the_key_before_both() -> None:
    resource = {"app.feature": "of the service", "owner.cc": "4711", "cost_center": "1"}
    assert labels({}, resource=resource) == {"feature": "of the service", "cost_center": "4711"}
    assert labels({"app.feature": "own"}, resource=resource)["feature"] == "own"
    fixed = TAGGED._replace(key_fixes={"label.feature": "of the key"})
    assert labels({"app.feature": "own"}, resource=resource, context=fixed)["feature"] == "of the key"


def test_a_resource_is_read_anew_under_other_tags() -> None:
    resource = {"app.feature": "a", "app.other": "b"}
    assert labels({}, resource=resource) == {"feature": "a"}
    assert labels({}, resource=resource, context=CONTEXT._replace(tags=OTHERS)) == {"feature": "b"}


def test_the_environment_is_a_field() -> None:
    attribution = record_of(CALL | {"stage": "prod"}, context=TAGGED)["attribution"]
    assert (attribution["environment"], attribution.get("labels")) == ("prod", None)


def test_numbers_and_truth_are_read_as_text() -> None:
    assert labels({"owner.cc": 4711, "app.feature": True}) == {"cost_center": "4711", "feature": "true"}


def test_blanks_around_a_value_are_no_part_of_it() -> None:
    assert labels({"owner.cc": " cc 1\u00a0", "app.feature": "  "}) == {"cost_center": "cc 1"}


def test_events_and_calls_that_only_their_content_shows_have_tags_too() -> None:
    event = {"event.name": "gen_ai.client.inference.operation.details", **CALL, "app.feature": "search"}
    call = log_records.call_of(event | {"gen_ai.response.id": "r"}, context=TAGGED)
    assert call.record["attribution"]["labels"] == {"feature": "search"}
    answer = (
        '{"id": "r-1", "model": "gpt-4o", "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}'
    )
    found = record_of({"my.output": answer, "app.feature": "search"}, context=TAGGED)
    assert found["attribution"]["labels"] == {"feature": "search"}


@pytest.mark.parametrize(
    "value",
    [
        "search", "4711", "Kundenservice Nord", "0190163d-8694-739b-aea5-966c26f8ad91", "ä" * MAX_TAG_CHARS,
        "d41d8cd98f00b204e9800998ecf8427e", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "arn:aws:iam::123456789012:role/checkout-service-prod", "team/platform#search-2", "skate-park-of-the-north-side",
    ],
)  # fmt: skip
def test_names_and_ids_are_values(value: str) -> None:
    assert labels({"app.feature": value}) == {"feature": value}


@pytest.mark.parametrize(
    "value",
    [
        "x" * (MAX_TAG_CHARS + 1), "two\nlines", "a\x00b", "sk-proj-CANARYabcdefghij0123", "Bearer CANARY12345",
        "tgk_0123456789_CANARYCANARYCANARYCANARYCANARYCANARYCANARY_abcdef", "AKIAIOSFODNN7EXAMPLE",
        "ghp_CANARY0123456789abcdefghijklmnop", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.CANARY", "password=CANARY",
        "https://user:CANARY@host/path", "-----BEGIN PRIVATE KEY-----", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    ],
)  # fmt: skip
def test_what_is_no_name_or_looks_like_a_secret_is_left_out(value: str) -> None:
    assert not is_value(value)
    assert labels({"app.feature": value, "owner.cc": "1"}) == {"cost_center": "1"}
    assert labels({}, resource={"app.feature": value}) == {}


def test_a_value_behind_one_that_is_left_out_is_not_taken_for_it() -> None:
    assert labels({"app.feature": "password=CANARY", "feature.name": "b"}) == {}
