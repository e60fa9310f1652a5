"""`BillingHome` in a database."""

from collections.abc import Sequence
from typing import Any

import orjson

from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.database import SqlHome, make_tables
from gateway.usage.billing.home import BillingHome, Day, Part, Summary
from spool.sql.connection import Connection

_DUE = (
    "FROM usage_days AS usage LEFT JOIN billing_days AS day ON day.target = ? AND day.hour = usage.hour"
    " WHERE usage.hour <= ? AND (day.hour IS NOT NULL OR usage.hour >= (SELECT CASE WHEN from_hour > counted_from"
    " THEN from_hour ELSE counted_from END FROM billing_targets, usage_rollup_state WHERE target = ?))"
    " AND (day.hour IS NULL OR day.is_wanted OR (day.seen_revision <> usage.revision"
    " AND (day.refused_revision IS NULL OR day.refused_revision <> usage.revision)))"
)


async def open_billing(database: SqlDatabase[Connection]) -> BillingHome:
    """The drops by day in *database*; missing tables are created. Raises DatabaseUnavailable."""
    await make_tables(database, "billing")
    return SqlHome(database, SqlBillingRows)


class SqlBillingRows:
    """`BillingRows` in the caller's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self, target: str, *, from_hour: int, is_stated: bool, gateway_id: str) -> None:
        self._connection.execute(
            "INSERT INTO billing_targets (target, from_hour, source) VALUES (?, ?, ?) ON CONFLICT (target) DO UPDATE"
            " SET from_hour = CASE WHEN ? THEN excluded.from_hour ELSE billing_targets.from_hour END",
            (target, from_hour, gateway_id, is_stated),
        )

    def source_of(self, target: str) -> str:
        row = self._connection.execute("SELECT source FROM billing_targets WHERE target = ?", (target,)).fetchone()
        return "" if row is None else str(row[0])

    def due_day(self, target: str, last_hour: int) -> int | None:
        row = self._connection.execute(
            f"SELECT usage.hour {_DUE} ORDER BY usage.hour LIMIT 1",
            (target, last_hour, target),
        ).fetchone()
        return None if row is None else int(row[0])

    def dropped_content(self, target: str, hour: int) -> str | None:
        row = self._connection.execute(
            "SELECT content FROM billing_days WHERE target = ? AND hour = ? AND NOT is_wanted", (target, hour)
        ).fetchone()
        return None if row is None else row[0]

    def note_unchanged(self, target: str, hour: int, revision: int) -> None:
        self._connection.execute(
            "UPDATE billing_days SET seen_revision = ?, refused = NULL, refused_revision = NULL"
            " WHERE target = ? AND hour = ?",
            (revision, target, hour),
        )

    def freeze(
        self,
        target: str,
        hour: int,
        revision: int,
        manifest: dict[str, Any],
        requests: Sequence[tuple[str, bytes]],
        frozen_at: str,
    ) -> None:
        self._connection.execute("DELETE FROM billing_parts WHERE target = ?", (target,))
        self._connection.executemany(
            "INSERT INTO billing_parts (target, part, batch_id, hour, usage_revision, manifest, body, frozen_at, generation,"
            " attempts, is_taken) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, FALSE)",
            [
                (target, part, batch_id, hour, revision, orjson.dumps(manifest).decode(), body, frozen_at)
                for part, (batch_id, body) in enumerate(requests, 1)
            ],
        )

    def next_part(self, target: str) -> Part | None:
        row = self._connection.execute(
            "SELECT part, batch_id, hour, body, frozen_at, generation, attempts FROM billing_parts"
            " WHERE target = ? AND NOT is_taken ORDER BY part LIMIT 1",
            (target,),
        ).fetchone()
        return None if row is None else Part._make(row)

    def waiting_parts(self, target: str) -> list[str]:
        rows = self._connection.execute(
            "SELECT batch_id FROM billing_parts WHERE target = ? AND NOT is_taken ORDER BY part", (target,)
        )
        return [batch_id for (batch_id,) in rows]

    def take(self, target: str, batch_id: str, *, now_ms: int) -> dict[str, Any] | None:
        self._connection.execute(
            "UPDATE billing_parts SET is_taken = TRUE WHERE target = ? AND batch_id = ?", (target, batch_id)
        )
        row = self._connection.execute(
            "SELECT hour, usage_revision, manifest FROM billing_parts WHERE target = ?"
            " AND NOT EXISTS (SELECT 1 FROM billing_parts WHERE target = ? AND NOT is_taken) LIMIT 1",
            (target, target),
        ).fetchone()
        if row is None:
            return None
        hour, revision, manifest_text = row
        manifest: dict[str, Any] = orjson.loads(manifest_text)
        self._connection.execute(
            "INSERT INTO billing_days (target, hour, seen_revision, content, row_count, costs, calls_without_cost,"
            " dropped_at_ms, is_wanted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, FALSE) ON CONFLICT (target, hour) DO UPDATE SET"
            " seen_revision = excluded.seen_revision, content = excluded.content, row_count = excluded.row_count,"
            " costs = excluded.costs, calls_without_cost = excluded.calls_without_cost,"
            " dropped_at_ms = excluded.dropped_at_ms, refused = NULL, refused_revision = NULL, is_wanted = FALSE",
            (target, hour, revision, manifest["revision"], manifest["row_count"], orjson.dumps(manifest["costs"]).decode(),
             manifest["calls_without_cost"], now_ms),
        )  # fmt: skip
        self._connection.execute("DELETE FROM billing_parts WHERE target = ?", (target,))
        return manifest

    def give_back(self, target: str, batch_id: str, *, answered: bool, all_parts: bool) -> None:
        self._connection.execute(
            "UPDATE billing_parts SET attempts = attempts + 1, generation = generation + ? WHERE target = ? AND batch_id = ?",
            (int(answered), target, batch_id),
        )
        if all_parts:
            self._connection.execute(
                "UPDATE billing_parts SET is_taken = FALSE, generation = generation + 1 WHERE target = ? AND is_taken",
                (target,),
            )

    def discard(self, target: str) -> None:
        self._connection.execute("DELETE FROM billing_parts WHERE target = ?", (target,))

    def refuse(self, target: str, why: str) -> None:
        self._connection.execute(
            "INSERT INTO billing_days (target, hour, seen_revision, refused, refused_revision, is_wanted)"
            " SELECT target, hour, 0, ?, usage_revision, FALSE FROM billing_parts WHERE target = ? LIMIT 1"
            " ON CONFLICT (target, hour) DO UPDATE SET refused = excluded.refused, refused_revision = excluded.refused_revision,"
            " is_wanted = FALSE",
            (why, target),
        )
        self.discard(target)

    def want(self, target: str, hours: Sequence[int]) -> None:
        self._connection.executemany(
            "INSERT INTO billing_days (target, hour, seen_revision, is_wanted) VALUES (?, ?, 0, TRUE)"
            " ON CONFLICT (target, hour) DO UPDATE SET is_wanted = TRUE",
            [(target, hour) for hour in hours],
        )

    def days(self, target: str, first_hour: int, end_hour: int) -> list[Day]:
        rows = self._connection.execute(
            "SELECT usage.hour, usage.revision, coalesce(seen_revision, 0), content, row_count, costs, calls_without_cost,"
            " dropped_at_ms, refused, refused_revision, coalesce(is_wanted, FALSE),"
            " coalesce(usage.hour >= counted_from, FALSE) FROM usage_rollup_state CROSS JOIN usage_days AS usage"
            " LEFT JOIN billing_days AS day ON day.target = ? AND day.hour = usage.hour"
            " WHERE usage.hour >= ? AND usage.hour < ? ORDER BY usage.hour",
            (target, first_hour, end_hour),
        )
        days = map(Day._make, rows)
        return [day._replace(is_wanted=bool(day.is_wanted), is_whole=bool(day.is_whole)) for day in days]

    def summary(self, target: str, last_hour: int) -> Summary:
        (due,) = self._connection.execute(f"SELECT count(*) {_DUE}", (target, last_hour, target)).fetchone()
        refused, dropped, last_ms = self._connection.execute(
            "SELECT count(*) FILTER (WHERE refused IS NOT NULL), count(*) FILTER (WHERE content IS NOT NULL),"
            " max(dropped_at_ms) FROM billing_days WHERE target = ?",
            (target,),
        ).fetchone()
        (parts,) = self._connection.execute(
            "SELECT count(*) FROM billing_parts WHERE target = ? AND NOT is_taken", (target,)
        ).fetchone()
        return Summary(due, refused, dropped, last_ms, parts)
