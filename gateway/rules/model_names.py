"""Which model was asked for and which one answered, where a sender's names leave it open. Pure.

1. An attribute that states the request's or the response's model holds that. A gateway's override
   of the request's model is what the provider was asked for.
2. One name under an attribute that states neither (`llm.model_name`, `model`): with a date or a
   version at its end it is the model that answered, and the request's is unknown; without one it is
   the model that was asked for, and of an embedding, whose models have no dated versions, both. Of
   a failed call, and of the libraries of `_ASKED`, it is the model that was asked for. Claude Code
   resolves its aliases before it asks: a snapshot's name is both.
3. A response's model that only repeats the request's is none where the library is known to copy it
   (`_COPYING`), but of an embedding, and of a name with a date or version: who asks for that is
   answered by it.
4. `openai/gpt-4o`: a routing prefix of `_ROUTES` is cut off both names and kept as the label
   `routing_prefix`. Who serves models of several makers has the maker before the model, in names of
   its own, which stay whole: where such a provider is stated, or stands at the address called, only
   its own name is a routing prefix (`groq/openai/gpt-oss-120b`).
5. A name may end with the interface that was called (`gpt-4o:completions`, `_INTERFACES`), which is
   cut off. A response's model with such an end is the request's, copied.
6. A word that senders write where they know no model, or no response's id (`none`, `unknown`), is
   absent. So is the operation's name in the place of the request's model.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from gateway.common.operations import like
from gateway.rules.extract import Extracted
from gateway.rules.operation import operation
from gateway.rules.provider import named_provider, names_makers, provider

_SNAPSHOT = re.compile(
    r"[-@:_](?:20\d{2}-?\d{2}-?\d{2}|\d{8}|\d{6}|\d{2}-20\d{2}|\d{2}-\d{2}|\d{3,4})(?:-v\d+(?::\d+)?)?$|-v\d+:\d+$"
)
"""`-2024-08-06`, `@20250929`, `-0613`, `-001`, `-08-2024`, `-v2:0` at the end of a name."""

_NUMBERED = re.compile(r"(?:^|[-/])(?:ada|babbage|curie|davinci)-00\d$")
"""OpenAI's models whose number is part of their name: `text-embedding-ada-002`."""

_ASKED = (
    "openinference.instrumentation.smolagents",
    "openinference.instrumentation.agno",
    "openinference.instrumentation.crewai",
    "openinference.instrumentation.dspy",
    "openinference.instrumentation.litellm",
    "openinference.instrumentation.bedrock",
    "openinference.instrumentation.haystack",
    "openinference.instrumentation.beeai",
    "openinference.instrumentation.autogen_agentchat",
)
"""Scopes whose one name of the model is the client's configured one."""

_COPYING = (
    *_ASKED,
    "logfire.",
    "litellm",
    "mlflow.tracing.provider",
    "@arizeai/openinference-instrumentation-openai-agents",
)
"""Beginnings of scopes that write the request's model where the response's belongs. Logfire does so
on export, on any span that has none: its spans are known by `logfire.span_type` too."""

_ROUTES = frozenset(
    {
        "openai", "azure", "azure_ai", "anthropic", "bedrock", "sagemaker", "vertex_ai", "vertex_ai_beta", "gemini",
        "mistral", "codestral", "cohere", "cohere_chat", "groq", "deepseek", "xai", "together_ai", "fireworks_ai",
        "ollama", "ollama_chat", "hosted_vllm", "vllm", "openai_like", "custom_openai", "lm_studio", "perplexity",
        "databricks", "huggingface", "replicate", "deepinfra", "cerebras", "sambanova", "nvidia_nim", "watsonx",
        "openrouter", "litellm_proxy", "github", "text-completion-openai", "voyage", "ai21", "moonshot", "dashscope",
    }
)  # fmt: skip
"""What LiteLLM and those that speak its language (DSPy, Agno, smolagents, CrewAI) put before a
model."""
_INNER_ROUTES = ("converse/", "converse_like/", "invoke/")
"""Of Bedrock, behind its own prefix."""
_INTERFACES = (":completions", ":responses", ":messages", ":chat")
PLACEHOLDERS = frozenset(
    form
    for word in ("none", "null", "nil", "undefined", "unknown", "unspecified", "n/a", "-")
    for form in (word, word.capitalize(), word.upper())
)
"""Micrometer has the first (`KeyValue.NONE_VALUE`)."""
_IDENTIFYING = ("request_model", "response_model", "model", "model_override", "response_id")
_RESOLVING = frozenset({"claude_code"})
"""Conventions of products that ask for snapshots by their full name."""
_EMBEDDINGS = "embeddings"
_ROUTERS = frozenset({"openrouter", "vercel"})
"""Conventions whose own catalogue has names with a slash."""


