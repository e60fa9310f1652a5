"""agentgateway: its structured access log, as JSON or as `key=value` text. Its spans go to `/v1/traces`.

The keys are those of `kv` in agentgateway/agentgateway: crates/agentgateway/src/telemetry/log.rs, the same as its span's attributes.

1. A line that names a model or counts tokens is a call; other requests (MCP, A2A, plain HTTP) and other lines of the log are ignored.
2. `trace.id` and `span.id` are those of its span: line and span of a request are one report.
3. A line is written when the answer ended: its time is the end, `duration` (`"1526ms"`) says how long it took.
4. `http.status` of 400 or more is a failure, named by `reason`; `error` is a sentence and is dropped.
5. Without a cache or reasoning split, and without cost; what an operator adds by CEL under the names of OpenTelemetry is read.
"""

import re
from collections.abc import Sequence
from typing import Final

from gateway.normalise.context import Context
from gateway.normalise.conventions import shared
from gateway.normalise.conventions.table import Convention, inclusive
from gateway.normalise.texts import Json, text_in
from gateway.sources.documents import Document
from gateway.sources.fields import pick_fields, text_of
from gateway.sources.items import http_status, ignore, is_failure, objects, spoken_ms, unwrapped
from gateway.sources.paths import operation_of_path
from gateway.sources.reporting import Report, add_call, content_id, epoch_ms
from gateway.sources.source import Snippet, Source, SourceRead
from gateway.sources.vector import RETRIES, vector_lines

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


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    for position, value in objects(documents, out):
        line = unwrapped(value, read_line)
        picked = pick_fields(line, AGENTGATEWAY)
        if not (picked.counts.keys() & {"input", "output", "total"} or "request_model" in picked.texts):
            ignore(out, position)
            continue
        picked.texts.setdefault("operation", operation_of_path(text_in(line, "http.path")) or "chat")
        status = http_status(line.get("http.status"))
        ended, took = line.get("time", line.get("timestamp")), line.get("duration")
        trace_id, span_id = text_of(line.get("trace.id")), text_of(line.get("span.id"))
        out.calls.items += 1
        report = Report(
            picked,
            event_id=content_id(
                trace_id,
                span_id,
                text_of(ended),
                text_of(took),
                text_of(line.get("src.addr")),
                picked.texts.get("request_model"),
                *sorted(picked.counts.items()),
            ),
            end_ms=epoch_ms(ended),
            duration_ms=spoken_ms(took),
            failed=is_failure(status),
            error=text_in(line, "reason") or f"http_{status}",
            trace_id=trace_id,
            span_id=span_id,
        )
        add_call(out.calls, report, AGENTGATEWAY, position, context)


def read_line(line: str) -> Json:
    """`2026-01-01T00:00:00Z info request gateway=… duration=1526ms` -> its pairs; another log line of the gateway -> no pairs.

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


SOURCE = Source(
    name="agentgateway",
    title="agentgateway",
    read=read,
    snippet=Snippet(
        "yaml",
        vector_lines("agentgateway"),
    ),
    retries=RETRIES,
    read_line=read_line,
)
