"""What a home does with its rows before anyone uses them: lanes are opened and closed, and what the
spool goes on from is read.
"""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from spool.counters import Counters
from spool.record import AI_TELEMETRY, OWN_LANES, Lane
from spool.sql import rows
from spool.sql.connection import Connection
from spool.sql.replay import dead_letter_bound

log = structlog.get_logger()


class Lanes(NamedTuple):
    """The lanes that are set up."""

    sources: dict[Lane, Lane]
    """Lane -> the own lane whose chunks it reads; itself for an own lane."""
    followers: dict[Lane, list[Lane]]
    """Own lane -> the lanes that read its chunks."""
    settling: frozenset[Lane]
    """Own lanes whose records wait for `settle`."""


def lanes_of(exporters: Sequence[Lane], settling: Sequence[Lane]) -> Lanes:
    """The own lanes, and *exporters*, which read the AI records."""
    sources: dict[Lane, Lane] = {lane: lane for lane in OWN_LANES} | dict.fromkeys(exporters, AI_TELEMETRY)
    followers = {own: [x for x, source in sources.items() if source == own] for own in OWN_LANES}
    return Lanes(sources, followers, frozenset(settling))


class Opened(NamedTuple):
    """What a spool goes on from."""

    gateway_id: str
    next_seq: int
    """Of the next chunk."""
    counters: Counters
    start_ms: int
    """Of the suspend-aware monotonic clock (`spool.age`)."""
    dead_letter_bound: int
    """In bytes."""


def open_lanes(connection: Connection, counters: Counters, lanes: Lanes) -> None:
    """Make the lanes that are new, give up those that are set up no more, and make the identity of
    a new spool.
    """
    connection.execute(
        "INSERT INTO meta (name, value) VALUES ('gateway_id', ?) ON CONFLICT DO NOTHING",
        (f"gw-{secrets.token_hex(8)}",),
    )
    for lane, source in lanes.sources.items():
        rows.open_lane(connection, counters, lane, source, settles=source in lanes.settling)
    for lane, n in rows.close_lanes(connection, counters, list(lanes.sources)).items():
        log.warning("exporter no longer configured", lane=lane, expired=n)


def read_opened(connection: Connection, counters: Counters, dead_letter_bytes: int, wall_ms: int) -> Opened:
    """*dead_letter_bytes*: what the limits let the dead letters take."""
    (gateway_id,) = connection.execute("SELECT value FROM meta WHERE name='gateway_id'").fetchone()
    bound = dead_letter_bound.opened(connection, dead_letter_bytes)
    return Opened(gateway_id, rows.last_seq(connection) + 1, counters, rows.age_ms(connection, wall_ms), bound)
