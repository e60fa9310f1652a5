"""AI gateways that send GenAI spans with names of their own: Bifrost, Cloudflare, OpenRouter,
Portkey, Vercel, agentgateway, Envoy.

All are inclusive. Where a gateway also sends spans of its plugins or of the HTTP request, only the
span of the model's call has usage; an attempt that failed is known by its name.

OpenRouter's own names stand bare in its reference and below `trace.metadata.` in what it sends
(public parsers of captured broadcasts). Vercel's are as its page "AI Gateway Trace Drains" lists
them: the root span is the call and holds the usage; spans of routing, model attempts and provider
attempts below it are steps. Its server spans follow HTTP's conventions, by which a 4xx sets no
error status, so the status code states a failure too.
"""

from http import HTTPStatus

from gateway.read.view import Span
from gateway.rules.conventions import openinference
from gateway.rules.conventions.table import Convention, by_operation, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.operation import Outcome


def _bifrost_outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
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
    outcome=_bifrost_outcome,
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
        "provider": (
            "openrouter.provider_slug",
            "trace.metadata.openrouter.provider_slug",
            "trace.metadata.openrouter.provider_name",
            "gen_ai.system",
            "gen_ai.provider.name",
        ),
        "finish_reason": (
            "gen_ai.response.finish_reasons",
            "gen_ai.response.finish_reason",
            "openrouter.finish_reason",
            "trace.metadata.openrouter.finish_reason",
        ),
        "cost": ("gen_ai.usage.total_cost", "gen_ai.usage.cost"),
        "reasoning": ("gen_ai.usage.output_tokens.reasoning",),
        "cache_creation": ("gen_ai.usage.input_tokens.cache_creation", "gen_ai.usage.input_tokens.cache_write"),
        "user": ("user.id", "trace.metadata.openrouter.user_id", "trace.metadata.user_id"),
        "team": ("trace.metadata.team_id", "trace.metadata.team", "team.id"),
        "project": ("trace.metadata.project", "openrouter.entity_id", "trace.metadata.openrouter.entity_id"),
        "environment": ("trace.metadata.environment",),
        "label.virtual_key": ("openrouter.api_key_name", "trace.metadata.openrouter.api_key_name"),
    },
    basis=inclusive,
)

_VERCEL = "vercel.ai_gateway."
_RERANK = "retrieval"
"""Vercel's word for a reranking; elsewhere it is a step."""


def _vercel_outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    texts = picked.texts
    if "attempt" in texts or span.name.startswith(_VERCEL):
        return "not_a_call"
    status = texts.pop("http_status", "")
    if len(status) == len("404") and status.isdecimal() and int(status) >= HTTPStatus.BAD_REQUEST:
        texts.setdefault("error_type", f"http_{int(status)}")
    if texts.get("operation") == _RERANK:
        texts["operation"] = "rerank"
    return by_operation(picked, span, failed=failed)


def whole_cost(picked: Extracted) -> None:
    """With a customer's own provider key the gateway's cost is its fee; what the provider
    takes is reported beside it.
    """
    upstream, byok = picked.numbers.pop("upstream_cost", None), picked.numbers.pop("byok", 0.0)
    if upstream and upstream > 0 and (byok or picked.texts.get("credential") == "byok"):
        picked.numbers["cost"] = picked.numbers.get("cost", 0.0) + upstream


def _vercel_cost(picked: Extracted, *, failed: bool) -> None:
    whole_cost(picked)


VERCEL = Convention(
    "vercel",
    own={
        "provider": ("gen_ai.provider.name", _VERCEL + "provider"),
        "response_id": (_VERCEL + "generation.id", "gen_ai.response.id"),
        "request_id": (_VERCEL + "request.id",),
        "service_tier": (_VERCEL + "service_tier",),
        "region": (_VERCEL + "region",),
        "cost": (_VERCEL + "cost.total",),
        "currency": (_VERCEL + "cost.currency",),
        "upstream_cost": (_VERCEL + "cost.market",),
        "credential": (_VERCEL + "credential.type",),
        "user": (_VERCEL + "user.id", "user.id"),
        "project": ("vercel.project.id",),
        "environment": (_VERCEL + "environment",),
        "label.virtual_key": (_VERCEL + "api_key.name", _VERCEL + "api_key.id"),
        "http_status": ("http.response.status_code",),
        "attempt": (_VERCEL + "attempt.id", _VERCEL + "attempt.number", _VERCEL + "model_attempt.index"),
    },
    outcome=_vercel_outcome,
    basis=inclusive,
    read_texts=_vercel_cost,
)

PORTKEY = Convention("portkey", own={}, basis=inclusive)

AGENTGATEWAY = Convention("agentgateway", own={"user": ("user.id", "jwt.sub", "enduser.id")}, basis=inclusive)

ENVOY = Convention(
    "envoy_ai_gateway",
    own=openinference.NAMES,
    outcome=openinference.outcome,
    read_texts=openinference.read_texts,
    basis=inclusive,
)
