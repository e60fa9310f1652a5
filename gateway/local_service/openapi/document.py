"""The description of the local service. Served at its `/openapi.json`."""

from functools import cache

import orjson

from gateway.common.lists.openapi.document import (
    Json,
    document,
    model_schemas,
    read_folder,
    written_out,
)
from gateway.common.lists.openapi.lists import ENVELOPE
from gateway.common.lists.openapi.record import shared_schemas
from gateway.common.lists.openapi.types import component_schemas
from gateway.local_service.openapi.operations import operation_paths
from gateway.local_service.routes import ROUTES
from gateway.usage.insights.changes import CommentBody, InsightChange, NewInsight
from gateway.usage.insights.finding import Insight, InsightAnswer
from gateway.usage.insights.kept import Comment, CommentAnswer

TEXT = """The stand-in for the cost management service that a gateway embeds, or that `telemetry-gateway service run` runs.

Every request carries an API key as the entire value of `Authorization`. Lists follow the conventions of the published interface. The
lists and the summary of AI telemetry, devices and events are not published by the service; they exist so that what arrived can be
checked. Every GET is answered to HEAD too: the same status and headers, without the body."""

SERVERS = [{"url": "http://127.0.0.1:4320", "description": "`listen.service`."}]


@cache
def service_document() -> Json:
    read = read_folder("gateway.local_service.openapi", "service")
    read["paths"] |= operation_paths(ROUTES)
    service = written_out(read, security, SERVERS)
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
