"""The description of the local service. Served at its `/openapi.json`."""

from functools import cache

import orjson

from gateway.insights.changes import CommentBody, InsightChange, NewInsight
from gateway.insights.finding import INSIGHT_LIST, Insight, InsightAnswer
from gateway.insights.listing import comments_list
from gateway.insights.tables import Comment, CommentAnswer
from gateway.lists.openapi.document import (
    Json,
    document,
    model_schemas,
    read_folder,
    with_answers_to_bodies,
    written_out,
)
from gateway.lists.openapi.lists import ENVELOPE
from gateway.lists.openapi.record import shared_schemas
from gateway.lists.openapi.types import component_schemas
from gateway.local_service.ai_telemetry import RECORDS
from gateway.local_service.billing import DROPS, ROWS
from gateway.local_service.billing_connections import CONNECTIONS
from gateway.local_service.devices import DEVICES
from gateway.local_service.events import EVENTS
from gateway.local_service.unit_cost import RECORDS as STREAM_RECORDS
from gateway.local_service.unit_cost_streams import STREAMS

TEXT = """The stand-in for the cost management service that a gateway embeds, or that `telemetry-gateway service run` runs.

Every request carries an API key as the entire value of `Authorization`. Lists follow the conventions of the published interface. The
lists and the summary of AI telemetry, devices and events are not published by the service; they exist so that what arrived can be
checked. Every GET is answered to HEAD too: the same status and headers, without the body."""

SERVERS = [{"url": "http://127.0.0.1:4320", "description": "`listen.service`."}]

SHAPES = {
    "insights": INSIGHT_LIST,
    "comments": comments_list("").shape,
    "records": RECORDS.shape,
    "events": EVENTS.shape,
    "devices": DEVICES.shape,
    "stream_records": STREAM_RECORDS.shape,
    "streams": STREAMS.shape,
    "connections": CONNECTIONS.shape,
    "billing_drops": DROPS.shape,
    "billing_rows": ROWS.shape,
}


TOO_SLOW: Json = {"408": {"$ref": "#/components/responses/TooSlow"}}


@cache
def service_document() -> Json:
    read = with_answers_to_bodies(read_folder("gateway.local_service.openapi", "service"), TOO_SLOW)
    service = written_out(read, security, SHAPES, SERVERS)
    answers = component_schemas([*ENVELOPE, Insight, InsightAnswer, Comment, CommentAnswer])
    bodies = {"components": {"schemas": model_schemas([NewInsight, InsightChange, CommentBody]) | answers}}
    parts = [shared_schemas(), bodies, service]
    return document("AI telemetry gateway: local service", TEXT, parts)


@cache
def service_openapi() -> bytes:
    """The document as JSON."""
    return orjson.dumps(service_document())


def security(operation: Json) -> list[dict[str, list[str]]]:
    return [{"key": [operation["x-scope"]] if "x-scope" in operation else []}]
