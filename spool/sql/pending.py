"""What a lane did not deliver yet, for readers that come by beside the writer."""

from spool.record import Lane
from spool.sql.chunks import BODY, read_body, record_count
from spool.sql.connection import Connection

CHUNKS_READ = 2
"""In one snapshot: a longer one would keep the log from being folded into the file."""


def pending_bodies(connection: Connection, lane: Lane, from_seq: int | None) -> tuple[list[bytes], int | None]:
    """The records of some chunks from *from_seq* on that *lane* did not deliver yet, one record
    behind the other; and where to go on.

    None stands for the first one, and for the end. Records that settling dropped may be among them.
    """
    seq = _first_pending_seq(connection, lane) if from_seq is None else from_seq
    found = connection.execute(
        f"SELECT seq, {BODY} FROM chunk WHERE lane=? AND seq>=? ORDER BY seq LIMIT ?",  # noqa: S608 - own SQL
        (lane, seq, CHUNKS_READ),
    ).fetchall()
    bodies = [read_body(record_count(said, ends), ends, stored, packed) for _, said, ends, stored, packed in found]
    # One that cannot be read becomes dead letters when it is due.
    return [body.content for body in bodies if body is not None], found[-1][0] + 1 if found else None


def _first_pending_seq(connection: Connection, lane: Lane) -> int:
    (seq,) = connection.execute(
        "SELECT min(seq) FROM (SELECT next_seq AS seq FROM lane WHERE name=?"
        " UNION ALL SELECT seq_lo FROM batch WHERE lane=?) AS first",
        (lane, lane),
    ).fetchone()
    return int(seq)
