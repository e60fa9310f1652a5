"""A customer's own JSON, by a mapping."""

from pathlib import Path
from typing import Any

import pytest

from gateway.config.draft import ConfigFaults
from gateway.config.loader import load_config
from gateway.config.model import SourceOptions
from gateway.products.generic.mapping import BESIDE, FIELDS, mapping_of
from gateway.products.generic.source import generic_source
from tests.support.source_reading import all_text, read, record, records

MAPPING: dict[str, Any] = {
    "items": "batch.calls",
    "time": "when",
    "event_id": "ref",
    "input_includes_cache": False,
    "fields": {
        "request_model": ["llm.name", "llm.alias"],
        "provider": "llm.vendor",
        "operation": "endpoint",
        "input_tokens": "n.fresh",
        "cache_read_input_tokens": "n.cached",
        "output_tokens": "n.out",
        "cost": "price.total",
        "currency": "price.unit",
        "duration_ms": "took",
        "status_code": "http",
        "team": "who.squad",
        "label.cost_center": "who.cc",
        "trace_id": "trace",
    },
}
ITEM: dict[str, Any] = {
    "ref": "r-1",
    "when": 1795158000.5,
    "endpoint": "/v1/chat/completions",
    "llm": {"alias": "gpt-5-mini", "vendor": "openai", "prompt": "CANARY"},
    "n": {"fresh": 176, "cached": 1024, "out": 340},
    "price": {"total": "0.0042", "unit": "EUR"},
    "took": "1.5s",
    "http": 200,
    "who": {"squad": "alpha", "cc": "c-1", "note": "CANARY"},
    "text": "CANARY",
}


def test_a_mapping_makes_records_of_a_list_of_calls() -> None:
    source = generic_source(MAPPING)
    found = record(source, {"batch": {"calls": [ITEM]}, "note": "CANARY"})
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 1200,
        "output_tokens": 340,
        "cache_read_input_tokens": 1024,
    }
    assert found["cost"] == {"amount": "0.0042", "currency": "EUR", "source": "reported", "price_version": None}
    assert (found["provider"], found["request_model"], found["operation"]) == ("openai", "gpt-5-mini", "chat")
    assert (found["started_at"], found["duration_ms"]) == ("2026-11-20T07:00:00.500Z", 1500)
    assert found["attribution"]["team"] == "alpha"
    assert found["attribution"]["labels"] == {"cost_center": "c-1"}
    assert "CANARY" not in all_text(read(source, {"batch": {"calls": [ITEM]}}))


def test_an_input_that_includes_the_cache_is_taken_as_it_is() -> None:
    source = generic_source({**MAPPING, "items": "", "input_includes_cache": True})
    assert record(source, {**ITEM, "n": {"fresh": 1200, "cached": 1024, "out": 340}})["usage"]["input_tokens"] == 1200


def test_what_has_no_list_is_rejected_and_other_things_are_ignored() -> None:
    out = read(generic_source(MAPPING), [{"CANARY": 1}, {"batch": {"calls": [{"x": 1}, "CANARY"]}}])
    assert [(x.reason, x.position) for x in out.calls.rejected] == [
        ("no_items", "[0].batch.calls"),
        ("not_an_object", "[1].batch.calls[1]"),
    ]
    assert out.calls.ignored == 1


def test_the_same_id_is_the_same_call_and_without_one_its_contents_are() -> None:
    source = generic_source({**MAPPING, "items": ""})
    ids = [x["record_id"] for x in records(source, [ITEM, ITEM, {**ITEM, "ref": "r-2"}])]
    assert ids[0] == ids[1] != ids[2]
    nameless = {name: value for name, value in ITEM.items() if name != "ref"}
    first, again, other = (
        x["record_id"] for x in records(source, [nameless, nameless, {**nameless, "n": {"fresh": 1}}])
    )
    assert first == again != other


def test_without_a_mapping_the_usual_names_are_read() -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}}
    found = record(
        "generic",
        {"id": "c-1", "time": "2026-01-05T10:00:00Z", "model": "gpt-5-mini", "usage": usage, "status_code": 503},
    )
    assert found["usage"]["cache_read_input_tokens"] == 8
    assert (found["status"], found["error_type"], found["started_at"]) == (
        "error",
        "http_503",
        "2026-01-05T10:00:00.000Z",
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"input_token": "n"}, "unknown field 'input_token'; did you mean 'input_tokens'?"),
        ({"zzz": "n"}, "unknown field 'zzz'; known are operation, "),
        ({"label.a b": "n"}, "unknown field 'label.a b'"),
        ({"cost": []}, "cost: needs a path"),
        ({"cost": [""]}, "cost: needs a path"),
    ],
)
def test_a_mapping_that_cannot_be_says_what_to_correct(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=r"field|path") as fault:
        mapping_of({"fields": fields})
    assert str(fault.value).startswith(told)


def test_the_configuration_says_the_mapping_and_what_is_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("sources: {generic: {items: a, time: t, fields: {request_model: [m, n], label.x: y}}}")
    mapping = load_config(file, environ={}).sources["generic"].mapping
    assert mapping == {
        "items": "a", "time": ("t",), "event_id": (), "input_includes_cache": None,
        "fields": {"request_model": ("m", "n"), "label.x": ("y",)},
    }  # fmt: skip
    assert record(generic_source(mapping), {"a": [{"t": 1795158000, "n": "gpt-5"}]})["request_model"] == "gpt-5"
    for text, told in (
        (
            "generic: {fields: {input_token: n}}",
            "sources.generic.fields: unknown field 'input_token'; did you mean 'input_tokens'?",
        ),
        ("generic: {items: a}", "sources: generic: needs fields"),
        ("kong: {fields: {cost: c}}", "sources: kong: fields belongs to generic alone"),
        ("generic: {field: {cost: c}}", "sources.generic.field: unknown option; did you mean 'fields'?"),
    ):
        file.write_text(f"sources: {{{text}}}")
        with pytest.raises(ConfigFaults) as faults:
            load_config(file, environ={})
        assert told in str(faults.value)


def test_a_source_without_options_has_no_mapping() -> None:
    assert SourceOptions().mapping is None


def test_every_name_that_may_be_mapped_is_taken() -> None:
    item = {name: f"v-{name}" for name in FIELDS}
    counts = [name for name in FIELDS if name.endswith("_tokens")]
    item.update(dict.fromkeys(counts, 7))
    item.update(
        {
            "cost": 0.5,
            "currency": "EUR",
            "stream": True,
            "batch": True,
            "gateway_cache_hit": False,
            "time_to_first_token_ms": 3,
        }
    )
    source = generic_source({"fields": {name: name for name in [*FIELDS, *BESIDE]}, "input_includes_cache": True})
    found = record(
        source,
        {**item, "duration_ms": 5, "trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "eee19b7ec3c1b174"},
    )
    taken = {**found, **found["usage"], **found["attribution"]}
    for name in FIELDS:
        if name not in {"total_tokens", "currency", "gateway_cache_hit", "cost"}:
            assert taken[name] == item[name], name
    assert (found["cost"]["amount"], found["cost"]["currency"], found["billed"]) == ("0.5", "EUR", True)
    assert found["trace"]["span_id"] == "eee19b7ec3c1b174"
