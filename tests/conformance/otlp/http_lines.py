"""B01 to B36 over HTTP."""

import asyncio
import gzip
import json
import sys
import zlib

from google.rpc.error_details_pb2 import BadRequest  # type: ignore[import-untyped]  # the package has no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # the package has no types

from tests.conformance.otlp.http_wire import JSON, PROTOBUF, Http, Reply
from tests.conformance.otlp.lines import NotApplicable, Seen, line
from tests.conformance.otlp.payloads import (
    REJECTED,
    SIGNALS,
    dubious,
    json_body,
    nested,
    partial_success,
    protobuf,
    span,
    spans_json,
    traces,
)
from tests.conformance.otlp.target import Target, kept_since
from tests.support.otlp_bytes import field

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MIB = 2**20
MAX_MEMORY_MIB = 400
"""By which a bomb of 1 GiB may raise the process's peak."""
MAX_ANSWER_BYTES = 4 * MIB
UNREAD_S = 20.0
"""For an answer to headers alone."""
LARGEST_MIB = 1024
"""Sent of a body without end, until an answer comes."""
EMPTY = {PROTOBUF: b"", JSON: b"{}"}
BODIES = ((PROTOBUF, protobuf), (JSON, json_body))


def the_http(target: Target) -> Http:
    assert target.http is not None
    return target.http


def partial(signal: str, reply: Reply) -> tuple[int, str]:
    """(rejected, message) of a 200; (0, "") where partial_success is unset."""
    if reply.media == JSON:
        stated = reply.json().get("partialSuccess") or {}
        return int(stated.get(REJECTED[signal][1], 0)), stated.get("errorMessage", "")
    return partial_success(signal, reply.body)


def outcome(signal: str, reply: Reply) -> str:
    """What became of a request, in a word or two."""
    if reply.status != 200:
        return str(reply.status)
    rejected, _ = partial(signal, reply)
    return f"200, {rejected} rejected" if rejected else "200"


async def survives(http: Http, seen: Seen) -> None:
    """The next sender is served."""
    reply = await http.post("traces", protobuf("traces"))
    if reply.status != 200:
        seen.expect(False, f"the next request: {reply.status}")  # noqa: FBT003


@line("B01", "MUST", "http", "plain and gzip bodies")
async def codings(target: Target, seen: Seen) -> None:
    http = the_http(target)
    for signal in SIGNALS:
        for coding, body in (("", protobuf(signal)), ("gzip", gzip.compress(protobuf(signal)))):
            reply = await http.post(signal, body, headers={"Content-Encoding": coding})
            seen.expect(reply.status == 200, f"{coding or 'plain'} {reply.status}")


@line("B02", "SHOULD", "http", "an unknown Content-Encoding is 415 with a Status, never read as plain")
async def unknown_codings(target: Target, seen: Seen) -> None:
    http = the_http(target)
    for coding in ("br", "snappy-block", "utf-8"):
        reply = await http.post("traces", protobuf("traces"), headers={"Content-Encoding": coding})
        seen.expect(reply.status == 415 and reply.is_status(), f"{coding}: {described(reply)}")
    for coding, body in (("deflate", zlib.compress(protobuf("traces"))), ("zstd", zstd.compress(protobuf("traces")))):
        reply = await http.post("traces", body, headers={"Content-Encoding": coding})
        seen.note(f"{coding} {reply.status}")
        seen.expect(reply.status in (200, 415), f"{coding}: {described(reply)}")


def described(reply: Reply) -> str:
    return f"{reply.status}{'' if reply.is_status() or reply.status < 400 else ' without a Status'}"


def gzip_bomb() -> bytes:
    """1 GiB of zeros in 1 MiB, in 64 members."""
    return gzip.compress(bytes(16 * MIB)) * 64


@line("B03", "MUST", "http", "the size is limited after decompression too")
async def bomb(target: Target, seen: Seen) -> None:
    http = the_http(target)
    before = target.peak_mib()
    reply = await http.post("traces", gzip_bomb(), headers={"Content-Encoding": "gzip"})
    seen.expect(reply.status in (413, 400), f"1 GiB in 1 MiB of gzip: {reply.status}")
    after = target.peak_mib()
    if before is not None and after is not None:
        seen.expect(after - before < MAX_MEMORY_MIB, f"peak memory +{after - before} MiB")
    await survives(http, seen)


