"""Which changes of a configuration a running gateway takes."""

from gateway.config.changes import changed, with_changes
from gateway.config.model import Config

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
