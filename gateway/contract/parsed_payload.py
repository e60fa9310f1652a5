"""A payload after parsing: what is left to count and keep, as plain types, so that a worker process can return it."""

from typing import NamedTuple

Used = tuple[str | None, str | None, int, str | None, str | None, int]
"""Service name, device, instance, session, model, and the tokens that calls of these used."""


class ParsedPayload(NamedTuple):
    """A payload, read. Plain types only."""

    items: int
    ignored: int
    suppressed: dict[str, int]
    """Reason -> items."""
    rejected: list[tuple[str, str]]
    """Reason and position."""
    unknown_conventions: dict[str, int]
    records: list[bytes]
    """Ready JSON of each call."""
    rows: bytes
    """The ledger's row of each call, `FACT_BYTES` each."""
    links: bytes
    """`LINK_BYTES` each."""
    used: list[Used]
