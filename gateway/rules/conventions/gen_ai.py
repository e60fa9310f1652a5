"""OpenTelemetry GenAI semantic conventions: contrib and util-genai, google-genai, ADK,
agents, OTel JS, SDKs of their own.

All generations of names are in the shared table. What differs by scope is whether the input holds
the cache: known scopes are inclusive (measured, `docs/formats.md`); any other scope is unstated, so
the numbers may prove it.
"""

from gateway.read.view import Span
from gateway.rules.conventions.basis import native_before, native_input
from gateway.rules.conventions.table import Convention, by_operation, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.operation import Outcome
from gateway.rules.usage import Basis

GEN_AI = Convention("gen_ai", own={})

GEN_AI_INCLUSIVE = Convention("gen_ai", own={}, basis=inclusive)

_STRANDS: dict[str, tuple[str, ...]] = {
    "cache_read": ("gen_ai.usage.cache_read_input_tokens",),
    "cache_creation": ("gen_ai.usage.cache_write_input_tokens",),
    "later_cache_read": ("gen_ai.usage.cache_read.input_tokens",),
    "later_cache_creation": ("gen_ai.usage.cache_creation.input_tokens",),
}


def _strands_basis(picked: Extracted, version: str, provider: str | None) -> Basis:
    is_later = "later_cache_read" in picked.counts or "later_cache_creation" in picked.counts
    return Basis.UNSTATED if is_later else native_input(picked, version, provider)


def _strands_texts(picked: Extracted, *, failed: bool) -> None:
    counts = picked.counts
    for part in ("cache_read", "cache_creation"):
        if "later_" + part in counts:
            counts.setdefault(part, counts["later_" + part])


STRANDS = Convention("gen_ai", own=_STRANDS, basis=_strands_basis, read_texts=_strands_texts)
"""Strands Agents. It names itself as the provider, so the model's name states whose, and no
version of itself. Up to 1.50 the input is the provider's own. Versions from 1.55 on have the later
names too, and in some of them the input holds the cache."""

SPRING_AI = Convention("gen_ai", own={}, basis=native_input)
"""Spring AI 2, under Spring Boot's scope: the provider's own input, and a total that is the sum of
the wholes."""

_ESTIMATED_AT_BEDROCK = ("cohere.command", "mistral.mi")
"""Models whose answers to InvokeModel state no usage: botocore's instrumentation counts six
characters a token."""


def _estimates(picked: Extracted, _provider: str | None) -> bool:
    model = picked.texts.get("request_model", "")
    return picked.texts.get("rpc_method", "").startswith("InvokeModel") and any(
        x in model for x in _ESTIMATED_AT_BEDROCK
    )


GEN_AI_BOTOCORE = Convention(
    "gen_ai",
    own={"rpc_method": ("rpc.method",)},
    basis=native_before((0, 67)),
    default_provider="aws.bedrock",
    estimates=_estimates,
)
"""OpenTelemetry's botocore instrumentation: Bedrock's own numbers."""

ANTHROPIC_SDK = Convention(
    "gen_ai",
    own={"response_id": ("gen_ai.response.id",), "finish_reason": ("anthropic.message.stop_reason",)},
    basis=inclusive,
    default_provider="anthropic",
)


def _thoughts_apart(picked: Extracted, *, failed: bool) -> None:
    picked.numbers["output_excludes_reasoning"] = 1.0


GEMINI_CLI = Convention(
    "gemini_cli",
    own={"reasoning": ("gen_ai.usage.reasoning.output_tokens", "thoughts_token_count")},
    basis=inclusive,
    read_texts=_thoughts_apart,
    default_provider="gcp.gemini",
)
"""Spans `llm_call`: the output excludes thoughts, and no provider is named."""

QWEN_CODE = Convention(
    "qwen_code",
    own={
        "reasoning": ("gen_ai.usage.reasoning.output_tokens", "thoughts_token_count"),
        "finish_reason": ("gen_ai.response.finish_reasons", "finish_reason"),
        "label.agent": ("subagent_name",),
    },
    basis=inclusive,
)

COPILOT = Convention(
    "copilot",
    own={
        "time_to_first_ms": ("copilot_chat.time_to_first_token",),
        "request_id": ("copilot_chat.server_request_id",),
        "session": ("session.id", "gen_ai.conversation.id", "copilot_chat.session_id"),
    },
    basis=inclusive,
)
"""Copilot CLI and Copilot in VS Code. `github.copilot.cost` is no currency and is left unread."""


def goose_outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """The spans of a reply sum up the calls below them, whatever operation they name."""
    return "not_a_call" if span.name in _GOOSE_TURNS else by_operation(picked, span, failed=failed)


_GOOSE_TURNS = frozenset({"reply", "reply_stream", "reply_internal"})

GOOSE = Convention("goose", own={}, outcome=goose_outcome)
"""Goose: `stream_response_from_provider` is the call, with usage since its GenAI attributes came
(described from its source).

Before them, and in its logs and metrics still, it states only sums over a session, of
which no call can be made.
"""
