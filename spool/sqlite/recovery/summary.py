"""spool.summary: beside the database, what a salvage could not do without if the pages that
hold it were the damaged ones, or the database were gone.

The gateway's id, the counters, how far each lane is, and what was lost before. Written at the
start, each minute and at the end, so after a clean end it states what the database states, and else
what it held at most a minute before. It is kept twice, under names that one pattern does not
match. Only a salvage reads it, and the start, which takes its absence for a finding.
"""

import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from spool.counters import Counters
from spool.data_dir import touch_private
from spool.record import Lane
from spool.sql import rows
from spool.status import Quarantined
from spool.system.sync import sync_file, sync_path

FILE = "spool.summary"
SECOND_FILE = "state.summary"
FILES = (FILE, SECOND_FILE)


class LaneSummary(NamedTuple):
    source: Lane
    next_seq: int
    next_idx: int
    settled_seq: int
    floor_seq: int
    """The first chunk that something not delivered lay in."""


class Summary(NamedTuple):
    gateway_id: str
    counters: Counters
    lanes: dict[Lane, LaneSummary]
    last_seq: int
    is_final: bool
    """Whether the spool was closed after it was written."""
    written_ms: int | None
    """Wall clock; None in one of an older release."""
    entries: list[Quarantined]
    """What was quarantined or lost before."""


def read_from(
    connection: sqlite3.Connection, counters: Counters, gateway_id: str, written_ms: int, entries: list[Quarantined]
) -> Summary:
    """What the database states, not final."""
    found = connection.execute(
        "SELECT name, source, next_seq, next_idx, settled_seq,"
        " min(next_seq, coalesce((SELECT min(seq_lo) FROM batch WHERE batch.lane=lane.name AND origin=''), next_seq)) FROM lane"
    )
    lanes = {name: LaneSummary(*rest) for name, *rest in found}
    return Summary(
        gateway_id,
        counters,
        lanes,
        rows.last_seq(connection),
        is_final=False,
        written_ms=written_ms,
        entries=entries,
    )


def as_json(summary: Summary) -> dict[str, Any]:
    lanes = {name: lane._asdict() for name, lane in summary.lanes.items()}
    return {
        "gateway_id": summary.gateway_id,
        "figures": asdict(summary.counters),
        "lanes": lanes,
        "last_seq": summary.last_seq,
        "is_final": summary.is_final,
        "written_ms": summary.written_ms,
        "entries": [entry._asdict() for entry in summary.entries],
    }


def write_summary(data_dir: Path, summary: Summary) -> None:
    """Both files, each in one step; they are on disk when this returns. Raises OSError."""
    content = orjson.dumps(as_json(summary))
    for name in FILES:
        beside = data_dir / f".{name}"
        touch_private(beside)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            sync_file(file.fileno())
        beside.replace(data_dir / name)
    sync_path(data_dir)


def read_summary(data_dir: Path) -> Summary | None:
    """The one that knows more; None when neither can be read."""
    found = [summary for name in FILES if (summary := _read(data_dir / name)) is not None]
    return max(found, key=lambda x: (x.counters.edge["received"], x.last_seq, x.is_final), default=None)


def entry_from(kept: dict[str, Any]) -> Quarantined:
    """An entry as it was kept, also by an older release. Raises TypeError."""
    return Quarantined(**{"lanes": {}, "since_ms": None, "acknowledged": False, **kept})


def _read(path: Path) -> Summary | None:
    try:
        kept: dict[str, Any] = orjson.loads(path.read_bytes())
        lanes = {name: LaneSummary(**lane) for name, lane in kept["lanes"].items()}
        counters = Counters.from_json(kept["figures"])
        entries = [entry_from(entry) for entry in kept.get("entries", ())]
        last_seq, is_final, written_ms = int(kept["last_seq"]), bool(kept["is_final"]), kept.get("written_ms")
        return Summary(kept["gateway_id"], counters, lanes, last_seq, is_final, written_ms, entries)
    except (OSError, ValueError, KeyError, TypeError):
        return None
