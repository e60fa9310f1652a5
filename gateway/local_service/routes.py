"""Every endpoint of the service: method, path, the scope that guards it, what it does, and its
description. One table: `openapi/operations.py` describes it in OpenAPI.

The lists and the summary of AI telemetry, devices and events are not published by the service; they
exist for checks of what arrived, need `billing:read_costs`, and never misbehave.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

from gateway.common.contract.billing import MAX_BYTES as BILLING_MAX_BYTES
from gateway.common.contract.scopes import (
    CREATE_STREAM_SCOPE,
    DELETE_STREAM_SCOPE,
    ENROLL_SCOPE,
    EVENT_SCOPE,
    HEARTBEAT_SCOPE,
    INGEST_SCOPE,
    PING_SCOPE,
    READ_COSTS_SCOPE,
    READ_UNIT_COST_SCOPE,
    UNIT_COST_SCOPE,
)
from gateway.common.contract.unit_cost import MAX_BYTES as UNIT_COST_MAX_BYTES
from gateway.common.lists.openapi.described import Described, Json, Listed
from gateway.local_service import (
    ai_telemetry,
    billing,
    billing_connections,
    devices,
    events,
    insights,
    otlp,
    summary,
    unit_cost,
    unit_cost_streams,
)
from gateway.local_service.call import Operation
from gateway.local_service.otlp import Taken
from gateway.usage.insights.finding import COMMENT_LIST, INSIGHT_LIST
from spool.unit_cost import Kind
from spool.unit_cost import Operation as Action

SMALL_BODY_BYTES = 1024 * 1024
_STREAMS = "/unit-cost/v1/telemetry"
_STREAM = "/unit-cost/v1/telemetry/{stream}"
_INSIGHT = "/v2/insights/{insight_id}"
_CONNECTIONS = "/v2/connections/billing"
_CONNECTION = "/v2/connections/billing/{connection_id}"
_DEVICES = "/v2/ai-control-plane/devices"
_TAKEN = {202: ("Taken, but for what it names.", "Taken")}
_GONE = {204: ("It is gone.", "")}


@dataclass(frozen=True, kw_only=True)
class Route(Described):
    operation: Operation
    max_bytes: int = SMALL_BODY_BYTES
    """Of the decompressed body."""
    misbehaves: bool = True
    signal: Taken | None = None
    """Of OTLP: its messages are the answers; None where these are JSON."""
    errors: tuple[int, ...] = ()
    """Beside those that every operation answers, and every one that writes."""
    own: Mapping[int, str] = field(default_factory=dict)
    """Status -> component of an error's answer that is not the usual one."""
    query: tuple[Json, ...] = ()
    """Parameters that no list describes."""

    @property
    def takes_otlp(self) -> bool:
        return self.signal is not None


_READ = partial(Route, method="GET")
_POST = partial(Route, method="POST")


# ---- AI telemetry, events, devices

_TELEMETRY = "AI telemetry"
_WHEN: Json = {"type": "string", "format": "date-time"}
_SUMMARY = (
    "`cost` is in US dollars, null where no record that is summed has a cost in them; other currencies stand in"
    " `other_costs`."
)
_COUNT: Json = {"type": "integer", "minimum": 0, "maximum": 1_000_000_000}


def _parameter(name: str, text: str, schema: Json, **more: Any) -> Json:
    return {"name": name, "in": "query", "description": text, "schema": schema, **more}


def _otlp(signal: Taken, summary: str) -> Route:
    return _POST(
        path=f"/v2/ai-telemetry/otlp/v1/{signal}", scope=INGEST_SCOPE, operation=otlp.ingest(signal),
        max_bytes=otlp.MAX_BYTES, signal=signal, id=f"export{signal.capitalize()}", tag=_TELEMETRY, summary=summary,
        body="OtlpBody", answers={200: ("Taken, but for what it counts as rejected.", "OtlpAnswer")},
    )  # fmt: skip


