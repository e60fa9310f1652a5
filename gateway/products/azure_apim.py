"""Azure API Management: rows of its generative AI gateway log (`GatewayLlmLogs`), by a relay from
Event Hub, storage or Log Analytics.

The columns are those of `ApiManagementGatewayLlmLog` in the Azure Monitor tables reference. How
they are spelt depends on the way they took: `PromptTokens` in the table, `promptTokens` under
`properties` of a diagnostic record, `promptTokens_d` in the older shared table. So they are read in
lower case, without what is no letter or digit and without the type at their end.

1. A body is a row, rows, `{"records": […]}` of diagnostic records, or `{"tables": [{"columns",
   "rows"}]}` of a query. Rows of another category are ignored.
2. A request is logged in several rows of one `CorrelationId`: `SequenceNumber` 0 has the tokens and
   the model, the others pieces of the messages (32 kB each). The row with the tokens is the call;
   the others of its id are suppressed (`split_message`), with or without it in the payload.
3. 0 tokens of each kind is what it writes where it knows none: unknown.
4. The deployment is what the client asked for, `ModelName` what served.
   OpenAI's models behind it are Azure's.
5. There is no status, user, cache split or cost in it: `ApiManagementGatewayLogs` has the first,
   under the same id, and no tokens.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.products.documents import Document
from gateway.products.fields import count_of, pick_fields, text_of
from gateway.products.items import at, http_status, ignore, is_failure, objects, reject, suppress
from gateway.products.reporting import Report, add_call, content_id, epoch_ms
from gateway.products.source import Snippet, Source, SourceRead
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.provider import model_provider
from gateway.rules.texts import Json, json_object

CATEGORY: Final = "gatewayllmlogs"
TABLE: Final = "apimanagementgatewayllmlog"
NAMES: dict[str, tuple[str, ...]] = {
    "request_model": ("deploymentname", "modelname"),
    "response_model": ("modelname",),
    "deployment": ("deploymentname",),
    "input": ("prompttokens",),
    "output": ("completiontokens",),
    "total": ("totaltokens",),
    "stream": ("isstreamcompletion",),
    "region": ("region", "location"),
    "request_id": ("correlationid",),
    "label.api": ("apiid",),
    "label.subscription": ("apimsubscriptionid",),
    "label.product": ("productid",),
}
"""Over a row's columns, as the module's docstring states."""
APIM = Convention("azure-apim", own=NAMES, basis=inclusive)

_TYPE_AT_END: Final = re.compile(r"_[sdbgt]$")
_NOT_A_WORD: Final = re.compile(r"[^a-z0-9]+")
_TOKENS: Final = ("prompttokens", "completiontokens", "totaltokens")
_ANSWER_ID: Final = ("chatcmpl-", "resp_", "cmpl-", "msg_")
_MAX_KEYS = 256
_MAX_KEY_CHARS = 96

_Row = tuple[str, dict[str, Json]]


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    """Rules 1 and 2: the row with the tokens is the call, the others of its id are suppressed."""
    calls: dict[str, _Row] = {}
    for position, row in _rows(documents, out):
        if not _is_llm(row):
            ignore(out, position)
            continue
        correlation = text_of(row.get("correlationid"))
        if not _is_call(row):
            suppress(out, "split_message", position)
            continue
        key = correlation or position
        known = calls.get(key)
        stands = known is None or _tokens(row) > _tokens(known[1])
        if known is not None:
            suppress(out, "split_message", known[0] if stands else position)
        if stands:
            calls[key] = (position, row)
    for position, row in calls.values():
        out.calls.items += 1
        add_call(out.calls, _report(row), APIM, position, context)


def _rows(documents: Sequence[Document], out: SourceRead) -> Iterator[_Row]:
    """Rule 1."""
    for position, value in objects(documents, out):
        records, tables = value.get("records"), value.get("tables")
        if isinstance(records, list):
            for n, record in enumerate(records):
                where = at(position, f"records[{n}]")
                if isinstance(record, dict):
                    yield where, columns(record)
                else:
                    reject(out, "not_an_object", where)
        elif isinstance(tables, list):
            for n, table in enumerate(tables):
                yield from _queried(table, at(position, f"tables[{n}]"), out)
        else:
            yield position, columns(value)


def _queried(table: Json, position: str, out: SourceRead) -> Iterator[_Row]:
    """The rows of one table of a Log Analytics query."""
    heads = table.get("columns") if isinstance(table, dict) else None
    rows = table.get("rows") if isinstance(table, dict) else None
    if not isinstance(heads, list) or not isinstance(rows, list):
        reject(out, "not_a_table", position)
        return
    names = [text_of(head.get("name")) if isinstance(head, dict) else "" for head in heads[:_MAX_KEYS]]
    for n, row in enumerate(rows):
        where = f"{position}.rows[{n}]"
        if isinstance(row, list):
            yield where, columns(dict(zip(names, row, strict=False)))
        else:
            reject(out, "not_an_object", where)


def columns(row: Mapping[str, Json]) -> dict[str, Json]:
    """The row's scalar columns by the table's names; those under `properties`
    go before those beside it.
    """
    found: dict[str, Json] = {}
    inner = row.get("properties", row.get("Properties"))
    if isinstance(inner, str):
        inner = dict(json_object(inner))
    for part in (inner, row):
        for key, value in list(part.items())[:_MAX_KEYS] if isinstance(part, dict) else ():
            if isinstance(value, dict | list):
                found.setdefault(_column(key), True)  # that it is there, never what it holds
            elif value is not None and len(key) <= _MAX_KEY_CHARS:
                found.setdefault(_column(key), value)
    return found


def _column(key: str) -> str:
    return _NOT_A_WORD.sub("", _TYPE_AT_END.sub("", key[:_MAX_KEY_CHARS].lower()))


def _is_llm(row: Mapping[str, Json]) -> bool:
    """Whether the row is of the log of model calls; without a category, whether its columns are."""
    for name, expected in (("category", CATEGORY), ("type", TABLE)):
        said = row.get(name)
        if isinstance(said, str):
            return said.lower().rstrip("s") == expected.rstrip("s")
    return not {*_TOKENS, "deploymentname", "modelname", "requestmessages", "responsemessages"}.isdisjoint(row)


def _is_call(row: Mapping[str, Json]) -> bool:
    """Rule 2.

    A row that names the model without tokens is the first of its call, unless its
    number states that it is none.
    """
    if any(name in row for name in _TOKENS) and _tokens(row):
        return True
    named = "deploymentname" in row or "modelname" in row
    return named and not count_of(row.get("sequencenumber"))


def _tokens(row: Mapping[str, Json]) -> int:
    return sum(count_of(row.get(name)) or 0 for name in _TOKENS)


def _report(row: dict[str, Json]) -> Report:
    picked = pick_fields(row, APIM)
    texts = picked.texts
    if not any(picked.counts.values()):
        picked.counts.clear()
    model = texts.get("response_model") or texts.get("request_model")
    family = model_provider(model)
    texts["provider"] = "azure.ai.openai" if family == "openai" else family or "azure.ai.inference"
    texts["operation"] = "embeddings" if "embed" in (model or "").lower() else "chat"
    request_id = text_of(row.get("requestid"))
    if request_id.startswith(_ANSWER_ID):
        texts["response_id"] = request_id
    elif request_id:
        texts.setdefault("request_id", request_id)
    time = row.get("timegenerated", row.get("time"))
    status = http_status(row.get("responsecode"))
    return Report(
        picked,
        event_id=text_of(row.get("correlationid"))
        or content_id(text_of(time), request_id, model, *sorted(picked.counts.items())),
        start_ms=epoch_ms(time),
        failed=is_failure(status),
        error=f"http_{status}",
    )


SOURCE = Source(
    name="azure-apim",
    title="Azure API Management (generative AI gateway log)",
    read=read,
    snippet=Snippet(
        "sh",
        "# API Management writes to Log Analytics, storage and Event Hub only. Turn the log on, without messages:\n"
        'az monitor diagnostic-settings create --name llm-usage --resource "$APIM_ID" --event-hub usage --event-hub-rule "$RULE_ID" \\\n'
        '  --logs \'[{{"category": "GatewayLlmLogs", "enabled": true}}]\'\n'
        'az rest --method put --url "https://management.azure.com$APIM_ID/apis/$API/diagnostics/azuremonitor?api-version=2024-05-01" \\\n'
        '  --body "{{\\"properties\\": {{\\"loggerId\\": \\"$APIM_ID/loggers/azuremonitor\\", \\"largeLanguageModel\\": {{\\"logs\\": \\"enabled\\"}}}}}}"\n'
        "# Relay what arrives at the hub, such as from a function with an Event Hub trigger:\n"
        "curl -fsS -X POST {url} -H 'Authorization: {key}' -H 'Content-Type: application/json' --data-binary @event.json\n",
    ),
    retries="API Management itself never posts here. A function with a retry policy keeps the event in the hub until it is answered 2xx.",
)
