"""OpenLLMetry (Traceloop): GenAI names in the newer releases, `llm.*` and indexed
prompts in the older ones.

1. `traceloop.span.kind` (workflow, task, agent, tool) marks a step; `llm.request.type` a call.
2. Anthropic's input is inclusive in Python and, up to 0.27, exclusive in JavaScript, under
   identical names: the scope and its version decide.
3. Bedrock's numbers are the provider's own: the input leaves the cache out. Google's too: the
   output leaves the thoughts out, which only the total states.
4. User, session and provider of LangChain are in `traceloop.association.properties.*`.
5. JavaScript's OpenAI counts streams with a tokenizer of its own (`enrichTokens`), and nothing on
   the span states that it was a stream. So its counts are estimates, but for those of the Responses
   API (with a cache count), of tool calls, and those that are more than its messages have bytes.
"""

from gateway.read.view import Span
from gateway.rules.conventions.basis import is_before, native_before, native_output
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.provider import counts_cache_apart
from gateway.rules.usage import Basis

_PROPERTY = "traceloop.association.properties."

NAMES: dict[str, tuple[str, ...]] = {
    "provider_hint": (_PROPERTY + "ls_provider",),
    "user": ("user.id", "gen_ai.user", "llm.user", _PROPERTY + "user_id"),
    "session": ("session.id", _PROPERTY + "session_id", _PROPERTY + "thread_id", "gen_ai.conversation.id"),
    "team": ("team.id", _PROPERTY + "team_id", _PROPERTY + "team"),
    "service_tier": (
        "openai.response.service_tier",
        "gen_ai.openai.response.service_tier",
        "openai.request.service_tier",
    ),
}


_JAVASCRIPT_INCLUSIVE = (0, 28)


def _javascript(picked: Extracted, version: str, provider: str | None) -> Basis:
    """Rule 2."""
    if not is_before(version, _JAVASCRIPT_INCLUSIVE):
        return Basis.UNSTATED
    is_apart = counts_cache_apart(provider, picked.texts.get("request_model"))
    return Basis.EXCLUSIVE if is_apart else Basis.UNSTATED


def _javascript_anthropic(_picked: Extracted, version: str, _provider: str | None) -> Basis:
    """Rule 2."""
    return Basis.EXCLUSIVE if is_before(version, _JAVASCRIPT_INCLUSIVE) else Basis.UNSTATED


def read_span(picked: Extracted, span: Span) -> None:
    """Rule 5: how much text the counts may be counted of."""
    picked.numbers["content_bytes"] = sum(
        len(value.string_value.encode("utf-8", "replace"))
        for name in _CONTENT
        if (value := span.attributes.get(name)) is not None
    )


_CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")


def _estimates(picked: Extracted, _provider: str | None) -> bool:
    """Rule 5."""
    counts = picked.counts
    if "cache_read" in counts or picked.texts.get("finish_reason", "").startswith("tool"):
        return False
    content = picked.numbers.get("content_bytes")
    return not content or counts.get("input", 0) + counts.get("output", 0) <= content


OPENLLMETRY = Convention("openllmetry", own=NAMES, basis=inclusive)
OPENLLMETRY_UNSTATED = Convention("openllmetry", own=NAMES)
OPENLLMETRY_NATIVE = Convention("openllmetry", own=NAMES, basis=native_before((0, 63)), output_basis=native_output)
"""Bedrock, Google: rule 3, as seen up to 0.62."""
OPENLLMETRY_JS = Convention("openllmetry", own=NAMES, basis=_javascript, output_basis=native_output)
OPENLLMETRY_JS_ANTHROPIC = Convention(
    "openllmetry", own=NAMES, basis=_javascript_anthropic, default_provider="anthropic"
)
OPENLLMETRY_JS_OPENAI = Convention(
    "openllmetry",
    own=NAMES,
    basis=_javascript,
    output_basis=native_output,
    read_span=read_span,
    estimates=_estimates,
)
