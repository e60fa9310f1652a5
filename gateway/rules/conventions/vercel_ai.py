"""Vercel AI SDK, versions 4 to 6: spans `ai.<function>` around spans
`ai.<function>.do<Verb>`; from 7 on GenAI names.

1. Only the `do` spans are calls; the outer span repeats the last step or their sum.
2. Version 4 and plain results of 5 state `promptTokens`, streams of 5 and all of 6 `inputTokens`;
   embeddings `ai.usage.tokens`.
3. The input is the provider's own up to version 5 (Anthropic's excludes the cache) and a sum from 6
   on, which is known by `inputTokenDetails` or the client's version. `ai.response.providerMetadata`
   has cache counts that no attribute has, and the provider's own input beside them.
4. The output is the provider's own up to version 5 too: Google's leaves the thoughts out.
"""

from gateway.read.view import Span
from gateway.rules.conventions.basis import native_output
from gateway.rules.conventions.native import add_parts, note_native
from gateway.rules.conventions.table import Convention, by_operation
from gateway.rules.extract import Extracted
from gateway.rules.operation import Outcome
from gateway.rules.provider import counts_cache_apart
from gateway.rules.texts import json_object, object_in, text_in
from gateway.rules.usage import Basis

_METADATA = "ai.telemetry.metadata."

NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("ai.operationId",),
    "provider": ("gen_ai.provider.name", "gen_ai.system", "ai.model.provider"),
    "request_model": ("gen_ai.request.model", "ai.model.id"),
    "response_model": ("gen_ai.response.model", "ai.response.model"),
    "response_id": ("gen_ai.response.id", "ai.response.id"),
    "finish_reason": ("gen_ai.response.finish_reasons", "ai.response.finishReason"),
    "time_to_first_ms": ("ai.response.msToFirstChunk", "ai.stream.msToFirstChunk"),
    "input": ("gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"),
    "output": ("gen_ai.usage.output_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
    "cache_read": (
        "ai.usage.inputTokenDetails.cacheReadTokens",
        "gen_ai.usage.cache_read.input_tokens",
        "ai.usage.cachedInputTokens",
        "gen_ai.usage.cache_read_input_tokens",
    ),
    "cache_creation": ("ai.usage.inputTokenDetails.cacheWriteTokens", "gen_ai.usage.cache_creation.input_tokens"),
    "uncached": ("ai.usage.inputTokenDetails.noCacheTokens",),
    "reasoning": ("ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens"),
    "text_output": ("ai.usage.outputTokenDetails.textTokens",),
    "raw_usage": ("ai.response.providerMetadata",),
    "client": ("ai.request.headers.user-agent", "ai.request.headers.User-Agent"),
    "user": ("user.id", _METADATA + "userId", _METADATA + "user_id", _METADATA + "user"),
    "session": ("session.id", _METADATA + "sessionId", _METADATA + "session_id", "gen_ai.conversation.id"),
    "team": ("team.id", _METADATA + "teamId", _METADATA + "team_id", _METADATA + "team"),
    "label.function": ("ai.telemetry.functionId",),
}

_EMBEDDING = "ai.embed"


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Rule 1."""
    kind = picked.texts.get("kind")
    if kind is None:
        return by_operation(picked, span, failed=failed)
    return "call" if ".do" in kind else "not_a_call"


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rule 3's cache counts, the operation from the function's name, and whether it streamed."""
    texts = picked.texts
    kind = texts.get("kind", "")
    if kind:
        texts["operation"] = "embeddings" if kind.startswith(_EMBEDDING) else _OPERATIONS.get(kind, "chat")
    if kind.startswith("ai.stream"):
        picked.numbers["stream"] = 1.0
    metadata = json_object(texts.pop("raw_usage", None))
    for name in metadata:
        part = object_in(metadata, name)
        usage = object_in(part, "usage", "usageMetadata")
        add_parts(picked, {**part, **usage})
        note_native(picked, usage)
        tier = text_in(part, "serviceTier", "service_tier") or text_in(usage, "service_tier")
        if tier is not None:
            texts.setdefault("service_tier", tier[:256])


_OPERATIONS = {
    "ai.generateImage.doGenerate": "image_generation",
    "ai.transcribe.doGenerate": "transcription",
    "ai.generateSpeech.doGenerate": "speech",
    "ai.rerank.doRerank": "rerank",
}


def basis(picked: Extracted, version: str, provider: str | None) -> Basis:
    """Rule 3."""
    texts = picked.texts
    if "uncached" in picked.counts or _is_since_6(version) or _is_since_6(texts.get("client", "").removeprefix("ai/")):
        return Basis.INCLUSIVE
    if "kind" not in texts:
        return Basis.UNSTATED
    return Basis.EXCLUSIVE if counts_cache_apart(provider, texts.get("request_model")) else Basis.UNSTATED


def output_basis(picked: Extracted, version: str, provider: str | None) -> Basis:
    """Rule 4."""
    texts = picked.texts
    if "text_output" in picked.counts or "kind" not in texts:
        return Basis.UNSTATED
    if _is_since_6(version) or _is_since_6(texts.get("client", "").removeprefix("ai/")):
        return Basis.UNSTATED
    return native_output(picked, version, provider)


def _is_since_6(version: str) -> bool:
    major = version.partition(".")[0]
    return major.isdecimal() and int(major) >= 6  # noqa: PLR2004 - rule 3


VERCEL_AI = Convention(
    "vercel_ai", own=NAMES, outcome=outcome, basis=basis, output_basis=output_basis, read_texts=read_texts
)
