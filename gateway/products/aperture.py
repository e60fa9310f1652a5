"""Tailscale Aperture: the hook that a grant sends for each request
(`HookCallData`). One object a request.

Read from Tailscale's guide "Build a custom webhook" and the reference for integration authors of
its community repository (`HookCallData`, `HookMetadata`, `CostEstimate`, `UsageTokens`).

1. `metadata` is always there; what else is sent is chosen in the grant (`send`). `estimated_cost`
   brings usage and an estimate of the cost in dollars; without it the usage is taken from
   `response_body`, where that is sent; else it is unknown.
2. Counts that are not set are left out, not 0. Aperture does not state whether its input holds the
   cached tokens: the provider's own answer states, where it came along; else an input smaller than
   its cache parts proves that it does not.
3. There is no time: the report stands at its receipt.
4. `request_id` is one request: a hook on `pre_request` and one on `entire_request` report one call.
5. `user_message`, `request_body`, `tool_calls`, `raw_responses`, `user_agent`, `grants`
   and `quotas` are not read.
"""

from gateway.products.answers import error_in
from gateway.products.fields import text_of
from gateway.products.reporting import Report
from gateway.products.rows import CALL, IGNORED, Row, RowTable, rows_reader
from gateway.products.source import Snippet, Source
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, unstated
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json, object_in, text_in

NAMES: dict[str, tuple[str, ...]] = {
    "provider": ("metadata.provider",),
    "request_model": ("metadata.model",),
    "request_id": ("metadata.request_id",),
    "session": ("metadata.session_id",),
    "user": ("metadata.login_name",),
    "cost": ("metadata.estimated_cost.dollars",),
    "label.tailnet": ("metadata.tailnet_name",),
    "label.node": ("metadata.stable_node_id",),
}

_USAGE = "metadata.estimated_cost.usage."
USAGE_NAMES: dict[str, tuple[str, ...]] = {
    "input": (_USAGE + "input_tokens",),
    "output": (_USAGE + "output_tokens",),
    "cache_read": (_USAGE + "cached_tokens",),
    "cache_creation": (_USAGE + "cache_creation_input_tokens",),
    "cache_creation_5m": (_USAGE + "cache_creation_5m_input_tokens",),
    "cache_creation_1h": (_USAGE + "cache_creation_1h_input_tokens",),
    "reasoning": (_USAGE + "reasoning_tokens",),
}

APERTURE = Convention("aperture", own={**NAMES, **USAGE_NAMES}, basis=unstated)


def _outcome(row: Row, picked: Extracted) -> str:
    return IGNORED if text_in(object_in(row, "metadata"), "model") is None else CALL


def _answer(row: Row) -> Json:
    return row.get("response_body")


def _identity(row: Row, picked: Extracted, context: Context) -> str:
    """Of a report without its id: what it states, and when it arrived."""
    metadata = object_in(row, "metadata")
    named = [text_of(metadata.get(name)) for name in ("session_id", "stable_node_id", "model")]
    return "/".join([*named, str(picked.counts.get("input")), str(picked.counts.get("output")), context.received_at])


def _refined(report: Report, row: Row) -> Report:
    return report._replace(failed=error_in(row.get("response_body")) is not None)


TABLE = RowTable(
    APERTURE,
    _outcome,
    event_id=("metadata.request_id",),
    identity=_identity,
    path=("metadata.url",),
    free_is_unknown=True,
    answer=_answer,
    refine=_refined,
)

SOURCE = Source(
    name="aperture",
    title="Tailscale Aperture",
    read=rows_reader(TABLE),
    snippet=Snippet(
        "json",
        '"hooks": {{\n'
        '  "ai-telemetry": {{"url": "{url}", "apikey": "{key}", "authorization": "bearer"}}\n'
        "}},\n"
        '"grants": [{{\n'
        '  "src": ["*"],\n'
        '  "app": {{"tailscale.com/cap/aperture": [{{\n'
        '    "models": "**",\n'
        '    "send_hooks": [{{"name": "ai-telemetry", "events": ["entire_request"], "send": ["estimated_cost"]}}]\n'
        "  }}]}}\n"
        "}}]\n",
    ),
    ways_in=("key", "vendor_headers"),
    retries="A hook is sent once, with a time-out of 5 s (`timeout`); any failure is passed over and the report is lost.",
)
