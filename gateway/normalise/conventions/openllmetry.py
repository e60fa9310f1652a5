"""OpenLLMetry (Traceloop): GenAI names in the newer releases, `llm.*` and indexed
prompts in the older ones.

1. `traceloop.span.kind` (workflow, task, agent, tool) marks a step; `llm.request.type` a call.
2. Anthropic's input is inclusive in Python and exclusive in JavaScript, under identical
   names: the scope decides.
3. Bedrock's numbers are the provider's own: the input leaves the cache out. Google's too: the
   output leaves the thoughts out, which only the total states.
4. User, session and provider of LangChain are in `traceloop.association.properties.*`.
"""

from gateway.normalise.conventions.basis import native_input, native_output
from gateway.normalise.conventions.table import Convention, exclusive, inclusive
from gateway.normalise.extract import Extracted
from gateway.normalise.provider import counts_cache_apart
from gateway.normalise.usage import Basis

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


def _javascript(picked: Extracted, _version: str, provider: str | None) -> Basis:
    is_apart = counts_cache_apart(provider, picked.texts.get("request_model"))
    return Basis.EXCLUSIVE if is_apart else Basis.UNSTATED


OPENLLMETRY = Convention("openllmetry", own=NAMES, basis=inclusive)
OPENLLMETRY_UNSTATED = Convention("openllmetry", own=NAMES)
OPENLLMETRY_NATIVE = Convention("openllmetry", own=NAMES, basis=native_input, output_basis=native_output)
"""Bedrock, Google: rule 3."""
OPENLLMETRY_JS = Convention("openllmetry", own=NAMES, basis=_javascript, output_basis=native_output)
OPENLLMETRY_JS_ANTHROPIC = Convention("openllmetry", own=NAMES, basis=exclusive, default_provider="anthropic")
