"""OpenLIT (`openlit.instrumentation.<library>`): GenAI names with the provider's own numbers.

1. The input is the provider's own: Anthropic's and Bedrock's leave the cache out. So is the
   output: Google's leaves the thoughts out.
2. A call that fails has no attribute at all: its library stands in the scope's name, its operation
   and model in the span's (`chat gpt-4o`).
3. Where a stream states no usage, OpenLIT counts with a tokenizer of its own. Then no cache counts
   stand beside the wholes; a provider's usage always brings them, be they 0.
"""

from functools import lru_cache

from gateway.decode.view import Span
from gateway.normalise.conventions.basis import native_input, native_output
from gateway.normalise.conventions.table import Convention
from gateway.normalise.extract import MAX_TEXT_CHARS, Extracted
from gateway.normalise.operation import is_listed, operation
from gateway.normalise.provider import named_provider

SCOPES = "openlit.instrumentation."
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


@lru_cache(maxsize=256)
def openlit(scope: str) -> Convention:
    """The convention of one instrumentation, which knows its provider."""
    return Convention(
        "openlit",
        own={},
        basis=native_input,
        output_basis=native_output,
        read_span=read_span,
        estimates=estimates,
        default_provider=named_provider(scope.removeprefix(SCOPES)),
    )
