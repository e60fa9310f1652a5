"""Builders: log records as a sender's SDK would encode them, and what becomes of them."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from gateway.read.otlp_protobuf import decode_logs
from gateway.rules.call import Call, Normalised
from gateway.rules.context import Context
from gateway.rules.logs import normalise_logs
from tests.unit.rules.spans import CONTEXT, END_NS, any_value, key_values


def add_record(
    message: ExportLogsServiceRequest,
    attributes: Mapping[str, Any],
    *,
    scope: str = "some.scope",
    resource: Mapping[str, Any] | None = None,
    body: str = "",
    **fields: Any,
) -> None:
    resource_logs = message.resource_logs.add()
    resource_logs.resource.attributes.extend(key_values(resource or {}))
    scope_logs = resource_logs.scope_logs.add()
    scope_logs.scope.name = scope
    record = scope_logs.log_records.add(attributes=key_values(attributes), **{"time_unix_nano": END_NS, **fields})
    if body:
        record.body.CopyFrom(any_value(body))


def request(attributes: Mapping[str, Any], **rest: Any) -> ExportLogsServiceRequest:
    message = ExportLogsServiceRequest()
    add_record(message, attributes, **rest)
    return message


def normalised(attributes: Mapping[str, Any], *, context: Context = CONTEXT, **rest: Any) -> Normalised:
    return normalise_logs(decode_logs(request(attributes, **rest).SerializeToString()), context)


def call_of(attributes: Mapping[str, Any], **rest: Any) -> Call:
    """The call that a log record reports; fails when it is none."""
    out = normalised(attributes, **rest)
    assert len(out.calls) == 1, out
    return out.calls[0]
