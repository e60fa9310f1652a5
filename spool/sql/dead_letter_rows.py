"""The rows of dead letters as they are written: each under a number that no other one ever had."""

from collections.abc import Iterable
from typing import NamedTuple

from spool.record import Lane
from spool.sql.connection import Connection

LAST_ID = "last_dead_letter_id"
"""In `meta`: the largest number that was given, also where its dead letter is gone. SQLite alone
would give it a second time, and a command that takes all up to a number would take that one too.
"""


class DeadLetterRow(NamedTuple):
    lane: Lane
    code: str
    message: str
    record: bytes
    """Empty where the upstream refused records and did not name them."""

    records: int = 1
    """That it stands for."""


def last_id(connection: Connection) -> int:
    """0 before the first. Every dead letter that is written later has a larger one."""
    (last,) = connection.execute(
        "SELECT coalesce(max(id), 0) FROM (SELECT max(id) AS id FROM dead_letter"
        " UNION ALL SELECT CAST(value AS BIGINT) FROM meta WHERE name=?) AS known",
        (LAST_ID,),
    ).fetchone()
    return int(last)


def insert(connection: Connection, dead: Iterable[DeadLetterRow], now_ms: int) -> None:
    """Codes are cut to 64 characters, messages to 512."""
    before = last = last_id(connection)
    rows = []
    for last, each in enumerate(dead, before + 1):
        size = len(each.record)
        rows.append((last, each.lane, now_ms, each.code[:64], each.message[:512], each.record, size, each.records))
    if last == before:
        return
    connection.executemany(
        "INSERT INTO dead_letter (id, lane, buried_ms, code, message, record, bytes, records) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value=excluded.value",
        (LAST_ID, str(last)),
    )
