"""Tailscale Aperture: the hook that a grant sends for each request (`HookCallData`). One object a request.

Read from Tailscale's guide "Build a custom webhook" and the reference for integration authors of its community repository
(`HookCallData`, `HookMetadata`, `CostEstimate`, `UsageTokens`).

1. `metadata` is always there; what else is sent is chosen in the grant (`send`). `estimated_cost` brings usage and an estimate of
   the cost in dollars; without it the usage is taken from `response_body`, where that is sent; else it is unknown.
2. Counts that are not set are left out, not 0. Aperture does not say whether its input holds the cached tokens: the
   provider's own answer tells, where it came along; else an input smaller than its cache parts proves that it does not.
3. There is no time: the report stands at its receipt.
4. `request_id` is one request: a hook on `pre_request` and one on `entire_request` tell of one call.
5. `user_message`, `request_body`, `tool_calls`, `raw_responses`, `user_agent`, `grants` and `quotas` are not read.
"""

from collections.abc import Mapping, Sequence

from gateway.normalise.context import Context
from gateway.normalise.conventions.table import Convention, unstated
from gateway.normalise.extract import Extracted
from gateway.normalise.texts import Json, object_in, text_in
from gateway.sources.answers import error_in, take_body
from gateway.sources.documents import Document
from gateway.sources.fields import pick_fields, text_of
from gateway.sources.items import ignore, objects
from gateway.sources.paths import operation_of_path
from gateway.sources.reporting import Report, add_call
from gateway.sources.source import Snippet, Source, SourceRead

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


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    for position, document in objects(documents, out):
        metadata = object_in(document, "metadata")
        if text_in(metadata, "model") is None:
            ignore(out, position)
            continue
        out.calls.items += 1
        add_call(out.calls, _report(document, metadata, context), APERTURE, position, context)


def _report(document: dict[str, Json], metadata: Mapping[str, Json], context: Context) -> Report:
    picked = pick_fields(document, APERTURE)
    if not picked.numbers.get("cost"):
        picked.numbers.pop("cost", None)
    body = document.get("response_body")
    take_body(picked, body)
    operation = operation_of_path(text_in(metadata, "url"))
    if operation is not None:
        picked.texts["operation"] = operation
    error = error_in(body)
    return Report(
        picked,
        event_id=text_of(metadata.get("request_id")) or _identity(metadata, picked, context),
        failed=error is not None,
        error=error,
    )


def _identity(metadata: Mapping[str, Json], picked: Extracted, context: Context) -> str:
    """Of a report without its id: what it says, and when it came."""
    told = [text_of(metadata.get(name)) for name in ("session_id", "stable_node_id", "model")]
    return "/".join([*told, str(picked.counts.get("input")), str(picked.counts.get("output")), context.received_at])


SOURCE = Source(
    name="aperture",
    title="Tailscale Aperture",
    read=read,
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
