"""agentgateway: its structured access log, as JSON or as `key=value` text. Its
spans go to `/v1/traces`.

The keys are those of `kv` in agentgateway/agentgateway: crates/agentgateway/src/telemetry/log.rs,
the same as its span's attributes.

1. A line that names a model or counts tokens is a call; other requests (MCP, A2A, plain HTTP) and
   other lines of the log are ignored.
2. `trace.id` and `span.id` are those of its span: line and span of a request are one report.
3. A line is written when the answer ended: its time is the end, `duration`
   (`"1526ms"`) states how long it took.
4. `http.status` of 400 or more is a failure, named by `reason`;
   `error` is a sentence and is dropped.
5. Without a cache or reasoning split, and without cost; what an operator adds by CEL under the
   names of OpenTelemetry is read.
"""

import re
from typing import Final

from gateway.products.fields import text_of
from gateway.products.items import unwrapped
from gateway.products.reporting import Report, content_id
from gateway.products.rows import CALL, IGNORED, Row, RowTable, rows_reader
from gateway.products.source import Snippet, Source
from gateway.products.vector import RETRIES, vector_lines
from gateway.rules.context import Context
from gateway.rules.conventions import shared
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.texts import Json, text_in

NAMES: dict[str, tuple[str, ...]] = {
    **shared.NAMES,
    "address": ("endpoint",),
    "user": ("user.id", "jwt.sub", "enduser.id"),
    "label.gateway": ("gateway",),
    "label.route": ("route",),
    "label.listener": ("listener",),
}
AGENTGATEWAY = Convention("agentgateway", own=NAMES, basis=inclusive)

_LINE: Final = re.compile(
    r"(?:(\d{4}-\d\d-\d\dT\S{1,40})\s+)?(?:trace|debug|info|warn|error)\s+(\S{1,200})(?:\s+(.*))?",
    re.IGNORECASE | re.DOTALL,
)
_PAIR: Final = re.compile(r'(?<!\S)([\w.:/-]++)=("(?:[^"\\]|\\.)*+"|\S*+)')
_MAX_LINE_CHARS = 256 * 1024
_REQUEST: Final = "request"


def _outcome(row: Row, picked: Extracted) -> str:
    """Rule 1."""
    is_call = picked.counts.keys() & {"input", "output", "total"} or "request_model" in picked.texts
    return CALL if is_call else IGNORED


def _unwrapped(row: Row) -> Row:
    return unwrapped(row, read_line)


def _identity(row: Row, picked: Extracted, context: Context) -> str:
    named = [text_of(row.get(name)) for name in ("trace.id", "span.id")]
    times = [text_of(row.get("time", row.get("timestamp"))), text_of(row.get("duration"))]
    address, model = text_of(row.get("src.addr")), picked.texts.get("request_model")
    return content_id(*named, *times, address, model, *sorted(picked.counts.items()))


def _refined(report: Report, row: Row) -> Report:
    """Rule 4."""
    return report._replace(error=text_in(row, "reason") or report.error)


def read_line(line: str) -> Json:
    """`2026-01-01T00:00:00Z info request gateway=… duration=1526ms` -> its pairs; another log line
    of the gateway -> no pairs.

    Raises ValueError for what is no such line.
    """
    if len(line) > _MAX_LINE_CHARS:
        raise ValueError("the line is too long")
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("no line of agentgateway's log")
    time, scope, rest = match.groups()
    found: dict[str, Json] = {}
    if scope == _REQUEST:
        found |= {key: value[1:-1] if value[:1] == '"' else value for key, value in _PAIR.findall(rest or "")}
    if time is not None:
        found["time"] = time
    return found


TABLE = RowTable(
    AGENTGATEWAY,
    _outcome,
    prepare=_unwrapped,
    end=("time", "timestamp"),
    duration=("duration",),
    status=("http.status",),
    identity=_identity,
    trace_id=("trace.id",),
    span_id=("span.id",),
    path=("http.path",),
    operation="chat",
    refine=_refined,
)

SOURCE = Source(
    name="agentgateway",
    title="agentgateway",
    read=rows_reader(TABLE),
    snippet=Snippet(
        "yaml",
        vector_lines("agentgateway"),
    ),
    retries=RETRIES,
    read_line=read_line,
)
