"""Which model was asked for and which one answered, by the rules of `model_names`."""

from typing import Any

import pytest

from gateway.rules.model_names import is_snapshot, split_route
from gateway.rules.provider import provider
from tests.unit.rules.spans import record_of

OPENINFERENCE = {"openinference.span.kind": "LLM", "llm.token_count.prompt": 7, "llm.token_count.completion": 3}
GEN_AI = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3}
GOOGLE_ADK = "openinference.instrumentation.google_adk"
SMOLAGENTS = "openinference.instrumentation.smolagents"
DSPY = "openinference.instrumentation.dspy"


def models(attributes: dict[str, Any], **rest: Any) -> tuple[str | None, str | None]:
    record = record_of(attributes, **rest)
    return record["request_model"], record["response_model"]


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4o-2024-08-06", "claude-sonnet-4-5-20250929", "claude-3-5-sonnet@20240620", "gpt-4-0613", "mistral-large-2411",
        "gemini-2.0-flash-001", "gemini-2.5-pro-preview-05-06", "command-r-08-2024", "amazon.nova-pro-v1:0",
        "anthropic.claude-3-5-sonnet-20241022-v2:0",
    ],
)  # fmt: skip
def test_a_date_or_a_version_at_the_end_names_a_snapshot(name: str) -> None:
    assert is_snapshot(name)


@pytest.mark.parametrize(
    "name",
    ["gpt-4o", "gpt-4.1-mini", "claude-sonnet-4-5", "gemini-2.5-flash", "o3", "llama-3.1-70b", "claude-opus-latest", "phi-4"],
)  # fmt: skip
def test_a_family_names_no_snapshot(name: str) -> None:
    assert not is_snapshot(name)


def test_one_name_with_a_date_is_the_model_that_answered() -> None:
    named = OPENINFERENCE | {"llm.model_name": "gpt-4o-2024-08-06"}
    assert models(named, scope=GOOGLE_ADK) == (None, "gpt-4o-2024-08-06")
    langfuse = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "gpt-5-mini-2025-08-07",
        "langfuse.observation.usage_details": '{"input": 7, "output": 3}',
    }
    assert models(langfuse, scope="langfuse-sdk") == (None, "gpt-5-mini-2025-08-07")


def test_one_name_without_a_date_is_the_model_that_was_asked_for() -> None:
    assert models(OPENINFERENCE | {"llm.model_name": "gpt-4o"}, scope=GOOGLE_ADK) == ("gpt-4o", None)


def test_a_failed_call_names_what_was_asked_for() -> None:
    named = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o-2024-08-06"}
    assert models(named, scope=GOOGLE_ADK, status=2) == ("gpt-4o-2024-08-06", None)


def test_a_library_that_states_its_configured_model_names_what_was_asked_for() -> None:
    named = OPENINFERENCE | {"llm.model_name": "gpt-4o-2024-08-06"}
    assert models(named, scope=SMOLAGENTS) == ("gpt-4o-2024-08-06", None)


