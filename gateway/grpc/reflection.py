"""The standard reflection service, with a bound: no key is asked of its streams."""

from collections.abc import AsyncIterator
from typing import Any, Final

import opentelemetry.proto.collector.logs.v1.logs_service_pb2
import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2
import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401 - described, with the two above
from grpc import StatusCode
from grpc_reflection.v1alpha import reflection

MAX_STREAMS: Final = 100
SERVICE: Final = reflection.SERVICE_NAME


class Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc]  # the library has no types
    """Given to `add_ServerReflectionServicer_to_server`; its method is named as the service's."""

    _streams = 0

    async def ServerReflectionInfo(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - the service's
        if self._streams >= MAX_STREAMS:
            await context.abort(StatusCode.RESOURCE_EXHAUSTED, "too many reflection streams: end one, or ask later")
        self._streams += 1
        try:
            async for answer in super().ServerReflectionInfo(requests, context):
                yield answer
        finally:
            self._streams -= 1
