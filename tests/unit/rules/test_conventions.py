"""One span per way of saying it: what each convention's table makes of attributes,
beyond the captured payloads.
"""

from typing import Any

import pytest

from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.traces import normalise_traces
from tests.unit.rules.spans import CONTEXT, SPAN_ID, normalised, record_of, request

ANTHROPIC_USAGE = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 50}
ANTHROPIC_CACHE = {"gen_ai.usage.cache_read.input_tokens": 30, "gen_ai.usage.cache_creation.input_tokens": 20}
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "claude-sonnet-4-5",
}


@pytest.mark.parametrize(
    ("scope", "version", "attributes", "input_tokens"),
    [
        ("com.anthropic.sdk.python", "2.10.0", CHAT | ANTHROPIC_USAGE | ANTHROPIC_CACHE, 100),
        ("opentelemetry.instrumentation.anthropic", "0.62.4", CHAT | ANTHROPIC_USAGE | ANTHROPIC_CACHE, 100),
        ("@traceloop/instrumentation-anthropic", "0.27.0", CHAT | ANTHROPIC_USAGE | ANTHROPIC_CACHE, 150),
        ("@traceloop/instrumentation-bedrock", "0.27.0", CHAT | {"gen_ai.provider.name": "aws.bedrock"} | ANTHROPIC_USAGE | ANTHROPIC_CACHE, 150),
        ("@traceloop/instrumentation-openai", "0.27.0", CHAT | {"gen_ai.provider.name": "openai"} | ANTHROPIC_USAGE | ANTHROPIC_CACHE, 100),
        ("pydantic-ai", "2.68.0", CHAT | ANTHROPIC_USAGE | ANTHROPIC_CACHE, 100),
        ("my.own.scope", "", CHAT | ANTHROPIC_USAGE | ANTHROPIC_CACHE, 100),
        ("my.own.scope", "", CHAT | ANTHROPIC_USAGE | ANTHROPIC_CACHE | {"gen_ai.usage.input_tokens": 49}, 99),
        ("litellm", "", CHAT | ANTHROPIC_USAGE | ANTHROPIC_CACHE, 100),
    ],
)  # fmt: skip
def test_input_includes_the_cache_whatever_the_sender_means(
    scope: str, version: str, attributes: dict[str, Any], input_tokens: int
) -> None:
    record = record_of(attributes, scope=scope, version=version)
    assert record["usage"]["input_tokens"] == input_tokens
    assert record["usage"]["cache_read_input_tokens"] == 30
    assert record["usage"]["cache_creation_input_tokens"] == 20
    is_assumed = input_tokens == attributes["gen_ai.usage.input_tokens"] and scope == "my.own.scope"
    assert record["flags"] == ["basis_assumed"] * is_assumed


OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.provider": "anthropic",
    "llm.model_name": "claude-sonnet-4-5",
    "llm.token_count.prompt": 100,
    "llm.token_count.completion": 50,
    "llm.token_count.prompt_details.cache_read": 30,
    "llm.token_count.prompt_details.cache_write": 20,
}
STREAMED = {"llm.invocation_parameters": '{"model": "claude-sonnet-4-5", "stream": true}'}


@pytest.mark.parametrize(
    ("version", "extra", "input_tokens"),
    [("3.1.0", {}, 100), ("3.1.0", STREAMED, 100), ("0.1.20", {}, 100), ("0.1.20", STREAMED, 150)],
)
def test_openinference_anthropic_streams_of_old_versions_exclude_the_cache(
    version: str, extra: dict[str, Any], input_tokens: int
) -> None:
    record = record_of(OPENINFERENCE | extra, scope="openinference.instrumentation.anthropic", version=version)
    assert record["usage"]["input_tokens"] == input_tokens


VERCEL = {
    "ai.operationId": "ai.generateText.doGenerate",
    "ai.model.provider": "anthropic.messages",
    "ai.model.id": "claude-sonnet-4-5",
    "ai.usage.promptTokens": 100,
    "ai.usage.completionTokens": 50,
}


