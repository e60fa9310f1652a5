"""After a salvage: what the rows no longer state is settled, in the
transaction that opens the lanes.

The counters state how many records were pending; the rows state how many still are. What is
missing becomes dead letters with the reason `quarantined` and no content (their pages lie in
the quarantine), so both identities hold and nothing vanishes uncounted. Where the page that
knew it was lost, at-least-once decides: what may have been delivered goes out again under the
same record ids, and is taken back from what counts as delivered. Where even the counters were
lost, how many records are gone is unknown.
"""

import sqlite3
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import orjson

from spool.counters import Counters, LaneCounters
from spool.dead_letters import QUARANTINED
from spool.record import AI_TELEMETRY, OWN_LANES, Lane
from spool.settling import Position
from spool.sql import dead_letter_rows, rows, unit_doubts
from spool.sql.dead_letter_rows import DeadLetterRow
from spool.sql.replay import ranges
from spool.sql.rows import NEVER_SETTLES
from spool.sqlite.recovery.opening import was_used
from spool.sqlite.recovery.salvage import FINDINGS, QUARANTINE
from spool.sqlite.recovery.summary import Summary, entry_from
from spool.status import Quarantined, gone_text

ENTRIES = "quarantine"
"""Name in `meta` of what was quarantined so far."""
MAX_ENTRIES = 20
HAS_SUMMARIES = "summaries"
"""Name in `meta`, in a database whose summaries were written."""


def restore(
    connection: sqlite3.Connection, counters: Counters, summary: Summary | None, data_dir: Path, now_ms: int
) -> None:
    """Put back what `meta` and `lane` lost; before the lanes are opened."""
    is_salvaged = findings(connection) is not None
    if summary is None:
        row = connection.execute("SELECT 1 FROM meta WHERE name=?", (HAS_SUMMARIES,)).fetchone()
        if not is_salvaged and row is not None and was_used(data_dir):
            why = "both summaries of the spool are missing, so whether spool.db is an old copy is unknown"
            note_found(connection, why, {"summary": 1}, now_ms)
        return
    if not is_salvaged and is_older(counters, summary):
        why = "the database is older than spool.summary: its write-ahead log was cut short, or it is an old copy"
        note_found(connection, why, {"figures": 1, "log": 1}, now_ms)
        is_salvaged = True
    if not is_salvaged:
        return
    if summary.entries:
        kept = orjson.dumps([entry._asdict() for entry in summary.entries]).decode()
        connection.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT DO NOTHING", (ENTRIES, kept))
    connection.execute("INSERT INTO meta VALUES ('gateway_id', ?) ON CONFLICT DO NOTHING", (summary.gateway_id,))
    for name, lane in summary.lanes.items():
        connection.execute(
            "INSERT INTO lane (name, source, next_seq, next_idx, settled_seq) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (name, lane.source, lane.next_seq, lane.next_idx, lane.settled_seq),
        )


def reconcile(
    connection: sqlite3.Connection, counters: Counters, lanes: Sequence[Lane], summary: Summary | None, now_ms: int
) -> Quarantined | None:
    """Settle what a salvage left open, once; after the lanes are opened.

    None when there was no salvage.
    """
    found = findings(connection)
    if found is None:
        return None
    damaged: dict[str, int] = found["damaged"]
    # What could not be found out about a page may hide a row of any of these tables.
    unknown = bool(damaged.keys() & {"schema", "log"})
    is_counted = not damaged.get("figures")
    if not is_counted:
        is_counted = take_over(counters, summary)
    comes_again = bool(unknown or damaged.keys() & {"change", "batch", "lane"})
    if unknown or damaged.get("change"):
        settle_anew(connection)
    if unknown or damaged.keys() & {"unit_total", "unit_stream", "unit_batch", "unit_item"}:
        unit_doubts.distrust(connection, now_ms)
    if unknown:  # the rows may be old ones, as those of a backup are; `balance` counts them
        unit_doubts.give_up(connection, Counters(), now_ms)
    for lane in lanes:
        if unknown or damaged.get("batch"):
            send_anew(connection, lane, summary)
            freeze_once(connection, lane)
        else:
            pass_frozen(connection, lane)
        mend_batches(connection, lane)
        if unknown or damaged.keys() & {"batch", "stretch"}:
            ranges.send_uncovered(connection, lane)
    lost = {lane: balance(connection, counters, lane, now_ms, is_counted=is_counted) for lane in lanes}
    # What comes again may stand for what is gone: then no one knows how many are.
    comes_again = comes_again and any(counters.lane(lane).pending for lane in lanes)
    is_known = is_counted and not comes_again and "summary" not in damaged
    held = lost if is_known or summary is None else held_by(summary)
    since_ms = None if summary is None or summary.written_ms is None else min(summary.written_ms, found["at_ms"])
    entry = Quarantined(
        found["at_ms"],
        found["folder"],
        sum(lost.values()) if is_known else None,
        found["why"],
        damaged,
        {lane: n for lane, n in held.items() if n},
        since_ms,
        acknowledged=False,
    )
    note(connection, entry)
    return entry


