"""B01 to B12 and B60 to B67 over gRPC."""

import asyncio
import os

from google.rpc.error_details_pb2 import BadRequest  # type: ignore[import-untyped]  # the package has no types

from tests.conformance.otlp.grpc_wire import METHODS, Called, Grpc
from tests.conformance.otlp.lines import NotApplicable, Seen, line
from tests.conformance.otlp.payloads import SIGNALS, dubious, nested, partial_success, protobuf, traces
from tests.conformance.otlp.target import Target, kept_since
from tests.support.otlp_bytes import field

MIB = 2**20
MAX_MEMORY_MIB = 400
MAX_ANSWER_BYTES = 4 * MIB
RETRYABLE = {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
PING_MS = 1000  # the library sends none more often
PINGS_S = 3.5


def the_grpc(target: Target) -> Grpc:
    assert target.grpc is not None
    return target.grpc


def outcome(signal: str, called: Called) -> str:
    if called.code != "OK":
        return called.code
    rejected, _ = partial_success(signal, called.body)
    return f"OK, {rejected} rejected" if rejected else "OK"


async def survives(grpc: Grpc, seen: Seen) -> None:
    """The next sender is served."""
    called = await grpc.call("traces", protobuf("traces"))
    if called.code != "OK":
        seen.expect(False, f"the next call: {called.code}")  # noqa: FBT003


@line("B01", "MUST", "grpc", "plain and gzip messages")
async def codings(target: Target, seen: Seen) -> None:
    for signal in SIGNALS:
        for coding in ("", "gzip"):
            called = await the_grpc(target).call(signal, protobuf(signal), coding=coding)
            seen.expect(called.code == "OK", f"{coding or 'plain'} {called.code}")


@line("B02", "SHOULD", "grpc", "a coding that is not known is UNIMPLEMENTED")
async def other_codings(target: Target, seen: Seen) -> None:
    called = await the_grpc(target).call("traces", protobuf("traces"), coding="deflate")
    seen.expect(called.code in ("OK", "UNIMPLEMENTED"), f"deflate {called.code}")
    await survives(the_grpc(target), seen)


@line("B03", "MUST", "grpc", "the size is limited after decompression too")
async def bomb(target: Target, seen: Seen) -> None:
    grpc, before = the_grpc(target), target.peak_mib()
    called = await grpc.call("traces", bytes(128 * MIB), coding="gzip")
    seen.expect(called.code == "RESOURCE_EXHAUSTED", f"128 MiB of zeros in gzip: {called.code}")
    after = target.peak_mib()
    if before is not None and after is not None:
        seen.expect(after - before < MAX_MEMORY_MIB, f"peak memory +{after - before} MiB")
    await survives(grpc, seen)


@line("B04", "MUST", "grpc", "the answer's size is limited")
async def small_answers(target: Target, seen: Seen) -> None:
    body = traces(*[None, *[bytes(16)] * 10_000]).SerializeToString()
    called = await the_grpc(target).call("traces", body)
    size = len(called.body) + len(called.message)
    seen.expect(called.code in ("OK", "INVALID_ARGUMENT"), f"10,001 spans: {called.code}")
    seen.expect(size < MAX_ANSWER_BYTES, f"{size} bytes for 10,000 invalid spans")


@line("B05", "SHOULD", "grpc", "an empty request succeeds")
async def empty_requests(target: Target, seen: Seen) -> None:
    for signal in SIGNALS:
        called = await the_grpc(target).call(signal, b"")
        seen.expect(called.code == "OK", f"{signal} {called.code}")


@line("B06", "MAY", "grpc", "an envelope without items is no error")
async def empty_envelopes(target: Target, seen: Seen) -> None:
    request = traces()
    request.resource_spans[0].scope_spans[0].ClearField("spans")
    found = outcome("traces", await the_grpc(target).call("traces", request.SerializeToString()))
    seen.expect(found == "OK", found)


@line("B07", "MUST", "grpc", "full success leaves partial_success unset")
async def full_success(target: Target, seen: Seen) -> None:
    for signal in SIGNALS:
        called = await the_grpc(target).call(signal, protobuf(signal))
        seen.expect((called.code, called.body) == ("OK", b""), f"{called.code} {called.body[:60]!r}")


@line("B08", "MUST", "grpc", "partial success: OK, the exact count, a message")
async def rejected_spans(target: Target, seen: Seen) -> None:
    body = traces(None, b"short", bytes(16), None).SerializeToString()
    called = await the_grpc(target).call("traces", body)
    if called.code != "OK" or not any(partial_success("traces", called.body)):
        raise NotApplicable(f"2 of 4 spans have no valid trace id: {outcome('traces', called)} for all 4")
    rejected, message = partial_success("traces", called.body)
    seen.expect(rejected == 2 and message, f"{rejected} of 4 rejected: {message[:80]!r}")


@line("B09", "MAY", "grpc", "a warning on full accept: 0 rejected, with a message")
async def warnings(target: Target, seen: Seen) -> None:
    warned = False
    for what, body in dubious().items():
        called = await the_grpc(target).call("traces", body)
        rejected, message = partial_success("traces", called.body)
        warned = warned or bool(message and not rejected)
        seen.expect(
            called.code in ("OK", "INVALID_ARGUMENT"), f"{what}: {outcome('traces', called)} {message[:80]}".rstrip()
        )
    if not warned:
        raise NotApplicable("it warns of nothing: " + "; ".join(seen.notes))


@line("B10", "MAY", "grpc", "no valid item: INVALID_ARGUMENT with nothing kept, or all rejected")
async def nothing_valid(target: Target, seen: Seen) -> None:
    before = await target.kept()
    called = await the_grpc(target).call("traces", traces(b"short", bytes(16)).SerializeToString())
    found = outcome("traces", called)
    if found == "OK":
        raise NotApplicable("spans without a valid trace id are accepted")
    seen.expect(found in ("INVALID_ARGUMENT", "OK, 2 rejected"), found)
    if before is not None:
        kept = await kept_since(target, before)
        seen.expect(kept == 0, f"{kept} kept")


@line("B11", "MUST", "grpc", "unknown fields and enum numbers are ignored")
async def later_versions(target: Target, seen: Seen) -> None:
    request = traces()
    request.resource_spans[0].scope_spans[0].spans[0].kind = 99  # type: ignore[assignment]
    body = request.SerializeToString() + field(15, b"from a later version")
    found = outcome("traces", await the_grpc(target).call("traces", body))
    seen.expect(found == "OK", found)


@line("B12", "MUST", "grpc", "a repeat is accepted, and counts once")
async def repeats(target: Target, seen: Seen) -> None:
    body, before = protobuf("traces"), await target.kept()
    for _ in range(3):
        found = outcome("traces", await the_grpc(target).call("traces", body))
        seen.expect(found == "OK", found)
    if before is not None:
        kept = await kept_since(target, before)
        seen.expect(kept == 1, f"{kept} kept of 3 equal calls")


@line("B36", "MUST", "grpc", "the default port is 4317")
async def default_port(target: Target, seen: Seen) -> None:
    address = the_grpc(target).address
    if not address.startswith("unix:") and not address.endswith(":4317"):
        raise NotApplicable(f"the address given is {address}")
    seen.note(address.rpartition(":")[2] if address.endswith(":4317") else "over a Unix socket")
    await survives(the_grpc(target), seen)


@line("B60", "MUST", "grpc", "the three Export methods")
async def services(target: Target, seen: Seen) -> None:
    for signal, method in METHODS.items():
        called = await the_grpc(target).call(method, protobuf(signal))
        seen.expect(called.code == "OK", f"{method.split('.')[-1]} {called.code}")


@line("B61", "MUST", "grpc", "an unknown method is UNIMPLEMENTED")
async def unknown_methods(target: Target, seen: Seen) -> None:
    for method in (METHODS["traces"].replace("Export", "Import"), "/a.b.C/D"):
        called = await the_grpc(target).call(method, b"")
        seen.expect(called.code == "UNIMPLEMENTED", f"{method.rpartition('.')[2]} {called.code}")


@line("B62", "MUST", "grpc", "too large is RESOURCE_EXHAUSTED without RetryInfo")
async def too_large(target: Target, seen: Seen) -> None:
    called = await the_grpc(target).call("traces", field(15, os.urandom(MIB) * 80))
    seen.expect(called.code == "RESOURCE_EXHAUSTED", f"80 MiB: {called.code}")
    seen.expect(called.retry_delay_s is None, f"RetryInfo {called.retry_delay_s or 'absent'}")
    await survives(the_grpc(target), seen)


@line("B63", "MUST", "grpc", "bad data is INVALID_ARGUMENT")
async def bad_data(target: Target, seen: Seen) -> None:
    grpc, good = the_grpc(target), protobuf("traces")
    cases = {
        "truncated": good[:-3],
        "invalid UTF-8": good.replace(b"chat m-small", b"chat \xff\xfe-bad"),
        "garbage": b"\xff\xff\xff\xff",
    }
    for what, body in cases.items():
        called = await grpc.call("traces", body)
        seen.expect(called.code == "INVALID_ARGUMENT", f"{what}: {called.code}")
        await survives(grpc, seen)
    called = await grpc.call("traces", nested(5000))
    seen.expect(called.code in ("OK", "INVALID_ARGUMENT"), f"5,000 nested arrays: {called.code}")
    seen.prefer(called.code == "INVALID_ARGUMENT", f"5,000 nested arrays: {called.code}")
    await survives(grpc, seen)
    status = (await grpc.call("traces", b"\xff")).status
    has_detail = status is not None and any(detail.Is(BadRequest.DESCRIPTOR) for detail in status.details)
    seen.note("with a BadRequest detail" if has_detail else "without a BadRequest detail")


@line("B64", "SHOULD", "grpc", "overload is UNAVAILABLE, or RESOURCE_EXHAUSTED with RetryInfo")
async def overload(target: Target, seen: Seen) -> None:
    if target.busy_grpc is None:
        raise NotApplicable("no address of a busy server was given")
    called = await target.busy_grpc.call("traces", protobuf("traces"))
    delay_s = called.retry_delay_s
    retried = called.code == "UNAVAILABLE" or (called.code == "RESOURCE_EXHAUSTED" and delay_s is not None)
    seen.expect(retried, f"{called.code}, RetryInfo {'absent' if delay_s is None else f'{delay_s:g} s'}")
    if delay_s is not None:
        seen.expect(0 < delay_s <= 300, f"a delay of {delay_s:g} s")


@line("B66", "MUST", "grpc", "gzip, 100 calls at once, deadlines, keep-alive pings")
async def connections(target: Target, seen: Seen) -> None:
    grpc = the_grpc(target)
    async with grpc.connected() as channel:
        calls = (grpc.call("traces", protobuf("traces"), channel=channel, coding="gzip") for _ in range(100))
        codes = {called.code for called in await asyncio.gather(*calls)}
    seen.expect(codes == {"OK"}, f"100 calls on one connection: {sorted(codes)}")
    body, before = protobuf("traces"), await target.kept()
    called = await grpc.call("traces", body, timeout_s=0.0005)
    seen.expect(called.code in ("DEADLINE_EXCEEDED", "OK"), f"half a millisecond: {called.code}")
    again = await grpc.call("traces", body)
    seen.expect(again.code == "OK", f"the same once more: {again.code}")
    if before is not None:
        kept = await kept_since(target, before)
        seen.expect(kept == 1, f"{kept} of the two kept")
    await pinged(grpc, seen)


async def pinged(grpc: Grpc, seen: Seen) -> None:
    """A ping every PING_MS and no call for PINGS_S: the connection stays."""
    import grpc as library  # noqa: PLC0415

    pings = (("grpc.keepalive_time_ms", PING_MS), ("grpc.keepalive_permit_without_calls", 1))
    unlimited = ("grpc.http2.max_pings_without_data", 0)
    async with grpc.connected([*pings, unlimited]) as channel:
        await grpc.call("traces", protobuf("traces"), channel=channel)
        try:
            async with asyncio.timeout(PINGS_S):
                await channel.wait_for_state_change(library.ChannelConnectivity.READY)
            seen.prefer(False, f"keep-alive pings every {PING_MS} ms end the connection")  # noqa: FBT003
        except TimeoutError:
            seen.note("pings do not end the connection")
        called = await grpc.call("traces", protobuf("traces"), channel=channel)
        seen.expect(called.code == "OK", f"a call after the pings: {called.code}")


@line("B67", "MUST", "grpc", "a status on every path, also without a key")
async def statuses(target: Target, seen: Seen) -> None:
    grpc = the_grpc(target)
    if grpc.key is not None:
        for key in ("", "no-such-key"):
            called = await grpc.call("traces", protobuf("traces"), key=key)
            seen.expect(called.code == "UNAUTHENTICATED", f"{key or 'no key'}: {called.code}")
        if target.weak_key is not None:
            called = await grpc.call("traces", protobuf("traces"), key=target.weak_key)
            seen.expect(called.code == "PERMISSION_DENIED", f"a key without the scope: {called.code}")
    health = await grpc.call("/grpc.health.v1.Health/Check", b"")
    seen.expect(health.code in ("OK", "UNIMPLEMENTED"), f"health service: {health.code}")
    seen.expect(health.code != "OK" or health.body == b"\x08\x01", "SERVING" if health.code == "OK" else "none")


@line("B65", "MUST", "grpc", "no transient fault is a final code: no INTERNAL or UNKNOWN in the whole run")
async def no_final_codes(target: Target, seen: Seen) -> None:
    """Runs last: it looks at every call before it."""
    for grpc in (the_grpc(target), target.busy_grpc):
        if grpc is not None:
            for code in ("INTERNAL", "UNKNOWN"):
                if grpc.codes[code]:
                    seen.expect(False, f"{grpc.codes[code]} calls were {code}")  # noqa: FBT003
    if target.busy_grpc is not None:
        busy = set(target.busy_grpc.codes)
        seen.expect(busy <= {*RETRYABLE, "RESOURCE_EXHAUSTED"}, f"when busy: {sorted(busy)}")
    seen.note(f"{sum(the_grpc(target).codes.values())} calls")
