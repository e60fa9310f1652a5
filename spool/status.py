"""What the spool reports of itself: its room on the disk, its salvages, its integrity. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from spool.clock import rfc3339_ms
from spool.record import Lane


class Room(NamedTuple):
    """Measured after each commit."""

    used_bytes: int
    """Counts against `max_bytes`: the pages that hold something, and the
    write-ahead log. Free pages are used again before the file grows, so the
    files never exceed the most that was ever used."""
    file_bytes: int
    """Of spool.db and its write-ahead log, as they are now, free pages included."""
    log_bytes: int
    """Of the write-ahead log, which is in both."""
    free_bytes: int
    """Left on the disk for this user, beside the reserve and what the
    log will still add to the file."""


class Quarantined(NamedTuple):
    """One salvage of a damaged spool, or one finding that it was lost or is an old copy."""

    at_ms: int
    folder: str
    """In `quarantine/` of the data directory; empty where nothing was left to be kept."""
    records: int | None
    """Dead letters that stand for records that could not be read, over all lanes; None when their
    number is unknown."""
    why: str
    damaged: Mapping[str, int]
    """Table, `index`, `schema`, `log`, `file` or `summary` -> pages and rows that could not be
    read."""
    lanes: Mapping[Lane, int]
    """What is gone of each lane that lost records. Where `records` is None: what each lane held,
    pending and dead letters, at `since_ms`."""
    since_ms: int | None
    """Wall clock when the spool was last known as it was; None when nothing knows."""
    acknowledged: bool
    """Whether an operator has seen it."""


def gone_text(records: int | None, lanes: Mapping[Lane, int], since_ms: int | None) -> str:
    """How many records are gone, of which lanes and since when, in words."""
    named = ", ".join(f"{lane} {n}" for lane, n in lanes.items())
    since = "" if since_ms is None else rfc3339_ms(since_ms)
    if records is None:
        held = f" (at {since} it held {named or 'none'})" if since else ""
        return f"an unknown number of records{held}"
    return f"{records} records" + (f" ({named})" if named else "") + (f" since {since}" if since else "")


class Finding(NamedTuple):
    """One fault of the file."""

    of: str
    """`pages`, `log`, `chunk`, `batch`, `figures` or `quarantine`."""
    text: str
    """What, and where; no content of a record."""


class Verified(NamedTuple):
    findings: list[Finding]
    chunks: int
    records: int
    """Those whose bytes were read and agree with their checksum."""