@line("B04", "MUST", "http", "the answer's size is limited")
async def small_answers(target: Target, seen: Seen) -> None:
    for media, body in (
        (PROTOBUF, traces(*[None, *[bytes(16)] * 10_000]).SerializeToString()),
        (JSON, spans_json(span(), *[{"traceId": "00" * 16}] * 10_000)),
    ):
        reply = await the_http(target).post("traces", body, media)
        seen.expect(reply.status in (200, 400), f"10,001 spans: {reply.status}")
        seen.expect(len(reply.body) < MAX_ANSWER_BYTES, f"{len(reply.body)} bytes for 10,000 invalid spans")


@line("B05", "SHOULD", "http", "an empty request succeeds")
async def empty_requests(target: Target, seen: Seen) -> None:
    for signal in SIGNALS:
        for media, body in EMPTY.items():
            reply = await the_http(target).post(signal, body, media)
            seen.expect(reply.status == 200, f"{signal} {body!r}: {reply.status}")


@line("B06", "MAY", "http", "an envelope without items is no error")
async def empty_envelopes(target: Target, seen: Seen) -> None:
    request = traces()
    request.resource_spans[0].scope_spans[0].ClearField("spans")
    for media, body in ((PROTOBUF, request.SerializeToString()), (JSON, b'{"resourceSpans":[{}]}')):
        reply = await the_http(target).post("traces", body, media)
        seen.expect(outcome("traces", reply) == "200", f"{media}: {outcome('traces', reply)}")


@line("B07", "MUST", "http", "full success leaves partial_success unset")
async def full_success(target: Target, seen: Seen) -> None:
    for signal in SIGNALS:
        for media, make in BODIES:
            reply = await the_http(target).post(signal, make(signal), media)
            seen.expect((reply.status, reply.body) == (200, EMPTY[media]), f"{reply.status} {reply.body[:60]!r}")


@line("B08", "MUST", "http", "partial success: 200, the exact count, a message")
async def rejected_spans(target: Target, seen: Seen) -> None:
    for media, body in (
        (PROTOBUF, traces(None, b"short", bytes(16), None).SerializeToString()),
        (JSON, spans_json(span(), span(traceId="abcd"), span(traceId="00" * 16), span())),
    ):
        reply = await the_http(target).post("traces", body, media)
        if reply.status == 400 or (reply.status == 200 and not any(partial("traces", reply))):
            raise NotApplicable(f"2 of 4 spans have no valid trace id: {outcome('traces', reply)} for all 4")
        rejected, message = partial("traces", reply)
        seen.expect(rejected == 2 and message, f"{rejected} of 4 rejected: {message[:80]!r}")


@line("B09", "MAY", "http", "a warning on full accept: 0 rejected, with a message")
async def warnings(target: Target, seen: Seen) -> None:
    warned = False
    for what, body in dubious().items():
        reply = await the_http(target).post("traces", body)
        rejected, message = partial("traces", reply) if reply.status == 200 else (0, "")
        warned = warned or bool(message and not rejected)
        seen.expect(reply.status in (200, 400), f"{what}: {outcome('traces', reply)} {message[:80]}".rstrip())
    if not warned:
        raise NotApplicable("it warns of nothing: " + "; ".join(seen.notes))


@line("B10", "MAY", "http", "no valid item: 400 with nothing kept, or all rejected")
async def nothing_valid(target: Target, seen: Seen) -> None:
    before = await target.kept()
    for media, body in (
        (PROTOBUF, traces(b"short", bytes(16)).SerializeToString()),
        (JSON, spans_json(span(traceId="abcd"), span(traceId="00" * 16))),
    ):
        reply = await the_http(target).post("traces", body, media)
        if outcome("traces", reply) == "200":
            raise NotApplicable("spans without a valid trace id are accepted")
        seen.expect(outcome("traces", reply) in ("400", "200, 2 rejected"), f"{media}: {outcome('traces', reply)}")
    if before is not None:
        kept = await kept_since(target, before)
        seen.expect(kept == 0, f"{kept} kept")


