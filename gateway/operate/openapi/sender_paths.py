"""The paths of the senders' port that have a description of their own; those of AI gateways follow
from their catalogue (`sources.py`). Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, get_args

from gateway.common.contract.event_form import BATCHED, STRUCTURED
from gateway.common.contract.scopes import (
    CREATE_STREAM_SCOPE,
    DELETE_STREAM_SCOPE,
    DROP_SCOPE,
    ENROLL_SCOPE,
    EVENT_SCOPE,
    HEARTBEAT_SCOPE,
    INGEST_SCOPE,
    PING_SCOPE,
    READ_UNIT_COST_SCOPE,
    UNIT_COST_SCOPE,
    VALIDATE_DROP_SCOPE,
)
from gateway.common.lists.openapi.described import Described, Json, Listed, described, names_in, ref
from gateway.usage.events.streams import STREAMS
from spool.unit_cost import Kind, Operation

ERRORS: Final = {400: "BadRequest", 401: "NoKey", 403: "Forbidden", 429: "Quota", 503: "Unavailable"}
"""Status -> component of the answer, of every operation."""
WITH_BODY: Final = {413: "TooLarge", 415: "Media"}
"""The same, of those that may take a body."""
NAMES: Final = {"stream": "UnitCostStream", "device_id": "DeviceId", "connection_id": "ConnectionId"}
"""Parameter of a path -> its component."""

_FORCE: Final[Json] = {
    "name": "force",
    "in": "query",
    "description": "Also one that holds records.",
    "schema": {"type": "boolean", "default": False},
}


@dataclass(frozen=True, kw_only=True)
class Row(Described):
    method: str = "POST"
    errors: Mapping[int, str] = field(default_factory=dict)
    """Status -> component, beside those that every operation answers, or in their place."""
    query: tuple[Json, ...] = ()
    headers: tuple[str, ...] = ()
    """Components of parameters, beside Content-Encoding."""
    is_otlp: bool = False

    @property
    def takes_otlp(self) -> bool:
        return self.is_otlp

    @property
    def may_have_body(self) -> bool:
        return self.method in {"POST", "PUT"}


def sender_paths() -> Json:
    """The path items, before security and servers are written out."""
    paths: Json = {}
    for row in ROWS:
        paths.setdefault(row.path, {})[row.method.lower()] = described(row, _parameters(row), _errors(row))
    return paths


def _parameters(row: Row) -> Iterator[Json]:
    for name in names_in(row.path):
        yield ref("parameters", NAMES[name])
    yield from row.query
    for name in row.headers:
        yield ref("parameters", name)
    if row.may_have_body:
        yield ref("parameters", "ContentEncoding")


def _errors(row: Row) -> dict[int, str]:
    errors = ERRORS | (WITH_BODY if row.may_have_body else {})
    return {status: f"{'Otlp' if row.is_otlp else ''}{name}" for status, name in errors.items()} | dict(row.errors)


# ---- OTLP, events


def _otlp(signal: str, summary: str) -> Row:
    name = signal.capitalize()
    return Row(
        path=f"/v1/{signal}", scope=INGEST_SCOPE, id=f"export{name}", tag="OTLP", summary=summary, body=f"Export{name}",
        answers={200: ("On disk, but for the items that it names as rejected.", f"{name}Answer")}, is_otlp=True,
    )  # fmt: skip


_EVENTS: Final = Row(
    path="/v1/events", scope=EVENT_SCOPE, id="sendEvents", tag="Events", summary="Usage events",
    text="An event whose metadata has a `stream` and a `value` adds to that unit-cost stream; every other one is sent on"
    " under its own id. An id counts once. An event without `metadata.event_id` or `event_id` gets one of its content."
    " CloudEvents 1.0 are read in all three modes. In the binary mode the headers are the attributes and the body is the"
    " data: a JSON object, or nothing.",
    headers=("CeSpecversion", "CeId", "CeSource", "CeType", "CeTime", "CeSubject"), body="Events", errors={400: "NoEventTaken"},
    answers={202: ("What was not rejected is on disk here, and not yet where it is sent to.", "Accepted")},
)  # fmt: skip


EVENT_CONTENT: Final[Json] = {
    "application/x-ndjson": {"schema": {"type": "string", "description": "One event a line."}},
    STRUCTURED: {"schema": ref("schemas", "CloudEvent")},
    BATCHED: {"schema": {"type": "array", "items": ref("schemas", "CloudEvent")}},
}
"""What else the body of `sendEvents` may be."""


# ---- devices

_DEVICE: Final = partial(Row, tag="Devices", answers={202: ("On disk.", "DeviceAccepted")}, errors={404: "NoSuchPath"})
_DEVICES: Final = (
    _DEVICE(
        path="/v1/devices", scope=ENROLL_SCOPE, id="enrollDevice", body="NewDevice",
        summary="A device, to be enrolled before it says anything else",
    ),
    _DEVICE(
        path="/v1/devices/{device_id}/ping", scope=PING_SCOPE, id="pingDevice", errors={404: "NotEnrolledByPing"},
        summary="A sign of life of an enrolled device, without a body; on open intake the first one enrols it",
    ),
    _DEVICE(
        path="/v1/devices/{device_id}/heartbeat", scope=HEARTBEAT_SCOPE, id="sendHeartbeat", body="Heartbeat",
        summary="A device's heartbeat; its first one enrols it where the key also grants ai-control-plane:enroll-device",
    ),
)  # fmt: skip


# ---- billing drops

_DROPS_PATH: Final = "/v2/connections/billing/external"
_DROPS: Final = (
    Row(
        path=f"{_DROPS_PATH}/validate_billing_drop", scope=VALIDATE_DROP_SCOPE, id="validateBillingDrop",
        tag="Billing drops", summary="The checks of a billing drop; nothing is kept", body="RelayedBillingDrop",
        answers={200: ("It would be taken.", "ValidatedDrop")},
    ),
    Row(
        path=f"{_DROPS_PATH}/{{connection_id}}/billing_drops", scope=DROP_SCOPE, id="relayBillingDrop",
        tag="Billing drops", summary="A billing drop, or a part of one, which is forwarded in the order of its acceptance",
        text="Without an `Idempotency-Key` a repeated `sum` counts twice.", headers=("RepeatKey",),
        body="RelayedBillingDrop", answers={200: ("On disk here, and not yet at the upstream.", "AcceptedDrop")},
        errors={409: "OwnConnection", 422: "ReusedKey"},
    ),
)  # fmt: skip


# ---- unit cost, on the gateway's own paths and on those of the service

_OWN: Final = {
    "sum": ("Add to the total of each record's place", "Without an `Idempotency-Key` a repeated `sum` counts twice."),
    "replace": (
        "Put the value in the stead of the place's total", "It accounts for everything that the place received before.",
    ),
    "delete": ("Delete what matches; a property that is left out matches everything", "The stream must exist."),
}  # fmt: skip
_BATCH: Final = "A batch is known again by `X-Gateway-Id` and `X-Batch-Id`, whatever its `Idempotency-Key` is by then."
_OF_GATEWAYS: Final = {
    "sum": (_OWN["sum"][0], _BATCH),
    "replace": ("Replace the total of its place by the value, whatever sender it came from", _BATCH),
    "delete": (_OWN["delete"][0], _BATCH),
}
_NEEDS_KEY: Final = "A key is needed also while no key was ever created."


def _unit_cost(base: str, *, is_forwarded: bool) -> Iterator[Row]:
    words = _OF_GATEWAYS if is_forwarded else _OWN
    kept = {202: ("On disk here, and not yet where it is sent to.", "Taken" if is_forwarded else "Accepted")}
    batch = ("RepeatKey", *(("GatewayId", "BatchId") if is_forwarded else ()))
    row: Any = partial(Row, tag="Forwarded" if is_forwarded else "Unit cost")
    written = partial(row, scope=UNIT_COST_SCOPE, answers=kept, headers=batch)
    name = "forward" if is_forwarded else "unitCost"
    yield row(
        method="GET", path=base, scope=READ_UNIT_COST_SCOPE, id=f"{name}ListStreams", text=_NEEDS_KEY,
        summary="The streams that are in use here", answers=Listed(STREAMS, "UnitCostStream"),
    )  # fmt: skip
    yield written(
        path=base, id=f"{name}Post", summary="Add records of several streams, each named in its record",
        text="As earlier clients post them. A record with an element or a filter is an allocation's, any other a metric's."
        " All of a request is kept, or nothing.",
        is_deprecated=True, body="PostedRecords", errors={422: "Mismatch"},
    )  # fmt: skip
    one = base + "/{stream}"
    yield row(
        method="GET", path=one, scope=READ_UNIT_COST_SCOPE, id=f"{name}ReadStream", summary="One stream", text=_NEEDS_KEY,
        answers={200: ("The stream.", "UnitCostStreamAnswer")}, errors={404: "NoStream"},
    )  # fmt: skip
    yield row(
        method="PUT", path=one, scope=CREATE_STREAM_SCOPE, id=f"{name}CreateStream", answers=kept, body="NewStream",
        summary="Make a stream before its first record", text="Nothing is changed where it is there with this shape.",
        errors={409: "StreamConflict", 422: "Mismatch"},
    )  # fmt: skip
    yield row(
        method="DELETE", path=one, scope=DELETE_STREAM_SCOPE, id=f"{name}DeleteStream", answers=kept, text=_NEEDS_KEY,
        summary="Delete a stream with what waits in it", query=(_FORCE,), headers=("RepeatKey",),
        errors={404: "NoStream", 409: "StreamConflict", 422: "Mismatch"},
    )  # fmt: skip
    kinds: tuple[Kind, ...] = get_args(Kind)
    operations: tuple[Operation, ...] = get_args(Operation)
    for kind in kinds:
        subject = kind.capitalize()
        managed = partial(written, errors={404: "NoSuchPath", 422: "Mismatch"}, body=f"{subject}Records")
        rows = [
            managed(
                path=f"{base}/{kind}/{{stream}}/{operation}", summary=words[operation][0], text=words[operation][1],
                id=f"forward{subject}{operation.capitalize()}" if is_forwarded else f"{operation}{subject}",
            )
            for operation in operations
        ]  # fmt: skip
        yield from (replace(each, body=f"{subject}Places") if each.path.endswith("/delete") else each for each in rows)
        yield managed(
            path=f"{base}/{kind}/{{stream}}", summary="A sum, as earlier clients post it", text=words["sum"][1],
            id=f"forward{subject}Post" if is_forwarded else f"post{subject}", is_deprecated=True,
        )  # fmt: skip


# ---- what other gateways send

_FORWARDED: Final = partial(Row, tag="Forwarded")
_TAKEN: Final = {202: ("On disk here, but for what it names.", "Taken")}
_DEVICES_OF_SERVICE: Final = "/v2/ai-control-plane/devices"
_BY_GATEWAYS: Final = (
    _FORWARDED(
        path="/v2/ai-telemetry/records", scope=INGEST_SCOPE, id="forwardRecords", body="ForwardedRecords", answers=_TAKEN,
        summary="AI records of another gateway; one that was counted already is accepted and counted as a duplicate",
    ),
    _FORWARDED(
        path="/events/v1/events", scope=EVENT_SCOPE, id="forwardEvent", body="ForwardedEvents", answers=_TAKEN,
        summary="A usage event of another gateway; it is added to no total here",
    ),
    _FORWARDED(
        path=_DEVICES_OF_SERVICE, scope=ENROLL_SCOPE, id="forwardEnrolment", body="NewDevice",
        summary="A device of another gateway, that gateway itself included", errors={422: "NotEnrollable"},
        answers={200: ("On disk.", "ForwardedDevice")},
    ),
    _FORWARDED(
        path=_DEVICES_OF_SERVICE + "/{device_id}/heartbeat", scope=HEARTBEAT_SCOPE, id="forwardHeartbeat", body="Heartbeat",
        summary="A heartbeat of a device that is enrolled here", answers={200: ("On disk.", "ForwardedDevice")},
        errors={404: "NotEnrolled"},
    ),
    _FORWARDED(
        path=_DEVICES_OF_SERVICE + "/{device_id}/ping", scope=PING_SCOPE, id="forwardPing", answers={204: ("It is.", "")},
        summary="Whether the device is enrolled here; its sign of life", errors={404: "NotEnrolled"},
    ),
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (
    _otlp("traces", "Spans"),
    _otlp("logs", "Log records"),
    _otlp("metrics", "Metric points"),
    _EVENTS,
    *_DEVICES,
    *_DROPS,
    *_unit_cost("/v1/unit-cost", is_forwarded=False),
    *_unit_cost("/unit-cost/v1/telemetry", is_forwarded=True),
    *_BY_GATEWAYS,
)
