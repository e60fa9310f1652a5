"""What became of damaged files, as the status shows it, and the two commands that look at the whole
spool. No request waits for them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from gateway.contract.errors import BadPayload
from spool.status import Verified
from spool.store import StatusStore

VERIFY_PATH = "/v2/spool/verify"
BACKUP_PATH = "/v2/spool/backup"


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


def verified_json(verified: Verified) -> dict[str, Any]:
    return {
        "ok": not verified.findings,
        "chunks": verified.chunks,
        "records": verified.records,
        "findings": [finding._asdict() for finding in verified.findings],
    }


async def verify_running(spool: StatusStore) -> dict[str, Any]:
    """Beside the writer; a large spool takes minutes. Raises SpoolError."""
    return verified_json(await spool.verify())


async def back_up_running(spool: StatusStore, body: Mapping[str, Any]) -> dict[str, Any]:
    """Raises BadPayload, SpoolError."""
    file = body.get("file")
    if not isinstance(file, str) or not Path(file).is_absolute():
        raise BadPayload("file must be the absolute path of the copy to write")
    return {"file": file, "bytes": await spool.back_up(Path(file))}
