"""B40 to B50: how OTLP/JSON is read, as far as the answer shows it."""

import base64
import json
import os
from typing import Any

from google.protobuf import json_format

from tests.conformance.otlp.http_lines import outcome, partial, survives, the_http
from tests.conformance.otlp.http_wire import JSON, PROTOBUF
from tests.conformance.otlp.lines import NotApplicable, Seen, line
from tests.conformance.otlp.payloads import (
    START_NS,
    dumps,
    json_body,
    logs_json,
    metric_json,
    span,
    spans_json,
    traces,
    with_value,
)
from tests.conformance.otlp.target import Target

BIG = 2**53 + 1
REFUSED = ("400", "200, 1 rejected")
Document = dict[str, Any]


async def accepted(target: Target, seen: Seen, what: str, body: bytes, signal: str = "traces") -> None:
    """A 200 that rejects nothing."""
    found = outcome(signal, await the_http(target).post(signal, body, JSON))
    seen.expect(found == "200", f"{what}: {found}")


async def refused(target: Target, seen: Seen, what: str, body: bytes, signal: str = "traces") -> None:
    """400, or its one item rejected."""
    found = outcome(signal, await the_http(target).post(signal, body, JSON))
    seen.expect(found in REFUSED, f"{what}: {found}")


@line("B40", "MUST", "http", "JSON ids are hex of any case; a wrong length or a base64 id is no id")
async def hex_ids(target: Target, seen: Seen) -> None:
    await accepted(
        target, seen, "upper case", spans_json(span(traceId="ABCDEF0123456789" * 2, spanId="ABCDEF0123456789"))
    )
    links = [{"traceId": "ab" * 16, "spanId": "cd" * 8}]
    await accepted(target, seen, "parent and link", spans_json(span(parentSpanId="EF" * 8, links=links)))
    await accepted(target, seen, "logs without ids", logs_json(traceId="", spanId=""), "logs")
    zeros = outcome("traces", await the_http(target).post("traces", spans_json(span(traceId="00" * 16)), JSON))
    seen.prefer(zeros in REFUSED, f"zeros: {zeros}")
    wrong = {"short": "abcd", "base64": base64.b64encode(os.urandom(16)).decode(), "no hex": "zz" * 16}
    for what, trace_id in wrong.items():
        await refused(target, seen, what, spans_json(span(traceId=trace_id)))


@line("B41", "MUST", "http", "JSON enums are integers: a name is refused")
async def enums(target: Target, seen: Seen) -> None:
    await accepted(target, seen, "kind 3", spans_json(span(kind=3, status={"code": 2})))
    await refused(target, seen, "kind by name", spans_json(span(kind="SPAN_KIND_CLIENT")))
    await refused(target, seen, "status code by name", spans_json(span(status={"code": "STATUS_CODE_ERROR"})))
    await refused(target, seen, "severity by name", logs_json(severityNumber="SEVERITY_NUMBER_INFO"), "logs")
    point = {"timeUnixNano": str(START_NS), "asInt": "1"}
    named = {"dataPoints": [point], "aggregationTemporality": "AGGREGATION_TEMPORALITY_DELTA"}
    await refused(target, seen, "temporality by name", metric_json(sum=named), "metrics")


@line("B42", "MUST", "http", "unknown JSON keys are ignored at every level")
async def unknown_keys(target: Target, seen: Seen) -> None:
    extra: Document = {"laterKey": {"deep": [1, "x", None, {"y": True}]}}
    one = span(**extra, status=extra, events=[{"name": "e", **extra}])
    one["attributes"].append({"key": "a", "value": {"stringValue": "x"}, **extra})
    scope = {"scope": {"name": "s", **extra}, "spans": [one], **extra}
    resource = {"resource": {"attributes": [], **extra}, "scopeSpans": [scope], **extra}
    await accepted(target, seen, "at six levels", dumps({"resourceSpans": [resource], **extra}))


@line("B43", "MUST", "http", "JSON keys are lowerCamelCase: another spelling is an unknown key")
async def camel_case(target: Target, seen: Seen) -> None:
    await accepted(
        target, seen, "dropped_attributes_count of no number", spans_json(span(dropped_attributes_count="x"))
    )
    one = span()
    one["trace_id"] = one.pop("traceId")
    await refused(target, seen, "trace_id alone", spans_json(one))
    await accepted(target, seen, "resource_spans", b'{"resource_spans":"x"}')


