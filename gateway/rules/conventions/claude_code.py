"""Claude Code's own spans (beta): `claude_code.llm_request` is the call; interaction, tool and hook
spans are steps around it.

Numbers have bare names, the input excludes the cache, and no attribute names a provider
(`docs/formats.md`; described from documentation, not captured).
"""

from gateway.read.view import Span
from gateway.rules.conventions.table import Convention, exclusive
from gateway.rules.extract import Extracted
from gateway.rules.operation import Outcome


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """By the span's name; its siblings carry no usage of their own."""
    if span.name.endswith("llm_request"):
        return "call"
    return "not_a_call" if span.name.startswith("claude_code.") else "undecided"


CLAUDE_CODE = Convention(
    "claude_code",
    own={
        "request_model": ("gen_ai.request.model",),
        "model": ("model",),
        "input": ("input_tokens",),
        "output": ("output_tokens",),
        "cache_read": ("cache_read_tokens",),
        "cache_creation": ("cache_creation_tokens",),
        "cost": ("cost_usd",),
        "request_id": ("request_id",),
        "finish_reason": ("stop_reason", "gen_ai.response.finish_reasons"),
        "time_to_first_ms": ("ttft_ms",),
        "succeeded": ("success",),
        "user": ("user.email", "user.account_uuid", "user.id"),
        "label.agent": ("agent.name", "query_source"),
    },
    outcome=outcome,
    basis=exclusive,
    default_provider="anthropic",
)
