"""LiteLLM's proxy and its callbacks: `generic_api` in three formats, its older payload, Lago and
OpenMeter events, daily exports. Pure.

1. Each document states by its own fields what it is; a body may hold several kinds. One is a call
   (`payload`, `older`, `events`), a day's sums (`daily`), or a budget alert, which reports money
   spent before and is ignored.
2. What is none of these is rejected: `not_an_object` (LiteLLM queues a null where it failed to make
   a payload), `unknown_shape`.
3. Its OTLP (`otel` 1 and 2, `arize_phoenix`, `langfuse`) is read by
   `gateway.rules.conventions.litellm`. A call that comes both ways is one.
"""

from collections.abc import Sequence

from gateway.products.documents import Document
from gateway.products.items import ignore, objects, reject, suppress
from gateway.products.litellm.call_types import CallType
from gateway.products.litellm.daily import FOREIGN_ROW, add_daily, is_cbf, is_focus, read_line
from gateway.products.litellm.events import LAGO, OPENMETER, is_cloud_event, is_lago, lago_report, openmeter_report
from gateway.products.litellm.older import is_older, older_report
from gateway.products.litellm.payload import LITELLM, is_payload, report_of
from gateway.products.litellm.trim import without_price_maps
from gateway.products.reporting import Report, add_call
from gateway.products.source import Snippet, Source, SourceRead
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention
from gateway.rules.texts import Json


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    """Each document by its own kind: payload, older payload, daily export, event."""
    daily: list[tuple[str, dict[str, Json]]] = []
    for position, document in objects(documents, out):
        if is_payload(document) and not is_older(document):
            _add(report_of(document), LITELLM, position, out, context)
        elif is_older(document):
            _add(older_report(document), LITELLM, position, out, context)
        elif is_lago(document):
            _add(lago_report(document, context), LAGO, position, out, context)
        elif is_cloud_event(document):
            _add(openmeter_report(document), OPENMETER, position, out, context)
        elif is_cbf(document) or is_focus(document):
            daily.append((position, document))
        elif _is_alert(document):
            ignore(out, position)
        else:
            reject(out, "unknown_shape", position)
    if daily:
        add_daily(daily, out, context)


def _add(report: Report | CallType, convention: Convention, position: str, out: SourceRead, context: Context) -> None:
    if isinstance(report, Report):
        out.calls.items += 1
        add_call(out.calls, report, convention, position, context)
    elif report.kind == "step":
        suppress(out, "not_a_call", position)
    else:
        ignore(out, position)


def _is_alert(document: dict[str, Json]) -> bool:
    """`WebhookEvent` of `litellm/proxy/_types.py`."""
    return isinstance(document.get("event"), str) and ("event_group" in document or "event_message" in document)


SOURCE = Source(
    name="litellm",
    title="LiteLLM",
    read=read,
    snippet=Snippet(
        "yaml",
        "litellm_settings:\n"
        "  callbacks: [gateway]\n"
        "callback_settings:\n"
        "  gateway:\n"
        "    callback_type: generic_api\n"
        "    endpoint: {url}\n"
        '    headers: {{Authorization: "{key}"}}\n'
        "    max_retries: 8      # without it, the calls of a failed request are lost\n"
        "    retry_delay: 1.0    # seconds, doubled each time\n",
    ),
    environment=Snippet(
        "sh",
        "export DEFAULT_BATCH_SIZE=1   # LiteLLM before 1.108 loses calls that end while a batch is sent\n"
        "export LOGGING_WORKER_MAX_TIME_PER_COROUTINE=600   # seconds; after its default of 20 it stops to retry\n",
    ),
    retries="By default nothing is sent again: a batch of up to 512 calls is lost. With `max_retries`, 5xx and lost connections are, 4xx never.",
    ways_in=("key", "path_token"),
    native_paths=("/api/v1/events", "/v2/connections/billing/anycost/{connection_id}/billing_drops"),
    refusals={
        FOREIGN_ROW: "no row of this billing drop is LiteLLM's: the gateway takes AI usage, and sends billing data itself"
        " (docs/billing.md); post billing drops of others to the cost service",
    },
    trim=without_price_maps,
    read_line=read_line,
)
