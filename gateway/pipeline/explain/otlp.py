"""The items of an OTLP payload, each as if it had come alone. Pure."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from gateway.pipeline.explain.records import Traced, provenances_of
from gateway.pipeline.explain.story import Field
from gateway.read.view import Logs, Metrics, Traces
from gateway.rules.call import Call
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention
from gateway.rules.provenance import Provenance, RecordedExtracted
from gateway.rules.record import read_names

_FIELDS: Final = {
    Traces: (("resource_spans", "resourceSpans"), ("scope_spans", "scopeSpans"), ("spans", "spans")),
    Logs: (("resource_logs", "resourceLogs"), ("scope_logs", "scopeLogs"), ("log_records", "logRecords")),
    Metrics: (("resource_metrics", "resourceMetrics"), ("scope_metrics", "scopeMetrics"), ("metrics", "metrics")),
}
"""Fields of the view and their names in positions: resources, their scopes, the items."""


class Item(NamedTuple):
    """A span, a log record or a metric, and where it stands."""

    kind: type[Any]
    """Of the payload."""
    position: str
    value: Any
    scope: Any
    resource: Any
    faults: Mapping[str, str]
    """Of the payload, by position."""

    def alone(self, value: Any = None, tail: str = "", tail_alone: str = "") -> Any:
        """A payload of it alone, in the place of which *value* may stand, with the fault of the
        part at *tail*, which is then at *tail_alone*.
        """
        (resources, first), (scopes, second), (items, third) = _FIELDS[self.kind]
        of_scope = SimpleNamespace(scope=self.scope, **{items: [value or self.value]})
        of_resource = SimpleNamespace(resource=self.resource, **{scopes: [of_scope]})
        fault = self.faults.get(self.position + tail)
        at = f"{first}[0].{second}[0].{third}[0]{tail_alone}"
        return self.kind(SimpleNamespace(**{resources: [of_resource]}), {} if fault is None else {at: fault})


def items_of(payload: Traces | Logs | Metrics) -> Iterator[Item]:
    """Every item in its order."""
    kind = type(payload)
    (resources, first), (scopes, second), (items, third) = _FIELDS[kind]
    for i, of_resource in enumerate(getattr(payload.request, resources)):
        for j, of_scope in enumerate(getattr(of_resource, scopes)):
            for k, value in enumerate(getattr(of_scope, items)):
                position = f"{first}[{i}].{second}[{j}].{third}[{k}]"
                yield Item(kind, position, value, of_scope.scope, of_resource.resource, payload.faults)


ENVELOPE: Final[Mapping[str, Field]] = {
    **dict.fromkeys(("trace.trace_id", "trace.span_id", "trace.parent_span_id"), Field(None, Provenance("envelope"))),
    **dict.fromkeys(("source.library", "source.library_version"), Field(None, Provenance("scope"))),
    "source.format": Field(None, Provenance("envelope"), "the path that it was sent to"),
    "source.convention": Field(None, Provenance("rule"), "see chosen_by"),
}
"""What every item states without attributes."""


def traced_call(
    item: Item,
    call: Call,
    picked: RecordedExtracted,
    convention: Convention,
    envelope: Mapping[str, Field],
    context: Context,
) -> Traced:
    """*call*, which *item* was read as; its names are read from *picked* here."""
    record: Any = call.record
    read_names(picked, convention, record["source"], failed=record["status"] == "error")
    resource = provenances_of(item.resource.attributes, context.tags)
    return Traced(record, picked, picked.provenances(), resource, {**ENVELOPE, **envelope}, convention, context)
