"""What a model wrote, or what it was asked, changes nothing of a call's record, be it JSON or the
repr of a Python object with the names of an answer; only a provider's own envelope is believed.
"""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cli.normalising import records_of_payloads
from tests.unit.rules.spans import record_of, request

TOKENS = {"llm.token_count.prompt": 2003, "llm.token_count.completion": 1009}
GEN_AI = {"gen_ai.usage.input_tokens": 2003, "gen_ai.usage.output_tokens": 1009}
SPANS: dict[str, dict[str, Any]] = {
    "output.value": {"openinference.span.kind": "LLM"} | TOKENS,
    "input.value": {"openinference.span.kind": "LLM"} | TOKENS,
    "gen_ai.completion": {"langsmith.span.kind": "llm"} | GEN_AI,
    "mlflow.spanOutputs": {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.chat.tokenUsage": '{"input_tokens": 2003, "output_tokens": 1009}',
    },
    "acme.output": {"acme.usage.prompt_tokens": 2003, "acme.usage.completion_tokens": 1009},
    "acme.input": {"acme.usage.prompt_tokens": 2003, "acme.usage.completion_tokens": 1009},
    "mlflow.spanInputs": {"mlflow.spanType": '"CHAT_MODEL"'},
    "langfuse.observation.output": {
        "langfuse.observation.type": "generation",
        "langfuse.observation.usage_details": '{"input": 2003, "output": 1009}',
    },
}
"""Attributes that hold content, and what else makes their span a call."""
OUTPUTS = [name for name in SPANS if "nput" not in name]
LONG = "x" * 300_000

NAMES = [
    "id", "model", "model_name", "modelVersion", "usage", "token_usage", "usageMetadata", "object", "type", "role",
    "finish_reason", "stop_reason", "service_tier", "choices", "candidates", "output", "content", "raw", "llm_output",
    "generations", "response_metadata", "provider", "prompt_tokens", "completion_tokens", "input_tokens",
    "output_tokens", "cached_tokens", "total_tokens", "make", "done",
]  # fmt: skip
scalars = st.one_of(
    st.sampled_from(["Corolla", "gpt-4o", "claude-sonnet-4-5-20250929", "openai", "chatcmpl-1", "car", "flex", "list"]),
    st.integers(0, 5000),
    st.booleans(),
    st.none(),
)
usages = st.dictionaries(st.sampled_from(NAMES[-8:-1]), st.integers(0, 5000), max_size=5)
flat = st.dictionaries(st.sampled_from(NAMES), st.one_of(scalars, usages), max_size=8)
objects = st.dictionaries(
    st.sampled_from(NAMES), st.one_of(scalars, usages, flat, st.lists(scalars, max_size=3)), min_size=1, max_size=10
)
"""Data of an application: names of an answer with any values, though none of the envelopes."""


def as_json(value: dict[str, Any]) -> str:
    return orjson.dumps(value).decode()


def as_repr(value: dict[str, Any]) -> str:
    return f"Car({', '.join(f'{name}={entry!r}' for name, entry in value.items())})"


def answered(name: str, text: str) -> Any:
    return record_of(SPANS[name] | {name: text}, scope="an.application")


@pytest.mark.parametrize("name", SPANS)
@settings(max_examples=60, deadline=None)
@given(value=objects, form=st.sampled_from([as_json, as_repr, repr]))
def test_content_changes_nothing_of_a_record(name: str, value: dict[str, Any], form: Any) -> None:
    assert answered(name, form(value)) == answered(name, "A car.")


