"""Providers, operations, money and times: the small tables."""

import pytest
from babel.core import get_global
from babel.numbers import list_currencies

from gateway.common.contract.currencies import ISO_4217, WITHDRAWN
from gateway.common.operations import decimal_string, rfc3339
from gateway.rules.cost import reported_cost
from gateway.rules.operation import operation
from gateway.rules.provider import counts_cache_apart, provider
from tests.unit.rules.spans import record_of


@pytest.mark.parametrize(
    ("sent", "model", "address", "expected"),
    [
        ("openai", "gpt-4o", None, "openai"),
        ("OpenAI", None, None, "openai"),
        ("openai.chat", None, None, "openai"),
        ("openai.responses", None, None, "openai"),
        ("anthropic.messages", None, None, "anthropic"),
        ("google.generative-ai", None, None, "gcp.gemini"),
        ("gemini", None, None, "gcp.gemini"),
        ("google.vertex.chat", None, None, "gcp.vertex_ai"),
        ("azure.ai.openai", "gpt-4o", None, "azure.ai.openai"),
        ("openai", "my-deployment", "acme.openai.azure.com", "azure.ai.openai"),
        ("openai", "gpt-4o", "https://acme.openai.azure.com/openai/", "azure.ai.openai"),
        ("openai", "gpt-4o", "127.0.0.1", "openai"),
        ("langchain", "claude-sonnet-4-5", None, "anthropic"),
        ("langgraph", None, None, None),
        ("langchain", "local-model", None, None),
        (None, "gpt-4o", None, "openai"),
        (None, "o4-mini", None, "openai"),
        (None, "openai/gpt-5-mini", None, "openai"),
        (None, "us.anthropic.claude-sonnet-4-5-v1:0", None, "aws.bedrock"),
        (None, "mistral-large", None, "mistral_ai"),
        (None, "my-model", "api.anthropic.com", "anthropic"),
        (None, "my-model", "bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
        (None, "my-model", "evil-api.openai.com.example", None),
        (None, "my-model", "api.openai.com.example", None),
        (None, "my-model", "https://api.openai.com@example.com/v1", None),
        ("openai", "deepseek-chat", "api.deepseek.com", "deepseek"),
        ("openai", "grok-4", "https://api.x.ai/v1/", "x_ai"),
        ("openai", "grok-4", "https://us-east-1.api.x.ai:443/v1", "x_ai"),
        ("openai", "openai/gpt-oss-120b", "https://api.groq.com/openai/v1", "groq"),
        ("openai", "openai/gpt-oss-120b", "api.together.xyz", "together_ai"),
        ("openai", "mistral-large-latest", "api.mistral.ai", "mistral_ai"),
        ("openai", "gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/openai/", "gcp.gemini"),
        ("openai", "google/gemini-2.5-pro", "us-central1-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("openai", "claude-sonnet-4-5", "https://api.anthropic.com/v1/", "anthropic"),
        ("openai", "openai/gpt-4o", "openrouter.ai", "openrouter"),
        ("openai", "sonar", "api.perplexity.ai", "perplexity"),
        ("openai", "gpt-oss-120b", "api.cerebras.ai", "cerebras"),
        ("openai", "accounts/fireworks/models/x", "api.fireworks.ai", "fireworks_ai"),
        ("openai", "openai.gpt-oss-120b-1:0", "bedrock-runtime.us-west-2.amazonaws.com", "aws.bedrock"),
        ("openai", "gpt-4o", "eu.api.openai.com", "openai"),
        ("openai", "gpt-4o", "notx.ai", "openai"),
        ("anthropic", "claude-sonnet-4-5", "api.deepseek.com", "anthropic"),
        (None, "openai/gpt-oss-120b", "api.groq.com", "groq"),
        (None, "my-model", None, None),
        (None, None, None, None),
        ("mock.chat", "gpt-5-mini", None, "openai"),
        ("mock.chat", "my-model", None, "mock"),
        ("github", "gpt-4o", None, "github"),
        ("", "gemini-2.5-flash", None, "gcp.gemini"),
    ],
)
def test_provider_by_precedence(sent: str | None, model: str | None, address: str | None, expected: str | None) -> None:
    assert provider(sent, model, address) == expected


@pytest.mark.parametrize(
    ("sent", "name", "outcome"),
    [
        ("chat", "chat", "call"),
        ("Chat", "chat", "call"),
        ("responses", "chat", "call"),
        ("acompletion", "chat", "call"),
        ("aembedding", "embeddings", "call"),
        ("embedding", "embeddings", "call"),
        ("text_completion", "text_completion", "call"),
        ("generate_content", "generate_content", "call"),
        ("chat.completions", "chat", "call"),
        ("invoke_agent", "invoke_agent", "not_a_call"),
        ("execute_task", "execute_task", "not_a_call"),
        ("invoke_workflow", "invoke_workflow", "not_a_call"),
        ("parser", "parser", "not_a_call"),
        ("my_new_agent_step", "my_new_agent_step", "not_a_call"),
        ("openai.responses.create", "chat", "call"),
        ("openai.beta.threads.messages.create", "openai.beta.threads.messages.create", "undecided"),
        ("unknown", "unknown", "undecided"),
        ("something_new", "something_new", "undecided"),
    ],
)
def test_operations(sent: str, name: str, outcome: str) -> None:
    assert tuple(operation(sent)) == (name, outcome)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.017143750000000003, "0.01714375"),
        (4.682e-05, "0.00004682"),
        (0.0, "0"),
        (1.0, "1"),
        (12.5, "12.5"),
        (0.1 + 0.2, "0.3"),
        (1e-9, "0.000000001"),
        (1.1125369292536007e-308, "0"),
        (123456789.125, "123456789.125"),
    ],
)
def test_money_has_no_binary_noise_and_no_exponent(amount: float, text: str) -> None:
    assert decimal_string(amount) == text


