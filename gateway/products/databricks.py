"""Databricks: rows of its usage tables, by whatever queries them: `system.serving.endpoint_usage`,
`system.ai_gateway.usage`.

The columns are those of the system tables reference. Both are pulled: a job exports new rows.

1. A row is a call. One without tokens and characters that did not fail is a model of another kind,
   served beside the language models: ignored. So is a row whose `service_type` is not a model's.
2. `databricks_request_id` (`request_id` in the newer table) is the row's identity.
3. The older table does not name the model: it stands in `system.serving.served_entities`, and is
   read where the query joined it (`entity_name`, `served_entity_name`, `endpoint_name`). The newer
   one has `destination_model`.
4. `usage_context` and `request_tags` are filled by the caller: of them only the names in
   `gateway.products.items.WHO` are kept.
"""

from collections.abc import Mapping
from typing import Final

from gateway.products.fields import count_of, text_of
from gateway.products.items import WHO, http_status, is_failure, scalars
from gateway.products.paths import operation_of_path
from gateway.products.reporting import content_id
from gateway.products.rows import CALL, IGNORED, Row, RowTable, first_at, rows_reader
from gateway.products.source import Snippet, Source
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, unstated
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json, json_object, object_in, text_in

NAMES: dict[str, tuple[str, ...]] = {
    "request_model": ("destination_model", "entity_name", "foundation_model_name", "served_entity_name"),
    "deployment": ("endpoint_name", "destination_name", "served_entity_name"),
    "input": ("input_token_count", "input_tokens"),
    "output": ("output_token_count", "output_tokens"),
    "total": ("total_token_count", "total_tokens"),
    "cache_read": ("token_details.cache_read_input_tokens",),
    "cache_creation": ("token_details.cache_creation_input_tokens",),
    "reasoning": ("token_details.output_reasoning_tokens", "token_details.reasoning_tokens"),
    "stream": ("request_streaming",),
    "time_to_first_ms": ("time_to_first_byte_ms",),
    "request_id": ("databricks_request_id", "request_id"),
    "user": ("requester",),
    "label.workspace": ("workspace_id",),
}
DATABRICKS = Convention("databricks", own=NAMES, basis=unstated, default_provider="databricks")

_TIME: Final = ("request_time", "event_time")
_CHARACTERS: Final = ("input_character_count", "output_character_count")
_MODELS: Final = "MODEL"
"""In `service_type` of what serves a model; `MCP_SERVICE` is tools."""


def _outcome(row: Row, picked: Extracted) -> str:
    """Rule 1."""
    if not is_failure(http_status(row.get("status_code"))) and not _used_tokens(row, picked.counts):
        return IGNORED
    is_named = "databricks_request_id" in row or "request_id" in row
    return CALL if is_named or picked.counts else IGNORED


def _used_tokens(row: Mapping[str, Json], counts: Mapping[str, int]) -> bool:
    """Rule 1."""
    service = row.get("service_type")
    if isinstance(service, str) and service and _MODELS not in service.upper():
        return False
    return any(counts.values()) or any(count_of(row.get(name)) for name in _CHARACTERS)


def _map(row: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """A column of type MAP: an object, or its JSON text."""
    value = row.get(name)
    return json_object(value) if isinstance(value, str) else object_in(row, name)


def _operation(row: Mapping[str, Json]) -> str:
    path = text_in(row, "api_type", "url")
    return operation_of_path(f"/{path}" if path else None) or "chat"


def _attribute(picked: Extracted, row: Row) -> None:
    """Rule 4."""
    said: dict[str, str] = {}
    for name in ("usage_context", "request_tags"):
        scalars(_map(row, name), WHO, said)
    picked.who |= {field: value for field, value in said.items() if field != "user"}
    picked.texts["provider"] = "databricks"
    picked.texts["operation"] = _operation(row)


def _identity(row: Row, picked: Extracted, context: Context) -> str:
    if "request_id" in picked.texts:
        return picked.texts["request_id"]
    time = text_of(first_at(row, _TIME))
    return content_id(time, text_of(row.get("client_request_id")), *sorted(picked.counts.items()))


TABLE = RowTable(
    DATABRICKS,
    _outcome,
    start=_TIME,
    duration=("latency_ms", "execution_duration_ms"),
    status=("status_code",),
    identity=_identity,
    adjust=_attribute,
)

SOURCE = Source(
    name="databricks",
    title="Databricks (model serving and AI Gateway usage tables)",
    read=rows_reader(TABLE),
    snippet=Snippet(
        "python",
        "# A notebook or job, each hour: rows that are sent again count once.\n"
        "import json, requests\n"
        "\n"
        "rows = (\n"
        '    spark.sql("""\n'
        "  SELECT u.*, e.entity_name, e.endpoint_name FROM system.serving.endpoint_usage u\n"
        "  LEFT JOIN system.serving.served_entities e USING (served_entity_id)\n"
        '  WHERE u.request_time > now() - INTERVAL 3 HOURS""")\n'
        "    .toJSON()\n"
        "    .collect()\n"
        ")\n"
        "for start in range(0, len(rows), 5000):\n"
        "    requests.post(\n"
        '        "{url}",\n'
        '        data="\\n".join(rows[start : start + 5000]).encode(),\n'
        '        headers={{"Authorization": "{key}", "Content-Type": "application/x-ndjson"}},\n'
        "        timeout=60,\n"
        "    ).raise_for_status()\n",
    ),
    retries="The job decides: `raise_for_status` makes a run fail, and the next run sends the rows again, as long as its interval reaches back to them.",
)
