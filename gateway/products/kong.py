"""Kong Gateway's AI plugins, by the http-log plugin: `ai.<plugin>.{usage,meta,cache,payload}`
in the entry of a request.

Read from Kong/kong `kong/llm/plugin/shared-filters/serialize-analytics.lua` and from the AI audit
log reference, 3.6 to 3.14.

1. An entry without `ai` is ordinary traffic. Each plugin under `ai` that names a model or states
   usage is a call of its own. MCP and agent traffic (`ai.mcp`, `ai.a2a`) and plugins that only
   guard or change a prompt are no calls.
2. The usage is as the provider's OpenAI-like answer has it: inclusive. Released versions write
   `prompt_tokens`, the public reference of 3.6 `prompt_token`, requests without text
   `input_tokens`. `*_tokens_details` (from 3.11) split them; the logged answer, where there is one,
   completes the split, and then goes no further.
3. `UNSPECIFIED` is unknown. A cost of 0 states that no price is set: unknown, never free.
4. `cache_status: Hit` is an answer from the semantic cache, which repeats the
   usage of the call that filled it.
5. A request answered with 400 or more failed; its zeros are unknown. Without an answer Kong repeats
   the model that was asked for as the one that answered: on a failure that is none.
6. What a plugin embeds on the way is a call of its own: `rag-inject` states its tokens. The
   semantic cache (`cache.embeddings_*`) and the judge (`ai-llm-as-judge`) state none, so nothing
   can be counted for them: suppressed as `no_usage_told`.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from gateway.common.operations import like
from gateway.products.answers import take_body
from gateway.products.documents import Document
from gateway.products.fields import count_of, number_of, pick_fields
from gateway.products.items import ignore, objects, suppress
from gateway.products.paths import operation_of_path
from gateway.products.reporting import Report, add_call, content_id, epoch_ms
from gateway.products.source import Snippet, Source, SourceRead
from gateway.rules.context import Context
from gateway.rules.conventions.native import add_parts
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted
from gateway.rules.texts import Json, object_in, text_in

_UNSPECIFIED: Final = "UNSPECIFIED"
_RAG: Final = "rag-inject"
_JUDGE: Final = "ai-llm-as-judge"
_AGENT_PARTS: Final = ("mcp", "a2a")
_PLUGINS: Final = frozenset(
    {"proxy", "ai-proxy", "ai-proxy-advanced", "ai-request-transformer", "ai-response-transformer", "ai-semantic-cache"}
)
"""Keys that are named in a position."""
_NO_USAGE: Final = "no_usage_told"

NAMES: dict[str, tuple[str, ...]] = {
    "provider": ("call.meta.provider_name",),
    "request_model": ("call.meta.request_model",),
    "response_model": ("call.meta.response_model",),
    "deployment": ("call.meta.azure_deployment_id",),
    "input": ("call.usage.prompt_tokens", "call.usage.prompt_token", "call.usage.input_tokens"),
    "output": ("call.usage.completion_tokens", "call.usage.completion_token", "call.usage.output_tokens"),
    "total": ("call.usage.total_tokens", "call.usage.total_token"),
    "time_to_first_ms": ("call.usage.time_to_first_token",),
    "cost": ("call.usage.cost",),
    "request_id": ("entry.request.id",),
    "team": ("entry.consumer.custom_id",),
    "label.virtual_key": ("entry.consumer.username",),
    "label.route": ("entry.route.name",),
    "label.workspace": ("entry.workspace_name",),
}
"""Over `{entry, call}`: the log entry, and one plugin's part of it."""

RAG_NAMES: dict[str, tuple[str, ...]] = {
    "provider": ("call.embeddings_provider",),
    "request_model": ("call.embeddings_model",),
    "input": ("call.embeddings_tokens",),
    **{field: NAMES[field] for field in ("request_id", "team", "label.virtual_key", "label.route", "label.workspace")},
}
"""The same for what the RAG plugin embeds."""

KONG = Convention("kong", own=NAMES, basis=inclusive)
KONG_RAG = Convention("kong", own=RAG_NAMES, basis=inclusive)


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    for position, entry in objects(documents, out):
        _entry(entry, position, out, context)