_RECORDS: tuple[Route, ...] = (
    _POST(
        path="/v2/ai-telemetry/records", scope=INGEST_SCOPE, operation=ai_telemetry.ingest, max_bytes=ai_telemetry.MAX_BYTES,
        id="ingestRecords", tag=_TELEMETRY, body="Envelope", answers=_TAKEN,
        summary="Take AI records; one that is here already is accepted and kept as it was",
    ),
    _otlp("traces", "Spans of any OTLP exporter; each AI call, and each record of a gateway, is one record"),
    _otlp("logs", "Log records of any OTLP exporter"),
    _READ(
        path="/v2/ai-telemetry/records", scope=READ_COSTS_SCOPE, operation=ai_telemetry.records, misbehaves=False,
        id="listRecords", tag=_TELEMETRY, summary="What was taken", answers=Listed(ai_telemetry.RECORDS.shape, "StoredRecord"),
    ),
    _READ(
        path="/v2/ai-telemetry/summary", scope=READ_COSTS_SCOPE, operation=summary.summary, misbehaves=False,
        id="summarise", tag=_TELEMETRY, summary="Sums over billed records",
        query=(
            _parameter(
                "group_by", "Dimensions, separated by commas.", {"type": "string", "default": "provider,model"},
                example="provider,model,team",
            ),
            _parameter("from", "By the start of the call; inclusive.", _WHEN),
            _parameter("to", "Exclusive.", _WHEN),
            _parameter("limit", "At most this many groups, those with most calls first; without it all groups, by name.", _COUNT),
            _parameter("offset", "With `limit`: groups to leave out before.", _COUNT),
        ),
        answers={200: (_SUMMARY, "Summary")},
    ),
    _POST(
        path="/events/v1/events", scope=EVENT_SCOPE, operation=events.create, max_bytes=events.MAX_BYTES,
        id="createEvents", tag="Events", body="Events", answers=_TAKEN,
        summary="Keep one event, or many; an event id that is here already is accepted and not kept again",
    ),
    _READ(
        path="/events/v1/events", scope=READ_COSTS_SCOPE, operation=events.events, misbehaves=False,
        id="listEvents", tag="Events", summary="What was taken", answers=Listed(events.EVENTS.shape, "StoredEvent"),
    ),
    _POST(
        path=_DEVICES, scope=ENROLL_SCOPE, operation=devices.enroll, id="enrollDevice", tag="Devices", body="Enrolment",
        summary="Enrol a device; an `enrollment_id` enrols once, however often it comes",
        answers={
            200: ("Known under this enrolment or enrolled again.", "DeviceAnswer"), 201: ("A new device.", "DeviceAnswer"),
        },
        own={403: "Blocked", 409: "EnrolledElsewhere"},
    ),
    _READ(
        path=_DEVICES, scope=READ_COSTS_SCOPE, operation=devices.devices, misbehaves=False,
        id="listDevices", tag="Devices", summary="Devices", answers=Listed(devices.DEVICES.shape, "Device"),
    ),
    _POST(
        path=_DEVICES + "/{device_id}/heartbeat", scope=HEARTBEAT_SCOPE, operation=devices.heartbeat,
        id="heartbeat", tag="Devices", body="Heartbeat", answers={200: ("Taken.", "HeartbeatAnswer")}, errors=(404,),
        summary="Take a heartbeat; only one with the highest sequence of its instance moves the device", own={403: "Blocked"},
    ),
    _POST(
        path=_DEVICES + "/{device_id}/ping", scope=PING_SCOPE, operation=devices.ping,
        id="ping", tag="Devices", summary="Whether the device is known", answers={204: ("It is.", "")},
        errors=(404,), own={403: "Blocked"},
    ),
)  # fmt: skip


# ---- unit cost

_COST = "Unit cost"
_SUMMARIES: Mapping[Action, str] = {
    "sum": "Add to what is there",
    "replace": "Put in the stead of what is there",
    "delete": "Delete what matches; a property that is left out matches everything",
}


def _unit_cost(kind: Kind, action: Action) -> Route:
    is_deletion = action == "delete"
    return _POST(
        path=f"{_STREAMS}/{kind}/{{stream}}/{action}", scope=UNIT_COST_SCOPE, operation=unit_cost.manage(kind, action),
        max_bytes=UNIT_COST_MAX_BYTES, id=f"{action}{kind.capitalize()}", tag=_COST, summary=_SUMMARIES[action],
        body=f"{kind.capitalize()}{'Places' if is_deletion else 'Records'}", errors=(409,),
        answers={201 if is_deletion and kind == "allocation" else 200: ("Done.", "RecordCount")},
    )  # fmt: skip


def _posted(kind: Kind) -> Route:
    """Without an operation: a `sum`, as earlier clients post it."""
    return replace(
        _unit_cost(kind, "sum"),
        path=f"{_STREAMS}/{kind}/{{stream}}",
        id=f"post{kind.capitalize()}",
        summary="Add to what is there, as earlier clients post it",
        is_deprecated=True,
    )


