"""Counts beside the counters: what became of dead letters' bytes, and of delivered
records that were sent again.

They are no part of the two identities, which they explain.
"""

from typing import Final, Literal

from spool.record import Lane
from spool.sql.connection import Connection

Name = Literal[
    "dead_letters.dropped",  # their bytes were dropped by an operator; they stay dead_lettered
    "dead_letters.expired",  # the same for their age, or for room
    "dead_letters.replayed",  # requeued: pending again
    "sent_again.delivered",  # delivered once more
    "sent_again.refused",  # the upstream took it once, and now refuses it
    "sent_again.given_up",  # the room was needed, or it became too old
]

GONE: Final[tuple[Name, ...]] = ("dead_letters.dropped", "dead_letters.expired")


def add(connection: Connection, lane: Lane, name: Name, n: int) -> None:
    if n:
        connection.execute(
            "INSERT INTO side_count (lane, name, n) VALUES (?, ?, ?) ON CONFLICT (lane, name) DO UPDATE SET n=side_count.n+excluded.n",
            (lane, name, n),
        )


def read(connection: Connection) -> dict[tuple[Lane, str], int]:
    return {(lane, name): n for lane, name, n in connection.execute("SELECT lane, name, n FROM side_count")}


def gone(connection: Connection, lane: Lane) -> int:
    """Records of *lane* that are counted dead_lettered and whose bytes are gone."""
    counts = read(connection)
    return sum(counts.get((lane, name), 0) for name in GONE)