def test_both_names_are_shown_where_both_are_stated() -> None:
    stated = GEN_AI | {"gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "gpt-4o"}
    assert models(stated) == ("gpt-4o", "gpt-4o")
    asked = OPENINFERENCE | {"llm.model_name": "gpt-4o", "llm.invocation_parameters": '{"model": "gpt-4o"}'}
    assert models(asked, scope="openinference.instrumentation.openai") == ("gpt-4o", "gpt-4o")


@pytest.mark.parametrize(("scope", "extra"), [("logfire.openai", {}), ("pydantic-ai", {"logfire.span_type": "span"})])
def test_a_copy_of_the_request_is_no_answer_where_the_library_is_known_to_copy(
    scope: str, extra: dict[str, str]
) -> None:
    copied = GEN_AI | extra | {"gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "gpt-4o"}
    assert models(copied, scope=scope) == ("gpt-4o", None)
    answered = copied | {"gen_ai.response.model": "gpt-4o-2024-08-06"}
    assert models(answered, scope=scope) == ("gpt-4o", "gpt-4o-2024-08-06")


def test_an_embedding_model_answers_as_itself() -> None:
    named = {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "text-embedding-3-small"}
    assert models(named, scope=GOOGLE_ADK) == ("text-embedding-3-small", "text-embedding-3-small")


def test_claude_code_asks_for_snapshots_by_their_name() -> None:
    named = {"model": "claude-sonnet-4-5-20250929", "input_tokens": 7, "output_tokens": 3}
    both = ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929")
    assert models(named, scope="com.anthropic.claude_code.tracing", name="claude_code.llm_request") == both


@pytest.mark.parametrize(
    ("sent", "prefix", "model"),
    [
        ("openai/gpt-4o", "openai", "gpt-4o"),
        ("azure/my-deployment", "azure", "my-deployment"),
        ("bedrock/converse/us.amazon.nova-pro-v1:0", "bedrock", "us.amazon.nova-pro-v1:0"),
        ("openrouter/openai/gpt-4o", "openrouter", "openai/gpt-4o"),
        ("meta-llama/Llama-3.1-8B", "", "meta-llama/Llama-3.1-8B"),
        ("openai/", "", "openai/"),
        ("gpt-4o", "", "gpt-4o"),
    ],
)
def test_a_routing_prefix_is_known_by_name(sent: str, prefix: str, model: str) -> None:
    assert split_route(sent) == (prefix, model)


def test_a_routing_prefix_is_kept_as_a_label_and_names_the_provider() -> None:
    record = record_of(OPENINFERENCE | {"llm.model_name": "openai/gpt-4o"}, scope=DSPY)
    assert (record["request_model"], record["response_model"], record["provider"]) == ("gpt-4o", None, "openai")
    assert record["attribution"]["labels"] == {"routing_prefix": "openai"}
    stated = record_of(OPENINFERENCE | {"llm.model_name": "azure/mine", "llm.provider": "mistralai"}, scope=DSPY)
    assert (stated["request_model"], stated["provider"]) == ("mine", "mistral_ai")


def test_a_routers_own_names_stay_whole() -> None:
    routed = GEN_AI | {"gen_ai.request.model": "openai/gpt-4o", "gen_ai.provider.name": "openrouter"}
    assert models(routed)[0] == "openai/gpt-4o"
    called = GEN_AI | {"gen_ai.request.model": "openai/gpt-4o", "server.address": "openrouter.ai"}
    assert models(called)[0] == "openai/gpt-4o"


def test_a_gateways_override_is_the_model_that_was_asked_for() -> None:
    overridden = GEN_AI | {"gen_ai.request.model": "best", "gen_ai.request.model_override": "gpt-4o"}
    assert models(overridden) == ("gpt-4o", None)
    assert models(overridden | {"gen_ai.request.model_override": "-"}) == ("best", None)


@pytest.mark.parametrize(
    ("stated", "address"),
    [
        ("groq", None),
        ("openai", "api.groq.com"),
        (None, "https://api.groq.com/openai/v1"),
        ("together_ai", None),
        ("openai", "api.together.xyz"),
        ("deepinfra", None),
    ],
)
def test_the_maker_in_a_providers_own_name_stays(stated: str | None, address: str | None) -> None:
    named = {"gen_ai.provider.name": stated, "server.address": address}
    sent = GEN_AI | {"gen_ai.request.model": "openai/gpt-oss-120b"} | {k: v for k, v in named.items() if v}
    if stated is None:
        sent.pop("gen_ai.provider.name", None)
    record = record_of(sent)
    assert (record["request_model"], "labels" in record["attribution"]) == ("openai/gpt-oss-120b", False)
    assert record["provider"] == provider(stated, None, address)


def test_the_providers_own_name_before_such_a_name_is_a_routing_prefix() -> None:
    record = record_of(GEN_AI | {"gen_ai.request.model": "groq/openai/gpt-oss-120b", "gen_ai.provider.name": "groq"})
    assert (record["provider"], record["request_model"]) == ("groq", "openai/gpt-oss-120b")
    assert record["attribution"]["labels"] == {"routing_prefix": "groq"}


@pytest.mark.parametrize("word", ["none", "NONE", "None", "unknown", "null", "undefined", ""])
def test_a_placeholder_is_no_model_and_no_responses_id(word: str) -> None:
    named = {"gen_ai.request.model": "gpt-4o", "gen_ai.response.model": word, "gen_ai.response.id": word}
    assert models(GEN_AI | named) == ("gpt-4o", None)
    assert record_of(GEN_AI | named)["response_id"] is None
    assert models(GEN_AI | {"gen_ai.request.model": word}) == (None, None)
    assert models(OPENINFERENCE | {"llm.model_name": word}, scope=GOOGLE_ADK) == (None, None)


def test_a_failure_that_states_a_placeholder_used_nothing() -> None:
    """Spring AI writes Micrometer's word for none where no answer came."""
    named = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "none"}
    assert record_of(named, status=2)["usage"] == {"status": "none"}


@pytest.mark.parametrize("name", ["text-embedding-ada-002", "embedding-ada-002", "text-davinci-003", "babbage-002"])
def test_a_models_own_number_names_no_snapshot(name: str) -> None:
    assert not is_snapshot(name)
    assert is_snapshot("gpt-4o-2024-08-06")
    asked = OPENINFERENCE | {"llm.model_name": name}
    assert models(asked, scope="an.application") == (name, None)
    embedding = {"openinference.span.kind": "EMBEDDING", "embedding.model_name": name, "llm.token_count.prompt": 7}
    assert models(embedding, scope="an.application") == (name, name)


def test_anthropics_models_at_vertex_are_served_by_vertex() -> None:
    sdk = {"ai.operationId": "ai.generateText.doGenerate", "gen_ai.system": "vertex.anthropic.messages"}
    asked = sdk | {"gen_ai.request.model": "claude-sonnet-4-5@20250929", "ai.usage.inputTokens": 7}
    assert record_of(asked, scope="ai")["provider"] == "gcp.vertex_ai"
    genkit = {
        "genkit:type": "action",
        "genkit:metadata:subtype": "model",
        "genkit:name": "vertexModelGarden/claude-sonnet-4-5@20250929",
    }
    genkit |= {"genkit:output": '{"usage": {"inputTokens": 7, "outputTokens": 3}}'}
    record = record_of(genkit, scope="genkit-tracer")
    assert (record["provider"], record["request_model"]) == ("gcp.vertex_ai", "claude-sonnet-4-5@20250929")
