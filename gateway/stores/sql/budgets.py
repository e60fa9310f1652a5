"""`BudgetHome` in a database."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.database import SqlHome, make_tables
from gateway.usage.budgets.budget import DAY_MS, Budget, Threshold
from gateway.usage.budgets.home import Alert, BudgetHome, Delivery, Waiting
from gateway.usage.sums.figures import money_text
from gateway.usage.sums.saved_filter import filter_of, filter_text
from spool.sql.connection import Connection

_COLUMNS = (
    "budget_id", "budget_no", "name", "amount", "currency", "period", "filter", "thresholds", "stop_at", "webhook",
    "created_at_ms", "created_by", "updated_at_ms", "updated_by",
)  # fmt: skip
_PUT = (
    f"INSERT INTO budgets ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - own SQL
    f" ON CONFLICT (budget_id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[2:])}"
)
_ALERT = (
    "alert_id, budget_id, measure, percent, period, first_day, end_day, at_ms, amount, currency, spent, forecast,"
    " is_rearmed, delivery, attempts, ended_at_ms"
)


async def open_budgets(database: SqlDatabase[Connection]) -> BudgetHome:
    """The budgets in *database*; missing tables are created. Raises DatabaseUnavailable."""
    await make_tables(database, "budgets")
    return SqlHome(database, SqlBudgetRows)


class SqlBudgetRows:
    """`BudgetRows` in the caller's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def every(self) -> dict[str, Budget]:
        rows = self._connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM budgets ORDER BY budget_no")  # noqa: S608 - own SQL
        return {row[0]: _budget(row) for row in rows}

    def put(self, budget: Budget) -> None:
        encoded = {
            "amount": money_text(budget.amount),
            "filter": filter_text(budget.filter),
            "thresholds": json.dumps(budget.thresholds),
        }
        self._connection.execute(_PUT, [encoded.get(name, getattr(budget, name)) for name in _COLUMNS])

    def delete(self, budget_id: str) -> bool:
        return self._connection.execute("DELETE FROM budgets WHERE budget_id = ?", (budget_id,)).rowcount > 0

    def add_alert(self, alert: Alert, webhook: str | None, body: bytes | None) -> bool:
        stored = self._connection.execute(
            f"INSERT INTO budget_alerts ({_ALERT}, webhook, body)"  # noqa: S608 - own SQL
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (*_row(alert), webhook, body),
        )
        return stored.rowcount > 0

    def drop_alerts(self, budget_id: str, before_day: int) -> None:
        self._connection.execute(
            "DELETE FROM budget_alerts WHERE budget_id = ? AND end_day < ?", (budget_id, before_day)
        )

    def rearm(self, alert_id: str) -> None:
        self._connection.execute("UPDATE budget_alerts SET is_rearmed = TRUE WHERE alert_id = ?", (alert_id,))

    def alerts_of(self, budget_id: str) -> list[Alert]:
        query = f"SELECT {_ALERT} FROM budget_alerts WHERE budget_id = ? ORDER BY alert_no DESC"  # noqa: S608 - own SQL
        return [_alert(row) for row in self._connection.execute(query, (budget_id,))]

    def alerts_since(self, since_ms: int, budget_id: str | None = None) -> list[Alert]:
        of_one = "" if budget_id is None else "budget_id = ? AND"
        rows = self._connection.execute(
            f"SELECT {_ALERT} FROM budget_alerts WHERE {of_one} NOT is_rearmed AND (end_day * {DAY_MS} > ? OR at_ms > ?)"  # noqa: S608 - own SQL
            " ORDER BY alert_no",
            (since_ms, since_ms) if budget_id is None else (budget_id, since_ms, since_ms),
        )
        return [_alert(row) for row in rows]

    def waiting_webhooks(self) -> dict[str, int]:
        rows = self._connection.execute(
            "SELECT webhook, count(*) FROM budget_alerts WHERE delivery = 'pending' GROUP BY webhook ORDER BY min(alert_no)"
        )
        return dict(rows.fetchall())

    def next_waiting(self, webhook: str) -> Waiting | None:
        row = self._connection.execute(
            "SELECT alert_no, alert_id, webhook, body, attempts, at_ms FROM budget_alerts WHERE delivery = 'pending'"
            " AND webhook = ? ORDER BY attempts, alert_no LIMIT 1",
            (webhook,),
        ).fetchone()
        return None if row is None else Waiting(*row)

    def note_attempt(self, alert_no: int, outcome: Delivery, now_ms: int) -> None:
        ended = outcome != "pending"
        self._connection.execute(
            "UPDATE budget_alerts SET attempts = attempts + 1, delivery = ?, ended_at_ms = ?,"
            " body = CASE WHEN ? THEN NULL ELSE body END WHERE alert_no = ?",
            (outcome, now_ms if ended else None, ended, alert_no),
        )


def _budget(row: Sequence[Any]) -> Budget:
    fields: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    thresholds = tuple(Threshold(*each) for each in json.loads(fields["thresholds"]))
    decoded: dict[str, Any] = {
        "amount": Decimal(fields["amount"]),
        "filter": filter_of(fields["filter"]),
        "thresholds": thresholds,
    }
    return Budget(**{**fields, **decoded})


def _row(alert: Alert) -> list[Any]:
    return [money_text(each) if isinstance(each, Decimal) else each for each in alert]


def _alert(row: Sequence[Any]) -> Alert:
    alert = Alert(*row)
    forecast = None if alert.forecast is None else Decimal(alert.forecast)
    return alert._replace(
        amount=Decimal(alert.amount),
        spent=Decimal(alert.spent),
        forecast=forecast,
        is_rearmed=bool(alert.is_rearmed),
    )
