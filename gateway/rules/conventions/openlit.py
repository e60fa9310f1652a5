"""OpenLIT (`openlit.instrumentation.<library>`, `@openlit/instrumentation-<library>`): GenAI names,
of clients the provider's numbers.

1. The input of the clients of Anthropic and Bedrock leaves the cache out, the output of Google's
   the thoughts. What frameworks (LangChain, LiteLLM, …) report, OpenLIT passes on: their numbers
   may prove what it holds. Of LangChain's answers the provider's own usage goes first, which those
   of Anthropic that are no stream have: without the cache. Streams hold it.
2. A call that fails has no attribute at all: its library stands in the scope's name, its operation
   and model in the span's (`chat gpt-4o`).
3. Where a stream states no usage, OpenLIT for Python counts with a tokenizer of its own. Then no
   cache counts stand beside the wholes; a provider's usage always brings them, be they 0.
4. A cost of 0 is that of a model that OpenLIT knows no price of.
"""

from functools import lru_cache

from gateway.read.view import Span
from gateway.rules.conventions.basis import native_input, native_output
from gateway.rules.conventions.table import BasisRule, Convention, unstated
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted
from gateway.rules.operation import is_listed, operation
from gateway.rules.provider import named_provider
from gateway.rules.usage import Basis

_PYTHON, _JAVASCRIPT = "openlit.instrumentation.", "@openlit/instrumentation-"
_WITH_CACHE = frozenset(
    {"openai", "azure.ai.openai", "anthropic", "aws.bedrock", "gcp.gemini", "gcp.gen_ai", "gcp.vertex_ai"}
)
"""Providers whose cache counts OpenLIT passes on."""


def read_span(picked: Extracted, span: Span) -> None:
    """Rule 2."""
    if len(span.attributes):
        return
    word, _, model = span.name[:MAX_TEXT_CHARS].partition(" ")
    if is_listed(word) and operation(word).outcome == "call":
        picked.texts["operation"] = word
        if model:
            picked.texts["request_model"] = model


def estimates(picked: Extracted, provider: str | None) -> bool:
    """Rule 3."""
    return provider in _WITH_CACHE and bool(picked.numbers.get("stream")) and "cache_read" not in picked.counts


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rule 4."""
    if picked.numbers.get("cost") == 0:
        del picked.numbers["cost"]


_CLIENTS = frozenset({"anthropic", "bedrock", "google_ai_studio", "google-ai", "vertexai"})


def langchain_basis(picked: Extracted, _version: str, provider: str | None) -> Basis:
    """Rule 1."""
    stream = picked.numbers.get("stream")
    if provider != "anthropic" or stream is None:
        return Basis.UNSTATED
    return Basis.INCLUSIVE if stream else Basis.EXCLUSIVE


_INPUT: dict[str, BasisRule] = {**dict.fromkeys(_CLIENTS, native_input), "langchain": langchain_basis}


def is_openlit(scope: str) -> bool:
    return scope.startswith((_PYTHON, _JAVASCRIPT))


@lru_cache(maxsize=256)
def openlit(scope: str) -> Convention:
    """The convention of one instrumentation, which knows its provider."""
    library = scope.removeprefix(_PYTHON).removeprefix(_JAVASCRIPT)
    is_python = scope.startswith(_PYTHON)
    return Convention(
        "openlit",
        own={},
        basis=_INPUT.get(library, unstated) if is_python or library in _CLIENTS else unstated,
        output_basis=native_output if library in _CLIENTS else None,
        read_span=read_span if is_python else None,
        read_texts=read_texts,
        estimates=estimates if is_python else None,
        default_provider=named_provider(library),
    )
