"""The exporter of the `devices` lane: enrolments, heartbeats and pings, one a request (freeze with `max_records=1`).

A record is `{"type":"enroll"|"heartbeat"|"ping","device_id":…,"body":{…}}`. What the service says about the device goes to
`learn`, which must be idempotent and on disk when it returns: the batch is acked after it. Heartbeats are state, not data: they
are never dead letters, and a beat that was not taken or is older than its interval is skipped, for the next one says more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import quote

import orjson

from exporters.base import Delivered, Hold, Outcome, Refused, Retry
from exporters.clock import Clock
from exporters.cost_service.answers import fault, outcome
from exporters.cost_service.client import Answer, CostServiceClient
from exporters.cost_service.encode import idempotency_key
from exporters.cost_service.lanes import KEY_REFUSALS, next_key, no_key
from exporters.rate import TokenBucket
from spool.record import Batch

CallType = Literal["enroll", "heartbeat", "ping"]
DeviceState = Literal["active", "pending", "blocked", "quarantined", "unknown"]

SCOPES: dict[CallType, str] = {
    "enroll": "ai-control-plane:enroll-device",
    "heartbeat": "ai-control-plane:heartbeat-device",
    "ping": "ai-control-plane:ping-device",
}
BLOCKED_CODES = frozenset({"device_blocked", "device_revoked"})
ENROLMENTS_PER_S = 10.0
ENROLMENTS_BURST = 50.0
INTERVAL_S = 60.0
INTERVAL_SHORTEST_S = 15.0
INTERVAL_LONGEST_S = 3600.0


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """What the service said about a device."""

    call: CallType
    device_id: str
    """As we sent it."""
    state: DeviceState | None
    """None when the answer says nothing of it; `unknown` asks for a new enrolment; `blocked` is sticky."""
    adopted_id: str | None = None
    """The id that the service wants the device to have, when it is another one."""
    heartbeat_interval_s: float | None = None
    """15 s to 1 h; None when the answer names none."""


Learn = Callable[[DeviceAnswer], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DeviceCall:
    type: CallType
    device_id: str
    body: bytes
    """JSON; empty for a ping."""
    enrollment_id: str | None
    observed_unix_s: float | None
    """When a heartbeat was seen; None for the other calls."""


class DevicesExporter:
    """Enrolments take turns by a token bucket, so that a fleet that starts at once does not run the service over."""

    def __init__(self, client: CostServiceClient, learn: Learn, clock: Clock) -> None:
        self._client = client
        self._learn = learn
        self._clock = clock
        self._enrolments = TokenBucket(per_s=ENROLMENTS_PER_S, burst=ENROLMENTS_BURST)
        self._never = asyncio.Event()

    async def send(self, batch: Batch) -> Outcome:
        (record,) = batch.records
        call = read_call(record)
        if call is None:
            return Refused("not_a_device_call", "the record is no enrolment, heartbeat or ping")
        if is_stale(call, self._client.now_unix_s()):
            return Delivered()
        if call.type == "enroll" and (delay_s := self._enrolments.take(self._clock.monotonic_s())):
            await self._clock.wait(self._never, delay_s)
        scope = SCOPES[call.type]
        key = self._client.keyring.key_for(scope)
        if key is None:
            return no_key(scope)
        answer = await self._client.post(
            self._path(call),
            call.body,
            key,
            idempotency_key=device_idempotency_key(call, batch, self._client.gateway_id),
        )
        if isinstance(answer, Retry | Hold):
            return answer
        learnt = device_answer(call, answer)
        if (
            learnt is None
            and answer.status in KEY_REFUSALS
            and (turn := next_key(self._client, key, scope, answer.status))
        ):
            return turn
        if learnt is not None:
            await self._learn(learnt)
        return device_outcome(call, answer, learnt, batch, self._client.now_unix_s())

    async def close(self) -> None:
        """The client is shared; its owner closes it."""

    def _path(self, call: DeviceCall) -> str:
        preset = self._client.preset
        template = {
            "enroll": preset.enroll_device,
            "heartbeat": preset.heartbeat_device,
            "ping": preset.ping_device,
        }[call.type]
        return template.replace("{device_id}", quote(call.device_id, safe=""))


def read_call(record: bytes) -> DeviceCall | None:
    """The call that a record of the lane stands for; None when it is none."""
    try:
        document = orjson.loads(record)
    except orjson.JSONDecodeError:
        return None
    match document:
        case {"type": "enroll" | "heartbeat" as kind, "device_id": str(device_id), "body": dict(body)}:
            enrollment_id = body.get("enrollment_id")
            return DeviceCall(
                kind,
                device_id,
                orjson.dumps(body),
                enrollment_id if isinstance(enrollment_id, str) else None,
                _unix_s(body.get("observed_at")) if kind == "heartbeat" else None,
            )
        case {"type": "ping", "device_id": str(device_id)}:
            return DeviceCall("ping", device_id, b"", None, None)
        case _:
            return None


def is_stale(call: DeviceCall, now_unix_s: float) -> bool:
    """Whether a heartbeat is older than one interval; a beat from the future is not."""
    return call.observed_unix_s is not None and now_unix_s - call.observed_unix_s > INTERVAL_S


def device_idempotency_key(call: DeviceCall, batch: Batch, gateway_id: str) -> str | None:
    """Enrolments send their `enrollment_id`, until the service answered with an error: it would replay that for ever.

    After one, the batch's own key follows; the id in the body still makes the enrolment the same. Beats and pings send none.
    """
    if call.type != "enroll":
        return None
    return call.enrollment_id if batch.generation == 0 and call.enrollment_id else idempotency_key(batch, gateway_id)


def device_answer(call: DeviceCall, answer: Answer) -> DeviceAnswer | None:  # noqa: PLR0911 - a table, a line an answer
    """What *answer* says about the device itself; None when it speaks of the key, the path or the service."""
    code = fault(answer.body).code
    match answer.status:
        case 200 | 201 | 202 | 204:
            return _accepted(call, answer.body)
        case 403 | 410 if code in BLOCKED_CODES:
            return DeviceAnswer(call.type, call.device_id, "blocked")
        case 404 if call.type != "enroll":
            return DeviceAnswer(call.type, call.device_id, "unknown")
        case 410 if call.type != "enroll" and code == "device_unknown":
            return DeviceAnswer(call.type, call.device_id, "unknown")
        case 409 if call.type == "enroll":
            return _accepted(call, answer.body)
        case 400 | 422 if call.type == "enroll":
            return DeviceAnswer(call.type, call.device_id, "quarantined")
        case _:
            return None


def device_outcome(
    call: DeviceCall, answer: Answer, learnt: DeviceAnswer | None, batch: Batch, now_unix_s: float
) -> Outcome:
    """As the common table, but that an answer about the device is an answer, and a beat not taken is skipped."""
    if learnt is not None and learnt.state != "quarantined":
        return Delivered()
    general = outcome(answer.status, answer.headers, answer.body, batch.lane, records=1, now_unix_s=now_unix_s)
    if call.type != "enroll" and isinstance(general, Retry | Refused):
        return Delivered()
    return general


def _accepted(call: DeviceCall, body: bytes) -> DeviceAnswer:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    named = document.get("device_id")
    state: DeviceState | None = "active" if call.type == "enroll" else None
    told = document.get("status")
    if told in {"active", "pending", "blocked"}:
        state = told
    return DeviceAnswer(
        call.type,
        call.device_id,
        state,
        adopted_id=named if isinstance(named, str) and named not in {"", call.device_id} else None,
        heartbeat_interval_s=_interval_s(document.get("heartbeat_interval_s")),
    )


def _interval_s(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(INTERVAL_LONGEST_S, max(INTERVAL_SHORTEST_S, float(value)))


def _unix_s(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None
