"""A generation's row: `GET /api/v1/generation` of OpenRouter, whose schema `GET /v1/generation` of
Vercel's AI Gateway mirrors. Pure.

Read from both products' API references and public clients of them. An object `{data: row}`, `{data:
[row]}`, or the bare row.

1. `native_tokens_*` are the provider's own counts and what is billed; `tokens_*` are counted with
   one tokenizer for all models, and stand in only where the native ones are missing. The native
   prompt holds the cached tokens, the completion the reasoning.
2. `total_cost` is what the account pays, in USD. With an own provider key (`is_byok`)
   it is the gateway's fee, and `upstream_inference_cost` comes on top; without one that
   is the gateway's own expense.
3. `id` is the id of the response that the client saw: its report by a
   span and this row are one call.
4. `finish_reason: error` is a failure.
"""

from collections.abc import Mapping

from gateway.products.fields import number_of
from gateway.products.reporting import Report
from gateway.products.rows import CALL, IGNORED, Row, RowTable
from gateway.rules.conventions.gateways import whole_cost
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.texts import text_in

NAMES: dict[str, tuple[str, ...]] = {
    "operation": ("api_type",),
    "provider": ("provider_name",),
    "request_model": ("model",),
    "response_id": ("id",),
    "request_id": ("request_id",),
    "finish_reason": ("finish_reason", "native_finish_reason"),
    "service_tier": ("service_tier",),
    "region": ("data_region",),
    "stream": ("streamed",),
    "input": ("native_tokens_prompt", "tokens_prompt"),
    "output": ("native_tokens_completion", "tokens_completion"),
    "cache_read": ("native_tokens_cached",),
    "cache_creation": ("native_tokens_cache_creation", "native_tokens_cache_write"),
    "reasoning": ("native_tokens_reasoning",),
    "cost": ("total_cost", "usage"),
    "upstream_cost": ("upstream_inference_cost",),
    "byok": ("is_byok",),
    "user": ("external_user",),
}

_API_TYPES = {
    "completions": "chat",
    "tts": "speech",
    "stt": "transcription",
    "image": "image_generation",
    "video": "video_generation",
}
"""OpenRouter's words for what the table of operations calls otherwise."""


def generations(name: str, own: Mapping[str, tuple[str, ...]]) -> RowTable:
    """The table of the source *name*; *own* are the fields that its rows have
    besides, or mean otherwise.
    """
    return RowTable(
        Convention(name, own={**NAMES, **own}, basis=inclusive),
        _outcome,
        items=("data",),
        start=("created_at",),
        event_id=("id",),
        adjust=_adjust,
        refine=_refined,
    )


def _outcome(row: Row, picked: Extracted) -> str:
    """A generation has an id, and a count or a cost under names that only these rows have."""
    return CALL if text_in(row, "id") is not None and not _MARKS.isdisjoint(row) else IGNORED


_MARKS = frozenset({"total_cost", "native_tokens_prompt", "tokens_prompt", "native_tokens_completion"})


def _adjust(picked: Extracted, row: Row) -> None:
    sent = picked.texts.get("operation")
    if sent is not None:
        picked.texts["operation"] = _API_TYPES.get(sent, sent)
    whole_cost(picked)


def _refined(report: Report, row: Row) -> Report:
    """Rule 4.

    The references disagree on which of the two durations contains the other: the longer one counts.
    """
    durations = [each for name in ("generation_time", "latency") if (each := number_of(row.get(name))) is not None]
    return report._replace(
        failed=report.picked.texts.get("finish_reason") == "error", duration_ms=max(durations, default=None)
    )