@line("B11", "MUST", "http", "unknown fields and enum numbers are ignored")
async def later_versions(target: Target, seen: Seen) -> None:
    request = traces()
    request.resource_spans[0].scope_spans[0].spans[0].kind = 99  # type: ignore[assignment]
    later = request.SerializeToString() + field(15, b"from a later version")
    for media, body in ((PROTOBUF, later), (JSON, spans_json(span(kind=99, laterField={"a": [1]})))):
        reply = await the_http(target).post("traces", body, media)
        seen.expect(outcome("traces", reply) == "200", f"{media}: {outcome('traces', reply)}")


@line("B12", "MUST", "http", "a repeat after a lost answer is accepted, and counts once")
async def repeats(target: Target, seen: Seen) -> None:
    http, body, before = the_http(target), protobuf("traces"), await target.kept()
    async with http.connected() as connection:
        await connection.send(http.request("/v1/traces", body))  # and the answer is lost
    for _ in range(2):
        reply = await http.post("traces", body)
        seen.expect(outcome("traces", reply) == "200", outcome("traces", reply))
    if before is not None:
        kept = await kept_since(target, before)
        seen.expect(kept == 1, f"{kept} kept of 3 equal requests")


@line("B20", "MUST", "http", "POST on the three paths; slash and query do not matter")
async def paths(target: Target, seen: Seen) -> None:
    http = the_http(target)
    for signal in SIGNALS:
        for path in (f"/v1/{signal}", f"/v1/{signal}?x=1"):
            reply = await http.ask(path, protobuf(signal))
            seen.expect(reply.status == 200, f"{path.replace(signal, 'SIGNAL')} {reply.status}")
        reply = await http.ask(f"/v1/{signal}/", protobuf(signal))
        seen.prefer(reply.status == 200, f"/v1/SIGNAL/ {reply.status}")
    reply = await http.ask("/v1development/profiles", b"")
    seen.expect(reply.status in (200, 404), f"profiles {reply.status}")


@line("B21", "SHOULD", "http", "protobuf and JSON on one port, by Content-Type without case and parameters")
async def media_types(target: Target, seen: Seen) -> None:
    for media in (PROTOBUF, "Application/X-Protobuf", f"{PROTOBUF}; v=1", JSON, "APPLICATION/JSON; charset=utf-8"):
        body = protobuf("traces") if "proto" in media.lower() else json_body("traces")
        reply = await the_http(target).post("traces", body, media)
        seen.expect(reply.status == 200, f"{media} {reply.status}")


@line("B22", "MUST", "http", "the answer's Content-Type is the request's, errors too")
async def answer_types(target: Target, seen: Seen) -> None:
    for media, good in ((PROTOBUF, protobuf("traces")), (JSON, json_body("traces"))):
        for path, body in (("/v1/traces", good), ("/v1/traces", b"\xff{"), ("/v1/nowhere", good)):
            reply = await the_http(target).ask(path, body, media=media)
            seen.expect(reply.media == media, f"{reply.status} of {media}: {reply.media or 'none'}")


