"""Bifrost: rows of its own log, as its logs API and its live feed give them. Its spans go to `/v1/traces`.

Read from maximhq/bifrost: framework/logstore/tables.go (`Log`, `SearchResult`), core/schemas (`BifrostLLMUsage`, `BifrostCacheDebug`) and
plugins/otel/http.go.

1. A body is a row, a list of rows, `{"logs": […]}`, or `{"type": "log", "payload": row}`.
2. A row of a request that asks no model (models listed, files, batches kept, tools run) is ignored. A row that is still `processing`
   tells nothing yet: suppressed; its id comes again.
3. Each attempt of a fallback has a row and an id of its own. Retries with another key are in one row: only the last one's usage is known.
4. `cost` is in dollars and holds what looking into the semantic cache cost. An answer from the cache (`cache_debug.cache_hit`)
   is no usage of the provider.
5. `model` is what the provider was asked for; `alias` is the caller's word for it and is dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.normalise.context import Context
from gateway.normalise.conventions.table import Convention, unstated
from gateway.normalise.operation import operation
from gateway.normalise.texts import Json, object_in, text_in
from gateway.sources.documents import Document
from gateway.sources.fields import number_of, pick_fields
from gateway.sources.items import at, http_status, ignore, objects, reject, suppress
from gateway.sources.reporting import Report, add_call, content_id, epoch_ms
from gateway.sources.source import Snippet, Source, SourceRead

_INPUTS: Final = "token_usage.prompt_tokens_details"
_OUTPUTS: Final = "token_usage.completion_tokens_details"
NAMES: dict[str, tuple[str, ...]] = {
    "provider": ("provider",),
    "request_model": ("model",),
    "finish_reason": ("stop_reason",),
    "stream": ("stream",),
    "input": ("token_usage.prompt_tokens", "token_usage.input_tokens"),
    "output": ("token_usage.completion_tokens", "token_usage.output_tokens"),
    "total": ("token_usage.total_tokens",),
    "cache_read": (f"{_INPUTS}.cached_read_tokens", f"{_INPUTS}.cached_tokens"),
    "cache_creation": (f"{_INPUTS}.cached_write_tokens",),
    "reasoning": (f"{_OUTPUTS}.reasoning_tokens",),
    "audio_input": (f"{_INPUTS}.audio_tokens",),
    "audio_output": (f"{_OUTPUTS}.audio_tokens",),
    "cost": ("cost", "token_usage.cost.total_cost"),
    "cache_hit": ("cache_debug.cache_hit",),
    "request_id": ("id",),
    "user": ("user_id", "user_name"),
    "session": ("parent_request_id",),
    "team": ("team_id", "team_name"),
    "label.virtual_key": ("virtual_key_name", "virtual_key_id"),
    "label.customer": ("customer_id", "customer_name"),
    "label.business_unit": ("business_unit_name", "business_unit_id"),
    "label.route": ("routing_rule_name",),
}
BIFROST = Convention("bifrost", own=NAMES, basis=unstated)

_NO_CALLS: Final = ("list_models", "count_tokens", "file_", "batch_", "container_", "video_retrieve", "video_download", "video_list",
                    "video_delete", "mcp", "websocket", "health")  # fmt: skip
_OPERATIONS: Final = {
    "chat_completion": "chat",
    "responses": "chat",
    "text_completion": "text_completion",
    "embedding": "embeddings",
    "image_edit": "image_generation",
    "image_variation": "image_generation",
    "ocr": "ocr",
}


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    for position, value in objects(documents, out):
        for where, row in _rows(value, position, out):
            _row(row, where, out, context)


def _rows(value: dict[str, Json], position: str, out: SourceRead) -> Iterator[tuple[str, dict[str, Json]]]:
    """Rule 1."""
    logs, payload = value.get("logs"), value.get("payload")
    if isinstance(logs, list):
        for n, row in enumerate(logs):
            if isinstance(row, dict):
                yield at(position, f"logs[{n}]"), row
            else:
                reject(out, "not_an_object", at(position, f"logs[{n}]"))
    elif isinstance(payload, dict):
        yield at(position, "payload"), payload
    else:
        yield position, value


def _row(row: dict[str, Json], position: str, out: SourceRead, context: Context) -> None:
    name = operation_name(text_in(row, "object", "object_type", "request_type") or "")
    if name.startswith(_NO_CALLS) or not (text_in(row, "model") or object_in(row, "token_usage")):
        ignore(out, position)
        return
    if row.get("status") == "processing":
        suppress(out, "in_progress", position)
        return
    out.calls.items += 1
    add_call(out.calls, _report(row, name), BIFROST, position, context)


def operation_name(sent: str) -> str:
    """Bifrost's request type, as streamed or not, without what only the wire needs."""
    name = sent.strip().lower().removesuffix("_request").removesuffix("_stream").removesuffix(".chunk")
    name = name.replace(".", "_")
    return _OPERATIONS.get(name, operation(name).name)


def _report(row: Mapping[str, Json], name: str) -> Report:
    picked = pick_fields(row, BIFROST)
    picked.texts["operation"] = name or "chat"
    details = object_in(row, "error_details")
    error = object_in(details, "error")
    status = http_status(details.get("status_code"))
    return Report(
        picked,
        event_id=text_in(row, "id") or content_id(text_in(row, "timestamp"), *sorted(picked.counts.items())),
        start_ms=epoch_ms(row.get("timestamp")),
        duration_ms=number_of(row.get("latency")),
        failed=row.get("status") == "error",
        error=text_in(error, "type", "code") or text_in(details, "type") or (f"http_{status}" if status else None),
    )


SOURCE = Source(
    name="bifrost",
    title="Bifrost",
    read=read,
    snippet=Snippet(
        "json",
        '{{"plugins": [{{"name": "otel", "enabled": true, "config": {{\n'
        '  "service_name": "bifrost", "protocol": "http", "trace_type": "genai_extension",\n'
        '  "collector_url": "{url}",\n'
        '  "headers": {{"Authorization": "{key}"}}}}}}]}}\n',
    ),
    retries=(
        "Its span exporter tries once: what is not answered 2xx is lost. Rows of the log stay in Bifrost's database and can be sent again."
    ),
)
