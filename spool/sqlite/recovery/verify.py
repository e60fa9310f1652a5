"""Whether all of spool.db holds together: its pages, its rows, and the counters that count them.

Reads only, from one snapshot.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from spool.data_dir import DATABASE, touch_private
from spool.data_lock import DataLock
from spool.errors import SpoolCorrupt, SpoolError
from spool.record import OWN_LANES
from spool.settling import Position
from spool.sql import rows
from spool.sql.chunks import read_body
from spool.sql.counter_rows import load_counters
from spool.sqlite import database
from spool.sqlite.database import connect_to_read, mapped_errors
from spool.sqlite.recovery import opening
from spool.sqlite.recovery.log_file import forgets_commits
from spool.sqlite.recovery.salvage import kept_bytes
from spool.status import Finding, Verified

MAX_PAGES_TOLD = 20


def verify_stopped(data_dir: Path) -> Verified:
    """The files of a stopped gateway, its lock held meanwhile.

    Raises SpoolLocked, SpoolTooNew, SpoolError.
    """
    lock = DataLock(data_dir)
    try:
        with mapped_errors(str(data_dir)):
            is_cut = (data_dir / DATABASE).exists() and forgets_commits(data_dir / DATABASE)
    except SpoolCorrupt:
        is_cut = False  # the pages state more
    try:
        verified = verify(data_dir)
    finally:
        lock.close()
    cut = [Finding("log", "the write-ahead log is damaged before its end: commits behind it would be forgotten")]
    return verified._replace(findings=[*(cut if is_cut else []), *verified.findings])


def verify(data_dir: Path) -> Verified:
    """Check the files as they are now, also while a gateway has them open. Raises SpoolTooNew,
    SpoolError when they cannot be opened at all.

    Pages that are damaged leave a note, so that the next start looks at the
    whole file and salvages it.
    """
    found: list[Finding] = []
    chunks = records = 0
    try:
        with mapped_errors(DATABASE):
            connection = connect_to_read(data_dir)
            try:
                database.refuse_newer(connection)
                if database.layout_version(connection) < database.migrations()[-1][0]:
                    raise SpoolError(
                        "the spool was laid out by an older release: start the gateway once to bring it forward"
                    )
                connection.execute("BEGIN")
                found += bad_pages(connection)
                if not found:
                    found += [*bad_batches(connection), *bad_figures(connection)]
                    bad, chunks, records = read_chunks(connection)
                    found += bad
            finally:
                connection.close()
    except SpoolCorrupt as error:
        found.append(Finding("pages", str(error)))
    if any(finding.of == "pages" for finding in found):
        touch_private(data_dir / opening.CHECK)
    if kept := kept_bytes(data_dir):
        found.append(
            Finding("quarantine", f"{kept} bytes of damaged files lie in quarantine/: look at them, then delete them")
        )
    return Verified(found, chunks, records)


def bad_pages(connection: sqlite3.Connection) -> list[Finding]:
    lines = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({MAX_PAGES_TOLD})")]
    return [] if lines == ["ok"] else [Finding("pages", part) for line in lines for part in line.splitlines() if part]


def read_chunks(connection: sqlite3.Connection) -> tuple[list[Finding], int, int]:
    """Each chunk's bytes against their checksum."""
    found: list[Finding] = []
    chunks = records = 0
    for seq, n, ends, body, packed in connection.execute("SELECT seq, n, ends, body, packed FROM chunk ORDER BY seq"):
        chunks += 1
        if isinstance(n, int) and read_body(n, ends, body, packed) is not None:
            records += n
        else:
            found.append(
                Finding(
                    "chunk", f"chunk {seq} does not hold together; its records become dead letters when they are due"
                )
            )
    return found, chunks, records


def bad_batches(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Frozen batches that do not hold as many records as they state."""
    for lane, batch_id, origin, seq_lo, idx_lo, seq_hi, idx_hi, n in connection.execute(
        "SELECT lane, batch_id, origin, seq_lo, idx_lo, seq_hi, idx_hi, n FROM batch"
    ).fetchall():
        source = rows.source_of(lane, rows.lane_row(connection, lane).source, origin)
        whole = sum(1 for _ in rows.records_in(connection, source, Position(seq_lo, idx_lo), Position(seq_hi, idx_hi)))
        if whole != n:
            yield Finding("batch", f"batch {batch_id} of {lane} holds {whole} records that can be read, of {n}")


def bad_figures(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Identities that do not hold, and counters that differ from the rows."""
    counters = load_counters(connection)
    if not counters.is_balanced():
        yield Finding("figures", "an identity does not hold; see `spool status`")
    own = sum(counters.lane(lane).kept for lane in OWN_LANES)
    if counters.edge["kept"] != own:
        yield Finding("figures", f"the edge kept {counters.edge['kept']}, the own lanes {own}")
    for (lane,) in connection.execute("SELECT name FROM lane").fetchall():
        for outcome, n in rows.recount(connection, lane).items():
            counted = getattr(counters.lane(lane), outcome)
            if counted != n:
                yield Finding("figures", f"{lane}: {outcome} is {counted}, and the rows hold {n}")
