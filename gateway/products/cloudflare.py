"""Cloudflare AI Gateway: Logpush of its events (NDJSON), and rows of the Logs API. Its
OpenTelemetry exporter sends OTLP and goes OTLP's way.

Read from cloudflare/cloudflare-docs (`ai-gateway/observability/logging/logpush`), the API
reference of "List Gateway Logs" (its row is `AiGatewayLog` of the Workers types too), and
public receivers of the dataset.

1. Logpush columns are written `StatusCode`; `Metadata`, `RequestBody` and `ResponseBody` are `{key,
   iv, data}`, encrypted for the account's own key. Tokens and cost are inside: unknown here, never
   0. Where they come in the clear they are read.
2. Logpush gives its events no id. One is known by its encryption's `iv`, drawn for each, or
   by all its plain columns.
3. The object that Logpush writes to test a destination, and any other that names neither
   model nor provider, is ignored.
4. Logs API: `tokens_in` and `tokens_out` as the provider counts; `duration` in ms; `created_at` is
   when the request was logged. A cost of 0 beside tokens states that no price is known, unless the
   caller set it (`custom_cost`).
5. `cached` is an answer of the gateway's cache: it repeats the tokens of the call that filled it.
6. A status of 400 or more fails. 429 with `RateLimited` never reached a provider.
7. `metadata` is what the caller sent as `cf-aig-metadata`, as an object or as JSON text: a few
   well-known keys of it are read.
"""

from collections.abc import Mapping
from typing import Final

from gateway.products.answers import object_of
from gateway.products.fields import count_of, text_of
from gateway.products.reporting import Report, content_id
from gateway.products.rows import CALL, IGNORED, Row, RowTable, rows_reader
from gateway.products.source import Snippet, Source
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, unstated
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json, text_in

_MAX_TEST_CHARS: Final = 200

NAMES: dict[str, tuple[str, ...]] = {
    "provider": ("Provider", "provider"),
    "request_model": ("Model", "model"),
    "input": ("tokens_in", "TokensIn"),
    "output": ("tokens_out", "TokensOut"),
    "cost": ("cost", "Cost"),
    "cache_hit": ("Cached", "cached"),
    "request_id": ("id",),
    "user": ("metadata.user_id", "metadata.userId", "metadata.user"),
    "session": ("metadata.session_id", "metadata.sessionId"),
    "team": ("metadata.team_id", "metadata.teamId", "metadata.team"),
    "project": ("metadata.project_id", "metadata.projectId", "metadata.project"),
    "environment": ("metadata.environment", "metadata.env"),
    "label.gateway": ("Gateway", "gateway"),
}

CLOUDFLARE = Convention("cloudflare", own=NAMES, basis=unstated)


def read_line(line: str) -> Json:
    """Rule 3, for a test that is plain text. Raises ValueError for any other line."""
    if len(line) > _MAX_TEST_CHARS or not line.lower().startswith("test"):
        raise ValueError("no line of this source")
    return {}


def _outcome(row: Row, picked: Extracted) -> str:
    """Rule 3."""
    names = ("Model", "model", "Provider", "provider")
    return CALL if any(text_in(row, name) for name in names) else IGNORED


def _with_metadata(row: Row) -> Row:
    return {**row, "metadata": dict(object_of(row.get("metadata", row.get("Metadata"))))}


def _answer(row: Row) -> Json:
    body = row.get("ResponseBody", row.get("response_body"))
    is_encrypted = isinstance(body, dict) and "iv" in body and "data" in body
    return None if is_encrypted else body


def _drop_unpriced(picked: Extracted, row: Row) -> None:
    """Rule 4."""
    if not picked.numbers.get("cost") and row.get("custom_cost") is not True:
        picked.numbers.pop("cost", None)


def _identity(row: Row, picked: Extracted, context: Context) -> str:
    """Rule 2."""
    status = count_of(row.get("StatusCode", row.get("status_code"))) or 0
    for name in ("RequestBody", "Metadata", "ResponseBody"):
        part = row.get(name)
        if isinstance(part, dict) and (iv := text_of(part.get("iv"))):
            return content_id(*_plain(row), status, name, iv)
    return content_id(*_plain(row), status)


def _plain(row: Mapping[str, Json]) -> list[str]:
    names = ("Timestamp", "created_at", "Datetime", "Gateway", "Provider", "provider", "Model", "model")
    return [text_of(row.get(name)) for name in (*names, "Cached", "cached", "tokens_in", "tokens_out", "duration")]


def _refined(report: Report, row: Row) -> Report:
    """Rule 6."""
    return report._replace(failed=report.failed or row.get("success") is False or row.get("RateLimited") is True)


TABLE = RowTable(
    CLOUDFLARE,
    _outcome,
    items=("result",),
    prepare=_with_metadata,
    start=("Timestamp", "created_at", "Datetime"),
    duration=("duration", "Duration"),
    status=("StatusCode", "status_code"),
    event_id=("id",),
    identity=_identity,
    path=("Endpoint", "path"),
    answer=_answer,
    adjust=_drop_unpriced,
    refine=_refined,
)

SOURCE = Source(
    name="cloudflare",
    title="Cloudflare AI Gateway",
    read=rows_reader(TABLE),
    read_line=read_line,
    snippet=Snippet(
        "sh",
        "# OpenTelemetry: AI Gateway > Settings > add an OTEL exporter\n"
        "#   URL {url}   Authorization: a secret that holds {key}\n"
        "# Logpush, for gateways without it (no token counts: they are encrypted)\n"
        'curl "https://api.cloudflare.com/client/v4/accounts/$ACCOUNT_ID/logpush/jobs" \\\n'
        '  -H "Authorization: Bearer $CLOUDFLARE_API_TOKEN" -H "Content-Type: application/json" \\\n'
        '  -d \'{{"name": "ai-telemetry", "dataset": "ai_gateway_events", "enabled": true,\n'
        '       "destination_conf": "{url}?header_Authorization={key}"}}\'\n',
    ),
    retries="Logpush tries a batch again a few times within minutes, then drops it; the OTEL exporter sends once.",
)
