"""What may be wrong with a usage event or a unit-cost record: closed codes, and what a
sender does about each. Pure.

The words name fields and limits, never what a sender wrote.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from spool.unit_cost import Kind, Mismatch

FIELDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "allocation": ("timestamp", "granularity", "element_name", "filter", "value"),
    "metric": ("timestamp", "granularity", "associated_cost", "value"),
}
OLDER_ELEMENT: Final = "element-name"
"""As older clients write `element_name`."""
KNOWN: Final[Mapping[Kind, frozenset[str]]] = {
    "allocation": frozenset({*FIELDS["allocation"], OLDER_ELEMENT}),
    "metric": frozenset(FIELDS["metric"]),
}
OF_KIND: Final[Mapping[Kind, str]] = {"allocation": "an allocation record's", "metric": "a metric record's"}
REMEDIES: Final[Mapping[str, str]] = {
    # events
    "not_an_object": "an event is a JSON object",
    "title_missing": "title: give 1 to 256 characters",
    "title_longer_than_256": "title: give at most 256 characters",
    "source_missing": "source: give 1 to 256 characters, the system that the event comes from",
    "source_longer_than_256": "source: give at most 256 characters",
    "timestamp_not_rfc3339": "timestamp: give RFC 3339 in UTC, such as 2026-01-05T10:00:00Z, or leave it out",
    "filters_not_lists_of_texts": "filters: give an object of lists of texts, such as a dimension and its values",
    "metadata_not_an_object": "metadata: give an object",
    "event_id_differs": "event_id: metadata.event_id is another one; give one of them, or the same in both",
    "event_id_not_text": "metadata.event_id (or event_id): give text of up to 256 characters or a whole number, the same on each resend",
    "event_larger_than_64_kib": "the event: at most 64 KiB",
    "event_too_deep": "the event: at most 200 levels of objects and lists",
    "line_not_json": "it is not JSON; the lines around it are taken",
    "angle_bracket_in_text": "no text of an event may hold < or >; events.angle_brackets: replace lets the gateway replace them",
    "route_unknown": "route: one of event, record, both, or leave it out",
    "stream_missing": "metadata.stream: the route names a record, so name its stream",
    "value_missing": "metadata.value: the route names a record, so give its quantity",
    "filters_not_one_value": "filters: for a metric stream each dimension has one value; metadata.element_name makes it an allocation",
    # CloudEvents
    "cloud_event_not_an_object": "a CloudEvent is a JSON object",
    "specversion_missing": 'specversion: give "1.0"; an event that is no CloudEvent is sent as application/json',
    "specversion_not_1_0": 'specversion: give "1.0", as text; no other version of CloudEvents is read',
    "id_missing": "id: give text, another one for each event of a source, the same on each resend",
    "type_missing": "type: give 1 to 256 characters, the name of what happened",
    "type_longer_than_256": "type: give at most 256 characters",
    "time_not_rfc3339": "time: give RFC 3339 with Z or an offset, such as 2026-01-05T10:00:00Z, or leave it out",
    "subject_not_text": "subject: give text, or leave it out",
    "dataschema_not_text": "dataschema: give text, or leave it out",
    "datacontenttype_not_json": "datacontenttype: give application/json, with the data as JSON; in binary mode it is the header Content-Type",
    "data_base64_not_read": "data_base64: give the data as a JSON object in data",
    "data_not_json": "data: the body is not valid JSON, as its Content-Type says",
    "data_not_an_object": "data: give a JSON object, or leave it out",
    "data_event_id_differs": "data.event_id: a CloudEvent is known by its source and id; leave it out, or give the id in it",
    "data_cloudevent_reserved": "data.cloudevent: the gateway writes the attributes there; give this field another name",
    "data_filters_not_lists_of_texts": "data.filters: give an object of lists of texts, such as a dimension and its values",
    "attribute_name_invalid": "names of attributes have lower-case letters and digits alone; put other fields into data",
    "attribute_not_text": "give an extension text, a whole number, true or false; put other values into data",
    "attribute_repeated": "give the header of an attribute once",
    "attribute_not_utf8": "percent-encode the header's value as UTF-8",
    # records, of events too
    "invalid_json": "the body is not JSON",
    "invalid_records": 'records: give {"records": [...]} with at least one record',
    "too_many_records": "records: at most 10000 a request; send several",
    "invalid_stream": "stream: letters, digits, _ . and - alone, 1 to 256 of them, and not dots alone",
    "invalid_record": "a record is a JSON object",
    "unknown_field": "a record of this kind has no such field",
    "missing_timestamp": "timestamp: it is needed",
    "invalid_timestamp": "timestamp: give ISO 8601 with Z or an offset, or a date",
    "future_timestamp": "timestamp: at most 24 hours from now",
    "missing_granularity": "granularity: one of HOURLY, DAILY, MONTHLY is needed",
    "invalid_granularity": "granularity: one of HOURLY, DAILY, MONTHLY; for a metric stream DAILY or MONTHLY",
    "missing_element_name": "element_name: it is needed in an allocation stream",
    "invalid_element_name": "element_name: give text of 1 to 256 characters; a metric stream has none",
    "missing_filter": 'filter: it is needed in an allocation stream; {} or "*" stands for all spend',
    "invalid_filter": "filter: give an object, dimension -> list of texts",
    "too_many_dimensions": "filter (associated_cost of a metric): at most 5 dimensions",
    "too_many_values": "filter: 1 to 20 values a dimension",
    "unrecognized_filter": "filter (associated_cost of a metric): a dimension is custom:<name>, tag:<name> or a known one; unit_cost.dimensions adds others",
    "invalid_associated_cost": "associated_cost: give an object, dimension -> one text",
    "missing_value": "value: it is needed",
    "invalid_value": "value: give a decimal number, as text or number",
    "value_too_long": "value: at most 15 significant digits",
    "value_not_positive": "value: it needs to be greater than 0 in an allocation stream; to take a record away, delete it",
    "value_in_delete": "value: a delete has none",
    # against the stream
    "stream_kind": "kind: the stream is of the other one",
    "stream_granularity": "granularity: the stream has another one",
    "stream_dimensions": "filter (associated_cost of a metric): the stream has another set of dimensions, and every record needs them all",
    "stream_unknown": "stream: it is not known here; nothing was sent to it yet, so there is nothing to delete",
    "stream_holds_records": "stream: it holds records; force=true deletes them too",
    "invalid_force": "force: true or false",
    "invalid_shape": 'give {"kind", "granularity", "dimensions"} of the stream alone',
    "invalid_kind": "kind: one of allocation, metric",
    "invalid_dimensions": "dimensions: give a list of up to 5 different names",
    "too_many_streams": "stream: it would be a new one, and there are as many as unit_cost.max_streams allows",
    "idempotency_key_reused": "the Idempotency-Key was used for another request: take a new one",
}

_VALUE: Final = "metadata.value (or quantity)"
EVENT_FIELDS: Final[Mapping[str, str]] = {
    "invalid_stream": "metadata.stream",
    "invalid_granularity": "metadata.granularity",
    "invalid_element_name": "metadata.element_name",
    "too_many_dimensions": "filters",
    "too_many_values": "filters",
    "unrecognized_filter": "filters",
    "invalid_filter": "filters",
    "invalid_value": _VALUE,
    "value_too_long": _VALUE,
    "value_not_positive": _VALUE,
    "stream_kind": "metadata.element_name",
    "stream_granularity": "metadata.granularity",
    "stream_dimensions": "filters",
    "too_many_streams": "metadata.stream",
}
"""Where an event has what a record has in a field of its own."""
CLOUD_EVENT_FIELDS: Final[Mapping[str, str]] = {
    "timestamp": "time",
    "filters": "data.filters",
    "metadata.stream": "data.stream",
    "metadata.value": "data.value (or quantity)",
    _VALUE: "data.value (or quantity)",
    "metadata.granularity": "data.granularity",
    "metadata.element_name": "subject (or data.element_name)",
}
"""Field of an event -> where a CloudEvent has it."""
_CLOUD_EVENT_MENDS: Final[Mapping[str, str]] = {
    "filters_not_one_value": "data.filters: for a metric stream each dimension has one value; a subject makes it an allocation",
    "route_unknown": "route: as an extension it is one of event, record, both; leave it out, or put it into data",
}
"""Where the words name fields of an event within."""
_KIND_OF_EVENT: Final = (
    "the stream is of the other kind; with an element an event is an allocation, without one a metric's"
)


class RecordFault(NamedTuple):
    """One thing that is wrong, and which record it is wrong with."""

    code: str
    position: str = ""
    """`records[3]`, or the line and column of what is no JSON; empty for the request itself."""
    words: str = ""
    """Where there is more to state than the code's own words."""

    @property
    def message(self) -> str:
        words = self.words or REMEDIES[self.code]
        return f"{self.position}: {words}" if self.position else words


