"""The standard health service, `grpc.health.v1`: serving until the gateway stops.

It states what `/healthz` does; a full spool is an answer of each Export.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any, Final

from grpc import StatusCode
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthServicer

MAX_WATCHERS: Final = 1000
"""Streams that stay open, for which no key is needed."""


class Health(HealthServicer):  # type: ignore[misc]  # the library has no types
    """Given to `add_HealthServicer_to_server`; its methods are named as the service's."""

    def __init__(self, services: Collection[str]) -> None:
        self._services = frozenset(services) | {""}
        self._stopping = asyncio.Event()
        self._watchers = 0

    def stop(self) -> None:
        """Nothing is served from now on; those who watch learn it, and their streams end."""
        self._stopping.set()

    async def Check(self, request: HealthCheckRequest, context: Any) -> HealthCheckResponse:  # noqa: N802 - the service's
        if request.service not in self._services:
            await context.abort(StatusCode.NOT_FOUND, "no such service")
        return self._status(request.service)

    async def Watch(self, request: HealthCheckRequest, context: Any) -> AsyncIterator[HealthCheckResponse]:  # noqa: N802 - the service's
        if self._watchers >= MAX_WATCHERS:
            await context.abort(StatusCode.RESOURCE_EXHAUSTED, "too many streams watch; call Check")
        self._watchers += 1
        try:
            yield self._status(request.service)
            if not self._stopping.is_set():
                await self._stopping.wait()
                yield self._status(request.service)
        finally:
            self._watchers -= 1

    def _status(self, service: str) -> HealthCheckResponse:
        if service not in self._services:
            return HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        is_serving = not self._stopping.is_set()
        return HealthCheckResponse(
            status=HealthCheckResponse.SERVING if is_serving else HealthCheckResponse.NOT_SERVING
        )
