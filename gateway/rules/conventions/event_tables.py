"""Names that log events of products have, one table a product. `events.py` states which
event is read by which table.

1. Claude Code and Cline: the input excludes the cache. Cursor does not state; the numbers may prove
   it. All others include it.
2. Gemini CLI: the output excludes thoughts, tool prompts may stand beside the input. Qwen Code has
   the same names with an output that depends on the upstream. The total that travels along proves
   both; without proof the table decides.
3. Codex: all numbers are texts; the total is called `tool_token_count`.
"""

from collections.abc import Mapping

from gateway.rules.conventions.claude_code import CLAUDE_CODE
from gateway.rules.conventions.table import Convention, exclusive, inclusive
from gateway.rules.extract import Extracted

_AUTH_PROVIDERS: Mapping[str, str] = {
    "openai": "openai",
    "qwen-oauth": "alibaba_cloud",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "gemini-api-key": "gcp.gemini",
    "oauth-personal": "gcp.gemini",
    "vertex-ai": "gcp.vertex_ai",
}
"""What Gemini CLI and Qwen Code call the way they signed in -> provider."""


def _claude_texts(picked: Extracted, *, failed: bool) -> None:
    """The speed is a tier of its price; the normal one is none."""
    if picked.texts.get("service_tier") == "normal":
        del picked.texts["service_tier"]


CLAUDE_CODE_EVENTS = Convention(
    "claude_code",
    own={
        **CLAUDE_CODE.own,
        "duration_ms": ("duration_ms",),
        "service_tier": ("speed",),
        "status_code": ("status_code",),
        "event_id": ("request_id", "client_request_id"),
        "sequence": ("event.sequence",),
        "label.organization": ("organization.id",),
    },
    basis=exclusive,
    read_texts=_claude_texts,
    default_provider="anthropic",
)

CODEX_EVENTS = Convention(
    "codex",
    own={
        "request_model": ("model", "slug"),
        "input": ("input_token_count",),
        "output": ("output_token_count",),
        "cache_read": ("cached_token_count",),
        "cache_creation": ("cache_write_token_count",),
        "reasoning": ("reasoning_token_count",),
        "total": ("tool_token_count",),
        "time_to_first_ms": ("ttft_ms",),
        "event_kind": ("event.kind",),
        "sequence": ("event.sequence",),
        "session": ("conversation.id",),
        "user": ("user.email", "user.account_id"),
    },
    basis=inclusive,
    default_provider="openai",
)

_GEMINI_NAMES: dict[str, tuple[str, ...]] = {
    "input": ("input_token_count",),
    "output": ("output_token_count",),
    "cache_read": ("cached_content_token_count",),
    "reasoning": ("thoughts_token_count",),
    "tool_input": ("tool_token_count",),
    "total": ("total_token_count",),
    "response_id": ("response_id",),
    "finish_reason": ("finish_reasons", "finish_reason"),
    "duration_ms": ("duration_ms", "duration"),
    "time_to_first_ms": ("ttft_ms",),
    "status_code": ("status_code", "http.status_code"),
    "error_type": ("error_type", "error.type"),
    "auth": ("auth_type",),
    "session": ("session.id",),
    "label.agent": ("subagent_name",),
}


def _gemini_texts(picked: Extracted, *, failed: bool) -> None:
    _take_provider(picked)
    _fold(picked, thoughts_apart=True)


def _qwen_texts(picked: Extracted, *, failed: bool) -> None:
    provider = _take_provider(picked)
    _fold(picked, thoughts_apart=provider is not None and provider.startswith("gcp."))


def _take_provider(picked: Extracted) -> str | None:
    provider = _AUTH_PROVIDERS.get(picked.texts.pop("auth", ""))
    if provider is not None:
        picked.texts.setdefault("provider", provider)
    return provider


def _fold(picked: Extracted, *, thoughts_apart: bool) -> None:
    """Rule 2: whether thoughts and tool prompts stand beside output and input, by the total,
    else as the table states.
    """
    counts = picked.counts
    given, output, total = counts.get("input"), counts.get("output"), counts.get("total")
    thoughts, tool = counts.get("reasoning", 0), counts.pop("tool_input", 0)
    if given is not None and output is not None and total is not None:
        beside = total - given - output
        if tool and beside in {tool, tool + thoughts}:
            counts["input"] = given + tool
            beside -= tool
        if thoughts and beside in {0, thoughts}:
            thoughts_apart = beside == thoughts
    if thoughts_apart:
        picked.numbers["output_excludes_reasoning"] = 1.0


def _gemini(name: str, model_field: str) -> Convention:
    """A table that reads `model` as *model_field*: an answer names the model that answered, an
    error the one that was asked.
    """
    names = {**_GEMINI_NAMES, model_field: ("model",)}
    if name == "gemini_cli":
        return Convention(name, names, basis=inclusive, read_texts=_gemini_texts, default_provider="gcp.gemini")
    return Convention(name, names, basis=inclusive, read_texts=_qwen_texts)


GEMINI_CLI_ANSWERS = _gemini("gemini_cli", "response_model")
GEMINI_CLI_ERRORS = _gemini("gemini_cli", "request_model")
QWEN_CODE_ANSWERS = _gemini("qwen_code", "response_model")
QWEN_CODE_ERRORS = _gemini("qwen_code", "request_model")

CLINE_EVENTS = Convention(
    "cline",
    own={
        "request_model": ("model", "modelId"),
        "provider": ("provider", "apiProvider"),
        "input": ("tokensIn",),
        "output": ("tokensOut",),
        "cache_read": ("cacheReadTokens", "cacheReads"),
        "cache_creation": ("cacheWriteTokens", "cacheWrites"),
        "cost": ("totalCost",),
        "request_id": ("requestId",),
        "status_code": ("errorStatus",),
        "error_type": ("errorType",),
        "session": ("ulid", "taskId"),
        "user": ("user.email", "userId", "user_id"),
        "label.organization": ("organization_id",),
    },
    basis=exclusive,
)
"""The extension and the CLI; described from their sources, not captured."""

_REQUEST = "cursor.api.request."

CURSOR_EVENTS = Convention(
    "cursor",
    own={
        "request_model": ("cursor.model.name",),
        "input": (_REQUEST + "input_tokens",),
        "output": (_REQUEST + "output_tokens",),
        "cache_read": (_REQUEST + "cache_read_tokens",),
        "cache_creation": (_REQUEST + "cache_creation_tokens",),
        "request_id": ("cursor.request.id", "cursor.usage_event.id"),
        "event_id": ("cursor.event.id",),
        "session": ("cursor.conversation.id",),
    },
)
"""Its server-side export; described from its wire reference, not captured."""
