"""What a call states in an event or a text next to its attributes: that it failed, its usage, the
model that was asked for.
"""

import json
from typing import Any

import pytest

from tests.unit.rules.spans import normalised, record_of

ASKED = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-4o"}
USED = {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3}
OK, ERROR = 1, 2
OPENINFERENCE = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o"}
EMBEDDING = {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "text-embedding-3-small"}


class TestFailures:
    @pytest.mark.parametrize("status", [0, OK, ERROR])
    def test_an_exception_without_an_answer_is_a_failure_whatever_the_status(self, status: int) -> None:
        record = record_of(ASKED, status=status, exception="acme.Overloaded")
        assert (record["status"], record["error_type"]) == ("error", "acme.Overloaded")

    @pytest.mark.parametrize("answer", [USED, {"gen_ai.response.id": "r1"}, {"gen_ai.response.finish_reasons": "stop"}])
    def test_an_exception_behind_an_answer_is_none(self, answer: dict[str, Any]) -> None:
        assert record_of(ASKED | answer, status=OK, exception="ValueError")["status"] == "ok"

    @pytest.mark.parametrize("own", [{}, {"error.type": "GeneratorExit"}])
    def test_a_stream_that_its_reader_left_did_not_fail(self, own: dict[str, Any]) -> None:
        record = record_of(ASKED | own, status=ERROR, exception="GeneratorExit")
        assert (record["status"], record.get("error_type")) == ("ok", None)

    def test_a_failed_span_with_an_empty_usage_is_a_call_where_it_names_provider_and_model(self) -> None:
        attributes = {"gen_ai.system": "openai", "gen_ai.request.model": "gpt-4o", "usage": "null"}
        assert record_of(attributes, status=ERROR)["status"] == "error"
        assert not normalised(attributes).calls


class TestUsageOfAnAnswer:
    ANSWER = "Message(meta={'usage': {'input_tokens': 70, 'output_tokens': 30, 'total_tokens': %d}})"

    @pytest.mark.parametrize("total", [{}, {"llm.token_count.total": 100}])
    def test_counts_are_taken_where_no_attribute_has_them(self, total: dict[str, int]) -> None:
        usage = record_of(OPENINFERENCE | total | {"output.value": self.ANSWER % 100})["usage"]
        assert (usage["status"], usage["input_tokens"], usage["output_tokens"]) == ("reported", 70, 30)

    @pytest.mark.parametrize(
        ("total", "text"),
        [({"llm.token_count.total": 99}, ANSWER % 100), ({}, ANSWER % 90), ({}, "input_tokens: 70, output_tokens: 30")],
        ids=["another total", "a total that does not add up", "no proof"],
    )
    def test_counts_that_nothing_proves_are_left(self, total: dict[str, int], text: str) -> None:
        assert record_of(OPENINFERENCE | total | {"output.value": text})["usage"].get("input_tokens") is None

    def test_attributes_go_first(self) -> None:
        own = {"llm.token_count.prompt": 7, "llm.token_count.completion": 3}
        usage = record_of(OPENINFERENCE | own | {"output.value": self.ANSWER % 100})["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (7, 3)

    @pytest.mark.parametrize(
        ("usage", "counted"),
        [
            ({"prompt_tokens": 70, "total_tokens": 70}, 70),
            ({"prompt_tokens": 70, "total_tokens": 71}, None),
            ({"prompt_tokens": 70}, None),
        ],
    )
    def test_an_embedding_is_proved_by_its_total(self, usage: dict[str, int], counted: int | None) -> None:
        text = json.dumps({"embedding": [0.1], "meta": {"usage": usage}})
        assert record_of(EMBEDDING | {"output.value": text})["usage"].get("input_tokens") == counted
        kind = {"mlflow.spanType": '"EMBEDDING"', "mlflow.spanOutputs": text, "model": '"text-embedding-3-small"'}
        assert record_of(kind)["usage"].get("input_tokens") == counted

    def test_an_answer_under_names_of_opentelemetry_completes_the_parts(self) -> None:
        usage = {"input_tokens": 7, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 3}
        answer = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [],
            "usage": usage,
        }
        claude = {"gen_ai.provider.name": "anthropic", "gen_ai.span.kind": "LLM", "output.value": json.dumps(answer)}
        found = record_of(ASKED | USED | claude)["usage"]
        assert (found["input_tokens"], found["cache_read_input_tokens"], found["output_tokens"]) == (14, 5, 3)
        other = json.dumps(answer | {"usage": usage | {"output_tokens": 4}})
        assert record_of(ASKED | USED | claude | {"output.value": other})["usage"]["input_tokens"] == 7

    def test_an_object_under_a_bare_name_completes_the_parts(self) -> None:
        text = json.dumps({"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 5}})
        assert record_of(ASKED | USED | {"usage": text})["usage"]["cache_read_input_tokens"] == 5


class TestModels:
    @pytest.mark.parametrize(
        ("stated", "asked", "request_model", "response_model"),
        [
            ("gpt-4o-2024-08-06", "gpt-4o", "gpt-4o", "gpt-4o-2024-08-06"),
            ("gpt-4o-mini", "gpt-4o", "gpt-4o-mini", None),
            ("gpt-4o", "gpt-4o-2024-08-06", "gpt-4o", None),
            ("gpt-4o-mini-2024-07-18", "gpt-4o", "gpt-4o-mini-2024-07-18", None),
        ],
    )
    def test_a_version_of_the_parameters_model_is_the_one_that_answered(
        self, stated: str, asked: str, request_model: str, response_model: str | None
    ) -> None:
        parameters = {"gen_ai.request.model": stated, "gen_ai.request.parameters": json.dumps({"model": asked})}
        record = record_of(ASKED | USED | parameters)
        assert (record["request_model"], record["response_model"]) == (request_model, response_model)
        assert record_of(ASKED | parameters, status=ERROR)["response_model"] is None
