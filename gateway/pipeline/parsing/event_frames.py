"""Bodies of usage events and unit cost on their way to the process that reads them, and what they
came to on its way back, in plain types that `marshal` takes. Pure.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from gateway.common.contract.event_form import EventForm
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.unit_cost import Target
from gateway.pipeline.parsing.frames import Job, in_pieces, joined_pieces
from gateway.usage.events.checks import EventRules
from gateway.usage.events.events import Event, Events, decode_events
from gateway.usage.events.faults import RecordFault
from gateway.usage.events.reading import records_in
from gateway.usage.events.unit_cost import BadUnitCost
from spool.unit_cost import Change, Metered, Shape, TotalKey

EVENTS: Final = "events"
RECORDS: Final = "records"


def events_job(body: bytes, form: EventForm, now_ms: int, rules: EventRules, nonce: bytes) -> Job:
    return Job(EVENTS, body, (tuple(form), now_ms, rules.route, nonce))


def read_events(job: Job, rules: EventRules) -> tuple[Any, ...]:
    """The events of *job*, packed; *rules* but for the route. Raises BadPayload, TooLarge."""
    form, now_ms, route, nonce = job.rest
    events = decode_events(job.body, now_ms, rules._replace(route=route), form=EventForm(*form), nonce=nonce)
    found = [(*event[:4], _packed_metered(event.metered), event.line, event.is_cloud) for event in events.events]
    return events.items, in_pieces(found), in_pieces([tuple(rejection) for rejection in events.rejected])


def unpack_events(packed: Sequence[Any]) -> Events:
    """What `read_events` packed."""
    items, found, rejected = packed
    events = [
        Event._make((*head, _metered_in(metered), line, is_cloud))
        for *head, metered, line, is_cloud in joined_pieces(found)
    ]
    return Events(items, events, [Rejection(*fields) for fields in joined_pieces(rejected)])


def records_job(body: bytes, target: Target | None, now_ms: int) -> Job:
    return Job(RECORDS, body, (None if target is None else tuple(target), now_ms))


def read_records(job: Job, rules: EventRules) -> tuple[Any, ...]:
    """The records of *job*, packed, or the fault for which all of them are refused. Raises
    TooLarge.
    """
    target, now_ms = job.rest
    try:
        records = records_in(job.body, None if target is None else Target(*target), now_ms, rules)
    except BadUnitCost as error:
        return [], tuple(error.fault), error.records
    return in_pieces([_packed_metered(record) for record in records]), None, 0


def unpack_records(packed: Sequence[Any]) -> list[Metered]:
    """What `read_records` packed. Raises BadUnitCost."""
    pieces, fault, records = packed
    if fault is not None:
        raise BadUnitCost(RecordFault(*fault), records)
    return [found for each in joined_pieces(pieces) if (found := _metered_in(each)) is not None]


def _packed_metered(metered: Metered | None) -> tuple[Any, ...] | None:
    if metered is None:
        return None
    stream, shape, (place, operation, value) = metered
    return stream, tuple(shape), tuple(place), operation, str(value)


def _metered_in(packed: Sequence[Any] | None) -> Metered | None:
    if packed is None:
        return None
    stream, shape, place, operation, value = packed
    return Metered(stream, Shape(*shape), Change(TotalKey(*place), operation, Decimal(value)))
