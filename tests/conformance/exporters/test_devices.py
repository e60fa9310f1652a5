"""The devices lane: paths, what each answer says about a device, and that beats are never dead letters."""

import orjson
import pytest

from exporters.base import Delivered, Hold, Outcome, Refused, Retry
from exporters.cost_service.devices import DeviceAnswer, DevicesExporter
from spool.record import Batch
from tests.support.upstream import Reply, Upstream

ENROLL_BODY = {"enrollment_id": "enr-1", "epoch": 1, "device_id": "dev/ä 1", "kind": "server"}
BEAT_BODY = {"instance_id": "i", "sequence": 4, "observed_at": "2026-01-05T09:59:30Z", "status": "healthy"}


def batch(kind: str, body: dict[str, object] | None = None, generation: int = 0) -> Batch:
    default: dict[str, object] = {**(ENROLL_BODY if kind == "enroll" else BEAT_BODY)}
    record = orjson.dumps({"type": kind, "device_id": "dev/ä 1", "body": body or default})
    return Batch("0199-b", "devices", generation, 0, "2026-01-05T10:00:05Z", (record,))


@pytest.mark.parametrize(
    ("kind", "path", "sent"),
    [
        ("enroll", "/v2/ai-control-plane/devices", ENROLL_BODY),
        ("heartbeat", "/v2/ai-control-plane/devices/dev%2F%C3%A4%201/heartbeat", BEAT_BODY),
        ("ping", "/v2/ai-control-plane/devices/dev%2F%C3%A4%201/ping", None),
    ],
)
async def test_each_call_goes_to_its_path_with_its_body(
    devices_exporter: DevicesExporter, upstream: Upstream, kind: str, path: str, sent: dict[str, object] | None
) -> None:
    assert await devices_exporter.send(batch(kind)) == Delivered()
    (seen,) = upstream.seen
    assert seen.path == path
    assert (orjson.loads(seen.body) if seen.body else None) == sent


async def test_an_enrolment_is_known_by_its_id_until_the_service_answered_with_an_error(
    devices_exporter: DevicesExporter, upstream: Upstream
) -> None:
    await devices_exporter.send(batch("enroll"))
    await devices_exporter.send(batch("enroll", generation=1))
    await devices_exporter.send(batch("heartbeat"))
    first, second, beat = upstream.seen
    assert first.headers["Idempotency-Key"] == "enr-1"
    assert second.headers["Idempotency-Key"] not in {"enr-1", ""}
    assert first.body == second.body
    assert "Idempotency-Key" not in beat.headers


NAMED = b'{"device_id":"theirs","status":"pending","heartbeat_interval_s":5}'


@pytest.mark.parametrize(
    ("kind", "status", "body", "outcome", "state"),
    [
        ("enroll", 201, b"", Delivered(), "active"),
        ("enroll", 200, b'{"status":"blocked"}', Delivered(), "blocked"),
        ("enroll", 409, b"", Delivered(), "active"),
        ("enroll", 403, b'{"error":{"type":"device_blocked"}}', Delivered(), "blocked"),
        (
            "enroll",
            403,
            b'{"message":"no"}',
            Hold("devices: HTTP 403: the key is refused or lacks the scope: no"),
            None,
        ),
        ("enroll", 400, b'{"code":"bad","message":"m"}', Refused("bad", "m"), "quarantined"),
        ("enroll", 422, b"", Refused("http_422", ""), "quarantined"),
        ("enroll", 404, b"", Hold("devices: HTTP 404: the target does not know the path: "), None),
        ("enroll", 500, b"", Retry("HTTP 500", answered=True), None),
        ("enroll", 429, b"", Retry("HTTP 429", answered=True, throttled=True), None),
        ("heartbeat", 204, b"", Delivered(), "said nothing"),
        ("heartbeat", 404, b"", Delivered(), "unknown"),
        ("heartbeat", 410, b'{"code":"device_unknown"}', Delivered(), "unknown"),
        ("heartbeat", 410, b'{"code":"device_revoked"}', Delivered(), "blocked"),
        ("heartbeat", 403, b'{"error":{"type":"device_blocked","message":""}}', Delivered(), "blocked"),
        ("heartbeat", 410, b"", Hold("devices: HTTP 410: the target does not know the path: "), None),
        ("heartbeat", 401, b"", Hold("devices: HTTP 401: the key is refused or lacks the scope: "), None),
        ("heartbeat", 429, b"", Delivered(), None),
        ("heartbeat", 500, b"", Delivered(), None),
        ("heartbeat", 400, b"", Delivered(), None),
        ("ping", 204, b"", Delivered(), "said nothing"),
        ("ping", 404, b"", Delivered(), "unknown"),
    ],
)
async def test_every_answer_has_its_outcome_and_says_what_it_says_of_the_device(
    devices_exporter: DevicesExporter,
    upstream: Upstream,
    learnt: list[DeviceAnswer],
    kind: str,
    status: int,
    body: bytes,
    outcome: Outcome,
    state: str | None,
) -> None:
    upstream.script.append(Reply(status, body=body))
    assert await devices_exporter.send(batch(kind)) == outcome
    if state is None:
        assert learnt == []
    else:
        assert [(answer.call, answer.device_id) for answer in learnt] == [(kind, "dev/ä 1")]
        assert learnt[0].state == (None if state == "said nothing" else state)


async def test_an_answer_may_give_another_id_a_state_and_an_interval_within_bounds(
    devices_exporter: DevicesExporter, upstream: Upstream, learnt: list[DeviceAnswer]
) -> None:
    upstream.script.extend([Reply(201, body=NAMED), Reply(200, body=b'{"heartbeat_interval_s":1e9,"status":"odd"}')])
    await devices_exporter.send(batch("enroll"))
    await devices_exporter.send(batch("heartbeat"))
    assert learnt == [
        DeviceAnswer("enroll", "dev/ä 1", "pending", adopted_id="theirs", heartbeat_interval_s=15.0),
        DeviceAnswer("heartbeat", "dev/ä 1", None, heartbeat_interval_s=3600.0),
    ]


async def test_a_beat_older_than_its_interval_is_not_sent(
    devices_exporter: DevicesExporter, upstream: Upstream
) -> None:
    old = {**BEAT_BODY, "observed_at": "2026-01-05T09:58:59Z"}
    assert await devices_exporter.send(batch("heartbeat", old)) == Delivered()
    assert upstream.seen == []


@pytest.mark.parametrize("record", [b"{}", b"nonsense", b'{"type":"dance","device_id":"d","body":{}}'])
async def test_a_record_that_is_no_device_call_is_refused_here(
    devices_exporter: DevicesExporter, upstream: Upstream, record: bytes
) -> None:
    outcome = await devices_exporter.send(Batch("0199-b", "devices", 0, 0, "", (record,)))
    assert isinstance(outcome, Refused)
    assert upstream.seen == []
