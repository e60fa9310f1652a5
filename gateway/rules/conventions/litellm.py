"""LiteLLM's `otel` callback, version 1 and 2, and its OpenInference form (`arize_phoenix`).

1. The call is `litellm_request` (1) or `chat …` (2). `litellm_proxy_request` repeats it;
   `route`, `auth` and `cache` spans carry a request model but no call. `raw_gen_ai_request`
   holds the provider's answer under `llm.<provider>.*`: with id and usage it is a report of
   its parent's call, and the only one where the parent is lost (newer FastAPI). Inside an
   application's span that is the parent of all calls, and holds the first one only: the
   others are reported by these alone.
2. The input is inclusive. Cache and reasoning of version 1 are in
   `metadata.usage_object`, a Python repr.
3. `gen_ai.request.model` may be the gateway's alias; `litellm.provider.model` is the
   model asked of the provider.
4. Without a provider's id the response id is LiteLLM's own call id, which is no response id.
5. A response from the gateway's cache repeats tokens and cost; its mark is a
   `cache_key` in `hidden_params`.
6. Of Anthropic and Bedrock a reasoning of 0 is unknown: some versions fill in 0 where the provider
   states thinking tokens, which then stand in `raw_gen_ai_request` alone.
"""

import re

from gateway.read.view import Span
from gateway.rules.conventions import openinference
from gateway.rules.conventions.native import add_parts, add_wholes, note_native
from gateway.rules.conventions.table import Convention, by_operation, inclusive, usage_rule
from gateway.rules.extract import RAW, TEXT, AttributeTable, Extracted, Interest
from gateway.rules.operation import Outcome
from gateway.rules.provider import counts_cache_apart, named_provider
from gateway.rules.texts import json_object, object_in, repr_object

RAW_REQUEST = "raw_gen_ai_request"
_PROXY_REQUEST = "litellm_proxy_request"
_RAW_NAME = re.compile(r"llm\.(\w+)\.(usage|id|model|service_tier)")
_RAW_USAGE = "raw_native."
_PROVIDER_PREFIXES = frozenset(
    {
        "openai", "azure", "anthropic", "bedrock", "vertex_ai", "gemini", "mistral", "cohere", "groq", "deepseek", "xai",
        "together_ai", "fireworks_ai", "ollama", "hosted_vllm", "azure_ai", "perplexity", "databricks", "huggingface",
    }
)  # fmt: skip

NAMES: dict[str, tuple[str, ...]] = {
    **openinference.NAMES,
    "provider": ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "error.llm_provider"),
    "input": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "cost": ("litellm.cost.total", "gen_ai.cost.total_cost", "llm.cost.total", "llm.response.cost"),
    "provider_model": ("litellm.provider.model",),
    "request_id": ("litellm.call_id",),
    "stream": ("litellm.request.streaming", "llm.is_streaming", "gen_ai.request.stream"),
    "raw_usage": ("metadata.usage_object",),
    "raw_hidden": ("hidden_params",),
    "user": (
        "metadata.user_api_key_user_id",
        "litellm.user.id",
        "llm.user",
        "user.id",
        "metadata.user_api_key_end_user_id",
    ),
    "session": ("gen_ai.conversation.id", "metadata.session_id", "session.id"),
    "team": (
        "litellm.team.id",
        "metadata.user_api_key_team_id",
        "litellm.team_id",
        "metadata.team_id",
        "litellm.team.alias",
        "metadata.user_api_key_team_alias",
    ),
    "project": ("metadata.user_api_key_project_id", "litellm.project.id"),
    "label.virtual_key": ("metadata.user_api_key_alias", "litellm.api_key.alias", "litellm.key_alias"),
    "label.model_group": ("litellm.model_group",),
}


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Rule 1."""
    name = span.name
    if name == RAW_REQUEST:
        return "call" if "native_id" in picked.texts and _raw_usage(picked.texts) else "not_a_call"
    if name == _PROXY_REQUEST:
        return "not_a_call"
    if "kind" in picked.texts:
        return openinference.outcome(picked, span, failed=failed)
    return by_operation(picked, span, failed=failed)


def _raw_usage(texts: dict[str, str]) -> str:
    """The field that holds the raw answer's usage; its provider follows the prefix."""
    return next((field for field in texts if field.startswith(_RAW_USAGE)), "")