@line("B44", "MUST", "http", "64-bit integers as number or decimal string")
async def integers(target: Target, seen: Seen) -> None:
    for what, number in (("number", BIG), ("string", str(BIG)), ("negative", "-5"), ("largest", str(2**63 - 1))):
        await accepted(target, seen, f"intValue {what}", spans_json(with_value(intValue=number)))
    await accepted(
        target, seen, "time as number", spans_json(span(startTimeUnixNano=START_NS, endTimeUnixNano=START_NS))
    )
    histogram: Document = {
        "timeUnixNano": START_NS,
        "count": "3",
        "sum": 6,
        "bucketCounts": ["1", 2],
        "explicitBounds": [1],
    }
    body = metric_json(histogram={"aggregationTemporality": 1, "dataPoints": [histogram]})
    await accepted(target, seen, "count and bucketCounts", body, "metrics")
    for as_int in (BIG, str(-BIG)):
        point = {"timeUnixNano": str(START_NS), "asInt": as_int}
        await accepted(target, seen, "asInt", metric_json(gauge={"dataPoints": [point]}), "metrics")
    await refused(target, seen, "intValue 'x'", spans_json(with_value(intValue="x")))


@line("B45", "MUST", "http", "doubles as NaN, Infinity and -Infinity strings")
async def doubles(target: Target, seen: Seen) -> None:
    for text in ("NaN", "Infinity", "-Infinity"):
        await accepted(target, seen, text, spans_json(with_value(doubleValue=text)))
        point = {"timeUnixNano": str(START_NS), "asDouble": text}
        await accepted(target, seen, text, metric_json(gauge={"dataPoints": [point]}), "metrics")


@line("B46", "MUST", "http", "bytesValue is base64, of both alphabets, padded or not")
async def base64_bytes(target: Target, seen: Seen) -> None:
    raw = b"\xfb\xff\xfe\x01"
    for what, text in (("standard", base64.b64encode(raw)), ("url-safe", base64.urlsafe_b64encode(raw))):
        await accepted(target, seen, what, spans_json(with_value(bytesValue=text.decode())))
        await accepted(target, seen, f"{what}, unpadded", spans_json(with_value(bytesValue=text.decode().rstrip("="))))


@line("B47", "MUST", "http", "null is absent; a oneof with two members is refused")
async def nulls(target: Target, seen: Seen) -> None:
    await accepted(target, seen, "null scalars", dumps_with_nulls())
    await accepted(target, seen, "null lists", b'{"resourceSpans":null}')
    await accepted(target, seen, "a null member", spans_json(with_value(stringValue="x", intValue=None)))
    await refused(target, seen, "two members", spans_json(with_value(stringValue="x", intValue="1")))


def dumps_with_nulls() -> bytes:
    made = span() | {"parentSpanId": None, "events": None, "links": None, "status": None, "droppedEventsCount": None}
    resource = {"resource": None, "scopeSpans": [{"scope": None, "spans": [made]}], "schemaUrl": None}
    return dumps({"resourceSpans": [resource]})


@line("B48", "MUST", "http", "JSON answers are lowerCamelCase, 64-bit counts as strings")
async def json_answers(target: Target, seen: Seen) -> None:
    reply = await the_http(target).post("traces", spans_json(span(), span(traceId="abcd")), JSON)
    if reply.status != 200 or not any(partial("traces", reply)):
        raise NotApplicable(f"one of two spans has no valid trace id: {outcome('traces', reply)} for both")
    stated = reply.json()["partialSuccess"]
    seen.expect(stated.get("rejectedSpans") == "1" and stated.get("errorMessage"), json.dumps(stated)[:120])


@line("B49", "MUST", "http", "the same payload in JSON and in protobuf has the same answer")
async def same_in_both(target: Target, seen: Seen) -> None:
    http = the_http(target)
    for what, request in (
        ("valid", traces()),
        ("one invalid", traces(None, b"short")),
        ("none valid", traces(b"short")),
    ):
        answers = [
            outcome("traces", await http.post("traces", request.SerializeToString())),
            outcome("traces", await http.post("traces", otlp_json(request), JSON)),
        ]
        seen.expect(answers[0] == answers[1], f"{what}: {' and '.join(dict.fromkeys(answers))}")


def otlp_json(request: Any) -> bytes:
    """As the specification deviates from protobuf's JSON: ids in hex, enums as numbers."""
    document = json_format.MessageToDict(request, use_integers_for_enums=True)
    for one in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId"):
            one[name] = base64.b64decode(one[name]).hex()
    return dumps(document)


@line("B50", "MUST", "http", "BOM, surrogate escapes and duplicate keys do no harm")
async def odd_json(target: Target, seen: Seen) -> None:
    http, good = the_http(target), json_body("traces")
    for what, body in (
        ("BOM", b"\xef\xbb\xbf" + good),
        ("a surrogate pair", good.replace(b"m-small", b"\\ud83d\\ude00")),
        ("half a pair", good.replace(b"m-small", b"\\ud83d")),
    ):
        reply = await http.post("traces", body, JSON)
        seen.expect(reply.status in (200, 400), f"{what}: {reply.status}")
        await survives(http, seen)
    await accepted(target, seen, "duplicate keys", b'{"resourceSpans":[],' + good[1:])
    reply = await http.post("traces", traces().SerializeToString(), PROTOBUF)
    seen.expect(reply.status == 200, "and protobuf after it")