_STREAM_ROUTES: tuple[Route, ...] = (
    *(_unit_cost(kind, action) for kind in get_args(Kind) for action in _SUMMARIES),
    _posted("allocation"),
    _posted("metric"),
    _POST(
        path=_STREAMS, scope=UNIT_COST_SCOPE, operation=unit_cost.post, max_bytes=UNIT_COST_MAX_BYTES,
        id="postRecords", tag=_COST, summary="Add records of several streams, each named in its record", is_deprecated=True,
        text="As earlier clients post them. A record with an element or a filter is an allocation's, any other a metric's.",
        body="PostedRecords", answers={200: ("Done.", "RecordCount")}, errors=(409,),
    ),
    _READ(
        path=_STREAMS, scope=READ_UNIT_COST_SCOPE, operation=unit_cost_streams.streams, id="listStreams", tag=_COST,
        summary="The streams that are in use", answers=Listed(unit_cost_streams.STREAMS.shape, "Stream"),
    ),
    _READ(
        path=f"{_STREAM}/records", scope=READ_UNIT_COST_SCOPE, operation=unit_cost.stream_records, id="listStreamRecords",
        tag=_COST, summary="The stream's records as they stand", answers=Listed(unit_cost.RECORDS.shape, "StreamRecord"),
        errors=(404,),
    ),
    _READ(
        path=f"{_STREAMS}/metric/{{stream}}", scope=READ_UNIT_COST_SCOPE, operation=unit_cost.metric_records,
        id="listMetricRecords", tag=_COST, summary="The records of a metric stream",
        answers=Listed(unit_cost.RECORDS.shape, "StreamRecord"), errors=(404,),
    ),
    _READ(
        path=_STREAM, scope=READ_UNIT_COST_SCOPE, operation=unit_cost_streams.read, id="readStream", tag=_COST,
        summary="One stream", answers={200: ("The stream.", "StreamAnswer")}, errors=(404,),
    ),
    Route(
        method="PUT", path=_STREAM, scope=CREATE_STREAM_SCOPE, operation=unit_cost_streams.create, id="createStream",
        tag=_COST, summary="Make a stream before its first record", text="200 where it is there with this shape.",
        body="NewStream", answers=dict.fromkeys((200, 201), ("The stream.", "StreamAnswer")), errors=(409,),
    ),
    Route(
        method="DELETE", path=_STREAM, scope=DELETE_STREAM_SCOPE, operation=unit_cost_streams.delete, id="deleteStream",
        tag=_COST, summary="Delete a stream", answers=_GONE, errors=(404, 409),
        query=(_parameter("force", "Also one that holds records.", {"type": "boolean", "default": False}),),
    ),
)  # fmt: skip


# ---- billing

_BILLING, _DROPS = "Billing connections", "Billing drops"


def _drops(kind: str) -> tuple[Route, ...]:
    """Of connections under one of their two names: `external` is the document's, `anycost` that of
    the preset `cloudzero`.
    """
    base, size, name = f"/v2/connections/billing/{kind}", BILLING_MAX_BYTES, kind.capitalize()
    of_one = f"{base}/{{connection_id}}/billing_drops"
    creating, reading = "connections:create_billing_external_", "connections:read_billing_external_"
    return (
        _POST(
            path=f"{base}/validate_billing_drop", scope=f"{creating}validate_billing_drop", operation=billing.validate,
            max_bytes=size, id=f"validate{name}Drop", tag=_DROPS, summary="The dry run", body="AnyBillingDrop",
            answers={200: ("It would be taken.", "ValidatedDrop")},
        ),
        _POST(
            path=of_one, scope=f"{creating}billing_drop", operation=billing.drop, max_bytes=size, id=f"create{name}Drop",
            tag=_DROPS, summary="A billing drop, or a part of one", body="AnyBillingDrop",
            answers={200: ("Taken. A day of FOCUS rows is in force once its state is complete.", "DropAnswer")},
            errors=(404,), own={409: "OtherRows", 423: "Paused"},
        ),
        _READ(
            path=of_one, scope=f"{reading}billing_drops", operation=billing.drops, id=f"list{name}Drops", tag=_DROPS,
            summary="What was dropped to the connection", answers=Listed(billing.DROPS.shape, "BillingDropNote"), errors=(404,),
        ),
        _READ(
            path=f"{of_one}/{{month}}", scope=f"{reading}billing_drops_month", operation=billing.month_rows,
            id=f"read{name}Month", tag=_DROPS, summary="The rows of a month that are in force",
            answers=Listed(billing.ROWS.shape, "BillingRow"), errors=(404,),
        ),
    )  # fmt: skip


