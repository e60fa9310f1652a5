"""Each item of a body that an AI gateway pushed to `/v1/sources/{name}`: what its source
makes of it, and why. Pure.

The source itself reads the whole body once, over documents whose values carry their origin; what
stands where is noted on the way (`placed`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import orjson

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.flags import RECEIVED_TIME
from gateway.common.traced import recording
from gateway.counting.calls.digest import identity
from gateway.pipeline.explain.log_records import explain_log_records
from gateway.pipeline.explain.points import source_fields
from gateway.pipeline.explain.reading import RECORD_ID, REPORTED, Placed, PlacedRead, Reading, origins_of
from gateway.pipeline.explain.records import Traced, explain_call, flagged
from gateway.pipeline.explain.spans import explain_spans
from gateway.pipeline.explain.story import Explanation, Field, Single, WholeSum, leaves
from gateway.products.documents import Document
from gateway.products.otlp import decoded_request, export_request
from gateway.products.reading import documents_of
from gateway.products.source import Source
from gateway.read.view import Traces
from gateway.rules.call import Call
from gateway.rules.context import Context
from gateway.rules.points import Point
from gateway.rules.provenance import Provenance
from gateway.rules.texts import Json

_PATH = "the path that it was sent to"
_MAX_NAMES = 6
_SUPPRESSED = {
    "not_a_call": "AI work that is no call of a model: a step, an agent, a tool, a search",
    "no_usage_told": "a model was called on the way, and no field states what it used",
    "split_message": "another part of a call that the row with its tokens reports",
    "in_progress": "it is not done yet; its id comes again",
}
_REJECTED = {
    "invalid_time": "its time is none that a call can have",
    "invalid_value": "a number in it is none that a sum can have",
    "not_an_object": "an object must stand here",
    "not_json": "the line is not JSON",
    "not_otlp": "it looks like OTLP, and cannot be decoded",
    "foreign_billing_row": "a row of billing data that LiteLLM did not write",
    "unknown_shape": "it is none of the shapes that this source sends",
    "missing_field": "a field that every record has is missing",
    "invalid_field": "the field breaks its rule",
    "unknown_schema": "it is no record of a schema that is known",
    "too_large": "it unpacks to more than is taken",
    "unreadable_record": "it is no base64, or cannot be unpacked",
    "no_items": "the mapping's list of items is not there",
}


class _Read(NamedTuple):
    """A body, read."""

    source: Source
    documents: Sequence[Document]
    payload: int
    context: Context


def explain_entries(source: Source, body: bytes, payload: int, context: Context) -> Iterator[Single]:
    """Every item of *body*, calls in the order in which they are counted. Raises BadPayload."""
    documents = documents_of(source, body)
    for rejection in documents.rejected:
        yield Single(_rejected(payload, rejection.position, rejection.reason))
    others: list[Document] = []
    for document in documents.found:
        request = export_request(document.value)
        if request is None:
            others.append(document)
        else:
            yield from _otlp(request, document.position, payload, context)
    if others or not documents.found:
        yield from _entries(_Read(source, others, payload, context))


def _otlp(request: Mapping[str, Json], position: str, payload: int, context: Context) -> Iterator[Single]:
    """The spans or log records of one document, as if it had come alone."""
    try:
        decoded = decoded_request(request)
        explain = explain_spans if isinstance(decoded, Traces) else explain_log_records
        singles = list(explain(cast("Any", decoded), payload, context))
    except (BadPayload, orjson.JSONEncodeError):
        yield Single(_rejected(payload, position, "not_otlp"))
        return
    for single in singles:
        single.explanation.position = f"{position}.{single.explanation.position}".lstrip(".")
        yield single


def _entries(read: _Read) -> Iterator[Single]:
    out = PlacedRead()
    with recording() as recorded:
        documents = [document._replace(value=recorded.traced(document.value)) for document in read.documents]
        read.source.read(documents, out, read.context)
    calls = iter(out.calls.calls)
    for placed in out.calls.placed:
        yield _call(read, placed, next(calls)) if placed.is_counted else Single(_uncounted(read, placed))
    for rejection in out.calls.rejected:
        yield Single(_rejected(read.payload, rejection.position, rejection.reason))
    points = iter(out.measured.points)
    rows = _Rows(read)
    for placed in out.measured.placed:
        yield rows.point(placed, next(points)) if placed.is_counted else Single(_uncounted(read, placed))
    for rejection in out.measured.rejected:
        yield Single(_rejected(read.payload, rejection.position, rejection.reason))


def _document(read: _Read, position: str) -> str:
    """Position of the last document that the item at *position* may stand in; a body
    that is one document has none.
    """
    return next((x.position for x in reversed(read.documents) if position.startswith(x.position)), "")


# ---- no calls


def _uncounted(read: _Read, placed: Placed) -> Explanation:
    explanation = Explanation(
        read.payload, placed.position.lstrip("."), "entry", convention=read.source.name, chosen_by=_PATH
    )
    if placed.reason:
        explanation.end("suppressed", placed.reason, _SUPPRESSED.get(placed.reason, "no call"))
    else:
        explanation.end("ignored", None, "no AI usage: nothing in it is a call of a model")
    return explanation


def _rejected(payload: int, position: str, reason: str) -> Explanation:
    because = _REJECTED.get(reason, "it cannot be read")
    return Explanation(payload, position.lstrip("."), "entry", outcome="rejected", reason=reason, because=because)


# ---- calls


def _call(read: _Read, placed: Placed, call: Call) -> Single:
    explanation = Explanation(
        read.payload, placed.position.lstrip("."), "entry", convention=read.source.name, chosen_by=_PATH
    )
    reading = placed.reading
    if reading is None:
        explanation.record_id, explanation.record_id_from = call.record["record_id"], "the record itself"
        explanation.fields, explanation.input = _as_it_stood(call, placed)
        return Single(explanation, call, identity(call))
    traced = _traced(read, placed, reading, call)
    explanation.convention = reading.convention.name
    return explain_call(explanation, call, traced, _identity(traced.origins.get(RECORD_ID, Provenance("rule"))))


def _traced(read: _Read, placed: Placed, reading: Reading, call: Call) -> Traced:
    origins = origins_of(placed.position, _document(read, placed.position), reading)
    record = cast("dict[str, Any]", call.record)
    return Traced(
        record,
        reading.picked,
        {field: explanation for field, explanation in origins.items() if field not in REPORTED},
        {},
        _envelope(record, origins),
        reading.convention,
        read.context,
    )


def _envelope(record: Mapping[str, Any], origins: Mapping[str, Provenance]) -> dict[str, Field]:
    """What a report states of a call beside its names and counts."""
    fields = {path: Field(None, origins[path]) for path in REPORTED if path in origins}
    if RECEIVED_TIME in record["flags"]:
        fields["started_at"] = Field(None, Provenance("envelope"), "when it was received: it states no time")
    if "error_type" in fields and not fields["error_type"].provenance.attributes:
        fields["error_type"] = Field(None, Provenance("default"), "it failed, and nothing says how")
    return {**fields, **source_fields()}


def _identity(explanation: Provenance) -> str:
    if not explanation.attributes:
        return "what it says, and when"
    return ", ".join(explanation.attributes[:_MAX_NAMES])


def _as_it_stood(call: Call, placed: Placed) -> tuple[dict[str, Field], WholeSum | None]:
    """A record that came as a record: its own fields, and what we put beside them."""
    sent = leaves(placed.value) if isinstance(placed.value, dict) else {}
    record = cast("dict[str, Any]", call.record)
    fields = {
        path: Field(found, Provenance("item", (path,)) if path in sent else Provenance("default"))
        for path, found in leaves(record).items()
    }
    fields["flags"] = flagged(record["flags"])
    given = record["usage"].get("input_tokens")
    return fields, None if given is None else WholeSum("inclusive", "a record's input holds the cache", str(given))


# ---- sums


class _Rows:
    """The rows of one body; each is asked about once, whatever number of points it gives."""

    def __init__(self, read: _Read) -> None:
        self._read = read
        self._row: object = None
        self._origins: Mapping[str, Provenance] = {}

    def point(self, placed: Placed, point: Point) -> Single:
        """One kind of what a row sums up."""
        read, reading = self._read, placed.reading
        assert reading is not None  # noqa: S101 - a point was read of a row
        if reading.reported is not self._row:
            self._row = reading.reported
            self._origins = origins_of(placed.position, _document(read, placed.position), reading)
        position = f"{placed.position} ({point.kind})".lstrip(" .")
        explanation = Explanation(read.payload, position, "sum", convention=reading.convention.name, chosen_by=_PATH)
        named = self._origins.get(_VALUES.get(point.kind, point.kind), Provenance("rule"))
        explanation.because = f"counts {point.kind}, by {', '.join(named.attributes) or 'a rule of its source'}"
        return Single(explanation, point=point, picked=reading.picked, origins=self._origins)


_VALUES = {"requests": "calls", "total_tokens": "total"}
"""Kind of a point -> the value that it was made of, where that is called otherwise."""
