"""OTLP among the documents that a source's product sends: in an array, one a line, or as a bare
span outside any envelope. Pure.

A body that is an export request by itself never comes here: the intake takes it as OTLP.
"""

from collections.abc import Mapping, Sequence

import orjson

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.outcomes import Rejection
from gateway.products.documents import Document
from gateway.products.records.source import read_stated
from gateway.read.otlp_json import decode_logs_json, decode_traces_json
from gateway.read.view import Logs, Traces
from gateway.rules.call import Normalised
from gateway.rules.context import Context
from gateway.rules.logs import normalise_logs
from gateway.rules.texts import Json
from gateway.rules.traces import normalise_traces

_TRACES, _LOGS = "resourceSpans", "resourceLogs"


def take_otlp(documents: Sequence[Document], calls: Normalised, context: Context) -> list[Document]:
    """Add what the OTLP among *documents* holds to *calls*; the other documents."""
    others: list[Document] = []
    for document in documents:
        request = export_request(document.value)
        if request is None:
            others.append(document)
        else:
            _take(request, document.position, calls, context)
    return others


def export_request(value: Json) -> Mapping[str, Json] | None:
    """*value* as an export request of spans or logs; None when it is none."""
    if not isinstance(value, dict):
        return None
    if _TRACES in value or _LOGS in value:
        return value
    if "spanId" in value and "traceId" in value and "startTimeUnixNano" in value:
        return {_TRACES: [{"scopeSpans": [{"spans": [value]}]}]}
    return None


def decoded_request(request: Mapping[str, Json]) -> Traces | Logs:
    """Raises BadPayload, and JSONEncodeError for what orjson reads and does not write."""
    body = orjson.dumps(request)
    return decode_traces_json(body) if _TRACES in request else decode_logs_json(body)


def _read(decoded: Traces | Logs, context: Context) -> Normalised:
    if isinstance(decoded, Traces):
        return read_stated(normalise_traces(decoded, context), context)
    return normalise_logs(decoded, context)


def _take(request: Mapping[str, Json], position: str, calls: Normalised, context: Context) -> None:
    try:
        read = _read(decoded_request(request), context)
    except (BadPayload, orjson.JSONEncodeError):
        calls.items += 1
        calls.rejected.append(Rejection("not_otlp", position))
        return
    calls.items += read.items
    calls.calls += read.calls
    calls.links += read.links
    calls.suppressed += read.suppressed
    calls.ignored += read.ignored
    calls.unknown_conventions += read.unknown_conventions
    calls.rejected += [Rejection(each.reason, f"{position}.{each.position}") for each in read.rejected]