CAR = {"id": "car-9", "model": "Corolla", "object": "car", "service_tier": "gold", "finish_reason": "rust"}


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize(
    "text",
    [
        as_json(CAR),
        as_repr(CAR),
        as_repr(CAR | {"choices": [{"text": "a"}], "usage": {"prompt_tokens": 2003, "completion_tokens": 1009}}),
        as_json(CAR | {"usage": {"prompt_tokens": 2003, "prompt_tokens_details": {"cached_tokens": 990}}}),
        as_json(CAR | {"raw": CAR, "response_metadata": CAR, "llm_output": CAR, "generations": [CAR]}),
        as_json(CAR | {"choices": ["red", "blue"], "usage": "daily", "type": "message", "content": "a"}),
        as_json({"id": "car-9", "note": LONG}),
        as_json({"message": CAR}),
    ],
    ids=str.__len__,
)
def test_a_structured_output_is_no_answer(name: str, text: str) -> None:
    assert answered(name, text) == answered(name, "A car.")


async def test_two_calls_whose_outputs_have_one_id_are_two() -> None:
    bodies = [
        request(SPANS["output.value"] | {"output.value": as_json(CAR)}, trace_id=bytes([at]) * 16) for at in (1, 2)
    ]
    payloads = [(body.SerializeToString(), "/v1/traces", "application/x-protobuf", "") for body in bodies]
    records, _, _ = await records_of_payloads(payloads)
    assert len(records) == 2


def envelopes(given: int, output: int) -> dict[str, dict[str, Any]]:
    chat = {"prompt_tokens": given, "completion_tokens": output}
    native = {"input_tokens": given, "output_tokens": output}
    names = {"id": "resp-1", "model": "some-model-2026-01-01"}
    gemini = {"promptTokenCount": given, "candidatesTokenCount": output}
    message = {"content": "a", "response_metadata": {"model_name": names["model"], "token_usage": chat}}
    return {
        "chat": names | {"choices": [{"message": {"content": "a"}}], "usage": chat},
        "response": names | {"object": "response", "output": [], "usage": native},
        "anthropic": names | {"type": "message", "content": [], "usage": native},
        "gemini": {"modelVersion": names["model"], "candidates": [{"content": {}}], "usageMetadata": gemini},
        "litellm": names | {"object": "chat.completion", "choices": [{"message": {}}], "usage": chat},
        "raw": {"message": {}, "raw": names | {"choices": [{"message": {"content": "a"}}], "usage": chat}},
        "langchain": {
            "generations": [[{"text": "a", "message": {"kwargs": message}}]],
            "llm_output": names | {"token_usage": chat},
        },
        "cohere": names | {"message": {"content": []}, "usage": {"tokens": native}},
        "ollama": {
            "model": names["model"], "created_at": "2026", "done": True, "message": {},
            "usage": {"input_tokens": given, "output_tokens": output},
        },
    }  # fmt: skip


@pytest.mark.parametrize("kind", envelopes(0, 0))
@pytest.mark.parametrize("name", OUTPUTS)
def test_an_envelope_is_believed_where_its_wholes_are_the_spans(name: str, kind: str) -> None:
    plain = answered(name, "A car.")
    own = answered(name, as_json(envelopes(2003, 1009)[kind]))
    if name == "langfuse.observation.output":  # only the id is taken there
        assert (own["response_id"] is None) == (kind in {"gemini", "ollama"})
    else:
        assert own["response_model"] == "some-model-2026-01-01"
    assert answered(name, as_json(envelopes(2004, 1009)[kind])) == plain
    assert answered(name, as_json(envelopes(2003, 1010)[kind])) == plain


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ('{"model": "gpt-5", "messages": []}', "gpt-5"),
        ('{"model": "gpt-5", "input": "a"}', "gpt-5"),
        ('{"model": "gpt-5", "contents": [{}]}', "gpt-5"),
        ('{"model": "gpt-5", "prompt": "a"}', "gpt-5"),
        ('{"model": "gpt-5", "prompt": 3}', None),
        ('{"model": "gpt-5"}', None),
    ],
)
def test_only_a_request_names_the_model_that_was_asked_for(text: str, model: str | None) -> None:
    for name in ("input.value", "mlflow.spanInputs"):
        assert answered(name, text)["request_model"] == model