@pytest.mark.parametrize(
    ("extra", "input_tokens", "cache_read"),
    [
        ({}, 100, None),
        ({"ai.usage.cachedInputTokens": 30}, 130, 30),
        ({"ai.response.providerMetadata": '{"anthropic":{"usage":{"cache_read_input_tokens":30,"cache_creation_input_tokens":20}}}'}, 150, 30),
        ({"ai.response.providerMetadata": '{"anthropic":{"cacheCreationInputTokens":20,"cacheReadInputTokens":30}}'}, 150, 30),
        ({"ai.response.providerMetadata": '{"anthropic":{"usage":{"input_tokens":50,"cache_read_input_tokens":30,"cache_creation_input_tokens":20}}}'}, 100, 30),
        ({"ai.response.providerMetadata": '{"anthropic":{"usage":{"input_tokens":100,"cache_read_input_tokens":30,"cache_creation_input_tokens":20}}}'}, 150, 30),
        ({"ai.request.headers.user-agent": "ai/6.0.3", "ai.usage.cachedInputTokens": 30}, 100, 30),
        ({"ai.request.headers.user-agent": "ai/5.0.277", "ai.usage.cachedInputTokens": 30}, 130, 30),
        ({"ai.usage.inputTokenDetails.noCacheTokens": 70, "ai.usage.inputTokenDetails.cacheReadTokens": 30}, 100, 30),
        ({"ai.model.provider": "openai.chat", "ai.usage.cachedInputTokens": 30}, 100, 30),
        ({"ai.model.provider": "deepseek.chat", "ai.usage.cachedInputTokens": 30}, 100, 30),
        ({"ai.model.provider": "amazon-bedrock", "ai.usage.cachedInputTokens": 30}, 130, 30),
        ({"ai.response.providerMetadata": "not json"}, 100, None),
    ],
)  # fmt: skip
def test_vercel_input_is_the_providers_own_until_version_6(
    extra: dict[str, Any], input_tokens: int, cache_read: int | None
) -> None:
    usage = record_of(VERCEL | extra, scope="ai")["usage"]
    assert usage["input_tokens"] == input_tokens
    assert usage.get("cache_read_input_tokens") == cache_read


@pytest.mark.parametrize("scope", ["ai", "opencode", "my-app"])
@pytest.mark.parametrize(
    ("operation_id", "operation"),
    [
        ("ai.generateText.doGenerate", "chat"),
        ("ai.streamText.doStream", "chat"),
        ("ai.generateObject.doGenerate", "chat"),
        ("ai.embed.doEmbed", "embeddings"),
        ("ai.embedMany.doEmbed", "embeddings"),
        ("ai.rerank.doRerank", "rerank"),
    ],
)
def test_vercel_do_spans_are_the_calls(scope: str, operation_id: str, operation: str) -> None:
    attributes = {
        "ai.operationId": operation_id,
        "ai.model.id": "m",
        "ai.model.provider": "openai.chat",
        "ai.usage.tokens": 77,
    }
    record = record_of(attributes, scope=scope, name=operation_id)
    assert record["operation"] == operation
    assert record["usage"]["input_tokens"] == 77
    assert record["source"]["convention"] == "vercel_ai"


