"""A generation's row: `GET /api/v1/generation` of OpenRouter, whose schema `GET /v1/generation` of Vercel's AI Gateway mirrors. Pure.

Read from both products' API references and public clients of them. An object `{data: row}`, `{data: [row]}`, or the bare row.

1. `native_tokens_*` are the provider's own counts and what is billed; `tokens_*` are counted with one tokenizer for all models,
   and stand in only where the native ones are missing. The native prompt holds the cached tokens, the completion the reasoning.
2. `total_cost` is what the account pays, in USD. With an own provider key (`is_byok`) it is the gateway's fee, and
   `upstream_inference_cost` comes on top; without one that is the gateway's own expense.
3. `id` is the id of the response that the client saw: its report by a span and this row are one call.
4. `finish_reason: error` is a failure.
"""

from collections.abc import Iterator, Mapping

from gateway.normalise.context import Context
from gateway.normalise.conventions.gateways import whole_cost
from gateway.normalise.conventions.table import Convention, inclusive
from gateway.normalise.texts import Json, text_in
from gateway.sources.fields import number_of, pick_fields
from gateway.sources.items import ignore, reject
from gateway.sources.reporting import Report, add_call, epoch_ms
from gateway.sources.source import SourceRead

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


def generations(name: str, own: Mapping[str, tuple[str, ...]]) -> Convention:
    """The table of the source *name*; *own* are the fields that its rows have besides, or mean otherwise."""
    return Convention(name, own={**NAMES, **own}, basis=inclusive)


def add_generations(
    document: dict[str, Json], convention: Convention, position: str, out: SourceRead, context: Context
) -> None:
    """Every row in *document* as a call; a document without one is ignored."""
    for row, where in _rows(document, position):
        if not isinstance(row, dict):
            reject(out, "not_an_object", where)
        elif is_generation(row):
            out.calls.items += 1
            add_call(out.calls, _report(row, convention), convention, where, context)
        else:
            ignore(out, where)


def is_generation(row: Mapping[str, Json]) -> bool:
    """Whether *row* is one: an id, and a count or a cost under names that only these rows have."""
    return text_in(row, "id") is not None and (
        "total_cost" in row
        or "native_tokens_prompt" in row
        or "tokens_prompt" in row
        or "native_tokens_completion" in row
    )


def _rows(document: dict[str, Json], position: str) -> Iterator[tuple[Json, str]]:
    data = document.get("data")
    if isinstance(data, dict):
        yield data, f"{position}.data"
    elif isinstance(data, list) and data:
        yield from ((row, f"{position}.data[{at}]") for at, row in enumerate(data))
    else:
        yield document, position


def _report(row: dict[str, Json], convention: Convention) -> Report:
    picked = pick_fields(row, convention)
    sent = picked.texts.get("operation")
    if sent is not None:
        picked.texts["operation"] = _API_TYPES.get(sent, sent)
    whole_cost(picked)
    failed = picked.texts.get("finish_reason") == "error"
    return Report(
        picked,
        event_id=picked.texts["response_id"],
        start_ms=epoch_ms(row.get("created_at")),
        duration_ms=_longest(number_of(row.get("generation_time")), number_of(row.get("latency"))),
        failed=failed,
    )


def _longest(*durations: float | None) -> float | None:
    """The references disagree on which of the two contains the other."""
    return max((each for each in durations if each is not None), default=None)
