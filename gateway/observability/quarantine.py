"""Damaged files that were salvaged or set aside, as the status reports them."""

from collections.abc import Mapping
from typing import TypedDict

from gateway.common.contract.json_types import Count
from spool.status import gone_text
from spool.store import FileSpool


class LatestSalvage(TypedDict):
    at_ms: int
    folder: str
    """In `quarantine/` of the data directory."""
    records: int | None
    why: str
    damaged: Mapping[str, Count]
    """Table, `index`, `schema`, `log`, `file` or `summary` -> pages and rows that could not be
    read."""
    lanes: Mapping[str, Count]
    """What is gone of each lane; where `records` is null, what each held at `since_ms`."""
    since_ms: int | None
    """When the spool was last known as it was; null when nothing knows."""
    acknowledged: bool


class QuarantineStatus(TypedDict):
    salvages: Count
    """Of the last 20 at most."""
    records: int | None
    """Dead letters, over all lanes, that stand for records on pages that could not be read; null
    when a salvage could not know."""
    bytes: Count
    """Of damaged files in `quarantine/`."""
    unacknowledged: Count
    """Salvages that no operator has seen; the gateway is degraded until they are acknowledged, or
    the damaged files moved away."""
    lanes: Mapping[str, Count]
    """What is known to be gone of each lane, by all salvages together."""
    latest: LatestSalvage | None


def quarantine_status(spool: FileSpool) -> QuarantineStatus:
    """The part `quarantine` of /v2/status."""
    entries = spool.quarantined
    counts = [entry.records for entry in entries]
    known = [n for n in counts if n is not None]
    latest = entries[-1] if entries else None
    lanes: dict[str, int] = {}
    for entry in entries:
        for lane, n in entry.lanes.items() if entry.records is not None else ():
            lanes[lane] = lanes.get(lane, 0) + n
    return {
        "salvages": len(entries),
        "records": sum(known) if len(known) == len(counts) else None,
        "bytes": spool.quarantined_bytes(),
        "unacknowledged": spool.unacknowledged(),
        "lanes": lanes,
        "latest": None
        if latest is None
        else {
            "at_ms": latest.at_ms,
            "folder": latest.folder,
            "records": latest.records,
            "why": latest.why,
            "damaged": latest.damaged,
            "lanes": latest.lanes,
            "since_ms": latest.since_ms,
            "acknowledged": latest.acknowledged,
        },
    }


def degraded(status: QuarantineStatus) -> str | None:
    """Why an operator should look, though all is served; None when there is nothing."""
    latest = status["latest"]
    if latest is None:
        return "there are damaged files in quarantine/ in the data directory" if status["bytes"] else None
    if not status["unacknowledged"]:
        return None
    gone = gone_text(latest["records"], latest["lanes"], latest["since_ms"])
    files = f"the damaged files are in quarantine/{latest['folder']}; " if latest["folder"] else ""
    return (
        f"the spool was damaged ({latest['why']}): {gone} could not be read; they were not refused by the upstream;"
        f" {files}send them again where the sender still has them, then: telemetry-gateway spool acknowledge"
    )
