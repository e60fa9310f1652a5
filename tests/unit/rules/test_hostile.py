"""Payloads that no captured sender sends, but some sender will: numbers, names and
announcements of odd kinds.
"""

from collections import Counter
from typing import Any

import orjson
import pytest

from gateway.read.otlp_json import decode_logs_json
from gateway.rules.logs import normalise_logs
from gateway.rules.record import record_json, title
from gateway.usage.pricing.prices import MAX_UNPRICED, OTHER_MODELS, Prices
from tests.unit.rules.spans import CONTEXT, END_NS, START_NS, normalised, record_of

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
INPUT, OUTPUT = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"


def test_logfires_pending_span_announces_a_call_and_is_none() -> None:
    pending = normalised(CHAT | {"logfire.span_type": "pending_span"}, scope="pydantic-ai")
    assert not pending.calls
    assert pending.suppressed == {"not_a_call": 1}
    assert len(pending.links) == 1
    assert normalised(CHAT | {"logfire.span_type": "span"}, scope="pydantic-ai").calls
    assert normalised({"logfire.span_type": "span"}, scope="pydantic-ai", name="GET /").ignored == 1


def test_a_boolean_is_no_count() -> None:
    assert record_of(CHAT | {INPUT: True, OUTPUT: False})["usage"] == {"status": "missing"}


@pytest.mark.parametrize("old", ["gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens"])
def test_a_zero_under_the_new_name_does_not_hide_the_count_under_the_old_one(old: str) -> None:
    assert record_of(CHAT | {INPUT: 0, old: 7, OUTPUT: 3})["usage"]["input_tokens"] == 7
    assert record_of(CHAT | {INPUT: 0, old: 0, OUTPUT: 3})["usage"]["input_tokens"] == 0


def test_a_bare_total_is_kept_with_the_unknown_parts() -> None:
    usage = record_of(CHAT | {"gen_ai.usage.total_tokens": 100})["usage"]
    assert usage == {"status": "missing", "other": {"total_tokens": 100}}
    assert "other" not in record_of(CHAT | {"gen_ai.usage.total_tokens": 100, INPUT: 90, OUTPUT: 10})["usage"]


def test_a_span_without_a_start_began_when_it_ended() -> None:
    record = record_of(CHAT | {INPUT: 1, OUTPUT: 1}, start_time_unix_nano=0)
    assert (record["started_at"], record["duration_ms"]) == ("2026-01-05T10:00:02.090Z", 0)
    assert START_NS < END_NS


def test_semantic_kernels_first_names_are_read() -> None:
    usage = record_of(CHAT | {"gen_ai.response.prompt_tokens": 10, "gen_ai.response.completion_tokens": 5})["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (10, 5)


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ("llm.tokens.input", "llm.tokens.output"),
        ("usage.prompt", "usage.completion"),
        ("tokens_in", "tokens_out"),
        ("acme.token_count.prompt", "acme.token_count.completion"),
    ],
)
def test_unknown_names_of_tokens_are_read_with_a_bare_model(given: str, output: str) -> None:
    record = record_of({given: 10, output: 5, "model": "gpt-4o"}, name="work")
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (10, 5)
    assert (record["provider"], record["request_model"]) == ("openai", "gpt-4o")
    assert record["flags"] == ["unknown_convention"]


@pytest.mark.parametrize("attributes", [{"model": "T", "provider": "x"}, {"form.input": 3, "form.output": 4}])
def test_a_bare_model_or_input_is_no_ai_usage(attributes: dict[str, Any]) -> None:
    assert normalised(attributes, name="work").ignored == 1


def test_langfuse_counts_as_texts_and_a_cost_without_total() -> None:
    record = record_of(
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.model.name": "gpt-4o",
            "langfuse.observation.usage_details": '{"input": "10", "output": "2"}',
            "langfuse.observation.cost_details": '{"input": 0.1, "output": 0.25}',
        },
        scope="langfuse-sdk",
    )
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (10, 2)
    assert record["cost"] is not None
    assert record["cost"]["amount"] == "0.35"


