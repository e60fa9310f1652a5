"""Envoy AI Gateway: lines of its access log, in JSON, by whatever ships the proxy's log. Its
spans go to `/v1/traces`.

The keys are the operator's: the log's format names them, and `llmRequestCosts` names the metadata
that is put there (envoyproxy/ai-gateway: site/docs/capabilities/observability/accesslogs.md). So a
key is read by what is left of it in lower case, with "_" for whatever is no letter or digit, and
without the words of `_PREFIXES` before it: `genai_tokens_input`, `gen_ai.usage.input_tokens` and
`llm_input_token` are one.

1. A line that names a model or counts tokens is a call; a line with an
   `mcp_method`, and any other, is not.
2. Envoy writes "-" and null for what it does not know; both are unknown.
3. `response_code` of 400 or more, or 0 (the client left), is a failure: its counts are
   unknown unless they are there.
4. The model's override is what the backend was asked for, so it is the request model. The provider
   is known by the model's family, unless the operator logs it: a backend's name is the
   operator's own word, kept as label `backend`.
5. `x-request-id` is shared by all calls that one outer request makes, where it is propagated: it is
   part of a line's identity only.
"""

import re
from collections.abc import Mapping
from typing import Final

from gateway.products.items import spoken_ms, unwrapped
from gateway.products.reporting import Report, content_id, epoch_ms
from gateway.products.rows import CALL, IGNORED, Row, RowTable, rows_reader
from gateway.products.source import Snippet, Source
from gateway.products.vector import RETRIES, vector_lines
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json

NAMES: dict[str, tuple[str, ...]] = {
    "provider": ("provider_name", "provider", "system"),
    "operation": ("operation_name", "operation"),
    "request_model": ("model_name_override", "request_model", "model_name", "x_ai_eg_model", "model"),
    "response_model": ("response_model",),
    "response_id": ("response_id",),
    "input": ("tokens_input", "input_tokens", "input_token", "prompt_tokens", "tokens_prompt"),
    "output": ("tokens_output", "output_tokens", "output_token", "completion_tokens", "tokens_completion"),
    "total": ("tokens_total", "total_tokens", "total_token"),
    "cache_read": (
        "cache_read_input_tokens",
        "cached_input_tokens",
        "cached_input_token",
        "tokens_cached_input",
        "tokens_cache_read",
        "tokens_cached",
        "cached_tokens",
    ),
    "cache_creation": (
        "cache_creation_input_tokens",
        "cache_creation_input_token",
        "tokens_cache_creation_input",
        "tokens_cache_creation",
        "cache_write_input_tokens",
    ),
    "reasoning": ("reasoning_output_tokens", "reasoning_tokens", "reasoning_token", "tokens_reasoning"),
    "request_id": ("x_request_id",),
    "address": ("authority",),
    "user": ("x_user_id", "user_id", "enduser_id"),
    "session": ("x_session_id", "session_id", "conversation_id"),
    "team": ("x_team_id", "team_id", "x_tenant_id", "tenant_id", "team"),
    "project": ("x_project_id", "project_id", "project"),
    "label.backend": ("backend_name",),
    "label.route": ("route_name",),
}
"""Over the line's keys, as the module's docstring states."""
ENVOY = Convention("envoy-ai-gateway", own=NAMES, basis=inclusive)

_PREFIXES: Final = re.compile(r"^(?:io_envoy_ai_gateway_|dynamic_metadata_|metadata_|genai_|gen_ai_|usage_|llm_|ai_)+")
_NOT_A_WORD: Final = re.compile(r"[^a-z0-9]+")
_MAX_KEY_CHARS = 96
_MAX_KEYS = 512
_UNKNOWN: Final = frozenset({"-", ""})


def _outcome(row: Row, picked: Extracted) -> str:
    """Rule 1."""
    is_call = picked.counts.keys() & {"input", "output", "total"} or "request_model" in picked.texts
    return CALL if is_call and not row.get("mcp_method") else IGNORED


def _with_known_keys(row: Row) -> Row:
    return known_keys(unwrapped(row))


def known_keys(line: Mapping[str, Json]) -> dict[str, Json]:
    """The line's values by key, flat, under the names that the table has; objects one
    level deep are part of it.
    """
    entry: dict[str, Json] = {}
    for key, value in list(line.items())[:_MAX_KEYS]:
        if isinstance(value, dict):
            for below, inner in list(value.items())[:_MAX_KEYS]:
                _put(entry, f"{key}_{below}", inner)
        else:
            _put(entry, key, value)
    return entry


def _put(entry: dict[str, Json], key: str, value: Json) -> None:
    if len(key) <= _MAX_KEY_CHARS and value not in _UNKNOWN_VALUES and not isinstance(value, dict | list):
        entry.setdefault(_PREFIXES.sub("", _NOT_A_WORD.sub("_", key.lower()).strip("_")), value)


_UNKNOWN_VALUES: tuple[Json, ...] = (None, *sorted(_UNKNOWN))


def _identity(row: Row, picked: Extracted, context: Context) -> str:
    """Rule 5."""
    names = (picked.texts.get("request_id"), picked.texts.get("request_model"))
    times = epoch_ms(row.get("start_time")), spoken_ms(row.get("duration"))
    return content_id(*names, *times, *sorted(picked.counts.items()))


def _refined(report: Report, row: Row) -> Report:
    """Rule 3."""
    is_gone = row.get("response_code") in (0, "0")
    return report._replace(failed=True, error="client_closed_request") if is_gone else report


TABLE = RowTable(
    ENVOY,
    _outcome,
    prepare=_with_known_keys,
    start=("start_time",),
    duration=("duration",),
    status=("response_code",),
    identity=_identity,
    path=("x_envoy_origin_path", "x_envoy_original_path", "path"),
    operation="chat",
    refine=_refined,
)

SOURCE = Source(
    name="envoy-ai-gateway",
    title="Envoy AI Gateway",
    read=rows_reader(TABLE),
    snippet=Snippet(
        "yaml",
        "# EnvoyProxy: what the line says; AIGatewayRoute's llmRequestCosts names the metadata keys.\n"
        "spec:\n"
        "  telemetry:\n"
        "    accessLog:\n"
        "      settings:\n"
        "        - sinks: [{{type: File, file: {{path: /dev/stdout}}}}]\n"
        "          format:\n"
        "            type: JSON\n"
        "            json:\n"
        '              start_time: "%START_TIME%"\n'
        '              duration: "%DURATION%"\n'
        '              response_code: "%RESPONSE_CODE%"\n'
        '              x-request-id: "%REQ(X-REQUEST-ID)%"\n'
        '              x-envoy-origin-path: "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"\n'
        '              genai_model_name: "%REQ(X-AI-EG-MODEL)%"\n'
        '              genai_model_name_override: "%DYNAMIC_METADATA(io.envoy.ai_gateway:model_name_override)%"\n'
        '              genai_backend_name: "%DYNAMIC_METADATA(io.envoy.ai_gateway:backend_name)%"\n'
        '              genai_tokens_input: "%DYNAMIC_METADATA(io.envoy.ai_gateway:llm_input_token)%"\n'
        '              genai_tokens_output: "%DYNAMIC_METADATA(io.envoy.ai_gateway:llm_output_token)%"\n'
        '              genai_tokens_total: "%DYNAMIC_METADATA(io.envoy.ai_gateway:llm_total_token)%"\n'
        "---\n" + vector_lines("envoy"),
    ),
    retries=RETRIES,
)
