"""The worst bodies of each decoder: what costs most memory or time for its bytes.

`SMALL` are some kilobytes of gzip that hold millions of items. `WORST` and `FULL` are of any size:
of damage and of one endless value, and of as many sound items as fit.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from gateway.common.contract.errors import BadPayload, TooLarge
from gateway.common.contract.unit_cost import Target
from gateway.common.operations import rfc3339
from gateway.pipeline.parsing.parse import ParseRules, Payload, parse
from gateway.read.limits import ParseLimits
from gateway.rules.context import Context
from gateway.usage.events.checks import EventRules
from gateway.usage.events.events import decode_events
from gateway.usage.events.intake import MAX_EVENTS_BYTES
from gateway.usage.events.unit_cost import BadUnitCost, read_records
from gateway.usage.pricing.prices import Prices
from tests.support.otlp_bytes import attribute, field, fixed64

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
MANY: Final = 5_000_000


class Sent(NamedTuple):
    path: str
    body: bytes
    kind: str = PROTOBUF


OfSize = Callable[[int], Sent]
"""A body of about so many bytes."""


def json_of(before: str, one: str, after: str, most: int = MANY // 2) -> bytes:
    return f"{before}{(one + ',') * most}{one}{after}".encode()


NOW_NS = time.time_ns()
HOUR_NS = 3600 * 10**9


def series(start: int, n: int) -> bytes:
    """Tokens of *n* models, each a series of its own."""
    points = (
        field(
            1,
            fixed64(2, NOW_NS - HOUR_NS)
            + fixed64(3, NOW_NS)
            + fixed64(6, 7)
            + attribute(7, b"gen_ai.request.model", field(1, b"model %d" % number))
            + attribute(7, b"gen_ai.token.type", field(1, b"input")),
        )
        for number in range(start, start + n)
    )
    metric = field(1, b"gen_ai.client.token.usage") + field(7, b"".join(points) + b"\x10\x02\x18\x01")
    return field(1, field(2, field(2, metric)))


SPANS: Final = '{"resourceSpans":[{"scopeSpans":[{"spans":['
SMALL: Final[Mapping[str, Callable[[], Sent]]] = {
    "empty spans": lambda: Sent("/v1/traces", field(1, field(2, b"\x12\x00" * MANY))),
    "empty ScopeSpans": lambda: Sent("/v1/traces", field(1, b"\x12\x00" * MANY)),
    "empty ResourceSpans": lambda: Sent("/v1/traces", b"\x0a\x00" * MANY),
    "empty log records": lambda: Sent("/v1/logs", field(1, field(2, b"\x12\x00" * MANY))),
    "empty ScopeLogs": lambda: Sent("/v1/logs", field(1, b"\x12\x00" * MANY)),
    "empty metrics": lambda: Sent("/v1/metrics", field(1, field(2, b"\x12\x00" * MANY))),
    "empty points": lambda: Sent("/v1/metrics", field(1, field(2, field(2, field(7, b"\x0a\x00" * MANY))))),
    "spans in JSON": lambda: Sent("/v1/traces", json_of(SPANS, "{}", "]}]}]}"), JSON),
    "ScopeSpans in JSON": lambda: Sent("/v1/traces", json_of('{"resourceSpans":[{"scopeSpans":[', "{}", "]}]}"), JSON),
    "ResourceSpans in JSON": lambda: Sent("/v1/traces", json_of('{"resourceSpans":[', "{}", "]}"), JSON),
    "log records in JSON": lambda: Sent(
        "/v1/logs", json_of('{"resourceLogs":[{"scopeLogs":[{"logRecords":[', "{}", "]}]}]}"), JSON
    ),
    "unknown values in JSON": lambda: Sent("/v1/traces", json_of('{"unknown":[', "[]", "]}"), JSON),
    "rows": lambda: Sent("/v1/sources/generic", json_of("[", "{}", "]"), JSON),
    "rows, one a line": lambda: Sent("/v1/sources/generic", b"{}\n" * (MANY // 2), JSON),
    "records": lambda: Sent(
        "/v2/ai-telemetry/records", json_of('{"schema":"ai-telemetry/1","records":[', "{}", "]}"), JSON
    ),
    "events": lambda: Sent("/v1/events", json_of("[", "{}", "]"), JSON),
    "events, one a line": lambda: Sent("/v1/events", b"1\n" * MANY, "application/x-ndjson"),
    "cloud events": lambda: Sent("/v1/events", json_of("[", '{"specversion":0}', "]", MANY // 6), JSON),
    "unit cost": lambda: Sent("/v1/unit-cost/metric/units/sum", json_of('{"records":[', "1", "]}", 2_000_000), JSON),
    "a device": lambda: Sent("/v1/devices", json_of('{"device_id":"d","labels":[', "{}", "]}"), JSON),
}


def full_of(attributes: bytes, size: int) -> bytes:
    """Spans that hold *attributes* each, *size* bytes together."""
    span = field(2, field(1, b"t" * 16) + field(2, b"s" * 8) + attributes)
    return field(1, field(2, span * (size // len(span))))


EMPTY_VALUES = attribute(9, b"a", field(5, b"\x0a\x00" * 9_000))
NAMES = b"".join(attribute(9, b"%04d" % n, b"") for n in range(5_000))
WORST: Final[Mapping[str, OfSize]] = {
    "one span": lambda size: Sent("/v1/traces", full_of(attribute(9, b"a", field(1, b"x" * (size - 100))), size)),
    "empty values": lambda size: Sent("/v1/traces", full_of(EMPTY_VALUES, size)),
    "attributes": lambda size: Sent("/v1/traces", full_of(NAMES, size)),
    "attributes of log records": lambda size: Sent("/v1/logs", full_of(NAMES.replace(b"\x4a", b"\x32"), size)),
    "events": lambda size: Sent("/v1/traces", full_of(b"\x5a\x00" * 9_000, size)),
    "damaged": lambda size: Sent("/v1/traces", full_of(EMPTY_VALUES, size)[:-1]),
    "a text in JSON": lambda size: Sent("/v1/traces", b'{"a":"' + b"x" * size + b'"}', JSON),
    "escapes in JSON": lambda size: Sent("/v1/traces", b'{"a":"' + b"\\n" * (size // 2) + b'"}', JSON),
    "halves in JSON": lambda size: Sent("/v1/traces", b'{"a":"' + b"\\ud83d" * (size // 6) + b'"}', JSON),
    "quotes in JSON": lambda size: Sent("/v1/traces", b'{"a":"' + b'\\",' * (size // 3) + b'"}', JSON),
    "brackets": lambda size: Sent("/v1/traces", b"[" * size, JSON),
    "blank lines": lambda size: Sent("/v1/sources/generic", b"\n" * size, JSON),
    "bad lines": lambda size: Sent("/v1/sources/generic", b"{\n" * (size // 2), JSON),
    "one bad line": lambda size: Sent("/v1/sources/generic", b"[1" + b"\\" * size, JSON),
    "a long first line": lambda size: Sent("/v1/sources/generic", b'["' + b"x" * size + b'"]\n{}', JSON),
    "an event": lambda size: Sent(
        "/v1/events", b'{"title":"' + b"x" * (min(size, MAX_EVENTS_BYTES) - 12) + b'"}', JSON
    ),
    "bad events": lambda size: Sent(
        "/v1/events", b'{"title":"' + b"\\ud83dx" * (min(size, MAX_EVENTS_BYTES) // 7 - 2), JSON
    ),
}


def calls_in(size: int) -> bytes:
    """Spans, each a call in as few bytes as a call can have."""
    return b"".join(
        field(
            2,
            field(1, b"trace-%010d" % number)
            + field(2, b"%08d" % number)
            + fixed64(7, NOW_NS)
            + fixed64(8, NOW_NS)
            + attribute(9, b"gen_ai.request.model", field(1, b"m"))
            + attribute(9, b"gen_ai.usage.input_tokens", b"\x18\x07"),
        )
        for number in range(size // 112)
    )


def logs_in(size: int) -> bytes:
    return b"".join(
        field(
            2,
            fixed64(1, NOW_NS)
            + field(5, field(1, b"claude_code.api_request"))
            + attribute(6, b"model", field(1, b"m"))
            + attribute(6, b"request_id", field(1, b"%d" % number))
            + attribute(6, b"input_tokens", b"\x18\x07"),
        )
        for number in range(size // 94)
    )


def lines(line: str, size: int) -> bytes:
    """Of NDJSON; `NUMBER` in *line* is another one in each."""
    return b"".join(line.replace("NUMBER", f"{number:06}").encode() for number in range(size // len(line)))


def listed(before: str, one: str, after: str, size: int) -> bytes:
    return before.encode() + lines(one + ",", size)[:-1] + after.encode()


JSON_SPAN: Final = (
    '{"traceId":"0123456789abcdef0123456789NUMBER","spanId":"0123456789NUMBER","startTimeUnixNano":1767607201000000000,"endTimeUnixNano":1767607202000000000,"attributes":['
    '{"key":"gen_ai.request.model","value":{"stringValue":"m"}},'
    '{"key":"gen_ai.usage.input_tokens","value":{"intValue":7}}]}'
)
LITELLM_LINE: Final = '{"id":"NUMBER","call_type":"acompletion","model":"m","startTime":1767607201,"endTime":1767607202,"prompt_tokens":7}\n'
GENERIC_LINE: Final = '{"id":"NUMBER","model":"m","input_tokens":7}\n'
UNIT_COST_RECORD: Final = (
    '{"timestamp":"2026-01-05","granularity":"DAILY","associated_cost":{"custom:Product":"NUMBER'
    + "x" * 240
    + '"},"value":"7"}'
)
FULL: Final[Mapping[str, OfSize]] = {
    "calls": lambda size: Sent("/v1/traces", field(1, field(2, calls_in(size)))),
    "log records of calls": lambda size: Sent("/v1/logs", field(1, field(2, logs_in(size)))),
    "series": lambda size: Sent("/v1/metrics", series(0, size // 80)),
    "calls in JSON": lambda size: Sent("/v1/traces", listed(SPANS, JSON_SPAN, "]}]}]}", size), JSON),
    "rows of LiteLLM": lambda size: Sent("/v1/sources/litellm", lines(LITELLM_LINE, size), JSON),
    "rows by a mapping": lambda size: Sent("/v1/sources/generic", lines(GENERIC_LINE, size), JSON),
    "sound events": lambda size: Sent("/v1/events", lines('{"title":"NUMBER","source":"s"}\n', size), JSON),
    "sound unit cost": lambda size: Sent(
        "/v1/unit-cost/metric/units/sum", listed('{"records":[', UNIT_COST_RECORD, "]}", size), JSON
    ),
}
"""As many sound items as fit."""


NO_LIMITS: Final = ParseLimits(10**9, 10**9, 10**9, 10**9)
_RULES: Final = ParseRules(Prices())
_NOW_MS: Final = NOW_NS // 10**6


def read(sent: Sent, limits: ParseLimits = ParseLimits()) -> None:  # noqa: B008 - immutable
    """What the gateway does with a body before it counts and keeps what is in it; whatever it is
    refused for.
    """
    with suppress(BadPayload, TooLarge, BadUnitCost):
        sound_items(sent, limits)


def sound_items(sent: Sent, limits: ParseLimits = NO_LIMITS) -> int:
    """Read a body; how many items of it may be kept. Raises BadPayload, TooLarge, BadUnitCost."""
    kind = sent.path.rsplit("/", 1)[1]
    if sent.path == "/v1/events":
        return len(decode_events(sent.body, _NOW_MS, EventRules(limits=limits)).events)
    if sent.path.startswith("/v1/unit-cost/"):
        return len(read_records(sent.body, Target("metric", "units", "sum"), _NOW_MS))
    context = Context(_NOW_MS, rfc3339(_NOW_MS), key="key", limits=limits)
    parsed = parse(Payload(kind, sent.body, sent.kind == JSON), context, _RULES)
    return len(parsed.calls.records if parsed.calls else []) + len(parsed.points.points if parsed.points else [])
