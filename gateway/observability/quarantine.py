"""Damaged files that were salvaged or set aside, as the status reports them."""

from collections.abc import Mapping
from typing import TypedDict

from spool.store import StatusStore


class LatestSalvage(TypedDict):
    at_ms: int
    folder: str
    """In `quarantine/` of the data directory."""
    records: int | None
    why: str
    damaged: Mapping[str, int]
    """Table, `index`, `schema` or `log` -> pages and rows that could not be read."""


class QuarantineStatus(TypedDict):
    salvages: int
    """Of the last 20 at most."""
    records: int | None
    """Dead letters, over all lanes, that stand for records on pages that could not be read; None
    when a salvage could not know."""
    bytes: int
    """Of damaged files in `quarantine/`; the gateway is degraded until they are moved away."""
    latest: LatestSalvage | None


def quarantine_status(spool: StatusStore) -> QuarantineStatus:
    """The part `quarantine` of /v2/status."""
    entries = spool.quarantined
    counts = [entry.records for entry in entries]
    known = [n for n in counts if n is not None]
    latest = entries[-1] if entries else None
    return {
        "salvages": len(entries),
        "records": sum(known) if len(known) == len(counts) else None,
        "bytes": spool.quarantined_bytes(),
        "latest": None
        if latest is None
        else {
            "at_ms": latest.at_ms,
            "folder": latest.folder,
            "records": latest.records,
            "why": latest.why,
            "damaged": latest.damaged,
        },
    }


def degraded(status: QuarantineStatus) -> str | None:
    """Why an operator should look, though all is served; None when there is nothing."""
    if not status["bytes"]:
        return None
    latest = status["latest"]
    gone = None if latest is None else latest["records"]
    lost = "an unknown number of records" if gone is None else f"{gone} records"
    return f"the spool was damaged and is salvaged, {lost} could not be read: see quarantine/ in the data directory"
