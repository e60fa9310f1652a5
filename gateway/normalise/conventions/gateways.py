"""AI gateways that send GenAI spans with names of their own: Bifrost, Cloudflare, OpenRouter, Portkey, agentgateway, Envoy.

All are inclusive. Where a gateway also sends spans of its plugins or of the HTTP request, only the span of the model's
call has usage; an attempt that failed is known by its name.
"""

from gateway.decode.view import Span
from gateway.normalise.conventions import openinference
from gateway.normalise.conventions.table import Convention, by_operation, inclusive
from gateway.normalise.operation import Fate
from gateway.normalise.pick import Picked


def _bifrost_fate(picked: Picked, span: Span, *, failed: bool) -> Fate:
    if span.name.startswith(("llm.call", "chat", "embedding")):
        return "call"
    return (
        "not_a_call" if span.name.startswith(("plugin.", "http.request")) else by_operation(picked, span, failed=failed)
    )


BIFROST = Convention(
    "bifrost",
    own={
        "label.virtual_key": ("gen_ai.virtual_key_name", "gen_ai.virtual_key_id"),
        "team": ("gen_ai.team_id", "gen_ai.team_name", "team.id"),
        "reasoning": ("gen_ai.usage.completion_token_details.reasoning_tokens",),
    },
    fate=_bifrost_fate,
    basis=inclusive,
)

CLOUDFLARE = Convention(
    "cloudflare",
    own={
        "provider": ("gen_ai.model.provider", "gen_ai.provider.name"),
        "user": ("user.id", "user_id", "userId", "user"),
        "team": ("team.id", "team", "team_id"),
        "session": ("session.id", "session_id", "sessionId"),
        "cache_hit": ("cached", "gen_ai.cached", "cf.aig.cached"),
    },
    basis=inclusive,
)

OPENROUTER = Convention(
    "openrouter",
    own={
        "provider": ("openrouter.provider_slug", "gen_ai.system", "gen_ai.provider.name"),
        "finish_reason": (
            "gen_ai.response.finish_reasons",
            "gen_ai.response.finish_reason",
            "openrouter.finish_reason",
        ),
        "cost": ("gen_ai.usage.total_cost", "gen_ai.usage.cost"),
        "reasoning": ("gen_ai.usage.output_tokens.reasoning",),
        "team": ("trace.metadata.team_id", "trace.metadata.team", "team.id"),
        "project": ("trace.metadata.project", "openrouter.entity_id"),
    },
    basis=inclusive,
)

PORTKEY = Convention("portkey", own={}, basis=inclusive)

AGENTGATEWAY = Convention("agentgateway", own={"user": ("user.id", "jwt.sub", "enduser.id")}, basis=inclusive)

ENVOY = Convention(
    "envoy_ai_gateway",
    own=openinference.NAMES,
    fate=openinference.fate,
    read_texts=openinference.read_texts,
    basis=inclusive,
)