def held_by(summary: Summary) -> dict[Lane, int]:
    """Pending records and dead letters of each lane when the summary was written."""
    return {lane: x.pending + x.dead_lettered for lane, x in summary.counters.lanes.items()}


def acknowledge(connection: sqlite3.Connection) -> int:
    """An operator has seen every entry; how many were new to them."""
    kept = entries(connection)
    write_entries(connection, [entry._replace(acknowledged=True) for entry in kept])
    return sum(not entry.acknowledged for entry in kept)


def unacknowledged(entries: Sequence[Quarantined], data_dir: Path) -> int:
    """Entries that no operator has seen: neither acknowledged nor, where damaged files were kept,
    moved away.
    """
    return sum(not entry.acknowledged and _is_there(entry, data_dir) for entry in entries)


def _is_there(entry: Quarantined, data_dir: Path) -> bool:
    return not entry.folder or any((data_dir / QUARANTINE / entry.folder).glob("*"))


def is_older(counters: Counters, summary: Summary) -> bool:
    """Whether the database knows less than was known when the summary was written: its log was cut,
    or an old copy lies in its place.
    """
    return counters.edge["received"] < summary.counters.edge["received"]


def note_found(connection: sqlite3.Connection, why: str, damaged: dict[str, int], now_ms: int) -> None:
    """Let `reconcile` settle what was found of a file that can be read."""
    found = {"at_ms": now_ms, "folder": "", "why": why, "damaged": damaged}
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (FINDINGS, orjson.dumps(found).decode()))


def findings(connection: sqlite3.Connection) -> dict[str, Any] | None:
    row = connection.execute("SELECT value FROM meta WHERE name=?", (FINDINGS,)).fetchone()
    return None if row is None else orjson.loads(row[0])


def salvage_text(entry: Quarantined) -> str:
    """One salvage in words for the log."""
    gone = gone_text(entry.records, entry.lanes, entry.since_ms)
    kept = f"; the damaged files are kept in quarantine/{entry.folder}" if entry.folder else ""
    return (
        f"the spool was damaged ({entry.why}): {gone} could not be read; they count as dead letters, {QUARANTINED},"
        f" and were not refused by the upstream{kept}; once seen: telemetry-gateway spool acknowledge"
    )


def entries(connection: sqlite3.Connection) -> list[Quarantined]:
    """What was quarantined so far, the last ones; none where the row cannot be read."""
    row = connection.execute("SELECT value FROM meta WHERE name=?", (ENTRIES,)).fetchone()
    try:
        return [] if row is None else [entry_from(entry) for entry in orjson.loads(row[0])]
    except (TypeError, ValueError):
        return []


def write_entries(connection: sqlite3.Connection, kept: Sequence[Quarantined]) -> None:
    text = orjson.dumps([entry._asdict() for entry in kept]).decode()
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (ENTRIES, text))


def note(connection: sqlite3.Connection, entry: Quarantined) -> None:
    write_entries(connection, [*entries(connection), entry][-MAX_ENTRIES:])
    connection.execute("DELETE FROM meta WHERE name=?", (FINDINGS,))


def take_over(counters: Counters, summary: Summary | None) -> bool:
    """The counters are lost: go on from those of the summary; whether they are
    the last ones there were.
    """
    if summary is None:
        return False
    counters.edge, counters.reasons = dict(summary.counters.edge), dict(summary.counters.reasons)
    counters.lanes = {**counters.lanes, **summary.counters.copy().lanes}
    return summary.is_final