@pytest.mark.parametrize(
    ("scope", "name", "attributes"),
    [
        ("ai", "ai.generateText", {"ai.operationId": "ai.generateText", "ai.usage.promptTokens": 5, "ai.model.id": "m"}),
        ("ai", "ai.embed", {"ai.operationId": "ai.embed", "ai.usage.tokens": 5}),
        ("ai", "ai.toolCall", {"ai.operationId": "ai.toolCall"}),
        ("x", "invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 5, "gen_ai.request.model": "m"}),
        ("x", "create_agent a", {"gen_ai.operation.name": "create_agent"}),
        ("x", "execute_tool t", {"gen_ai.operation.name": "execute_tool"}),
        ("x", "retrieval", {"gen_ai.operation.name": "retrieval", "gen_ai.usage.input_tokens": 5}),
        ("x", "agent_step", {"gen_ai.operation.name": "agent_step", "gen_ai.usage.input_tokens": 5}),
        ("x", "invoke_workflow", {"gen_ai.operation.name": "invoke_workflow", "gen_ai.usage.input_tokens": 5}),
        ("x", "fetch_response", {"gen_ai.operation.name": "fetch_response", "gen_ai.usage.input_tokens": 5}),
        ("pydantic-ai", "agent run", {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 5, "model_name": "m"}),
        ("x", "my crew.run", {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 5, "gen_ai.agent.name": "a"}),
        ("pydantic-ai", "invoke_agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.aggregated_usage.input_tokens": 5}),
        ("x", "route", {"gen_ai.request.model": "m"}),
        ("litellm", "raw_gen_ai_request", {"llm.openai.usage": "{'prompt_tokens': 5}", "gen_ai.usage.input_tokens": 5}),
        ("litellm", "litellm_proxy_request", OPENINFERENCE),
        ("openinference.instrumentation.langchain", "RunnableSequence", OPENINFERENCE | {"openinference.span.kind": "CHAIN"}),
        ("my-app", "agent", OPENINFERENCE | {"openinference.span.kind": "AGENT"}),
        ("my-app", "rerank", OPENINFERENCE | {"openinference.span.kind": "RERANKER"}),
        ("langsmith", "ChatPromptTemplate", {"langsmith.span.kind": "prompt", "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5}),
        ("langfuse-sdk", "ask", {"langfuse.observation.type": "span", "langfuse.observation.usage_details": '{"input": 5}'}),
        ("mlflow.tracing.provider", "chain", {"mlflow.spanType": '"CHAIN"', "mlflow.chat.tokenUsage": '{"input_tokens": 5}'}),
        ("opentelemetry.instrumentation.langchain", "x.task", {"traceloop.span.kind": "task", "gen_ai.usage.input_tokens": 5}),
        ("opentelemetry.instrumentation.openai_agents", "asker.agent", {"traceloop.span.kind": "agent", "gen_ai.usage.input_tokens": 5, "gen_ai.response.model": "m"}),
        ("codex_exec", "session_task.turn", {"model": "m", "codex.turn.token_usage.input_tokens": 5}),
        ("bifrost", "plugin.logging.posthook", {"gen_ai.request.model": "m", "gen_ai.usage.prompt_tokens": 5}),
    ],
)  # fmt: skip
def test_steps_never_bill_whatever_usage_they_repeat(scope: str, name: str, attributes: dict[str, Any]) -> None:
    out = normalised(attributes, scope=scope, name=name)
    assert not out.calls
    assert out.suppressed == {"not_a_call": 1}
    assert len(out.links) == 1


@pytest.mark.parametrize(
    ("scope", "name", "attributes"),
    [
        (
            "opentelemetry.instrumentation.requests",
            "GET",
            {"http.request.method": "GET", "server.address": "api.openai.com"},
        ),
        ("my-app", "work", {"user.id": "u", "session.id": "s", "team": "t"}),
        ("litellm", "Received Proxy Server Request", {"url.path": "/chat", "error.type": "RateLimitError"}),
        ("codex_exec", "fs.read_file", {"model": "m", "busy_ns": 5}),
        ("my-app", "db", {"db.system": "sqlite", "pool.usage": 7}),
        ("my-app", "empty", {}),
    ],
)
def test_spans_without_marks_of_ai_are_ignored(scope: str, name: str, attributes: dict[str, Any]) -> None:
    out = normalised(attributes, scope=scope, name=name)
    assert (out.ignored, out.calls, dict(out.suppressed)) == (1, [], {})
    assert len(out.links) == 1


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"gen_ai.usage.input_tokens": 5, "gen_ai.usage.prompt_tokens": 5}, 5),
        ({"gen_ai.usage.prompt_tokens": 7}, 7),
        ({"llm.usage.prompt_tokens": 8}, 8),
        ({"gen_ai.usage.input_tokens": "9"}, 9),
        ({"gen_ai.usage.input_tokens": 10.0}, 10),
        ({"gen_ai.usage.input_tokens": 5, "gen_ai.usage.prompt_tokens": 6}, 5),
        ({"gen_ai.usage.input_tokens": -3, "gen_ai.usage.prompt_tokens": 6}, 6),
        ({"gen_ai.usage.input_tokens": 1.5}, None),
        ({"gen_ai.usage.input_tokens": "many"}, None),
        ({"gen_ai.usage.input_tokens": float("nan")}, None),
        ({"gen_ai.usage.input_tokens": 1 << 60}, None),
        ({"gen_ai.usage.input_tokens": 0}, 0),
        ({"gen_ai.client.token.usage": 99}, None),
    ],
)
def test_one_of_old_and_new_names_counts_and_only_if_it_is_a_count(
    attributes: dict[str, Any], expected: int | None
) -> None:
    usage = record_of(CHAT | {"gen_ai.usage.output_tokens": 1} | attributes)["usage"]
    assert usage.get("input_tokens") == expected
    assert usage["status"] == ("partial" if expected is None else "reported")


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.cache_write_input_tokens",
        "gen_ai.usage.prompt_token_details.cached_write_tokens",
    ],
)
def test_cache_write_has_many_names(name: str) -> None:
    assert record_of(CHAT | ANTHROPIC_USAGE | {name: 20})["usage"]["cache_creation_input_tokens"] == 20


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.output_tokens.reasoning",
        "gen_ai.usage.completion_token_details.reasoning_tokens",
        "gen_ai.usage.details.thinking_tokens",
        "gen_ai.usage.details.thoughts_tokens",
    ],
)
def test_reasoning_has_many_names(name: str) -> None:
    usage = record_of(CHAT | ANTHROPIC_USAGE | {name: 20})["usage"]
    assert usage["reasoning_output_tokens"] == 20
    assert usage["output_tokens"] == 50


