"""What becomes of an item that is no record: its rejection. Pure."""

from typing import NamedTuple


class Rejection(NamedTuple):
    """One item that could not become a record; its reason and position, never its content."""

    reason: str
    """Closed list: `invalid_trace_id`, `invalid_span_id`, `invalid_time`, …"""
    position: str
    """Where it stood, such as `resourceSpans[0].scopeSpans[1].spans[4]`."""
    message: str = ""
    """What its sender is asked to do; empty where the reason is all there is."""
