"""Usage events and unit-cost records on their way into the spool. Pure."""

from typing import Final, Literal, NamedTuple

from spool.unit_cost import Metered, Mismatch

FORGET_AT_ONCE: Final = 2_000
"""Repeat keys deleted in one commit."""

EventOutcome = Literal["kept", "duplicate", "conflict"]
"""`conflict`: a repeat by its id with other content; the first one stands. An event is then a
duplicate, a request is refused."""
IntakeOutcome = EventOutcome | Mismatch


class RepeatKey(NamedTuple):
    """By what a repeat is known."""

    key: bytes
    """16 bytes."""
    content: bytes
    """8 bytes of a hash over what the sender sent."""


class NewEvent(NamedTuple):
    """One event: it goes to the lane of events, into a unit-cost stream, or
    both; then it is two items.
    """

    repeat_key: RepeatKey
    event: bytes | None
    """Ready JSON for the lane of events; None when it does not go there."""
    metered: Metered | None
    """What it adds to a stream."""

    @property
    def items(self) -> int:
        return (self.event is not None) + (self.metered is not None)
