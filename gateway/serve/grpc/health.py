"""The standard health service, `grpc.health.v1`: serving until the gateway stops.

It states what `/healthz` does; a full spool is an answer of each Export. No key is asked for.
"""

from collections.abc import Callable, Collection
from typing import Final

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from gateway.serve.grpc.call import GrpcCall
from gateway.serve.grpc.small_messages import SmallMessages

SERVICE: Final = "grpc.health.v1.Health"
MAX_WATCHERS: Final = 1000
"""Streams that stay open, for which no key is needed."""
NOT_FOUND, RESOURCE_EXHAUSTED = 5, 8


class Health:
    """*services*: their full names."""

    def __init__(self, services: Collection[str]) -> None:
        self._services = frozenset(services) | {""}
        self._is_serving = True
        self._watches: dict[Watch, None] = {}
        self.routes: dict[str, Callable[[GrpcCall], SmallMessages]] = {
            f"/{SERVICE}/Check": lambda call: Check(self, call),
            f"/{SERVICE}/Watch": lambda call: Watch(self, call),
        }

    def stop(self) -> None:
        """Nothing is served from now on; those who watch are sent that, and their streams end."""
        self._is_serving = False
        for watch in list(self._watches):
            watch.end()

    def knows(self, service: str) -> bool:
        return service in self._services

    def status(self, service: str) -> bytes:
        """A HealthCheckResponse."""
        status = HealthCheckResponse.SERVING if self._is_serving else HealthCheckResponse.NOT_SERVING
        if service not in self._services:
            status = HealthCheckResponse.SERVICE_UNKNOWN
        encoded: bytes = HealthCheckResponse(status=status).SerializeToString()
        return encoded

    def add(self, watch: "Watch") -> bool:
        """False where there are too many."""
        if len(self._watches) >= MAX_WATCHERS:
            return False
        self._watches[watch] = None
        return True

    def remove(self, watch: "Watch") -> None:
        self._watches.pop(watch, None)


class Check(SmallMessages):
    def __init__(self, health: Health, call: GrpcCall) -> None:
        super().__init__(call)
        self._health = health

    def message(self, body: bytes) -> None:
        service = HealthCheckRequest.FromString(body).service
        if self._health.knows(service):
            self.call.end(last=self._health.status(service))
        else:
            self.call.end(NOT_FOUND, "no such service")


class Watch(SmallMessages):
    def __init__(self, health: Health, call: GrpcCall) -> None:
        super().__init__(call)
        self._health = health
        self._service: str | None = None
        """None until it was asked for."""

    def message(self, body: bytes) -> None:
        if self._service is not None or not self._health.add(self):
            self._health.remove(self)
            self.call.end(RESOURCE_EXHAUSTED, "too many streams watch; call Check")
            return
        self._service = HealthCheckRequest.FromString(body).service
        self.call.answer(self._health.status(self._service))

    def ended(self) -> None:
        """The stream goes on until the client or the gateway ends it."""
        if self._service is None:
            super().ended()

    def gone(self) -> None:
        self._health.remove(self)

    def end(self) -> None:
        """Send the status once more, as the last one."""
        self._health.remove(self)
        if self._service is not None:
            self.call.end(last=self._health.status(self._service))