def _entry(entry: dict[str, Json], position: str, out: SourceRead, context: Context) -> None:
    """Rules 1 and 6."""
    ai = object_in(entry, "ai")
    before = out.calls.items
    for name, part in ai.items():
        if isinstance(part, dict):
            _plugin(entry, name, part, f"{position}.ai.{_place(name)}", out, context)
    if out.calls.items == before and any(isinstance(ai.get(name), dict) for name in _AGENT_PARTS):
        suppress(out, "not_a_call", f"{position}.ai")
    elif out.calls.items == before:
        ignore(out, position)


def _place(name: str) -> str:
    """A plugin's name for a position; a key that is not one is not repeated."""
    return name if name in _PLUGINS else "*"


def _plugin(
    entry: dict[str, Json], name: str, part: dict[str, Json], position: str, out: SourceRead, context: Context
) -> None:
    calls = out.calls
    if _is_call(part):
        calls.items += 1
        add_call(calls, _report(entry, name, part), KONG, position, context)
    rag = object_in(part, _RAG)
    if count_of(rag.get("embeddings_tokens")):
        calls.items += 1
        add_call(calls, _rag_report(entry, name, dict(rag)), KONG_RAG, f"{position}.{_RAG}", context)
    for inner, mark in (("cache", "embeddings_model"), (_JUDGE, "meta")):
        if object_in(part, inner).get(mark):
            suppress(out, _NO_USAGE, f"{position}.{inner}")


def _is_call(part: Mapping[str, Json]) -> bool:
    meta = object_in(part, "meta")
    return bool(object_in(part, "usage")) or "request_model" in meta or "response_model" in meta


def _report(entry: dict[str, Json], plugin: str, part: dict[str, Json]) -> Report:
    picked = pick_fields({"entry": entry, "call": part}, KONG)
    for field in ("provider", "request_model", "response_model"):
        if picked.texts.get(field) == _UNSPECIFIED:
            del picked.texts[field]
    if not picked.numbers.get("cost"):
        picked.numbers.pop("cost", None)
    cached = text_in(object_in(part, "cache"), "cache_status") or ""
    if cached.lower() == "hit":
        picked.numbers["cache_hit"] = like(1.0, cached)
    _note_mode(picked, object_in(part, "meta").get("request_mode"))
    operation = operation_of_path(text_in(entry, "upstream_uri"))
    if operation is not None:
        picked.texts["operation"] = operation
    add_parts(picked, object_in(part, "usage"))
    take_body(picked, object_in(part, "payload").get("response"))
    status = count_of(object_in(entry, "response").get("status")) or 0
    failed = status >= HTTPStatus.BAD_REQUEST
    if failed and picked.texts.get("response_model") == picked.texts.get("request_model"):
        picked.texts.pop("response_model", None)
    return _at(entry, picked, plugin)._replace(failed=failed, error=f"http_{status}")


def _note_mode(picked: Extracted, mode: Json) -> None:
    """`oneshot`, `stream` or `realtime`, from 3.12 on."""
    if isinstance(mode, str) and mode:
        picked.numbers["stream"] = float(mode != "oneshot")


def _rag_report(entry: dict[str, Json], plugin: str, part: dict[str, Json]) -> Report:
    picked = pick_fields({"entry": entry, "call": part}, KONG_RAG)
    picked.texts["operation"] = "embeddings"
    return _at(entry, picked, f"{plugin}/{_RAG}")._replace(duration_ms=number_of(part.get("embeddings_latency")))


def _at(entry: dict[str, Json], picked: Extracted, part: str) -> Report:
    request_id = text_in(object_in(entry, "request"), "id")
    route = text_in(object_in(entry, "route"), "id")
    return Report(
        picked,
        event_id=content_id(
            request_id[:MAX_TEXT_CHARS] if request_id else content_id(entry.get("started_at"), route), part
        ),
        start_ms=epoch_ms(entry.get("started_at")),
        duration_ms=number_of(object_in(entry, "latencies").get("request")),
        trace_id=text_in(object_in(entry, "trace_id"), "w3c") or "",
    )


SOURCE = Source(
    name="kong",
    title="Kong Gateway (AI plugins)",
    read=read,
    snippet=Snippet(
        "yaml",
        "plugins:\n"
        "  - name: http-log\n"
        "    config:\n"
        "      http_endpoint: {url}\n"
        '      headers: {{Authorization: "{key}"}}\n'
        "  - name: ai-proxy\n"
        "    config: {{logging: {{log_statistics: true}}}}   # the usage is only in the log with this on\n",
    ),
    retries="Any status of 400 or more is sent again: ten times in older versions, for as long as its queue allows in newer ones.",
)