def unknown_field_text(number: int, name: str, kind: Kind) -> str:
    """The text for the field *name*, at *number*, which records of *kind* do not have.

    Only a name of the other kind is quoted: any other may be anything that the sender has, also a
    secret.
    """
    other: Kind = "metric" if kind == "allocation" else "allocation"
    known = f"{OF_KIND[kind]} are {', '.join(FIELDS[kind])}"
    if name in KNOWN[other]:
        where = f"{name}: {REMEDIES['unknown_field']}; it is one of {OF_KIND[other]}, sent to /v1/unit-cost/{other}/…"
    else:
        where = f"its field {number}: {REMEDIES['unknown_field']}"
    return f"{where}; {known}"


def mismatch_text(mismatch: Mismatch) -> str:
    """What a sender learns of a stream that does not take its record; the
    stream's own shape is named.
    """
    return REMEDIES[mismatch.code] + _known(mismatch)


def record_mismatch_text(mismatch: Mismatch) -> str:
    """The same, with the record that it is of."""
    return f"records[{mismatch.number}]: {mismatch_text(mismatch)}"


def event_mismatch_text(mismatch: Mismatch, *, is_cloud: bool = False) -> str:
    """The same, in the words of an event, or of a CloudEvent."""
    return (cloud_event_mend if is_cloud else event_mend)(mismatch.code) + _known(mismatch)


def event_mend(code: str) -> str:
    """What to do about a fault, by the fields that an event has."""
    mend = _KIND_OF_EVENT if code == "stream_kind" else REMEDIES[code]
    field = EVENT_FIELDS.get(code)
    return mend if field is None else f"{field}: {mend.partition(': ')[2] or mend}"


def cloud_event_mend(code: str) -> str:
    """The same, by the fields of a CloudEvent."""
    if code in _CLOUD_EVENT_MENDS:
        return _CLOUD_EVENT_MENDS[code]
    field, colon, words = event_mend(code).partition(": ")
    return CLOUD_EVENT_FIELDS.get(field, field) + colon + words


def _known(mismatch: Mismatch) -> str:
    if not mismatch.known:
        return ""
    if mismatch.code == "too_many_streams":
        return f" ({mismatch.known})"
    by = ", by records[0]" if mismatch.is_new else ""
    return f" (it has: {mismatch.known}{by})"
