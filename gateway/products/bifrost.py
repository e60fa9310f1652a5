"""Bifrost: rows of its own log, as its logs API and its live feed give them.
Its spans go to `/v1/traces`.

Read from maximhq/bifrost: framework/logstore/tables.go (`Log`, `SearchResult`), core/schemas
(`BifrostLLMUsage`, `BifrostCacheDebug`) and plugins/otel/http.go.

1. A body is a row, a list of rows, `{"logs": […]}`, or `{"type": "log", "payload": row}`.
2. A row of a request that asks no model (models listed, files, batches kept, tools run) is ignored.
   A row that is still `processing` has no usage yet: suppressed; its id comes again.
3. Each attempt of a fallback has a row and an id of its own. Retries with another key are in one
   row: only the last one's usage is known.
4. `cost` is in dollars and holds what looking into the semantic cache cost. An answer from the
   cache (`cache_debug.cache_hit`) is no usage of the provider.
5. `model` is what the provider was asked for; `alias` is the caller's word for it and is dropped.
"""

from typing import Final

from gateway.products.items import http_status
from gateway.products.reporting import Report, content_id
from gateway.products.rows import CALL, IGNORED, Row, RowTable, rows_reader
from gateway.products.source import Snippet, Source
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, unstated
from gateway.rules.extract import Extracted
from gateway.rules.operation import operation
from gateway.rules.texts import object_in, text_in

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


def _outcome(row: Row, picked: Extracted) -> str:
    """Rule 2."""
    if _name(row).startswith(_NO_CALLS) or not (text_in(row, "model") or object_in(row, "token_usage")):
        return IGNORED
    return "in_progress" if row.get("status") == "processing" else CALL


def _name(row: Row) -> str:
    return operation_name(text_in(row, "object", "object_type", "request_type") or "")


def operation_name(sent: str) -> str:
    """Bifrost's request type, as streamed or not, without what only the wire needs."""
    name = sent.strip().lower().removesuffix("_request").removesuffix("_stream").removesuffix(".chunk")
    name = name.replace(".", "_")
    return _OPERATIONS.get(name, operation(name).name)


def _note_operation(picked: Extracted, row: Row) -> None:
    picked.texts["operation"] = _name(row) or "chat"


def _identity(row: Row, picked: Extracted, context: Context) -> str:
    return content_id(text_in(row, "timestamp"), *sorted(picked.counts.items()))


def _refined(report: Report, row: Row) -> Report:
    details = object_in(row, "error_details")
    status = http_status(details.get("status_code"))
    named = text_in(object_in(details, "error"), "type", "code") or text_in(details, "type")
    return report._replace(failed=row.get("status") == "error", error=named or (f"http_{status}" if status else None))


TABLE = RowTable(
    BIFROST,
    _outcome,
    items=("logs", "payload"),
    start=("timestamp",),
    duration=("latency",),
    event_id=("id",),
    identity=_identity,
    adjust=_note_operation,
    refine=_refined,
)

SOURCE = Source(
    name="bifrost",
    title="Bifrost",
    read=rows_reader(TABLE),
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
