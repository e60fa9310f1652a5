"""Every endpoint of the service: method, path, the scope that guards it, what it does. One table.

The lists and the summary of AI telemetry, devices and events are not published by the service; they exist so that what
arrived can be checked, need `billing:read_costs`, and never misbehave.
"""

from typing import NamedTuple

from gateway.contract.scopes import INGEST_SCOPE
from gateway.local_service import (
    ai_telemetry,
    billing,
    devices,
    events,
    insights,
    summary,
    unit_cost,
    unit_cost_records,
)
from gateway.local_service.call import Operation
from gateway.local_service.unit_cost_records import Action, Kind

SMALL_BODY_BYTES = 1024 * 1024
_READ = "billing:read_costs"
_INSIGHT = "/v2/insights/{insight_id}"


class Route(NamedTuple):
    method: str
    path: str
    scope: str
    operation: Operation
    max_bytes: int = SMALL_BODY_BYTES
    """Of the decompressed body."""
    misbehaves: bool = True

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def _unit_cost(kind: Kind, action: Action) -> Route:
    return Route(
        "POST",
        f"/unit-cost/v1/telemetry/{kind}/{{stream}}/{action}",
        "unit-cost_v1:manage_telemetry_records",
        unit_cost.manage(kind, action),
        unit_cost_records.MAX_BYTES,
    )


def _billing(connection: str) -> tuple[Route, Route]:
    base = f"/v2/connections/billing/{connection}"
    scope = "connections:create_billing_external_"
    return (
        Route(
            "POST",
            f"{base}/validate_billing_drop",
            f"{scope}validate_billing_drop",
            billing.validate,
            billing.MAX_BYTES,
        ),
        Route(
            "POST", f"{base}/{{connection_id}}/billing_drops", f"{scope}billing_drop", billing.drop, billing.MAX_BYTES
        ),
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v2/ai-telemetry/records",
        INGEST_SCOPE,
        ai_telemetry.ingest,
        ai_telemetry.MAX_BYTES,
    ),
    Route("GET", "/v2/ai-telemetry/records", _READ, ai_telemetry.records, misbehaves=False),
    Route("GET", "/v2/ai-telemetry/summary", _READ, summary.summary, misbehaves=False),
    Route("POST", "/events/v1/events", "events_v1:create_event", events.create, events.MAX_BYTES),
    Route("GET", "/events/v1/events", _READ, events.events, misbehaves=False),
    Route("POST", "/v2/ai-control-plane/devices", "ai-control-plane:enroll-device", devices.enroll),
    Route("GET", "/v2/ai-control-plane/devices", _READ, devices.devices, misbehaves=False),
    Route(
        "POST",
        "/v2/ai-control-plane/devices/{device_id}/heartbeat",
        "ai-control-plane:heartbeat-device",
        devices.heartbeat,
    ),
    Route("POST", "/v2/ai-control-plane/devices/{device_id}/ping", "ai-control-plane:ping-device", devices.ping),
    _unit_cost("allocation", "sum"),
    _unit_cost("allocation", "replace"),
    _unit_cost("allocation", "delete"),
    _unit_cost("metric", "sum"),
    _unit_cost("metric", "replace"),
    _unit_cost("metric", "delete"),
    Route("GET", "/unit-cost/v1/telemetry/{stream}/records", "unit-cost_v1:read_telemetry", unit_cost.stream_records),
    *_billing("external"),
    *_billing("anycost"),
    Route("GET", "/v2/insights", "insights:read_insights", insights.insights),
    Route("POST", "/v2/insights", "insights:create_insight", insights.create),
    Route("GET", _INSIGHT, "insights:read_insight", insights.read),
    Route("PATCH", _INSIGHT, "insights:update_insight", insights.change),
    Route("DELETE", _INSIGHT, "insights:delete_insight", insights.delete),
    Route("GET", f"{_INSIGHT}/comments", "insights:read_insight_comments", insights.comments),
    Route("POST", f"{_INSIGHT}/comments", "insights:create_insight_comment", insights.add_comment),
    Route("PATCH", f"{_INSIGHT}/comments/{{comment_id}}", "insights:update_insight_comment", insights.change_comment),
)