def test_two_hosts_of_one_service_are_two_places_and_one_source() -> None:
    """One side of a call may not state where it runs; co-instrumented spans run in one
    place where both state it.
    """

    def told(**resource: Any) -> tuple[int, int]:
        call = normalised(CHAT, resource={"service.name": "api", **resource}).calls[0]
        return call.source, call.place

    assert told(**{"host.name": "a"})[1] != told(**{"host.name": "b"})[1]
    assert told(**{"host.name": "n", "k8s.pod.name": "a"})[1] != told(**{"host.name": "n", "k8s.pod.name": "b"})[1]
    assert told() == (told(**{"host.name": "a"})[0], 0)


# ---- names are names

SENTENCE = "Please tell me the secret CANARY of the third quarter, thanks"
NAMES = (
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.response.id",
    "gen_ai.response.finish_reasons",
    "gen_ai.provider.name",
    "openai.response.service_tier",
    "azure.deployment",
    "cloud.region",
    "gen_ai.request.id",
    "error.type",
    "gen_ai.usage.cost.currency",
    "server.address",
)


@pytest.mark.parametrize("text", [SENTENCE, f"{SENTENCE}\n{SENTENCE}", f'{{"q":"{SENTENCE}"}}', '{"q":"CANARY"}'])
@pytest.mark.parametrize("provider", ["openai", "azure.ai.openai"])
def test_a_sentence_in_a_names_place_is_not_kept(text: str, provider: str) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.system": provider, INPUT: 5, **dict.fromkeys(NAMES, text)}
    out = normalised(attributes, scope=text, version=text, status=2)
    assert b"CANARY" not in record_json(out.calls[0].record)
    assert out.calls[0].record["usage"]["input_tokens"] == 5


def test_a_sentence_in_a_logs_names_is_not_kept() -> None:
    usage = {"usage.prompt_tokens": 5, "usage.completion_tokens": 5}
    attributes = [
        *({"key": key, "value": {"intValue": count}} for key, count in usage.items()),
        {"key": "gen_ai.request.model", "value": {"stringValue": SENTENCE}},
    ]
    scope_logs = {
        "scope": {"name": SENTENCE, "version": SENTENCE},
        "logRecords": [{"timeUnixNano": str(END_NS), "attributes": attributes}],
    }
    body = orjson.dumps({"resourceLogs": [{"scopeLogs": [scope_logs]}]})
    out = normalise_logs(decode_logs_json(body), CONTEXT)
    assert b"CANARY" not in record_json(out.calls[0].record)


@pytest.mark.parametrize(
    "text",
    [
        "please tell me a secret now",
        "tell me secrets",
        "summarise third quarter revenue",
        "my number is 4711",
        "Please Summarise The Third Quarter",
        "the CANARY of Q3",
        "what are 3 secrets",
        "explore 3 ancient castles",
    ],
)
def test_a_few_plain_words_are_no_models_name(text: str) -> None:
    record = record_of({"gen_ai.operation.name": "chat", "gen_ai.request.model": text, INPUT: 5, OUTPUT: 2})
    assert record["request_model"] is None
    assert text.encode() not in record_json(record)


@pytest.mark.parametrize(
    "name",
    [
        "GPT-4o mini",
        "Llama 3.1 70B Instruct",
        "gemini 2.5 flash",
        "claude opus 4",
        "Mistral Large",
        "gpt-4o-mini-2024-07-18",
        "anthropic.claude-3-haiku-20240307-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "accounts/fireworks/models/llama-v3p1-70b",
        "Claude Sonnet 4.5",
        "Meta: Llama 3.1 70B Instruct (free)",
        "@cf/meta/llama-3-8b",
        "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q8_0",
        "通义千问-max",
    ],
)
def test_names_of_models_stay(name: str) -> None:
    assert title(name) == name
    assert record_of(CHAT | {"gen_ai.request.model": name})["request_model"] == name


def test_made_up_models_do_not_fill_the_metrics() -> None:
    prices = Prices()
    for n in range(MAX_UNPRICED + 5):
        record = record_of(CHAT | {"gen_ai.request.model": f"made-up-{n}", INPUT: 1, OUTPUT: 1})
        prices.price(record, CONTEXT.received_at_ms)
    assert len(prices.unpriced) == MAX_UNPRICED + 1
    assert prices.unpriced[OTHER_MODELS] == 5
    assert isinstance(prices.unpriced, Counter)
