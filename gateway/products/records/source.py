"""Records of this gateway's own schema, `inference/1`: from another gateway, from a file that it
wrote, or from a sender that builds them.

1. One, an array, or one a line. Each is validated field by field (`fields.py`); one that breaks a
   rule is rejected, and its position names the field.
2. The record id is kept: a record that comes again, over whatever way, counts once. One that stands
   in a trace is also the report of that span.
3. Attribution is the record's own; what the inbound key or the device brings fills what it lacks,
   and what the key fixes goes over it. `key` stays the name of the key that the first gateway knew.
4. An aggregate of one gateway is dropped where another gateway forwards calls of its source:
   metrics never add to calls (`gateway.counting.metrics.forwarded`).
5. Cost, `billed` and flags are kept. A call without a cost gets an estimate as any other, an
   aggregate only where its first gateway had no price for it (`unpriced`): else another
   record may hold its cost.
6. What another gateway forwards comes in an envelope (`envelope.py`); each
   record in it stands at `records[3]`. Or as spans (`read_stated`).
"""

from collections.abc import Sequence
from typing import Final

from gateway.common.contract.flags import UNPRICED
from gateway.common.contract.outcomes import Rejection
from gateway.products.documents import Document
from gateway.products.items import at, objects, reject
from gateway.products.records.envelope import opened
from gateway.products.records.fields import InvalidField, record_of
from gateway.products.reporting import epoch_ms
from gateway.products.source import Snippet, Source, SourceRead
from gateway.rules.attribution import PLACE_MASK, attribute, gateway_origin
from gateway.rules.call import Call, Normalised
from gateway.rules.context import Context
from gateway.rules.fingerprint import FORWARDED_AGGREGATE, fingerprint, scope_fingerprint
from spool.record import FIELDS, Attribution, Record

NAME = "records"
_SCOPE: Final = scope_fingerprint(NAME)
_WHO = tuple(field.name for field in FIELDS.of("attribution") if field.row.words)
"""What a sender states. The device and the key are the gateway's."""


def read(documents: Sequence[Document], out: SourceRead, context: Context) -> None:
    """Each record of another gateway as it is, checked."""
    for gateway_id, inside in opened(documents):
        gateway = (fingerprint("gateway", gateway_id) & PLACE_MASK or 1) if gateway_id else 0
        for position, value in objects(inside, out):
            try:
                record = record_of(value, context.received_at)
            except InvalidField as fault:
                reject(out, fault.reason, at(position, fault.field))
                continue
            out.calls.items += 1
            out.calls.note_position(position, "", value)
            out.calls.calls.append(_call(record, context, gateway))


def read_stated(normalised: Normalised, context: Context) -> Normalised:
    """*normalised*, with calls or rejections of what another gateway stated as spans."""
    for position, value in normalised.stated:
        try:
            record = record_of(value, context.received_at)
        except InvalidField as fault:
            normalised.rejected.append(Rejection(fault.reason, at(position, fault.field)))
            continue
        normalised.calls.append(_call(record, context))
        normalised.stated_at[record["record_id"]] = position
    return normalised


def _call(record: Record, context: Context, gateway: int = 0) -> Call:
    made = gateway_origin(NAME, context)
    record["attribution"] = _attributed(record["attribution"], made.attribution, context)
    if record["kind"] == "call" and UNPRICED in record["flags"]:
        record["flags"].remove(UNPRICED)  # it is set again, unless there is a price here
    trace = record.get("trace")
    trace_id = bytes.fromhex((trace and trace.get("trace_id")) or "")
    span_id = bytes.fromhex((trace and trace.get("span_id")) or "") if trace_id else b""
    parent = bytes.fromhex((trace and trace.get("parent_span_id")) or "") if span_id else b""
    start_ms = epoch_ms(record["started_at"]) or context.received_at_ms
    is_aggregate = gateway != 0 and record["kind"] == "aggregate"
    return Call(
        record,
        trace_id if any(trace_id) else b"",
        span_id if any(trace_id) and any(span_id) else b"",
        parent if any(trace_id) and any(span_id) and any(parent) else b"",
        start_ms,
        start_ms + (record["duration_ms"] or 0),
        made.source,
        FORWARDED_AGGREGATE if is_aggregate else _SCOPE,
        place=gateway if is_aggregate else 0,
        gateway=gateway,
    )


def _attributed(own: Attribution, base: Attribution, context: Context) -> Attribution:
    """Rule 3."""
    who = {field: value for field in _WHO if isinstance(value := own.get(field), str)}
    who |= {f"label.{name}": value for name, value in (own.get("labels") or {}).items()}
    attribution = attribute(base, who, context)
    if (key := own.get("key")) is not None:
        attribution["key"] = key
    if context.device_id is None and (device_id := own.get("device_id")) is not None:
        attribution["device_id"] = device_id
    return attribution


SOURCE = Source(
    name=NAME,
    title="Records of this gateway",
    read=read,
    snippet=Snippet(
        "sh",
        "# such as what an exporter of type `file` wrote\n"
        "curl -fsS -X POST {url} -H 'Authorization: {key}' -H 'Content-Type: application/x-ndjson' --data-binary @records.ndjson\n",
    ),
    retries="The sender decides; records may be sent again at any time, for the record id is kept.",
)
