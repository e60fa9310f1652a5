"""Calls about devices: paths, keys, and what each answer states about a
device or about the lane.
"""

import orjson
import pytest

from exporters.base import Hold, NotUnderstood, Refused, Retry
from exporters.cost_service.devices import SCOPES, CallType, DeviceAnswer, DeviceCall, DeviceCalls, DeviceReply
from tests.support.upstream import Reply, Upstream

NAME = "dev/ä 1"
ENROLL_BODY = {"enrollment_id": "enr-1", "epoch": 1, "device_id": NAME, "kind": "server"}
BEAT_BODY = {"instance_id": "i", "sequence": 4, "observed_at": "2026-01-05T09:59:30Z", "status": "healthy"}
BODIES = {"enroll": orjson.dumps(ENROLL_BODY), "heartbeat": orjson.dumps(BEAT_BODY), "ping": b""}


def call(kind: CallType, generation: int = 0) -> DeviceCall:
    return DeviceCall(kind, NAME, BODIES[kind], "enr-1" if kind == "enroll" else None, generation)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("enroll", "/v2/ai-control-plane/devices"),
        ("heartbeat", "/v2/ai-control-plane/devices/dev%2F%C3%A4%201/heartbeat"),
        ("ping", "/v2/ai-control-plane/devices/dev%2F%C3%A4%201/ping"),
    ],
)
async def test_each_call_goes_to_its_path_with_its_body(
    device_calls: DeviceCalls, upstream: Upstream, kind: CallType, path: str
) -> None:
    assert isinstance(await device_calls.send(call(kind)), DeviceAnswer)
    (seen,) = upstream.seen
    assert (seen.path, seen.body) == (path, BODIES[kind])


async def test_an_enrolment_is_known_by_its_id_until_the_service_answered_with_an_error(
    device_calls: DeviceCalls, upstream: Upstream
) -> None:
    for made in (call("enroll"), call("enroll", 1), call("enroll", 1), call("enroll", 2), call("heartbeat")):
        await device_calls.send(made)
    first, second, again, third, beat = upstream.seen
    keys = [seen.headers["Idempotency-Key"] for seen in (first, second, again, third)]
    assert keys[0] == "enr-1"
    assert keys[1] == keys[2]
    assert len(set(keys)) == 3
    assert first.body == second.body
    assert "Idempotency-Key" not in beat.headers


def said(kind: CallType, state: str | None, told: str = "") -> DeviceAnswer:
    return DeviceAnswer(kind, NAME, state, message=told)  # type: ignore[arg-type]  # the table below names states only


@pytest.mark.parametrize(
    ("kind", "status", "body", "reply"),
    [
        ("enroll", 201, b"", said("enroll", "active")),
        ("enroll", 200, b'{"status":"blocked"}', said("enroll", "blocked")),
        ("enroll", 409, b"", said("enroll", "active")),
        ("enroll", 403, b'{"error":{"type":"device_blocked"}}', said("enroll", "blocked", 'device_blocked: {"error":{"type":"device_blocked"}}')),
        ("enroll", 403, b'{"message":"no"}', said("enroll", "forbidden", "no")),
        ("enroll", 400, b'{"code":"bad","message":"m"}', said("enroll", "quarantined", "bad: m")),
        ("enroll", 422, b"", said("enroll", "quarantined")),
        ("enroll", 404, b"", Hold("devices: HTTP 404: the upstream does not know the path: ")),
        ("enroll", 413, b"", Refused("too_large", "HTTP 413", too_large=True)),
        ("enroll", 500, b"", Retry("HTTP 500", answered=True)),
        ("enroll", 429, b"", Retry("HTTP 429", answered=True, throttled=True)),
        ("heartbeat", 204, b"", said("heartbeat", None)),
        ("heartbeat", 404, b"", said("heartbeat", "unknown")),
        ("heartbeat", 410, b'{"code":"device_unknown"}', said("heartbeat", "unknown")),
        ("heartbeat", 410, b'{"code":"device_revoked","message":"m"}', said("heartbeat", "blocked", "device_revoked: m")),
        ("heartbeat", 403, b'{"error":{"type":"device_blocked","message":"m"}}', said("heartbeat", "blocked", "device_blocked: m")),
        ("heartbeat", 410, b"", said("heartbeat", "unknown")),
        ("heartbeat", 401, b"", Hold(f"devices: HTTP 401: the key 'all' is refused or lacks the scope {SCOPES['heartbeat']}: ")),
        ("heartbeat", 409, b'{"code":"duplicate"}', said("heartbeat", None)),
        ("heartbeat", 429, b"", Retry("HTTP 429", answered=True, throttled=True)),
        ("heartbeat", 500, b"", Retry("HTTP 500", answered=True)),
        ("heartbeat", 400, b"", Refused("http_400", "")),
        ("ping", 204, b"", said("ping", None)),
        ("ping", 404, b"", said("ping", "unknown")),
    ],
)  # fmt: skip
async def test_every_answer_says_what_it_says_of_the_device_or_of_the_lane(
    device_calls: DeviceCalls, upstream: Upstream, kind: CallType, status: int, body: bytes, reply: DeviceReply
) -> None:
    upstream.script.append(Reply(status, body=body))
    assert await device_calls.send(call(kind)) == reply


@pytest.mark.parametrize("kind", ["enroll", "heartbeat", "ping"])
@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, {"Content-Type": "text/html"}, b"<html>Log in"),
        Reply(200, {"Content-Type": "application/json"}, b"<html>Log in"),
        Reply(200, body=b"OK"),
        Reply(200, body=b"[]"),
        Reply(200, body=b'{"error":{"message":"no"}}'),
        Reply(200, body=b'{"message":"failed"}'),
        Reply(207),
    ],
)
async def test_a_success_that_is_no_answer_about_a_device_states_nothing_of_it(
    device_calls: DeviceCalls, upstream: Upstream, kind: CallType, reply: Reply
) -> None:
    upstream.script.append(reply)
    assert isinstance(await device_calls.send(call(kind)), NotUnderstood)


async def test_an_enrolment_with_an_unknown_status_is_none(device_calls: DeviceCalls, upstream: Upstream) -> None:
    upstream.script.extend([Reply(200, body=b'{"status":"odd"}'), Reply(409, body=b"it is there")])
    assert isinstance(await device_calls.send(call("enroll")), NotUnderstood)
    assert await device_calls.send(call("enroll")) == said("enroll", "active")


async def test_an_answer_may_give_another_id_a_state_and_an_interval_within_bounds(
    device_calls: DeviceCalls, upstream: Upstream
) -> None:
    named = b'{"device_id":"theirs","status":"pending","heartbeat_interval_s":5}'
    upstream.script.extend([Reply(201, body=named), Reply(200, body=b'{"heartbeat_interval_s":1e9,"status":"odd"}')])
    assert await device_calls.send(call("enroll")) == DeviceAnswer(
        "enroll", NAME, "pending", adopted_id="theirs", heartbeat_interval_s=15.0
    )
    assert await device_calls.send(call("heartbeat")) == DeviceAnswer(
        "heartbeat", NAME, None, heartbeat_interval_s=3600.0
    )