def drop_placeholders(texts: dict[str, str]) -> None:
    """Rule 6, in place."""
    if "operation" in texts and texts.get("request_model") == texts["operation"]:
        del texts["request_model"]
    if PLACEHOLDERS.isdisjoint(texts.values()):
        return
    for field in _IDENTIFYING:
        if texts.get(field) in PLACEHOLDERS:
            del texts[field]


@lru_cache(maxsize=4096)
def is_snapshot(name: str) -> bool:
    """Whether *name* carries a date or a version at its end."""
    low = name.lower()
    return _SNAPSHOT.search(low) is not None and _NUMBERED.search(low) is None


def is_version(name: str | None, other: str | None) -> bool:
    """Whether *name* is *other* with a date or a version behind it."""
    return (
        name is not None
        and other is not None
        and name.startswith(other)
        and len(name) > len(other)
        and is_snapshot(name)
        and _SNAPSHOT.fullmatch(name[len(other) :].lower()) is not None
    )


@lru_cache(maxsize=1024)
def names_asked(scope: str) -> bool:
    """Whether the one name that *scope* states is the model that was asked for."""
    return scope.startswith(_ASKED)


@lru_cache(maxsize=1024)
def copies(scope: str) -> bool:
    """Whether *scope* is known to write the request's model as the response's."""
    return scope.startswith(_COPYING)


def are_open(texts: Mapping[str, str]) -> bool:
    """Whether the rules may change something: most calls state two plain names that differ."""
    request, response = texts.get("request_model"), texts.get("response_model")
    return (
        request is None
        or response is None
        or request == response
        or "/" in request
        or "/" in response
        or ":" in request
        or ":" in response
        or "model_override" in texts
    )


def place_models(picked: Extracted, scope: str, convention: str, *, failed: bool) -> None:
    """Apply the rules to the names in *picked*, which *convention* read from a span or log of
    *scope*.
    """
    texts = picked.texts
    if "model_override" in texts:
        texts["request_model"] = texts.pop("model_override")
    if "model" in texts:
        answered = "input" in picked.counts or "output" in picked.counts
        is_both = convention in _RESOLVING
        _place_one(texts, texts.pop("model"), asked=failed or names_asked(scope), answered=answered, is_both=is_both)
    request, response = texts.get("request_model"), texts.get("response_model")
    is_copying = request is not None and request == response and ("span_type" in texts or copies(scope))
    if is_copying and not is_snapshot(response or "") and operation(texts.get("operation", "")).name != _EMBEDDINGS:
        del texts["response_model"]
    if (request is not None and ":" in request) or (response is not None and ":" in response):
        _cut_interfaces(texts)
    if (request is not None and "/" in request) or (response is not None and "/" in response):
        _cut_routes(picked, convention)


def _place_one(texts: dict[str, str], model: str, *, asked: bool, answered: bool, is_both: bool) -> None:
    """Rule 2; beside a stated request's model the name is the one that answered, unless it only
    repeats it and no usage shows that there was an answer.

    *asked*: the name can only be the request's; *is_both*: a snapshot's is the request's too.
    """
    request = texts.get("request_model")
    names_answer = is_snapshot(model) and not asked
    if is_both or not names_answer:
        texts.setdefault("request_model", model)
    if request is not None:
        if not asked and (answered or model != request):
            texts.setdefault("response_model", model)
    elif names_answer or (texts.get("operation") == _EMBEDDINGS and not asked):
        texts.setdefault("response_model", model)


def _cut_interfaces(texts: dict[str, str]) -> None:
    """Rule 5."""
    for field in ("request_model", "response_model"):
        name = texts.get(field)
        if name is None or not name.endswith(_INTERFACES):
            continue
        if field == "response_model" and operation(texts.get("operation", "")).name != _EMBEDDINGS:
            del texts[field]
        else:
            texts[field] = like(name.rpartition(":")[0], name)


def _cut_routes(picked: Extracted, convention: str) -> None:
    """Rule 4. The prefix names the provider where nothing else does."""
    texts = picked.texts
    if convention in _ROUTERS or texts.get("provider") in _ROUTERS:
        return
    served_by = provider(texts.get("provider"), None, texts.get("address"))
    is_known = named_provider(served_by) is not None
    for field in ("request_model", "response_model"):
        name = texts.get(field)
        if name is None:
            continue
        prefix, model = split_route(str(name))
        if prefix and not (names_makers(served_by) and named_provider(prefix) != served_by):
            texts[field] = like(model, name)
            picked.who.setdefault("label.routing_prefix", like(prefix, name))
            if not is_known and named_provider(prefix) is not None:
                texts["provider"] = like(prefix, name)


@lru_cache(maxsize=4096)
def split_route(model: str) -> tuple[str, str]:
    """The routing prefix of *model*, "" where it has none, and the model."""
    prefix, slash, rest = model.partition("/")
    if not slash or not rest or prefix.lower() not in _ROUTES:
        return "", model
    for inner in _INNER_ROUTES:
        rest = rest.removeprefix(inner)
    return str(prefix), str(rest)
