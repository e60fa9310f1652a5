"""Where bodies of usage events and unit cost are read: here, or where the gateway wires in."""

from functools import partial
from typing import Protocol

from gateway.common.contract.event_form import EventForm
from gateway.common.contract.unit_cost import Target
from gateway.common.in_thread import HERE_BYTES, in_thread
from gateway.usage.events.checks import EventRules
from gateway.usage.events.events import Events, decode_events
from gateway.usage.events.unit_cost import read_posted, read_records
from spool.unit_cost import Metered


class BodyReader(Protocol):
    """Reads bodies of usage events and of unit cost. *sender*: who waits, where several do."""

    async def events(
        self, body: bytes, form: EventForm, now_ms: int, rules: EventRules, nonce: bytes, sender: str
    ) -> Events:
        """As `decode_events`, and raises as that does."""

    async def records(
        self, body: bytes, target: Target | None, now_ms: int, rules: EventRules, sender: str
    ) -> list[Metered]:
        """As `read_records`, or without a *target* as `read_posted`; raises as these do."""


class ReadHere:
    """In this process: a large body in a thread."""

    async def events(
        self, body: bytes, form: EventForm, now_ms: int, rules: EventRules, nonce: bytes, sender: str
    ) -> Events:
        read = partial(decode_events, body, now_ms, rules, form=form, nonce=nonce)
        return await in_thread(read, is_long=len(body) > HERE_BYTES)

    async def records(
        self, body: bytes, target: Target | None, now_ms: int, rules: EventRules, sender: str
    ) -> list[Metered]:
        read = partial(records_in, body, target, now_ms, rules)
        return await in_thread(read, is_long=len(body) > HERE_BYTES)


def records_in(body: bytes, target: Target | None, now_ms: int, rules: EventRules) -> list[Metered]:
    """The records of *body*; without a *target* each names its stream. Raises BadUnitCost,
    TooLarge.
    """
    if target is None:
        return read_posted(body, now_ms, rules.more_dimensions)
    return read_records(body, target, now_ms, rules.more_dimensions)