def _read_raw(picked: Extracted) -> None:
    """The provider's own answer.

    Its usage is as the provider counts; Anthropic's input excludes the cache.
    """
    texts = picked.texts
    field = _raw_usage(texts)
    usage = repr_object(texts.pop(field, None))
    provider = field.removeprefix(_RAW_USAGE)
    if provider != "None":
        texts.setdefault("provider", provider)
    for own, shared_field in (
        ("native_id", "response_id"),
        ("native_model", "response_model"),
        ("native_tier", "service_tier"),
    ):
        if own in texts:
            texts[shared_field] = texts.pop(own)
    picked.counts.clear()
    add_wholes(picked, usage)
    add_parts(picked, usage)
    note_native(picked, usage)


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rules 1 to 6."""
    texts = picked.texts
    if _raw_usage(texts):
        _read_raw(picked)
        return
    add_parts(picked, repr_object(texts.pop("raw_usage", None)))
    metadata = json_object(texts.get("raw_metadata"))
    if metadata:
        add_parts(picked, object_in(metadata, "usage_object"))
    hidden = json_object(texts.pop("raw_hidden", None))
    if hidden.get("cache_key"):
        texts["cache_hit"] = "true"
    if "kind" in texts:
        texts.pop("operation", None)
        openinference.read_texts(picked, failed=failed)
    _place_models(texts, picked.who)
    if texts.get("response_id") is not None and texts.get("response_id") == texts.get("request_id"):
        del texts["response_id"]
    drop_unknown_reasoning(picked)


def _place_models(texts: dict[str, str], who: dict[str, str]) -> None:
    """Rule 3; the alias the client used stays as a label."""
    asked = texts.pop("provider_model", None)
    if asked is None:
        return
    asked = without_prefix(asked, texts)
    alias = texts.get("request_model")
    if alias is not None and alias != asked:
        who.setdefault("label.model_group", alias)
    texts["request_model"] = asked
    group = who.get("label.model_group")
    if group is not None and texts.get("response_model") == group != asked:
        del texts["response_model"]


def drop_unknown_reasoning(picked: Extracted) -> None:
    """Rule 6."""
    texts = picked.texts
    if picked.counts.get("reasoning") != 0:
        return
    is_claude = any("claude" in texts.get(name, "").lower() for name in ("model", "request_model", "response_model"))
    if is_claude or counts_cache_apart(named_provider(texts.get("provider")), None):
        picked.counts.pop("reasoning")


def without_prefix(model: str, texts: dict[str, str]) -> str:
    """LiteLLM's `openai/gpt-4o` without the provider, which is taken where no
    other name of it is known.
    """
    prefix, slash, rest = model.partition("/")
    if not slash or prefix not in _PROVIDER_PREFIXES:
        return model
    texts.setdefault("provider", prefix)
    return rest


def _rule(name: str) -> Interest:
    """Names of a raw answer, whatever LiteLLM calls the provider."""
    match = _RAW_NAME.fullmatch(name)
    if match is None:
        return usage_rule(name)
    provider, last = match.groups()
    if last == "usage":
        return (_RAW_USAGE + provider, 0, RAW)
    return ({"id": "native_id", "model": "native_model", "service_tier": "native_tier"}[last], 0, TEXT)


class _LiteLLM(Convention):
    """Its raw answers' names are open."""

    def interests(self) -> AttributeTable:
        return AttributeTable(Convention.interests(self), _rule)


LITELLM = _LiteLLM("litellm", own=NAMES, outcome=outcome, basis=inclusive, read_texts=read_texts)
