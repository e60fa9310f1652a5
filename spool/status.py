"""What the spool reports of itself: its room on the disk, its salvages, its integrity. Pure."""

from collections.abc import Mapping
from typing import NamedTuple


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
    """One salvage."""

    at_ms: int
    folder: str
    """In `quarantine/` of the data directory; empty where nothing was left to be kept."""
    records: int | None
    """Dead letters that stand for records that could not be read, over all lanes; None when their
    number is unknown."""
    why: str
    damaged: Mapping[str, int]
    """Table, `index`, `schema` or `log` -> pages and rows that could not be read."""


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