def settle_anew(connection: sqlite3.Connection) -> None:
    """What settling decided may be lost: chunks that nothing was frozen of are decided again,
    from the evidence they carry.
    """
    (upto,) = connection.execute(
        "SELECT max(next_seq - (next_idx=0)) FROM lane WHERE source=?", (AI_TELEMETRY,)
    ).fetchone()
    connection.execute(
        "UPDATE lane SET settled_seq=max(0, ?) WHERE name=? AND settled_seq>? AND settled_seq<?",
        (upto or 0, AI_TELEMETRY, upto or 0, NEVER_SETTLES),
    )


def send_anew(connection: sqlite3.Connection, lane: Lane, summary: Summary | None) -> None:
    """Some frozen batches may be lost: go back to where everything before is known to be delivered,
    and freeze again from there.
    """
    known = None if summary is None else summary.lanes.get(lane)
    floor = 0 if known is None else known.floor_seq
    row = rows.lane_row(connection, lane)
    if floor >= row.next.seq:
        return
    connection.execute("DELETE FROM batch WHERE lane=? AND origin=''", (lane,))
    connection.execute("UPDATE lane SET next_seq=?, next_idx=0 WHERE name=?", (floor, lane))


_BATCHES_BEYOND = "lane=?1 AND origin='' AND (seq_hi, idx_hi) > (SELECT next_seq, next_idx FROM lane WHERE name=?1)"
"""Of a lane whose row was lost, and is that of the summary: older than its batches."""


def pass_frozen(connection: sqlite3.Connection, lane: Lane) -> None:
    """Nothing before the end of a frozen batch is frozen again: no batch is lost, so records that
    none holds had their end.
    """
    last = connection.execute(
        f"SELECT seq_hi, idx_hi FROM batch WHERE {_BATCHES_BEYOND} ORDER BY seq_hi DESC, idx_hi DESC LIMIT 1",  # noqa: S608 - own SQL
        (lane,),
    ).fetchone()
    if last is not None:
        connection.execute("UPDATE lane SET next_seq=?, next_idx=? WHERE name=?", (*last, lane))


def freeze_once(connection: sqlite3.Connection, lane: Lane) -> None:
    """Frozen batches of what is frozen again are given up: their records go out once."""
    connection.execute(f"DELETE FROM batch WHERE {_BATCHES_BEYOND}", (lane,))  # noqa: S608 - own SQL


def mend_batches(connection: sqlite3.Connection, lane: Lane) -> None:
    """A frozen batch holds what can still be read of it; one that lost records goes out
    under another idempotency key.
    """
    source = rows.lane_row(connection, lane).source
    for batch_id, seq_lo, idx_lo, seq_hi, idx_hi, n, origin in connection.execute(
        "SELECT batch_id, seq_lo, idx_lo, seq_hi, idx_hi, n, origin FROM batch WHERE lane=?", (lane,)
    ).fetchall():
        of = rows.source_of(lane, source, origin)
        whole = sum(1 for _ in rows.records_in(connection, of, Position(seq_lo, idx_lo), Position(seq_hi, idx_hi)))
        if whole == 0:
            connection.execute("DELETE FROM batch WHERE batch_id=?", (batch_id,))
        elif whole != n:
            connection.execute("UPDATE batch SET n=?, generation=generation+1 WHERE batch_id=?", (whole, batch_id))


def balance(connection: sqlite3.Connection, counters: Counters, lane: Lane, now_ms: int, *, is_counted: bool) -> int:
    """Make the lane's counters agree with its rows; how many records are known to be gone."""
    counter = counters.lane(lane)
    before = LaneCounters(counter.kept, counter.delivered, counter.pending, counter.dead_lettered, counter.expired)
    counted = rows.recount(connection, lane)
    missing = before.pending - counted["pending"] + before.dead_lettered - counted["dead_lettered"] if is_counted else 0
    lost = max(0, missing)
    dead = repeat(DeadLetterRow(lane, QUARANTINED, "on pages that could not be read", b""), lost)
    dead_letter_rows.insert(connection, dead, now_ms)
    counter.pending = counted["pending"]
    counter.dead_lettered = counted["dead_lettered"] + lost
    repeated = counter.pending + counter.dead_lettered - before.pending - before.dead_lettered
    counter.delivered = max(0, before.delivered - repeated) if is_counted else before.delivered
    counter.kept = counter.delivered + counter.pending + counter.dead_lettered + counter.expired
    if lane in OWN_LANES:
        for outcome in ("received", "kept"):
            counters.edge[outcome] += counter.kept - before.kept
    return lost
