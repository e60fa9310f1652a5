"""The standard reflection service, in both of its versions, with a bound: no key is asked of its
streams.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

import opentelemetry.proto.collector.logs.v1.logs_service_pb2
import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2
import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401 - described, with the two above
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import Default
from grpc_reflection.v1alpha.reflection_pb2 import (
    ErrorResponse,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
    ServiceResponse,
)

from gateway.serve.grpc.call import GrpcCall
from gateway.serve.grpc.small_messages import RESOURCE_EXHAUSTED, SmallMessages

SERVICES: Final = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
"""Their messages are the same bytes."""
MAX_STREAMS: Final = 100
NOT_FOUND: Final = 5


class Reflection:
    """Describes *services*, by their full names."""

    def __init__(self, services: Collection[str]) -> None:
        self.services = sorted(services)
        self.streams = 0
        self.routes: dict[str, Callable[[GrpcCall], SmallMessages | None]] = {
            f"/{name}/ServerReflectionInfo": self._begin for name in SERVICES
        }

    def _begin(self, call: GrpcCall) -> SmallMessages | None:
        if self.streams >= MAX_STREAMS:
            call.end(RESOURCE_EXHAUSTED, "too many reflection streams: end one, or ask later")
            return None
        return ReflectionStream(self, call)


class ReflectionStream(SmallMessages):
    def __init__(self, reflection: Reflection, call: GrpcCall) -> None:
        super().__init__(call)
        self._reflection = reflection
        self._is_open = True
        reflection.streams += 1

    def message(self, body: bytes) -> None:
        asked = ServerReflectionRequest.FromString(body)
        found = answer_to(asked, self._reflection.services)
        found.original_request.CopyFrom(asked)
        self.call.answer(found.SerializeToString())

    def ended(self) -> None:
        self.gone()
        self.call.end()

    def gone(self) -> None:
        if self._is_open:
            self._is_open = False
            self._reflection.streams -= 1


def answer_to(asked: ServerReflectionRequest, services: Collection[str]) -> ServerReflectionResponse:
    """What is known of what is *asked*."""
    pool = Default()
    try:
        match asked.WhichOneof("message_request"):
            case "list_services":
                listed = [ServiceResponse(name=name) for name in services]
                return ServerReflectionResponse(list_services_response=ListServiceResponse(service=listed))
            case "file_by_filename":
                return described(pool.FindFileByName(asked.file_by_filename))
            case "file_containing_symbol":
                return described(pool.FindFileContainingSymbol(asked.file_containing_symbol))
            case _:  # extensions, of which none of the files has any
                pass
    except KeyError:
        pass
    return ServerReflectionResponse(error_response=ErrorResponse(error_code=NOT_FOUND, error_message="not found"))


def described(file: FileDescriptor) -> ServerReflectionResponse:
    """*file* and all that it imports, each once."""
    files = {each.name: each.serialized_pb for each in with_imports(file, set())}
    return ServerReflectionResponse(
        file_descriptor_response=FileDescriptorResponse(file_descriptor_proto=list(files.values()))
    )


def with_imports(file: FileDescriptor, seen: set[str]) -> Iterator[FileDescriptor]:
    if file.name not in seen:
        seen.add(file.name)
        yield file
        for imported in file.dependencies:
            yield from with_imports(imported, seen)