@pytest.mark.parametrize("amount", [None, -1.0, float("nan"), float("inf"), 1e10])
def test_what_is_no_amount_is_no_cost(amount: float | None) -> None:
    assert reported_cost(amount, None) is None


@pytest.mark.parametrize("currency", ["人民币", "ßßß", "EURO", "12", "credits", "CRD", "xxx"])
def test_the_cost_in_a_currency_that_nobody_knows_is_unknown(currency: str) -> None:
    assert reported_cost(1.0, currency) is None


def test_the_currencies_are_those_of_the_world() -> None:
    """As the Unicode CLDR has them: all that are legal tender somewhere, and none but its own."""
    tender = {
        code
        for spans in get_global("territory_currencies").values()
        for code, _, end, legal in spans
        if legal and not end
    }
    assert tender <= ISO_4217 | WITHDRAWN
    assert list_currencies() >= ISO_4217 | WITHDRAWN


@pytest.mark.parametrize("currency", [None, "", "dollars", "usd", "U$D"])
def test_a_cost_without_a_currency_is_in_dollars(currency: str | None) -> None:
    cost = reported_cost(1.0, currency)
    assert cost is not None
    assert cost["currency"] == "USD"


def test_providers_that_count_cached_tokens_apart() -> None:
    assert counts_cache_apart("anthropic", None)
    assert counts_cache_apart("gcp.vertex_ai", "claude-sonnet-4-5")
    assert not counts_cache_apart("gcp.vertex_ai", "gemini-2.5-pro")
    assert not counts_cache_apart("openai", "gpt-4o")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_607_201_250, "2026-01-05T10:00:01.250Z"),
        (1_767_607_201_009, "2026-01-05T10:00:01.009Z"),
        (1_709_164_799_999, "2024-02-28T23:59:59.999Z"),
    ],
)
def test_times_are_rfc_3339_with_milliseconds(ms: int, text: str) -> None:
    assert rfc3339(ms) == text


@pytest.mark.parametrize(
    "sent",
    ["HIT", "Hit", "hit", "yes", "Yes", "true", "True", '"true"', "1", "1.0", "2", True, 1, 1.0, " hit ", "SEMANTIC HIT", "exact_hit", "cached"],
)  # fmt: skip
@pytest.mark.parametrize("scope", ["some.scope", "cloudflare-ai-gateway", "litellm", "langfuse-sdk"])
def test_a_gateways_cache_hit_is_billed_by_nobody_however_it_is_written(sent: object, scope: str) -> None:
    record = record_of(_HIT_CALL | dict.fromkeys(_HIT_NAMES[scope], sent), scope=scope)
    assert (record["billed"], record["flags"]) == (False, ["gateway_cache_hit"])
    assert record["cost"] == {"amount": "0", "currency": "USD", "source": "reported", "price_version": None}


@pytest.mark.parametrize(
    "sent",
    ["MISS", "Miss", "Bypass", "Refresh", "no", "false", "False", "0", "0.0", False, 0, 0.0, "", "SEMANTIC MISS", "none", "shit"],
)  # fmt: skip
@pytest.mark.parametrize("scope", ["some.scope", "cloudflare-ai-gateway", "litellm", "langfuse-sdk"])
def test_every_other_word_about_the_cache_leaves_the_call_billed(sent: object, scope: str) -> None:
    record = record_of(_HIT_CALL | dict.fromkeys(_HIT_NAMES[scope], sent), scope=scope)
    assert (record["billed"], record["flags"], record["cost"]["amount"]) == (True, [], "0.25")


_HIT_CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 5,
    "gen_ai.usage.output_tokens": 2,
    "gen_ai.usage.cost": 0.25,
    "langfuse.observation.type": "generation",
}
_HIT_NAMES = {
    "some.scope": ["gen_ai.gateway.cache_hit"],
    "cloudflare-ai-gateway": ["cached"],
    "litellm": ["litellm.cache_hit"],
    "langfuse-sdk": ["langfuse.observation.metadata.cache_hit"],
}