_CONNECTION_ROUTES: tuple[Route, ...] = (
    _READ(
        path=_CONNECTIONS, scope="connections:read_billings", operation=billing_connections.connections,
        id="listBillingConnections", tag=_BILLING, summary="Billing connections",
        answers=Listed(billing_connections.CONNECTIONS.shape, "BillingConnection"),
    ),
    _POST(
        path=_CONNECTIONS, scope="connections:create_billing", operation=billing_connections.create,
        id="createBillingConnection", tag=_BILLING, summary="Establish a billing connection", body="NewBillingConnection",
        answers={201: ("The connection.", "BillingConnectionAnswer")}, errors=(409,),
    ),
    _READ(
        path=_CONNECTION, scope="connections:read_billing", operation=billing_connections.read,
        id="readBillingConnection", tag=_BILLING, summary="One billing connection",
        answers={200: ("The connection.", "BillingConnectionAnswer")}, errors=(404,),
    ),
    Route(
        method="PATCH", path=_CONNECTION, scope="connections:update_billing", operation=billing_connections.change,
        id="changeBillingConnection", tag=_BILLING, summary="Rename, pause or resume it", body="BillingConnectionChange",
        answers={200: ("The connection.", "BillingConnectionAnswer")}, errors=(404, 409),
    ),
    Route(
        method="DELETE", path=_CONNECTION, scope="connections:delete_billing", operation=billing_connections.delete,
        id="deleteBillingConnection", tag=_BILLING, summary="Remove it, with all that was dropped to it",
        answers=_GONE, errors=(404,),
    ),
)  # fmt: skip


# ---- insights

_INSIGHT_ROUTES: tuple[Route, ...] = (
    _READ(
        path="/v2/insights", scope="insights:read_insights", operation=insights.insights, id="listInsights",
        tag="Insights", summary="Insights", answers=Listed(INSIGHT_LIST, "Insight"),
    ),
    _POST(
        path="/v2/insights", scope="insights:create_insight", operation=insights.create, id="createInsight",
        tag="Insights", summary="Make one by hand", body="NewInsight", answers={201: ("It is made.", "InsightAnswer")},
        errors=(409,),
    ),
    _READ(
        path=_INSIGHT, scope="insights:read_insight", operation=insights.read, id="readInsight", tag="Insights",
        summary="One insight", answers={200: ("The insight.", "InsightAnswer")}, errors=(404,),
    ),
    Route(
        method="PATCH", path=_INSIGHT, scope="insights:update_insight", operation=insights.change, id="changeInsight",
        tag="Insights", summary="Change its status, or more of one that was made by hand", body="InsightChange",
        answers={200: ("As it is now.", "InsightAnswer")}, errors=(404, 409),
    ),
    Route(
        method="DELETE", path=_INSIGHT, scope="insights:delete_insight", operation=insights.delete, id="deleteInsight",
        tag="Insights", summary="Delete it with its comments; what is found again is a new one", answers=_GONE, errors=(404,),
    ),
    _READ(
        path=f"{_INSIGHT}/comments", scope="insights:read_insight_comments", operation=insights.comments,
        id="listComments", tag="Insights", summary="Its comments", answers=Listed(COMMENT_LIST.of(""), "Comment"),
        errors=(404,),
    ),
    _POST(
        path=f"{_INSIGHT}/comments", scope="insights:create_insight_comment", operation=insights.add_comment,
        id="addComment", tag="Insights", summary="Write a comment", body="CommentBody",
        answers={201: ("It is written.", "CommentAnswer")}, errors=(404, 409),
    ),
    Route(
        method="PATCH", path=f"{_INSIGHT}/comments/{{comment_id}}", scope="insights:update_insight_comment",
        operation=insights.change_comment, id="changeComment", tag="Insights", summary="Change its text; its author stays",
        body="CommentBody", answers={200: ("As it is now.", "CommentAnswer")}, errors=(404,),
    ),
)  # fmt: skip

ROUTES: tuple[Route, ...] = (
    *_RECORDS,
    *_STREAM_ROUTES,
    *_CONNECTION_ROUTES,
    *_drops("external"),
    *_drops("anycost"),
    *_INSIGHT_ROUTES,
)