def test_numbers_of_usage_that_no_table_knows_are_kept_by_name() -> None:
    extra = {
        "gen_ai.usage.web_search_requests": 3,
        "gen_ai.usage.something.new": "2.5",
        "gen_ai.usage.note": "free text",
    }
    usage = record_of(CHAT | ANTHROPIC_USAGE | extra)["usage"]
    assert usage["other"] == {"gen_ai.usage.web_search_requests": 3, "gen_ai.usage.something.new": 2.5}


def test_generic_table_reads_unknown_conventions_and_says_so() -> None:
    attributes = {
        "acme.llm.usage.promptTokens": 11,
        "acme.llm.usage.completionTokens": 7,
        "acme.llm.model": "gpt-4o",
        "acme.prompt": "SECRET",
    }
    out = normalised(attributes, scope="acme.sdk", name="acme")
    record = out.calls[0].record
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (11, 7)
    assert (record["provider"], record["request_model"]) == ("openai", "gpt-4o")
    assert record["source"]["convention"] == "generic"
    assert record["flags"] == ["unknown_convention"]
    assert out.unknown_conventions == {"acme.sdk": 1}
    assert "SECRET" not in repr(out)


@pytest.mark.parametrize("attributes", [{"acme.llm.usage.promptTokens": 11}, {"gpu.usage.total": 5, "token.count": 3}])
def test_generic_table_needs_more_than_one_number(attributes: dict[str, Any]) -> None:
    assert not normalised(attributes, scope="acme.sdk", name="x").calls


def test_gemini_cli_output_excludes_thoughts() -> None:
    attributes = {
        "gen_ai.operation.name": "llm_call",
        "gen_ai.request.model": "gemini-2.5-flash",
        "gen_ai.usage.input_tokens": 1800,
        "gen_ai.usage.output_tokens": 150,
        "gen_ai.usage.reasoning.output_tokens": 90,
    }
    usage = record_of(attributes, scope="gemini-cli", version="v1")["usage"]
    assert (usage["output_tokens"], usage["reasoning_output_tokens"]) == (240, 90)


