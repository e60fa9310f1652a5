"""Calls about devices to the cost management service: enrolments, heartbeats
and pings, one a request.

What is due, in which order and how often, is the caller's matter; here is how a call looks and what
its answer states: about the device (`DeviceAnswer`), or about the key, the path or the service
(`Retry`, `Hold`, `Refused`, `NotUnderstood`, as for every lane).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal
from urllib.parse import quote

from exporters.accounting import Sent, accounted
from exporters.answer_body import AnswerNotUnderstood, UnreadableAnswer, answer_bytes
from exporters.base import Delivered, Hold, NotUnderstood, Refused, Retry
from exporters.cost_service.answers import fault, leaves_open, outcome, whole_document
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.lanes import KEY_REFUSALS, key_refused, no_key
from exporters.http_client import HttpAnswer
from spool.record import DEVICES

CallType = Literal["enroll", "heartbeat", "ping"]
DeviceState = Literal["active", "pending", "blocked", "quarantined", "unknown", "forbidden"]

SCOPES: dict[CallType, str] = {
    "enroll": "ai-control-plane:enroll-device",
    "heartbeat": "ai-control-plane:heartbeat-device",
    "ping": "ai-control-plane:ping-device",
}
DEVICE: Final = Sent(1, is_one_thing=True)
ENROLLED_STATES: Final[Sequence[object]] = ("active", "pending", "blocked")
BLOCKED_CODES = frozenset({"device_blocked", "device_revoked"})
INTERVAL_SHORTEST_S = 15.0
INTERVAL_LONGEST_S = 3600.0


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """What the service answered about a device."""

    call: CallType
    device_id: str
    """As we sent it."""
    state: DeviceState | None
    """None when the answer does not name it; `unknown` asks for a new enrolment; `blocked` is
    sticky; `forbidden` may be the key's fault."""
    adopted_id: str | None = None
    """The id that the service wants the device to have, when it is another one."""
    heartbeat_interval_s: float | None = None
    """15 s to 1 h; None when the answer names none."""
    message: str = ""
    """The service's own words where it refuses; safe to show."""


DeviceReply = DeviceAnswer | Retry | Hold | Refused | NotUnderstood


@dataclass(frozen=True, slots=True)
class DeviceCall:
    type: CallType
    device_id: str
    """As the service knows it."""
    body: bytes = b""
    """JSON; empty for a ping."""
    enrollment_id: str | None = None
    """Of an enrolment."""
    generation: int = 0
    """How many errors the service answered to this enrolment."""


class DeviceCalls:
    """Makes the calls, under the first key that grants their scope."""

    def __init__(self, client: CostServiceClient) -> None:
        self.client = client

    def grants(self, type_: CallType) -> bool:
        """Whether a configured key may make such calls."""
        return self.client.keyring.grants(SCOPES[type_])

    async def send(self, call: DeviceCall) -> DeviceReply:
        """Make *call* once."""
        scope = SCOPES[call.type]
        key = self.client.keyring.key_for(scope)
        if key is None:
            return no_key(scope)
        answer = await self.client.post(
            self._path(call),
            call.body,
            key,
            idempotency_key=device_idempotency_key(call),
            answer_bytes=answer_bytes(1, len(call.body)),
        )
        if isinstance(answer, Retry | Hold):
            return answer
        try:
            said = device_answer(call, answer)
        except (UnreadableAnswer, AnswerNotUnderstood) as error:
            return leaves_open(answer.status, error)
        if said is not None and said.state != "forbidden":
            return said
        if answer.status not in KEY_REFUSALS:
            return said or device_failure(call, answer, self.client.now_unix_s())
        refused = key_refused(self.client, key, scope, DEVICES, answer)
        return said if said is not None and isinstance(refused, Hold) else refused

    def _path(self, call: DeviceCall) -> str:
        preset = self.client.preset
        template = {
            "enroll": preset.enroll_device,
            "heartbeat": preset.heartbeat_device,
            "ping": preset.ping_device,
        }[call.type]
        return template.replace("{device_id}", quote(call.device_id, safe=""))


def device_idempotency_key(call: DeviceCall) -> str | None:
    """Enrolments send their `enrollment_id`, until the service answered with an error: it
    would replay that for ever.

    After one, a key of its own follows; the id in the body still makes the enrolment the same.
    Beats and pings send none.
    """
    if call.type != "enroll" or call.enrollment_id is None:
        return None
    if call.generation == 0:
        return call.enrollment_id
    return sha256(f"{call.enrollment_id}|{call.generation}".encode()).hexdigest()[:32]


def device_answer(call: DeviceCall, answer: HttpAnswer) -> DeviceAnswer | None:  # noqa: PLR0911 - a table, a line an answer
    """What *answer* states about the device itself; None when it is about the
    key, the path or the service.

    Raises UnreadableAnswer when it accepts the call and cannot be read whole: it may state that
    the device is blocked, or has another id. Raises AnswerNotUnderstood when it is not about a
    device.
    """
    said = fault(answer.body)
    match answer.status:
        case 200 | 201 | 202 | 204:
            return _accepted(call, answer)
        case 403 | 410 if said.code in BLOCKED_CODES:
            return DeviceAnswer(call.type, call.device_id, "blocked", message=str(said))
        case 403:
            return DeviceAnswer(call.type, call.device_id, "forbidden", message=str(said))
        case 404 | 410 if call.type != "enroll":
            return DeviceAnswer(call.type, call.device_id, "unknown")
        case 409 if call.type == "enroll":
            return _accepted(call, answer, is_repeat=True)
        case 400 | 422 if call.type == "enroll":
            return DeviceAnswer(call.type, call.device_id, "quarantined", message=str(said))
        case _:
            return None


def device_failure(call: DeviceCall, answer: HttpAnswer, now_unix_s: float) -> DeviceReply:
    """The common table, for an answer that does not name the device."""
    general = outcome(
        answer.status, answer.headers, answer.body, DEVICES, sent=DEVICE, now_unix_s=now_unix_s, cut=answer.cut
    )
    return DeviceAnswer(call.type, call.device_id, None) if isinstance(general, Delivered) else general


def _accepted(call: DeviceCall, answer: HttpAnswer, *, is_repeat: bool = False) -> DeviceAnswer:
    document = _document(answer, is_repeat=is_repeat)
    accounted(document, DEVICE, is_repeat=is_repeat)
    named = document.get("device_id")
    state: DeviceState | None = "active" if call.type == "enroll" else None
    status = document.get("status")
    if status in ENROLLED_STATES:
        state = status
    elif call.type == "enroll" and status is not None:
        raise AnswerNotUnderstood("its `status` is none of active, pending and blocked")
    return DeviceAnswer(
        call.type,
        call.device_id,
        state,
        adopted_id=named if isinstance(named, str) and named not in {"", call.device_id} else None,
        heartbeat_interval_s=_interval_s(document.get("heartbeat_interval_s")),
    )


def _document(answer: HttpAnswer, *, is_repeat: bool) -> Any:
    """An object without fields in place of the text of a 409."""
    try:
        return whole_document(answer.headers, answer.body, answer.cut, 1)
    except AnswerNotUnderstood:
        if not is_repeat:
            raise
        return {}


def _interval_s(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(INTERVAL_LONGEST_S, max(INTERVAL_SHORTEST_S, float(value)))
