"""Portkey: rows of its logs export (JSONL), or one log record of that shape. Its "complete logs" are OTLP/JSON spans and go OTLP's way.

Read from Portkey-AI/docs-core `product/observability/logs-export.mdx` and from public converters of exported rows.

1. `cost` is in **cents** of `cost_currency`. 0 is what Portkey writes where it has no price: unknown, never free.
2. `req_units` are the prompt's tokens, `res_units` the completion's. For Anthropic and Bedrock the prompt left the cache out in
   older gateways and holds it in newer ones; the answer's own usage, where it was exported, tells which.
3. `cache_status` HIT and SEMANTIC HIT are answers of Portkey's cache.
4. `is_success` is 1 or 0; a status of 400 or more fails too. `retry_success_count` tells of attempts that are no rows.
5. `metadata` is what the caller chose: only a few well-known keys of it are read (`_user` is Portkey's own).
   Flat columns (`request.body`, `metadata.key` with `metadata.value`) are the older export's.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from gateway.normalise.cache_hit import is_cache_hit
from gateway.normalise.context import Context
from gateway.normalise.conventions.table import Convention, unstated
from gateway.normalise.extract import Extracted
from gateway.normalise.texts import Json, object_in, text_in
from gateway.sources.answers import error_in, object_of, take_body
from gateway.sources.documents import Document
from gateway.sources.fields import count_of, number_of, pick_fields, text_of
from gateway.sources.items import ignore, objects, reject
from gateway.sources.paths import operation_of_path
from gateway.sources.reporting import Report, add_call, content_id, epoch_ms
from gateway.sources.source import Snippet, Source, SourceRead

_CENTS: Final = 100

NAMES: dict[str, tuple[str, ...]] = {
    "provider": ("ai_org", "ai_provider"),
    "request_model": ("ai_model",),
    "input": ("req_units",),
    "output": ("res_units",),
    "total": ("total_units",),
    "cost": ("cost",),
    "currency": ("cost_currency",),
    "stream": ("stream_mode", "is_stream"),
    "cache_hit": ("cache_status",),
    "request_id": ("id",),
    "user": ("metadata._user", "metadata.user_id", "metadata.user"),
    "session": ("metadata.session_id", "metadata.conversation_id"),
    "team": ("metadata.team_id", "metadata.team"),
    "project": ("metadata.project_id", "metadata.project"),
    "environment": ("metadata._environment", "metadata.environment"),
    "label.virtual_key": ("virtual_key", "virtual_key_slug", "ai_provider_slug"),
    "label.workspace": ("workspace_slug",),
    "label.prompt": ("prompt_slug",),
    "label.config": ("config",),
}

PORTKEY = Convention("portkey", own=NAMES, basis=unstated)


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    for position, document in objects(documents, out):
        rows = document.get("data")
        if not isinstance(rows, list):
            _row(document, position, out, context)
            continue
        for at, row in enumerate(rows):
            if isinstance(row, dict):
                _row(row, f"{position}.data[{at}]", out, context)
            else:
                reject(out, "not_an_object", f"{position}.data[{at}]")


def _row(row: dict[str, Json], position: str, out: SourceRead, context: Context) -> None:
    if "ai_model" in row or "req_units" in row or "ai_org" in row:
        out.calls.items += 1
        add_call(out.calls, _report(row), PORTKEY, position, context)
    else:
        ignore(out, position)


def _report(row: dict[str, Json]) -> Report:
    picked = pick_fields({**row, "metadata": _metadata(row)}, PORTKEY)
    _bring_to_money(picked)
    body = _part(row, "response")
    take_body(picked, body)
    operation = operation_of_path(text_in(row, "request_url"))
    if operation is not None:
        picked.texts["operation"] = operation
    status = count_of(row.get("response_status_code")) or 0
    succeeded = number_of(row.get("is_success"))
    failed = succeeded == 0 or status >= HTTPStatus.BAD_REQUEST
    row_id, trace_id = text_of(row.get("id")), text_of(row.get("trace_id"))
    return Report(
        picked,
        event_id=row_id
        or content_id(trace_id, text_of(row.get("created_at")), *_counted(picked), text_of(row.get("response_time"))),
        start_ms=epoch_ms(row.get("created_at")),
        duration_ms=number_of(row.get("response_time")),
        failed=failed,
        error=error_in(body) or (f"http_{status}" if status else None),
        trace_id=trace_id,
    )


def _bring_to_money(picked: Extracted) -> None:
    """Rule 1; and of a hit in the cache only the mark is left."""
    cents = picked.numbers.pop("cost", None)
    if cents:
        picked.numbers["cost"] = cents / _CENTS
    if not is_cache_hit(picked.texts.get("cache_hit", "")):
        picked.texts.pop("cache_hit", None)


def _counted(picked: Extracted) -> tuple[object, ...]:
    return (picked.texts.get("request_model"), picked.counts.get("input"), picked.counts.get("output"))


def _part(row: Mapping[str, Json], name: str) -> Json:
    """`response`, `response.body`, or `response: {body: …}`: an object, or JSON text."""
    flat = row.get(f"{name}.body")
    if flat is not None:
        return flat
    part = object_of(row.get(name))
    inner = part.get("body")
    return inner if isinstance(inner, dict | str) else dict(part)


def _metadata(row: Mapping[str, Json]) -> Json:
    """An object of strings; from the older export's two lists of equal length as well."""
    told = row.get("metadata")
    if isinstance(told, dict):
        keys, values = told.get("key"), told.get("value")
    else:
        keys, values = row.get("metadata.key"), row.get("metadata.value")
    if isinstance(keys, list) and isinstance(values, list):
        return {key: value for key, value in zip(keys, values, strict=False) if isinstance(key, str)}
    return dict(object_in(row, "metadata")) if isinstance(told, dict) else dict(object_of(told))


SOURCE = Source(
    name="portkey",
    title="Portkey",
    read=read,
    snippet=Snippet(
        "sh",
        "# environment of the self-hosted gateway\n"
        "EXPERIMENTAL_GEN_AI_OTEL_TRACES_ENABLED=true\n"
        "EXPERIMENTAL_GEN_AI_OTEL_EXPORTER_OTLP_ENDPOINT={url}\n"
        "EXPERIMENTAL_GEN_AI_OTEL_EXPORTER_OTLP_HEADERS=Authorization={key}\n"
        "# or, for calls that were made before: the file of a logs export\n"
        'curl -H "Authorization: {key}" -H "Content-Type: application/x-ndjson" --data-binary @logs.jsonl {url}\n',
    ),
    retries="Portkey sends each span once and never again: what is not answered with 2xx is lost.",
)