@line("B23", "MUST", "http", "every 4xx and 5xx has a google.rpc.Status")
async def statuses(target: Target, seen: Seen) -> None:
    http = the_http(target)
    for media, good in ((PROTOBUF, protobuf("traces")), (JSON, json_body("traces"))):
        replies = [
            await http.post("traces", b"\xff{", media),
            await http.post("traces", good, media, {"Content-Encoding": "br"}),
            await http.ask("/v1/nowhere", good, media=media),
            await http.ask("/v1/traces", good, method="PUT", media=media),
            await http.post("traces", good, "text/plain"),
        ]
        if http.key is not None:
            replies.append(await http.post("traces", good, media, {"Authorization": "Bearer no-such-key"}))
        if target.busy_http is not None:
            replies.append(await target.busy_http.post("traces", good, media))
        for reply in replies:
            if reply.status >= 400:
                seen.expect(reply.is_status(), described(reply))
    for broken in (b"not http\r\n\r\n", b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"):
        async with http.connected() as connection:
            await connection.send(broken)
            reply = await connection.reply()
        seen.note(f"no HTTP: {described(reply)}")


@line("B24", "MUST", "http", "what can never be read is 400, and the server survives")
async def unreadable(target: Target, seen: Seen) -> None:
    http, good = the_http(target), protobuf("traces")
    zipped = gzip.compress(good)
    cases = (
        ("truncated protobuf", good[:-3], PROTOBUF, ""),
        ("invalid UTF-8", good.replace(b"chat m-small", b"chat \xff\xfe-bad"), PROTOBUF, ""),
        ("garbage", b"\xff\xff\xff\xff", PROTOBUF, ""),
        ("truncated gzip", zipped[:-4], PROTOBUF, "gzip"),
        ("damaged gzip", zipped[:-6] + b"\0\0" + zipped[-4:], PROTOBUF, "gzip"),
        ("garbage for gzip", b"not gzip at all", PROTOBUF, "gzip"),
        ("truncated JSON", json_body("traces")[:-1], JSON, ""),
        ("NaN in JSON", b'{"resourceSpans":[{"a":NaN}]}', JSON, ""),
        ("JSON that is no object", b"[]", JSON, ""),
    )
    open_to_choice = (
        ("invalid UTF-8 in JSON", b'{"a":"\xff"}', JSON),
        ("5,000 nested arrays", nested(5000), PROTOBUF),
        ("100,000 nested JSON arrays", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", JSON),
    )
    for what, body, media, coding in cases:
        reply = await http.post("traces", body, media, {"Content-Encoding": coding})
        seen.expect(reply.status == 400, f"{what}: {reply.status}")
        await survives(http, seen)
    for what, body, media in open_to_choice:
        reply = await http.post("traces", body, media)
        seen.expect(reply.status in (200, 400), f"{what}: {reply.status}")
        seen.prefer(reply.status == 400, f"{what}: {reply.status}")
        await survives(http, seen)
    details = Status.FromString((await http.post("traces", b"\xff")).body).details
    has_detail = bool(details) and details[0].Is(BadRequest.DESCRIPTOR)
    seen.note("with a BadRequest detail" if has_detail else "without a BadRequest detail")


@line("B25", "MUST", "http", "too large is 413")
async def too_large(target: Target, seen: Seen) -> None:
    http = the_http(target)
    announced = http.request("/v1/traces", length=10**12)
    in_chunks = http.request("/v1/traces", length=None, headers={"Transfer-Encoding": "chunked"})
    for what, head, piece in (
        ("a length of 1 TB", announced, bytes(MIB)),
        ("chunks without end", in_chunks, b"100000\r\n" + bytes(MIB) + b"\r\n"),
    ):
        async with http.connected() as connection:
            await connection.send(head)
            reading = asyncio.create_task(connection.reply())
            for _ in range(LARGEST_MIB):
                await connection.send(piece)
                await asyncio.sleep(0)
                if reading.done():
                    break
            reply = await reading
        http.statuses[reply.status] += 1
        seen.expect(reply.status == 413 and reply.is_status(), f"{what}: {described(reply)}")


@line("B26", "MUST", "http", "another method is 405 with Allow: POST")
async def methods(target: Target, seen: Seen) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        reply = await the_http(target).ask("/v1/traces", method=method, media=None)
        allow = reply.headers.get("allow", "none")
        seen.expect(reply.status == 405 and "POST" in allow, f"{method}: {reply.status}, Allow: {allow}")


@line("B27", "MUST", "http", "another or no Content-Type is 415")
async def other_types(target: Target, seen: Seen) -> None:
    for media in (None, "text/plain", "application/x-www-form-urlencoded", "application/grpc", "application/jsonp"):
        reply = await the_http(target).post("traces", protobuf("traces"), media)
        seen.expect(reply.status == 415, f"{media}: {reply.status}")


@line("B28", "MUST", "http", "an unknown path is 404")
async def unknown_paths(target: Target, seen: Seen) -> None:
    for path in ("/", "/v1", "/v1/trace", "/v1/traces/x", "/V1/TRACES"):
        reply = await the_http(target).ask(path, protobuf("traces"))
        seen.expect(reply.status == 404, f"{path} {reply.status}")


@line("B29", "MUST", "http", "overload is 503 or 429 with Retry-After")
async def overload(target: Target, seen: Seen) -> None:
    if target.busy_http is None:
        raise NotApplicable("no address of a busy server was given")
    for media, make in BODIES:
        reply = await target.busy_http.post("traces", make("traces"), media)
        after = reply.headers.get("retry-after", "")
        seen.expect(reply.status in (429, 503), f"{reply.status}, Retry-After: {after or 'none'}")
        seen.prefer(after.isdigit() and int(after) >= 1, f"Retry-After: {after or 'none'}")
        seen.expect(reply.is_status(), described(reply))


@line("B31", "MUST", "http", "401 with WWW-Authenticate for an unknown key, 403 for one without the scope")
async def keys(target: Target, seen: Seen) -> None:
    http = the_http(target)
    if http.key is None:
        raise NotApplicable("no key was given")
    for given in ("", "Bearer no-such-key"):
        reply = await http.post("traces", protobuf("traces"), headers={"Authorization": given})
        challenge = reply.headers.get("www-authenticate")
        seen.expect(
            reply.status == 401 and challenge, f"{given or 'no key'}: {reply.status}, WWW-Authenticate: {challenge}"
        )
    if target.weak_key is not None:
        sent = {"Authorization": f"Bearer {target.weak_key}"}
        reply = await http.post("traces", protobuf("traces"), headers=sent)
        seen.expect(reply.status == 403, f"a key without the scope: {reply.status}")


@line("B32", "MUST", "http", "keep-alive, chunks, 100-continue, pipelining, 100 connections")
async def connections(target: Target, seen: Seen) -> None:
    http = the_http(target)
    good = http.request("/v1/traces", protobuf("traces"))
    await reused(http, seen)
    await chunked(http, seen)
    await continued(http, seen)
    async with http.connected() as connection:
        await connection.send(good * 25)
        answers = [(await connection.reply()).status for _ in range(25)]
    seen.expect(answers == [200] * 25, f"25 pipelined: {sorted(set(answers))}")
    replies = await asyncio.gather(*(http.post("traces", protobuf("traces")) for _ in range(120)))
    seen.expect({reply.status for reply in replies} == {200}, f"120 connections: { {r.status for r in replies} }")


async def reused(http: Http, seen: Seen) -> None:
    """One connection through answers of every kind; a closed one must have been announced."""
    sent = (
        http.request("/v1/traces", protobuf("traces")),
        http.request("/v1/traces", b"\xff"),
        http.request("/v1/nowhere", b"x" * 100),
        http.request("/v1/traces", b"x", media="text/plain"),
        http.request("/v1/logs", protobuf("logs")),
    )
    async with http.connected() as connection:
        for request in sent:
            await connection.send(request)
            reply = await connection.reply()
            if reply.headers.get("connection", "").lower() == "close":
                seen.note(f"closes after {reply.status}")
                break
        else:
            seen.expect(reply.status == 200, f"the fifth answer of a connection: {reply.status}")
    async with http.connected() as connection:
        await connection.send(http.request("/v1/traces", bytes(1000), length=10**12))
        try:
            async with asyncio.timeout(UNREAD_S):
                reply = await connection.reply()
        except TimeoutError:
            seen.note("a body of 1 TB is waited for")
            return
        says = reply.headers.get("connection", "").lower()
        seen.expect(says == "close", f"{reply.status} with the body unread: Connection: {says or 'kept'}")


async def chunked(http: Http, seen: Seen) -> None:
    body = protobuf("traces")
    async with http.connected() as connection:
        await connection.send(http.request("/v1/traces", length=None, headers={"Transfer-Encoding": "chunked"}))
        for part in (body[:5], body[5:], b""):
            await connection.send(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        reply = await connection.reply()
    seen.expect(reply.status == 200, f"chunked: {reply.status}")


async def continued(http: Http, seen: Seen) -> None:
    body = protobuf("traces")
    async with http.connected() as connection:
        await connection.send(http.request("/v1/traces", length=len(body), headers={"Expect": "100-continue"}))
        status, _ = await connection.head()
        seen.expect(status == 100, f"Expect: 100-continue: {status}")
        await connection.send(body)
        seen.expect((await connection.reply()).status == 200, "and the body after it")


@line("B33", "MAY", "http", "a gzip answer only where Accept-Encoding asks for one")
async def zipped_answers(target: Target, seen: Seen) -> None:
    for accepted in ("", "gzip"):
        reply = await the_http(target).post("traces", b"{", JSON, {"Accept-Encoding": accepted})
        coding = reply.headers.get("content-encoding", "")
        seen.expect(coding in ("", accepted), f"asked for {accepted or 'none'}: {coding or 'plain'}")
        body = gzip.decompress(reply.body) if coding == "gzip" else reply.body
        seen.expect(isinstance(json.loads(body), dict), "and it is JSON")


@line("B34", "MUST", "http", "gone within the body: nothing kept; after it: kept once")
async def gone(target: Target, seen: Seen) -> None:
    http, before = the_http(target), await target.kept()
    if before is None:
        raise NotApplicable("the kit cannot see what is kept")
    body, other = protobuf("traces"), protobuf("traces")
    for sent in (body[:-1], body):
        async with http.connected() as connection:
            await connection.send(http.request("/v1/traces", sent, length=len(body)))
            if sent is body:
                await connection.reply()
    await survives(http, seen)
    kept = await kept_since(target, before)
    seen.expect(kept == 2, f"of one cut, one whole and one after it: {kept} kept")
    async with http.connected() as connection:
        await connection.send(http.request("/v1/traces", other))
    await http.post("traces", other)
    kept = await kept_since(target, before) - kept
    seen.expect(kept == 1, f"gone before the answer, and sent again: {kept} kept")


@line("B35", "SHOULD", "http", "a browser's preflight: allowed origins only")
async def preflight(target: Target, seen: Seen) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    http = the_http(target)
    other = {"Origin": "https://other.example", "Authorization": "", **asked}
    reply = await http.ask("/v1/traces", method="OPTIONS", media=None, headers=other)
    allowed = reply.headers.get("access-control-allow-origin")
    seen.expect(allowed is None, f"another origin: {allowed or 'nothing'} allowed")
    if target.origin is None:
        return
    mine = other | {"Origin": target.origin}
    reply = await http.ask("/v1/traces", method="OPTIONS", media=None, headers=mine)
    seen.expect(
        reply.status == 204 and reply.headers.get("access-control-allow-origin") in (target.origin, "*"),
        f"its origin: {reply.status}",
    )
    names = reply.headers.get("access-control-allow-headers", "").lower()
    for name in ("content-type", "content-encoding", "authorization", "traceparent"):
        seen.expect(name in names or names == "*", f"{name} {'is' if name in names else 'is not'} allowed")


@line("B36", "MUST", "http", "the default port is 4318")
async def default_port(target: Target, seen: Seen) -> None:
    http = the_http(target)
    if http.unix_path is not None:
        seen.note("over a Unix socket")
        await survives(http, seen)
    elif http.port == 4318:
        seen.note("4318")
    else:
        raise NotApplicable(f"the address given has port {http.port}")


@line("B30", "MUST", "http", "no transient fault is a final answer: no 500 and no 408 in the whole run")
async def no_final_answers(target: Target, seen: Seen) -> None:
    """Runs last: it looks at every answer before it."""
    for http in (the_http(target), target.busy_http):
        if http is not None:
            for status in (408, 500, 501):
                if http.statuses[status]:
                    seen.expect(False, f"{http.statuses[status]} answers were {status}")  # noqa: FBT003
    if target.busy_http is not None:
        busy = set(target.busy_http.statuses)
        seen.expect(busy <= {429, 502, 503, 504}, f"when busy: {sorted(busy)}")
    seen.note(f"{sum(the_http(target).statuses.values())} answers")
