"""Portkey: rows of its logs export (JSONL), or one log record of that shape. Its "complete logs"
are OTLP/JSON spans and go OTLP's way.

Read from Portkey-AI/docs-core `product/observability/logs-export.mdx` and from public
converters of exported rows.

1. `cost` is in **cents** of `cost_currency`. 0 is what Portkey writes where it has no
   price: unknown, never free.
2. `req_units` are the prompt's tokens, `res_units` the completion's. For Anthropic and Bedrock the
   prompt left the cache out in older gateways and holds it in newer ones; the answer's own usage,
   where it was exported, states which.
3. `cache_status` HIT and SEMANTIC HIT are answers of Portkey's cache.
4. `is_success` is 1 or 0; a status of 400 or more fails too. `retry_success_count` reports
   attempts that are no rows.
5. `metadata` is what the caller chose: only a few well-known keys of it are read
   (`_user` is Portkey's own). Flat columns (`request.body`, `metadata.key` with
   `metadata.value`) are the older export's.
"""

from collections.abc import Mapping
from typing import Final

from gateway.products.answers import object_of
from gateway.products.fields import number_of, text_of
from gateway.products.reporting import Report, content_id
from gateway.products.rows import CALL, IGNORED, Row, RowTable, rows_reader
from gateway.products.source import Snippet, Source
from gateway.rules.cache_hit import is_cache_hit
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, unstated
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json, object_in

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


def _outcome(row: Row, picked: Extracted) -> str:
    return CALL if row.keys() & {"ai_model", "req_units", "ai_org"} else IGNORED


def _with_metadata(row: Row) -> Row:
    return {**row, "metadata": _metadata(row)}


def _metadata(row: Mapping[str, Json]) -> Json:
    """An object of strings; from the older export's two lists of equal length as well."""
    sent = row.get("metadata")
    if isinstance(sent, dict):
        keys, values = sent.get("key"), sent.get("value")
    else:
        keys, values = row.get("metadata.key"), row.get("metadata.value")
    if isinstance(keys, list) and isinstance(values, list):
        return {key: value for key, value in zip(keys, values, strict=False) if isinstance(key, str)}
    return dict(object_in(row, "metadata")) if isinstance(sent, dict) else dict(object_of(sent))


def _answer(row: Row) -> Json:
    """`response`, `response.body`, or `response: {body: …}`: an object, or JSON text."""
    flat = row.get("response.body")
    if flat is not None:
        return flat
    part = object_of(row.get("response"))
    inner = part.get("body")
    return inner if isinstance(inner, dict | str) else dict(part)


def _bring_to_money(picked: Extracted, row: Row) -> None:
    """Rules 1 and 3; of a miss of the cache no mark is left."""
    cents = picked.numbers.pop("cost", None)
    if cents:
        picked.numbers["cost"] = cents / _CENTS
    if not is_cache_hit(picked.texts.get("cache_hit", "")):
        picked.texts.pop("cache_hit", None)


def _identity(row: Row, picked: Extracted, context: Context) -> str:
    counted = (picked.texts.get("request_model"), picked.counts.get("input"), picked.counts.get("output"))
    named = text_of(row.get("trace_id")), text_of(row.get("created_at"))
    return content_id(*named, *counted, text_of(row.get("response_time")))


def _refined(report: Report, row: Row) -> Report:
    """Rule 4."""
    return report._replace(failed=report.failed or number_of(row.get("is_success")) == 0)


TABLE = RowTable(
    PORTKEY,
    _outcome,
    items=("data",),
    prepare=_with_metadata,
    start=("created_at",),
    duration=("response_time",),
    status=("response_status_code",),
    event_id=("id",),
    identity=_identity,
    trace_id=("trace_id",),
    path=("request_url",),
    answer=_answer,
    adjust=_bring_to_money,
    refine=_refined,
)

SOURCE = Source(
    name="portkey",
    title="Portkey",
    read=rows_reader(TABLE),
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
