"""Every endpoint of the service: method, path, the scope that guards it, what it does. One table.

The lists and the summary of AI telemetry, devices and events are not published by the service; they
exist for checks of what arrived, need `billing:read_costs`, and never misbehave.
"""

from typing import NamedTuple

from gateway.contract.billing import MAX_BYTES as BILLING_MAX_BYTES
from gateway.contract.scopes import (
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
from gateway.contract.unit_cost import MAX_BYTES as UNIT_COST_MAX_BYTES
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
from spool.unit_cost import Kind
from spool.unit_cost import Operation as Action

SMALL_BODY_BYTES = 1024 * 1024
_STREAMS = "/unit-cost/v1/telemetry"
_STREAM = "/unit-cost/v1/telemetry/{stream}"
_INSIGHT = "/v2/insights/{insight_id}"
_CONNECTIONS = "/v2/connections/billing"
_CONNECTION = "/v2/connections/billing/{connection_id}"


class Route(NamedTuple):
    method: str
    path: str
    scope: str
    operation: Operation
    max_bytes: int = SMALL_BODY_BYTES
    """Of the decompressed body."""
    misbehaves: bool = True
    signal: Taken | None = None
    """Of OTLP: its messages are the answers; None where these are JSON."""

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def _unit_cost(kind: Kind, action: Action) -> Route:
    return Route(
        "POST",
        f"{_STREAMS}/{kind}/{{stream}}/{action}",
        UNIT_COST_SCOPE,
        unit_cost.manage(kind, action),
        UNIT_COST_MAX_BYTES,
    )


def _posted(kind: Kind) -> Route:
    """Without an operation: a `sum`, as earlier clients post it."""
    return _unit_cost(kind, "sum")._replace(path=f"{_STREAMS}/{kind}/{{stream}}")


def _otlp(signal: Taken) -> Route:
    path = f"/v2/ai-telemetry/otlp/v1/{signal}"
    return Route("POST", path, INGEST_SCOPE, otlp.ingest(signal), otlp.MAX_BYTES, signal=signal)


def _drops(kind: str) -> tuple[Route, ...]:
    """Of connections under one of their two names: `external` is the document's, `anycost` that of
    the preset `cloudzero`.
    """
    base, size = f"/v2/connections/billing/{kind}", BILLING_MAX_BYTES
    of_one = f"{base}/{{connection_id}}/billing_drops"
    creating, reading = "connections:create_billing_external_", "connections:read_billing_external_"
    return (
        Route("POST", f"{base}/validate_billing_drop", f"{creating}validate_billing_drop", billing.validate, size),
        Route("POST", of_one, f"{creating}billing_drop", billing.drop, size),
        Route("GET", of_one, f"{reading}billing_drops", billing.drops),
        Route("GET", f"{of_one}/{{month}}", f"{reading}billing_drops_month", billing.month_rows),
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v2/ai-telemetry/records",
        INGEST_SCOPE,
        ai_telemetry.ingest,
        ai_telemetry.MAX_BYTES,
    ),
    _otlp("traces"),
    _otlp("logs"),
    Route("GET", "/v2/ai-telemetry/records", READ_COSTS_SCOPE, ai_telemetry.records, misbehaves=False),
    Route("GET", "/v2/ai-telemetry/summary", READ_COSTS_SCOPE, summary.summary, misbehaves=False),
    Route("POST", "/events/v1/events", EVENT_SCOPE, events.create, events.MAX_BYTES),
    Route("GET", "/events/v1/events", READ_COSTS_SCOPE, events.events, misbehaves=False),
    Route("POST", "/v2/ai-control-plane/devices", ENROLL_SCOPE, devices.enroll),
    Route("GET", "/v2/ai-control-plane/devices", READ_COSTS_SCOPE, devices.devices, misbehaves=False),
    Route(
        "POST",
        "/v2/ai-control-plane/devices/{device_id}/heartbeat",
        HEARTBEAT_SCOPE,
        devices.heartbeat,
    ),
    Route("POST", "/v2/ai-control-plane/devices/{device_id}/ping", PING_SCOPE, devices.ping),
    _unit_cost("allocation", "sum"),
    _unit_cost("allocation", "replace"),
    _unit_cost("allocation", "delete"),
    _unit_cost("metric", "sum"),
    _unit_cost("metric", "replace"),
    _unit_cost("metric", "delete"),
    _posted("allocation"),
    _posted("metric"),
    Route("POST", _STREAMS, UNIT_COST_SCOPE, unit_cost.post, UNIT_COST_MAX_BYTES),
    Route("GET", _STREAMS, READ_UNIT_COST_SCOPE, unit_cost_streams.streams),
    Route("GET", f"{_STREAM}/records", READ_UNIT_COST_SCOPE, unit_cost.stream_records),
    Route("GET", f"{_STREAMS}/metric/{{stream}}", READ_UNIT_COST_SCOPE, unit_cost.metric_records),
    Route("GET", _STREAM, READ_UNIT_COST_SCOPE, unit_cost_streams.read),
    Route("PUT", _STREAM, CREATE_STREAM_SCOPE, unit_cost_streams.create),
    Route("DELETE", _STREAM, DELETE_STREAM_SCOPE, unit_cost_streams.delete),
    Route("GET", _CONNECTIONS, "connections:read_billings", billing_connections.connections),
    Route("POST", _CONNECTIONS, "connections:create_billing", billing_connections.create),
    Route("GET", _CONNECTION, "connections:read_billing", billing_connections.read),
    Route("PATCH", _CONNECTION, "connections:update_billing", billing_connections.change),
    Route("DELETE", _CONNECTION, "connections:delete_billing", billing_connections.delete),
    *_drops("external"),
    *_drops("anycost"),
    Route("GET", "/v2/insights", "insights:read_insights", insights.insights),
    Route("POST", "/v2/insights", "insights:create_insight", insights.create),
    Route("GET", _INSIGHT, "insights:read_insight", insights.read),
    Route("PATCH", _INSIGHT, "insights:update_insight", insights.change),
    Route("DELETE", _INSIGHT, "insights:delete_insight", insights.delete),
    Route("GET", f"{_INSIGHT}/comments", "insights:read_insight_comments", insights.comments),
    Route("POST", f"{_INSIGHT}/comments", "insights:create_insight_comment", insights.add_comment),
    Route("PATCH", f"{_INSIGHT}/comments/{{comment_id}}", "insights:update_insight_comment", insights.change_comment),
)
