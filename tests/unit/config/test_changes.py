"""Which changes of a configuration a running gateway takes."""

from copy import deepcopy
from typing import Any

from gateway.config.changes import changed, is_reloaded, with_changes
from gateway.config.model import Config
from gateway.config.origins import Origin, Origins

MAPPING = {"fields": {"request_model": "model"}}


def test_nothing_changed_is_nothing_named() -> None:
    assert changed(Config(), Config()) == []


def test_what_is_taken_is_no_longer_named_and_the_rest_is() -> None:
    before = Config()
    after = Config.model_validate(
        {
            "limits": {"max_body_bytes": 2048},
            "log_level": "debug",
            "http": {"base_path": "/x"},
            "spool": {"max_age": "1d"},
        }
    )
    assert changed(before, after) == ["http.base_path", "limits.max_body_bytes", "log_level", "spool.max_age"]
    running = with_changes(before, after)
    assert changed(running, after) == ["spool.max_age"]
    assert running.limits.max_body_bytes == 2048


def test_the_mapping_of_a_source_needs_a_restart_and_its_access_does_not() -> None:
    before = Config.model_validate({"sources": {"generic": MAPPING}})
    after = Config.model_validate(
        {"sources": {"generic": {"fields": {"request_model": "name"}, "url_token": True}, "vercel": {"verify": "x"}}}
    )
    running = with_changes(before, after)
    assert changed(running, after) == ["sources.generic.fields.request_model"]
    assert running.sources["generic"].url_token
    assert running.sources["vercel"].verify == "x"


def test_a_source_that_is_gone_loses_its_access_but_not_its_mapping() -> None:
    before = Config.model_validate({"sources": {"generic": {**MAPPING, "url_token": True}, "vercel": {"verify": "x"}}})
    running = with_changes(before, Config())
    assert list(running.sources) == ["generic"]
    assert not running.sources["generic"].url_token
    assert running.sources["generic"].mapping == before.sources["generic"].mapping


def test_what_a_reload_takes_is_what_it_is_stated_to_take() -> None:
    """Each option is changed alone, and must be named as one that needs a restart or be taken."""
    before = Config.model_validate({"upstream": UPSTREAM, "sources": SOURCES})
    for option, value in CHANGES.items():
        after = Config.model_validate(with_option(option, value))
        assert changed(before, after) == [option], option
        assert is_reloaded(option) == (changed(with_changes(before, after), after) == []), option


def test_a_reloaded_value_is_from_where_it_was_set_last() -> None:
    before = Config.model_validate({"log_level": "debug", "auth": "none"}).from_origins(
        Origins(None, {"log_level": Origin("file", "line 1"), "auth": Origin("file", "line 2")})
    )
    after = Config.model_validate({"log_level": "error", "auth": "keys"}).from_origins(
        Origins(None, {"log_level": Origin("environment", "X"), "auth": Origin("environment", "Y")})
    )
    origins = with_changes(before, after).origins.set_by
    assert origins == {"log_level": Origin("environment", "X"), "auth": Origin("file", "line 2")}


UPSTREAM = {
    "base_url": "https://service.example",
    "keys": [{"name": "telemetry", "secret": "a-secret", "managed": ["send-ai-telemetry"]}],
}
SOURCES = {"vercel": {"verify": "x"}, "generic": MAPPING}
CHANGES: dict[str, object] = {
    "limits.max_body_bytes": 2048,
    "http.base_path": "/otlp",
    "log_level": "debug",
    "log_format": "json",
    "upstream.keys": [{"name": "other", "secret": "a-secret", "managed": ["send-ai-telemetry"]}],
    "upstream.proxy": "http://proxy.example",
    "upstream.base_url": "https://other.example",
    "sources.vercel.verify": "y",
    "sources.generic.url_token": True,
    "sources.generic.fields.request_model": "other",
    "sources.generic.time": ["at"],
    "auth": "none",
    "spool.max_age": "1d",
    "counting.settle": "3s",
}


def with_option(option: str, value: object) -> dict[str, Any]:
    """The options of the test, with *value* at *option*."""
    whole: dict[str, Any] = deepcopy({"upstream": UPSTREAM, "sources": SOURCES})
    *groups, last = option.split(".")
    node = whole
    for group in groups:
        node = node.setdefault(group, {})
    node[last] = value
    return whole
