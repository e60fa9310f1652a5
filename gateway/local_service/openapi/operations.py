"""The description of the service's operations, from their table. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from gateway.common.lists.openapi.described import Json, described, names_in, ref
from gateway.local_service.routes import Route

ERRORS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    408: "TooSlow",
    409: "Conflict",
    413: "TooLarge",
    415: "Media",
    429: "Throttled",
    500: "Fault",
    503: "Unavailable",
}
"""Status -> component of the answer."""
ALWAYS: Final = (400, 401, 403, 429, 500, 503)
WRITING: Final = (413, 415)
TOO_SLOW: Final = 408
NAMES: Final = {
    "insight_id": "InsightId", "comment_id": "CommentId", "device_id": "DeviceId", "stream": "Stream",
    "connection_id": "ConnectionId", "month": "Month",
}  # fmt: skip
"""Parameter of a path -> its component."""


def operation_paths(routes: Sequence[Route]) -> Json:
    """The path items of *routes*, before security and servers are written out."""
    paths: Json = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = described(
            route, parameters_of(route), errors_of(route)
        )
    return paths


def parameters_of(route: Route) -> Iterator[Json]:
    for name in names_in(route.path):
        yield ref("parameters", NAMES[name])
    yield from route.query
    if route.writes:
        yield ref("parameters", "IdempotencyKey")
        yield ref("parameters", "ContentEncoding")


def errors_of(route: Route) -> dict[int, str]:
    statuses = {*ALWAYS, *route.errors, *(WRITING if route.writes else ())}
    errors = {status: f"{'Otlp' if route.takes_otlp else ''}{ERRORS[status]}" for status in statuses}
    return errors | ({TOO_SLOW: ERRORS[TOO_SLOW]} if route.body else {}) | dict(route.own)
