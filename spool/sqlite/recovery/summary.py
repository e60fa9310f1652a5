"""spool.summary: beside the database, what a salvage could not do without if the pages that
hold it were the damaged ones.

The gateway's id, the counters, and how far each lane is. Written at the start, each minute and at
the end, so after a clean end it states what the database states, and else what it said at most a
minute before. Only a salvage reads it.
"""

import os
import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from spool.counters import Counters
from spool.data_dir import touch_private
from spool.record import Lane

FILE = "spool.summary"


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


def read_from(connection: sqlite3.Connection, counters: Counters, gateway_id: str, last_seq: int) -> Summary:
    found = connection.execute(
        "SELECT name, source, next_seq, next_idx, settled_seq,"
        " min(next_seq, coalesce((SELECT min(seq_lo) FROM batch WHERE batch.lane=lane.name AND origin=''), next_seq)) FROM lane"
    )
    return Summary(gateway_id, counters, {name: LaneSummary(*rest) for name, *rest in found}, last_seq, is_final=False)


def as_json(summary: Summary) -> dict[str, Any]:
    lanes = {name: lane._asdict() for name, lane in summary.lanes.items()}
    return {
        "gateway_id": summary.gateway_id,
        "figures": asdict(summary.counters),
        "lanes": lanes,
        "last_seq": summary.last_seq,
        "is_final": summary.is_final,
    }


def write_summary(data_dir: Path, summary: Summary) -> None:
    """In one step; it is on disk when this returns. Raises OSError."""
    beside = data_dir / f".{FILE}"
    touch_private(beside)
    with beside.open("wb") as file:
        file.write(orjson.dumps(as_json(summary)))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(data_dir / FILE)


def read_summary(data_dir: Path) -> Summary | None:
    """None when there is none that can be read."""
    try:
        kept: dict[str, Any] = orjson.loads((data_dir / FILE).read_bytes())
        lanes = {name: LaneSummary(**lane) for name, lane in kept["lanes"].items()}
        counters = Counters.from_json(kept["figures"])
        return Summary(kept["gateway_id"], counters, lanes, int(kept["last_seq"]), bool(kept["is_final"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
