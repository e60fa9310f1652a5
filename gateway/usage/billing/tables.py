"""Billing drops in control.db: days that are due, the day under way, and what is in force at the
upstream. Functions run in the caller's transaction.

A day is due when usage was added to it since its last drop, or when a command asked for it. The day
under way is kept as the bytes that are sent, part by part, until the upstream has them all.

A drop replaces the day at the upstream. A day that began before this control.db counted may be
known in part only (control.db may be new beside an old spool), so it is not dropped unasked. For
the same reason the source of the rows stays what it was at first, even with a new spool.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import orjson

from gateway.common.storage.database import Database, scripts_of

_DUE = (
    "FROM usage_days usage LEFT JOIN billing_days day ON day.target = :target AND day.hour = usage.hour"
    " WHERE usage.hour <= :last AND (day.hour IS NOT NULL OR usage.hour >= (SELECT max(from_hour, counted_from)"
    " FROM billing_targets, usage_rollup_state WHERE target = :target))"
    " AND (day.hour IS NULL OR day.is_wanted OR (day.seen_revision <> usage.revision"
    " AND day.refused_revision IS NOT usage.revision))"
)


class Part(NamedTuple):
    """One request of the day under way."""

    part: int
    batch_id: str
    hour: int
    body: bytes
    frozen_at: str
    generation: int
    attempts: int


class Day(NamedTuple):
    """What is known of one day."""

    hour: int
    revision: int
    """Of its usage now."""
    seen_revision: int
    content: str | None
    row_count: int | None
    costs: str | None
    calls_without_cost: int | None
    dropped_at_ms: int | None
    refused: str | None
    refused_revision: int | None
    is_wanted: int
    is_whole: int
    """0: the day began before counting did."""

    @property
    def state(self) -> Literal["due", "dropped", "refused"]:
        """`dropped`: what is in force at the upstream is what is counted."""
        if self.refused is not None and self.refused_revision == self.revision and not self.is_wanted:
            return "refused"
        if self.is_wanted or self.seen_revision != self.revision:
            return "due"
        return "dropped"


class Summary(NamedTuple):
    """Numbers of days, over all months."""

    due: int
    refused: int
    dropped: int
    last_dropped_ms: int | None
    parts: int
    """Not days: parts of the day under way that the upstream does not have."""


async def make_billing_tables(database: Database) -> None:
    """Raises DatabaseUnavailable."""
    await database.migrate("billing", scripts_of("gateway.usage.billing.migrations"))


def begin(connection: sqlite3.Connection, target: str, *, from_hour: int, is_stated: bool, gateway_id: str) -> None:
    """Drop to *target* the days from *from_hour* on. A later call changes that hour only where an
    operator stated it (*is_stated*), and never the source, which is the first call's *gateway_id*.
    """
    connection.execute(
        "INSERT INTO billing_targets (target, from_hour, source) VALUES (?1, ?2, ?4)"
        " ON CONFLICT DO UPDATE SET from_hour = iif(?3, excluded.from_hour, from_hour)",
        (target, from_hour, is_stated, gateway_id),
    )


def source_of(connection: sqlite3.Connection, target: str) -> str:
    """Whose days they are at the upstream; empty before it began."""
    row = connection.execute("SELECT source FROM billing_targets WHERE target = ?", (target,)).fetchone()
    return "" if row is None else str(row[0])


def due_day(connection: sqlite3.Connection, target: str, last_hour: int) -> int | None:
    """The oldest day that is due and began at *last_hour* or before; None where none is."""
    row = connection.execute(
        f"SELECT usage.hour {_DUE} ORDER BY usage.hour LIMIT 1",
        {"target": target, "last": last_hour},
    ).fetchone()
    return None if row is None else int(row[0])


def dropped_content(connection: sqlite3.Connection, target: str, hour: int) -> str | None:
    """Digest of what is in force; None also for a day that a command asked for, which goes out
    again.
    """
    row = connection.execute(
        "SELECT content FROM billing_days WHERE target = ? AND hour = ? AND NOT is_wanted", (target, hour)
    ).fetchone()
    return None if row is None else row[0]


def note_unchanged(connection: sqlite3.Connection, target: str, hour: int, revision: int) -> None:
    """What is in force is what is counted now."""
    connection.execute(
        "UPDATE billing_days SET seen_revision = ?, refused = NULL, refused_revision = NULL"
        " WHERE target = ? AND hour = ?",
        (revision, target, hour),
    )


def freeze(
    connection: sqlite3.Connection,
    target: str,
    hour: int,
    revision: int,
    manifest: dict[str, Any],
    requests: Sequence[tuple[str, bytes]],
    frozen_at: str,
) -> None:
    """Put the day under way: its *requests*, each the id of its batch and its body."""
    connection.execute("DELETE FROM billing_parts WHERE target = ?", (target,))
    connection.executemany(
        "INSERT INTO billing_parts (target, part, batch_id, hour, usage_revision, manifest, body, frozen_at, generation,"
        " attempts, is_taken) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0)",
        [
            (target, part, batch_id, hour, revision, orjson.dumps(manifest).decode(), body, frozen_at)
            for part, (batch_id, body) in enumerate(requests, 1)
        ],
    )


def next_part(connection: sqlite3.Connection, target: str) -> Part | None:
    """The first part of the day under way that the upstream does not have."""
    row = connection.execute(
        "SELECT part, batch_id, hour, body, frozen_at, generation, attempts FROM billing_parts"
        " WHERE target = ? AND NOT is_taken ORDER BY part LIMIT 1",
        (target,),
    ).fetchone()
    return None if row is None else Part._make(row)


def waiting_parts(connection: sqlite3.Connection, target: str) -> list[str]:
    """Ids of the batches of the day under way that the upstream does not have."""
    rows = connection.execute(
        "SELECT batch_id FROM billing_parts WHERE target = ? AND NOT is_taken ORDER BY part", (target,)
    )
    return [batch_id for (batch_id,) in rows]


def take(connection: sqlite3.Connection, target: str, batch_id: str, *, now_ms: int) -> dict[str, Any] | None:
    """The upstream has the part; the manifest of the day where it was the last one, which is then
    in force.
    """
    connection.execute("UPDATE billing_parts SET is_taken = 1 WHERE target = ? AND batch_id = ?", (target, batch_id))
    row = connection.execute(
        "SELECT hour, usage_revision, manifest, min(is_taken) FROM billing_parts WHERE target = ?", (target,)
    ).fetchone()
    hour, revision, manifest_text, is_whole = row
    if not is_whole:
        return None
    manifest: dict[str, Any] = orjson.loads(manifest_text)
    connection.execute(
        "INSERT INTO billing_days (target, hour, seen_revision, content, row_count, costs, calls_without_cost,"
        " dropped_at_ms, is_wanted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT DO UPDATE SET"
        " seen_revision = excluded.seen_revision, content = excluded.content, row_count = excluded.row_count,"
        " costs = excluded.costs, calls_without_cost = excluded.calls_without_cost,"
        " dropped_at_ms = excluded.dropped_at_ms, refused = NULL, refused_revision = NULL, is_wanted = 0",
        (target, hour, revision, manifest["revision"], manifest["row_count"], orjson.dumps(manifest["costs"]).decode(),
         manifest["calls_without_cost"], now_ms),
    )  # fmt: skip
    connection.execute("DELETE FROM billing_parts WHERE target = ?", (target,))
    return manifest


def give_back(connection: sqlite3.Connection, target: str, batch_id: str, *, answered: bool, all_parts: bool) -> None:
    """The part goes out again, under another idempotency key where the upstream *answered*;
    *all_parts*: so do those that it took.
    """
    connection.execute(
        "UPDATE billing_parts SET attempts = attempts + 1, generation = generation + ? WHERE target = ? AND batch_id = ?",
        (int(answered), target, batch_id),
    )
    if all_parts:
        connection.execute(
            "UPDATE billing_parts SET is_taken = 0, generation = generation + 1 WHERE target = ? AND is_taken",
            (target,),
        )


def discard(connection: sqlite3.Connection, target: str) -> None:
    """The day under way is frozen again."""
    connection.execute("DELETE FROM billing_parts WHERE target = ?", (target,))


def refuse(connection: sqlite3.Connection, target: str, why: str) -> None:
    """The upstream refuses the day under way; it is due again when usage is added to it, or when a
    command asks for it.
    """
    connection.execute(
        "INSERT INTO billing_days (target, hour, seen_revision, refused, refused_revision, is_wanted)"
        " SELECT target, hour, 0, ?, usage_revision, 0 FROM billing_parts WHERE target = ? LIMIT 1"
        " ON CONFLICT DO UPDATE SET refused = excluded.refused, refused_revision = excluded.refused_revision,"
        " is_wanted = 0",
        (why, target),
    )
    discard(connection, target)


def want(connection: sqlite3.Connection, target: str, hours: Sequence[int]) -> None:
    """Ask for the days that begin with *hours*."""
    connection.executemany(
        "INSERT INTO billing_days (target, hour, seen_revision, is_wanted) VALUES (?, ?, 0, 1)"
        " ON CONFLICT DO UPDATE SET is_wanted = 1",
        [(target, hour) for hour in hours],
    )


def days(connection: sqlite3.Connection, target: str, first_hour: int, end_hour: int) -> list[Day]:
    """The days that hold usage, in order."""
    rows = connection.execute(
        "SELECT usage.hour, usage.revision, ifnull(seen_revision, 0), content, row_count, costs, calls_without_cost,"
        " dropped_at_ms, refused, refused_revision, ifnull(is_wanted, 0), usage.hour >= counted_from"
        " FROM usage_rollup_state, usage_days usage"
        " LEFT JOIN billing_days day ON day.target = ? AND day.hour = usage.hour"
        " WHERE usage.hour >= ? AND usage.hour < ? ORDER BY usage.hour",
        (target, first_hour, end_hour),
    )
    return [Day._make(row) for row in rows]


def summary(connection: sqlite3.Connection, target: str, last_hour: int) -> Summary:
    (due,) = connection.execute(f"SELECT count(*) {_DUE}", {"target": target, "last": last_hour}).fetchone()
    refused, dropped, last_ms = connection.execute(
        "SELECT count(*) FILTER (WHERE refused IS NOT NULL), count(*) FILTER (WHERE content IS NOT NULL),"
        " max(dropped_at_ms) FROM billing_days WHERE target = ?",
        (target,),
    ).fetchone()
    (parts,) = connection.execute(
        "SELECT count(*) FROM billing_parts WHERE target = ? AND NOT is_taken", (target,)
    ).fetchone()
    return Summary(due, refused, dropped, last_ms, parts)


def counted_through_ms(connection: sqlite3.Connection) -> int:
    """All calls whose outcome was final by then are in the sums; 0 before the first count."""
    (as_of_ms,) = connection.execute("SELECT as_of_ms FROM usage_rollup_state").fetchone()
    return as_of_ms or 0