def test_langfuse_buckets_are_disjoint() -> None:
    details = '{"input": 176, "input_cached_tokens": 1024, "output": 84, "output_reasoning_tokens": 256, "total": 1540}'
    attributes = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "gpt-5-mini",
        "langfuse.observation.usage_details": details,
        "langfuse.observation.cost_details": '{"total": 0.5}',
    }
    record = record_of(attributes, scope="langfuse-sdk")
    usage = record["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (1200, 1024)
    assert (usage["output_tokens"], usage["reasoning_output_tokens"]) == (340, 256)
    assert record["cost"] == {"amount": "0.5", "currency": "USD", "source": "reported", "price_version": None}


LITELLM = {
    "gen_ai.operation.name": "acompletion",
    "gen_ai.system": "openai",
    "gen_ai.request.model": "fast-chat",
    "gen_ai.response.model": "fast-chat",
    "gen_ai.response.id": "chatcmpl-1",
    "litellm.provider.model": "openai/gpt-5-mini",
    "litellm.call_id": "call-1",
    "gen_ai.usage.input_tokens": 1200,
    "gen_ai.usage.output_tokens": 340,
    "gen_ai.cost.total_cost": 0.0007495999999999999,
    "metadata.usage_object": "{'completion_tokens_details': {'reasoning_tokens': 256}, 'prompt_tokens_details': {'cached_tokens': 1024, 'audio_tokens': None}}",
    "metadata.user_api_key_user_id": "ana",
    "metadata.user_api_key_team_id": "team-alpha",
    "hidden_params": '{"cache_key": null}',
}


def test_litellm_is_read_with_the_models_behind_its_aliases() -> None:
    record = record_of(LITELLM, scope="litellm", name="litellm_request")
    assert (record["request_model"], record["response_model"]) == ("gpt-5-mini", None)
    assert (record["operation"], record["request_id"], record["response_id"]) == ("chat", "call-1", "chatcmpl-1")
    assert record["usage"]["reasoning_output_tokens"] == 256
    assert record["usage"]["cache_read_input_tokens"] == 1024
    assert record["cost"] is not None
    assert record["cost"]["amount"] == "0.0007496"
    attribution = record["attribution"]
    assert (attribution["user"], attribution["team"]) == ("ana", "team-alpha")
    assert attribution["labels"]["model_group"] == "fast-chat"


def test_litellm_cache_hit_costs_nothing_and_is_not_billed() -> None:
    record = record_of(LITELLM | {"hidden_params": '{"cache_key": "9692"}'}, scope="litellm", name="litellm_request")
    assert record["billed"] is False
    assert record["flags"] == ["gateway_cache_hit"]
    assert record["cost"] is not None
    assert record["cost"]["amount"] == "0"
    assert record["usage"]["input_tokens"] == 1200


def test_litellm_call_id_is_no_response_id() -> None:
    record = record_of(LITELLM | {"gen_ai.response.id": "call-1"}, scope="litellm", name="litellm_request")
    assert record["response_id"] is None


@pytest.mark.parametrize("text", ["{'a': __import__('os')}", "{" * 5000, "[1]", "{'a': 1", "", "x" * 100_000])
def test_texts_that_are_no_usage_change_nothing(text: str) -> None:
    record = record_of(LITELLM | {"metadata.usage_object": text}, scope="litellm", name="litellm_request")
    assert "reasoning_output_tokens" not in record["usage"]
    assert record["usage"]["input_tokens"] == 1200


def test_openinference_finds_request_model_and_response_id_in_texts() -> None:
    attributes = OPENINFERENCE | {
        "llm.model_name": "gpt-4o-2024-08-06",
        "llm.provider": "openai",
        "llm.invocation_parameters": '{"model": "gpt-4o", "tools": ["SECRET"]}',
        "output.value": '{"id": "chatcmpl-9", "object": "chat.completion", "model": "gpt-4o-2024-08-06", "choices": [{"message": {"content": "SECRET"}}], "service_tier": "flex"}',
        "metadata": '{"user_id": "u-1", "session_id": "s-1", "note": "SECRET"}',
    }
    out = normalised(attributes, scope="openinference.instrumentation.openai")
    record = out.calls[0].record
    assert (record["request_model"], record["response_model"]) == ("gpt-4o", "gpt-4o-2024-08-06")
    assert (record["response_id"], record["service_tier"]) == ("chatcmpl-9", "flex")
    assert (record["attribution"]["user"], record["attribution"]["session"]) == ("u-1", "s-1")
    assert "SECRET" not in repr(out)


def test_openinference_failure_knows_only_the_requested_model() -> None:
    attributes = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o", "llm.system": "openai"}
    record = record_of(
        attributes, scope="openinference.instrumentation.openai", status=2, exception="openai.RateLimitError"
    )
    assert (record["request_model"], record["response_model"]) == ("gpt-4o", None)
    assert record["usage"] == {"status": "none"}
    assert record["error_type"] == "openai.RateLimitError"


@pytest.mark.parametrize("key", ["output.value", "gen_ai.completion", "mlflow.spanOutputs"])
def test_very_long_answers_still_give_their_leading_id(key: str) -> None:
    answer = '{"id": "chatcmpl-long", "choices": [{"message": {"content": "' + "x" * 300_000 + '"}}]}'
    kind = {"output.value": ("openinference.span.kind", "LLM"), "gen_ai.completion": ("langsmith.span.kind", "llm")}
    mark = kind.get(key, ("mlflow.spanType", '"CHAT_MODEL"'))
    assert record_of({mark[0]: mark[1], key: answer}, scope="any")["response_id"] == "chatcmpl-long"


@pytest.mark.parametrize(
    ("scope", "attributes", "convention"),
    [
        ("my-app", {"openinference.span.kind": "LLM", "llm.model_name": "m"}, "openinference"),
        ("my-app", {"langfuse.observation.type": "generation"}, "langfuse"),
        ("my-app", {"langsmith.span.kind": "llm"}, "langsmith"),
        ("my-app", {"mlflow.spanType": "LLM"}, "mlflow"),
        ("my-app", {"llm.request.type": "chat", "gen_ai.system": "OpenAI"}, "openllmetry"),
        ("my-app", {"gen_ai.operation.name": "chat"}, "gen_ai"),
        ("broadcast", {"gen_ai.operation.name": "chat", "openrouter.provider_slug": "openai"}, "openrouter"),
        (
            "openinference.instrumentation.dspy",
            {"openinference.span.kind": "LLM", "llm.model_name": "m"},
            "openinference",
        ),
    ],
)
def test_attributes_choose_the_convention_where_the_scope_is_unknown(
    scope: str, attributes: dict[str, Any], convention: str
) -> None:
    assert record_of(attributes, scope=scope)["source"]["convention"] == convention


@pytest.mark.parametrize(
    "cost",
    [
        {"gen_ai.usage.cost": 0.25},
        {"gen_ai.usage.total_cost": 0.25},
        {"gen_ai.cost.total_cost": 0.25},
        {"litellm.cost.total": 0.25},
        {"llm.cost.total": 0.25},
        {"operation.cost": "0.25"},
        {"gen_ai.usage.cost.amount": 0.25, "gen_ai.usage.cost.currency": "USD"},
    ],
)
def test_reported_cost_has_many_names(cost: dict[str, Any]) -> None:
    reported = record_of(CHAT | ANTHROPIC_USAGE | cost)["cost"]
    assert reported == {"amount": "0.25", "currency": "USD", "source": "reported", "price_version": None}


def test_currency_is_kept_as_said() -> None:
    reported = record_of(CHAT | {"gen_ai.usage.cost": 2.0, "gen_ai.usage.cost.currency": "eur"})["cost"]
    assert reported is not None
    assert (reported["amount"], reported["currency"]) == ("2", "EUR")


def test_copilot_cost_is_no_money() -> None:
    assert "cost" not in record_of(CHAT | ANTHROPIC_USAGE | {"github.copilot.cost": 1.0}, scope="github.copilot")


def test_claude_code_spans_exclude_the_cache() -> None:
    attributes = {
        "model": "claude-sonnet-4-5",
        "input_tokens": "57",
        "output_tokens": 231,
        "cache_read_tokens": 4096,
        "cache_creation_tokens": 2048,
        "ttft_ms": 310,
        "success": True,
        "session.id": "s-1",
        "query_source": "main",
    }
    record = record_of(attributes, scope="com.anthropic.claude_code.tracing", name="claude_code.llm_request")
    assert record["usage"]["input_tokens"] == 57 + 4096 + 2048
    assert (record["provider"], record["request_model"], record["status"]) == ("anthropic", "claude-sonnet-4-5", "ok")
    assert record["time_to_first_token_ms"] == 310
    failed = record_of(
        attributes | {"success": False}, scope="com.anthropic.claude_code.tracing", name="claude_code.llm_request"
    )
    assert (failed["status"], failed["error_type"]) == ("error", "error")
    assert not normalised(
        {"tool_name": "Bash"}, scope="com.anthropic.claude_code.tracing", name="claude_code.tool"
    ).calls


def test_sentences_in_place_of_names_are_left_out() -> None:
    attributes = (
        CHAT | ANTHROPIC_USAGE | {"gen_ai.provider.name": "a long, odd sentence?", "gen_ai.request.model": "local"}
    )
    assert record_of(attributes)["provider"] is None
    assert (
        record_of(ANTHROPIC_USAGE | {"gen_ai.operation.name": "Say hello, now", "gen_ai.request.model": "m"})[
            "operation"
        ]
        == "chat"
    )


def test_steps_complete_the_calls_they_repeat() -> None:
    """OpenLLMetry's step texts hold the provider's usage beside the response id;
    LiteLLM's raw request the model.
    """
    message = '{"outputs": {"kwargs": {"response_metadata": {"id": "chatcmpl-7", "token_usage": {"completion_tokens_details": {"reasoning_tokens": 40}}}}}}'
    body = request(
        CHAT | ANTHROPIC_USAGE | {"gen_ai.response.id": "chatcmpl-7"}, scope="opentelemetry.instrumentation.langchain"
    )
    step = request({"gen_ai.operation.name": "execute_task", "traceloop.entity.output": message}, span_id=b"\x05" * 8)
    body.resource_spans[0].scope_spans[0].spans.extend(step.resource_spans[0].scope_spans[0].spans)
    out = normalise_traces(decode_traces(body.SerializeToString()), CONTEXT)
    assert out.calls[0].record["usage"]["reasoning_output_tokens"] == 40
    assert out.calls[0].record["usage"]["output_tokens"] == 50

    litellm = request(LITELLM, scope="litellm", name="litellm_request")
    raw = request(
        {"llm.openai.model": "gpt-5-mini-2026"}, name="raw_gen_ai_request", span_id=b"\x05" * 8, parent_span_id=SPAN_ID
    )
    litellm.resource_spans[0].scope_spans[0].spans.extend(raw.resource_spans[0].scope_spans[0].spans)
    out = normalise_traces(decode_traces(litellm.SerializeToString()), CONTEXT)
    assert out.calls[0].record["response_model"] == "gpt-5-mini-2026"


def test_a_repeated_step_text_of_another_call_changes_nothing() -> None:
    message = '{"a": {"response_metadata": {"id": "chatcmpl-OTHER", "token_usage": {"completion_tokens_details": {"reasoning_tokens": 40}}}}}'
    body = request(CHAT | ANTHROPIC_USAGE | {"gen_ai.response.id": "chatcmpl-7"})
    step = request({"gen_ai.operation.name": "execute_task", "traceloop.entity.output": message}, span_id=b"\x05" * 8)
    body.resource_spans[0].scope_spans[0].spans.extend(step.resource_spans[0].scope_spans[0].spans)
    out = normalise_traces(decode_traces(body.SerializeToString()), CONTEXT)
    assert "reasoning_output_tokens" not in out.calls[0].record["usage"]


def test_openlits_cost_of_zero_is_no_cost() -> None:
    usage = CHAT | ANTHROPIC_USAGE
    for cost, expected in ((0, None), (0.5, "0.5")):
        record = record_of(usage | {"gen_ai.usage.cost": cost}, scope="openlit.instrumentation.anthropic")
        assert (record.get("cost") or {}).get("amount") == expected


def test_vercel_7_spans_are_plain_gen_ai() -> None:
    record = record_of(CHAT | ANTHROPIC_USAGE | ANTHROPIC_CACHE, scope="ai")
    assert record["usage"]["input_tokens"] == 100


def test_the_providers_own_usage_states_what_an_unknown_senders_input_holds() -> None:
    answer = '{"id": "msg_1", "type": "message", "content": [], "model": "claude", "usage": {"input_tokens": 50, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 20}}'
    for given, whole in ((50, 100), (100, 100)):
        attributes = {
            "openinference.span.kind": "LLM",
            "llm.token_count.prompt": given,
            "llm.token_count.completion": 5,
            "output.value": answer,
        }
        assert record_of(attributes, scope="openinference.instrumentation.bedrock")["usage"]["input_tokens"] == whole


@pytest.mark.parametrize(
    ("written", "five_minutes", "one_hour", "expected"),
    [(463, 309, 154, 463), (0, 309, 154, 463), (None, 309, 154, 463), (463, None, 154, 463), (None, None, 154, 154)],
)
def test_cache_writes_are_at_least_the_sum_of_their_parts(
    written: int | None, five_minutes: int | None, one_hour: int | None, expected: int
) -> None:
    """LangChain reports 0 beside the two parts."""
    parts = {
        "gen_ai.usage.cache_creation.input_tokens": written,
        "anthropic.usage.cache_creation.ephemeral_5m_input_tokens": five_minutes,
        "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": one_hour,
    }
    known = {name: value for name, value in parts.items() if value is not None}
    record = record_of(CHAT | {"gen_ai.usage.input_tokens": 5000, "gen_ai.usage.output_tokens": 5} | known)
    assert record["usage"]["cache_creation_input_tokens"] == expected
    assert record["usage"].get("cache_creation_1h_input_tokens") == one_hour
    assert record["flags"] == ["basis_assumed"]
