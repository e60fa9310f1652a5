"""Whose call it is, under all names in use."""

from typing import Any

import pytest

from gateway.rules.conventions.who import ANYWHERE, NAMES
from tests.unit.rules.spans import record_of

CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 1}
EVERY_NAME = [(field, name) for field, names in NAMES.items() for name in names]


def who(attributes: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return dict(record_of(CALL | attributes, **rest)["attribution"])


@pytest.mark.parametrize(("field", "name"), EVERY_NAME, ids=[name for _, name in EVERY_NAME])
def test_each_name_is_read(field: str, name: str) -> None:
    assert who({name: "acme-1"})[field] == "acme-1"


def test_a_name_that_a_convention_defines_goes_before_free_metadata() -> None:
    assert who({"traceloop.association.properties.userId": "b", "user.id": "a"})["user"] == "a"


@pytest.mark.parametrize("word", ["default_user_id", "unknown", "None", "null", '"default_user_id"'])
def test_a_placeholder_hides_no_name_behind_it(word: str) -> None:
    assert who({"user.id": word, "metadata.user_id": "u-1"})["user"] == "u-1"
    assert "user" not in who({"user.id": word})


def test_litellms_default_user_gives_way_to_the_requests_end_user() -> None:
    attributes = {"metadata.user_api_key_user_id": "default_user_id", "metadata.user_api_key_end_user_id": "u-1"}
    assert who(attributes, scope="litellm", name="litellm_request")["user"] == "u-1"


def test_a_service_may_be_called_unknown() -> None:
    assert who({}, resource={"service.name": "unknown"})["service_name"] == "unknown"


def test_bare_names_are_read_on_ai_spans_only() -> None:
    assert all("." in name for names in ANYWHERE.values() for name in names)


@pytest.mark.parametrize(
    "thread", [{"thread.id": 42}, {"thread.id": "42", "thread.name": "main"}, {"thread.id": "worker-1"}]
)
def test_a_thread_of_the_runtime_is_no_session(thread: dict[str, Any]) -> None:
    assert "session" not in who(thread)
    assert who(thread | {"gen_ai.conversation.id": "s-1"})["session"] == "s-1"
    assert who({"thread_id": "t-1"} | {f"metadata.{name}": value for name, value in {"thread_id": "t-1"}.items()})


SENTENCES = ["tell me what is wrong with my knee " * 4, "a patient\nof mine", "CANARY " * 100, "a\rb"]
NAMED = {
    "user": "user.id",
    "session": "session.id",
    "team": "team.id",
    "project": "project.id",
    "labels": "gen_ai.agent.name",
    "service_name": "service.name",
    "environment": "deployment.environment.name",
}


@pytest.mark.parametrize("text", SENTENCES, ids=len)
@pytest.mark.parametrize(("field", "name"), NAMED.items())
def test_a_text_is_nobodys_name(field: str, name: str, text: str) -> None:
    of_resource = field in {"service_name", "environment"}
    for value, is_kept in ((text, False), ("Research and Development", True), ("u" * 200, True)):
        made = who({}, resource={name: value}) if of_resource else who({name: value})
        assert (field in made) == is_kept
        assert text.strip() not in repr(made)
