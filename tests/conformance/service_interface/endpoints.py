"""A request to each endpoint of the local service that it answers
with success, once `prepared` ran.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gateway.local_service.routes import ROUTES, Route
from tests.unit.local_service.conftest import Client, Reply, ai_envelope, ai_record

HOUR = {
    "timestamp": "2026-01-05T10:00:00Z",
    "granularity": "HOURLY",
    "element_name": "acme",
    "filter": {"custom:Product": ["chat"]},
    "value": "12",
}
DAY = {"timestamp": "2026-01-05T00:00:00Z", "associated_cost": {"custom:Product": "chat"}, "value": "4"}
DROP_ROW = {
    "lineitem/type": "Usage",
    "time/usage_start": "2026-01-05T10:00:00Z",
    "resource/id": "ai/x",
    "resource/service": "x",
    "usage/amount": "120",
    "usage/units": "tokens",
    "cost/cost": "0.1",
}
DROP = {"month": "2026-01-01T00:00:00Z", "operation": "replace_hourly", "data": [DROP_ROW]}
ENROLMENT = {
    "enrollment_id": "e-1",
    "epoch": 1,
    "device_id": "dev-1",
    "instance_id": "i-1",
    "kind": "workstation",
    "first_seen_at": "2026-01-05T09:59:58Z",
}
BEAT = {"instance_id": "i-1", "sequence": 1, "observed_at": "2026-01-05T10:00:00Z", "status": "healthy"}
EVENT = {"title": "tokens.used", "source": "gw", "timestamp": "2026-01-05T10:00:00Z"}
CONNECTION = {"id": "conn-1", "name": "the connection"}
INSIGHT = {"title": "spans are lost", "category": "quality", "effort": "low"}


def without(record: Mapping[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in record.items() if key != name}


class Made(NamedTuple):
    """What is there to be asked for."""

    insight_id: str
    comment_id: str

    def path(self, route: Route) -> str:
        values = {
            "device_id": "dev-1",
            "stream": "metric" if "/metric/" in route.path else "allocation",
            "connection_id": "conn-1",
            "month": "2026-01",
            "insight_id": self.insight_id,
            "comment_id": self.comment_id,
        }
        return route.path.format_map(values)


async def prepared(client: Client) -> Made:
    """A device, two streams, a billing connection with a drop, an insight with a comment."""
    await client.post("/v2/ai-control-plane/devices", ENROLMENT)
    await client.post("/unit-cost/v1/telemetry/allocation/allocation/sum", {"records": [HOUR]})
    await client.post("/unit-cost/v1/telemetry/metric/metric/sum", {"records": [DAY]})
    await client.post("/v2/connections/billing", CONNECTION)
    await client.post("/v2/connections/billing/external/conn-1/billing_drops", DROP)
    insight_id = (await client.post("/v2/insights", INSIGHT)).json["insight"]["id"]
    commented = await client.post(f"/v2/insights/{insight_id}/comments", {"text": "looked at"})
    return Made(insight_id, commented.json["comment"]["id"])


def body_of(route: Route) -> object:
    """None where no body is sent."""
    if route.method in ("GET", "DELETE") or route.path.endswith("/ping"):
        return None
    by_end: dict[str, object] = {
        "ai-telemetry/records": ai_envelope(ai_record("a")),
        "otlp/v1/traces": {"resourceSpans": [{"scopeSpans": [{"spans": []}]}]},
        "otlp/v1/logs": {"resourceLogs": [{"scopeLogs": [{"logRecords": []}]}]},
        "v1/events": EVENT,
        "ai-control-plane/devices": ENROLMENT,
        "heartbeat": BEAT,
        "validate_billing_drop": DROP,
        "billing_drops": DROP,
        "connections/billing": {"name": "another connection"},
        "billing/{connection_id}": {"status": "active"},
        "v2/insights": INSIGHT,
        "{insight_id}": {"status": "ignored"},
        "comments": {"text": "again"},
        "{comment_id}": {"text": "again"},
        "allocation/{stream}/sum": {"records": [HOUR]},
        "allocation/{stream}/replace": {"records": [HOUR]},
        "allocation/{stream}/delete": {"records": [without(HOUR, "value")]},
        "metric/{stream}/sum": {"records": [DAY]},
        "metric/{stream}/replace": {"records": [DAY]},
        "metric/{stream}/delete": {"records": [{"timestamp": DAY["timestamp"]}]},
        "allocation/{stream}": {"records": [HOUR]},
        "metric/{stream}": {"records": [DAY]},
        "v1/telemetry": {"records": [HOUR | {"telemetry-stream": "allocation"}, DAY | {"telemetry-stream": "metric"}]},
        "telemetry/{stream}": {"kind": "allocation", "granularity": "HOURLY", "dimensions": ["custom:Product"]},
    }
    return next(body for end, body in by_end.items() if route.path.endswith(end))


async def ask(client: Client, route: Route, made: Made) -> Reply:
    path, body = made.path(route), body_of(route)
    match route.method:
        case "GET":
            return await client.get(path)
        case "PATCH":
            return await client.patch(path, body)
        case "DELETE":
            return await client.delete(path + "?force=true" * route.path.endswith("{stream}"))
        case "PUT":
            return await client.put(path, body)
        case _:
            headers = {} if route.signal is None else {"Content-Type": "application/json"}
            return await client.post(path, b"" if body is None else body, headers)


LISTS = [
    route
    for route in ROUTES
    if route.method == "GET" and route.path.endswith(("s", "records", "/billing", "{month}", "v1/telemetry"))
]
"""`/v2/ai-telemetry/summary`, one insight and one connection are no lists; a metric stream's
records have two addresses."""
