"""Budgets and their alerts in control.db. Functions run in the caller's transaction."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from gateway.common.contract.budgets import Measure
from gateway.common.contract.errors import NameInUse, NotFound, TooManyKept
from gateway.common.storage.database import Database, scripts_of
from gateway.usage.budgets.budget import (
    DAY_MS,
    Budget,
    Period,
    Span,
    Spend,
    Threshold,
    is_crossed,
    thresholds_of,
)
from gateway.usage.sums.figures import money_text
from gateway.usage.sums.saved_filter import filter_of, filter_text, kept_filter, without_users

MAX_BUDGETS: Final = 500
KEPT_ALERT_DAYS: Final = 400
"""As long as days of usage."""
Delivery = Literal["none", "pending", "delivered", "failed"]

_COLUMNS = (
    "budget_id", "budget_no", "name", "amount", "currency", "period", "filter", "thresholds", "stop_at", "webhook",
    "created_at_ms", "created_by", "updated_at_ms", "updated_by",
)  # fmt: skip
_PUT = (
    f"INSERT INTO budgets ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - own SQL
    f" ON CONFLICT (budget_id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[2:])}"
)


class Alert(NamedTuple):
    """A threshold that was crossed in a period."""

    alert_id: str
    budget_id: str
    of: Measure
    percent: int
    period: Period
    first_day: int
    end_day: int
    at_ms: int
    amount: Decimal
    """This and the next three: as they were then."""
    currency: str
    spent: Decimal
    forecast: Decimal | None
    is_rearmed: bool
    delivery: Delivery
    attempts: int
    ended_at_ms: int | None
    """When it was delivered, or given up."""

    @property
    def threshold(self) -> Threshold:
        return Threshold(self.of, self.percent)

    @property
    def span(self) -> Span:
        return Span(self.first_day, self.end_day)


class Waiting(NamedTuple):
    """A call of a webhook that is pending."""

    alert_no: int
    alert_id: str
    webhook: str
    """"" for the one of all budgets."""
    body: bytes
    attempts: int
    at_ms: int
    """When the alert was raised."""


_ALERT = (
    "alert_id, budget_id, measure, percent, period, first_day, end_day, at_ms, amount, currency, spent, forecast,"
    " is_rearmed, delivery, attempts, ended_at_ms"
)


async def make_budget_tables(database: Database) -> None:
    """Raises DatabaseUnavailable."""
    await database.migrate("budgets", scripts_of("gateway.usage.budgets.migrations"))


# ---- budgets


def every_budget(connection: sqlite3.Connection) -> dict[str, Budget]:
    """By id."""
    rows = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM budgets ORDER BY budget_no")  # noqa: S608 - own SQL
    return {row[0]: _budget(row) for row in rows}


def _budget(row: Sequence[Any]) -> Budget:
    fields: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    thresholds = tuple(Threshold(*each) for each in json.loads(fields["thresholds"]))
    decoded: dict[str, Any] = {
        "amount": Decimal(fields["amount"]),
        "filter": filter_of(fields["filter"]),
        "thresholds": thresholds,
    }
    return Budget(**{**fields, **decoded})


def new_budget(
    connection: sqlite3.Connection, fields: Mapping[str, Any], *, budget_id: str, by: str, now_ms: int
) -> Budget:
    """The budget of *fields*, which are checked, before it is stored. Raises TooManyKept."""
    held, last = connection.execute("SELECT count(*), coalesce(max(budget_no), 0) FROM budgets").fetchone()
    if held >= MAX_BUDGETS:
        raise TooManyKept(f"budgets: {MAX_BUDGETS} are kept already; delete some first")
    who: dict[str, Any] = {"created_at_ms": now_ms, "created_by": by, "updated_at_ms": now_ms, "updated_by": by}
    return Budget(budget_id=budget_id, budget_no=last + 1, **_typed(fields), **who)


def changed_budget(budget: Budget, fields: Mapping[str, Any], *, by: str, now_ms: int) -> Budget:
    return replace(budget, **_typed(fields), updated_at_ms=now_ms, updated_by=by)


def _typed(fields: Mapping[str, Any]) -> dict[str, Any]:
    typed = dict(fields)
    if "amount" in typed:
        typed["amount"] = Decimal(typed["amount"])
    if "filter" in typed:
        typed["filter"] = kept_filter(typed["filter"])
    if "thresholds" in typed:
        typed["thresholds"] = thresholds_of(typed["thresholds"])
    return typed


def put_budget(connection: sqlite3.Connection, budget: Budget) -> None:
    """Store *budget*, in place of the one with its id if there is one. Raises NameInUse."""
    taken = "SELECT 1 FROM budgets WHERE name = ? AND budget_id <> ?"
    if connection.execute(taken, (budget.name, budget.budget_id)).fetchone():
        raise NameInUse("name: another budget has it")
    encoded = {
        "amount": money_text(budget.amount),
        "filter": filter_text(budget.filter),
        "thresholds": json.dumps(budget.thresholds),
    }
    connection.execute(_PUT, [encoded.get(name, getattr(budget, name)) for name in _COLUMNS])


def delete_budget(connection: sqlite3.Connection, budget_id: str) -> None:
    """With its alerts; a webhook that still waits is not called. Raises NotFound."""
    if not connection.execute("DELETE FROM budgets WHERE budget_id = ?", (budget_id,)).rowcount:
        raise NotFound("no budget has this id")


def forget_users(connection: sqlite3.Connection, users: Collection[str], *, dry_run: bool) -> int:
    """Take *users* out of the filters; a budget of theirs alone is deleted. How many budgets named
    one of them.
    """
    named = without_users(every_budget(connection).values(), users)
    for budget, left in () if dry_run else named:
        if left is None:
            delete_budget(connection, budget.budget_id)
        else:
            put_budget(connection, replace(budget, filter=left))
    return len(named)


# ---- alerts


def raise_alerts(
    connection: sqlite3.Connection,
    budget: Budget,
    spend: Spend,
    thresholds: Iterable[Threshold],
    *,
    now_ms: int,
    kept_ms: int,
    webhook: str | None,
    webhook_body: Callable[[Alert], bytes],
) -> list[Alert]:
    """Store an alert of each of *thresholds* that has none in this period, and delete those of the
    budget that are older than `KEPT_ALERT_DAYS` at *kept_ms*; the alerts stored now.

    *webhook*: name of the one to call, None for none. *webhook_body*: what is posted of an alert.
    """
    raised = []
    for threshold in thresholds:
        alert = _new_alert(connection, budget, spend, threshold, now_ms, "none" if webhook is None else "pending")
        body = None if webhook is None else webhook_body(alert)
        stored = connection.execute(
            f"INSERT OR IGNORE INTO budget_alerts ({_ALERT}, webhook, body)"  # noqa: S608 - own SQL
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*_row(alert), webhook, body),
        )
        raised += [alert] if stored.rowcount else []
    connection.execute(
        "DELETE FROM budget_alerts WHERE budget_id = ? AND end_day < ?",
        (budget.budget_id, kept_ms // DAY_MS - KEPT_ALERT_DAYS),
    )
    return raised


def _new_alert(
    connection: sqlite3.Connection,
    budget: Budget,
    spend: Spend,
    threshold: Threshold,
    now_ms: int,
    delivery: Delivery,
) -> Alert:
    whose = (budget.budget_id, threshold.of, threshold.percent, budget.period, spend.span.first_day)
    (before,) = connection.execute(
        "SELECT count(*) FROM budget_alerts WHERE budget_id = ? AND measure = ? AND percent = ? AND period = ?"
        " AND first_day = ? AND is_rearmed",
        whose,
    ).fetchone()
    alert_id = sha256(json.dumps([*whose, before]).encode()).hexdigest()[:32]
    return Alert(
        alert_id, budget.budget_id, *threshold, budget.period, *spend.span, now_ms, budget.amount, budget.currency,
        spend.spent, spend.forecast, is_rearmed=False, delivery=delivery, attempts=0, ended_at_ms=None,
    )  # fmt: skip


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


def rearm(
    connection: sqlite3.Connection,
    before: tuple[Budget, Mapping[Span, Spend]],
    after: tuple[Budget, Mapping[Span, Spend]],
) -> None:
    """Let thresholds raise an alert again that the change from *before* to *after* un-crossed."""
    for alert in alerts_of(connection, before[0].budget_id):
        was = _is_crossed(alert, *before)
        if not alert.is_rearmed and was and _is_crossed(alert, *after) is False:
            connection.execute("UPDATE budget_alerts SET is_rearmed = 1 WHERE alert_id = ?", (alert.alert_id,))


def _is_crossed(alert: Alert, budget: Budget, spends: Mapping[Span, Spend]) -> bool | None:
    """None where the budget has no such period now, or no forecast."""
    spend = spends.get(alert.span)
    if spend is None or budget.period != alert.period or (alert.of == "forecast" and spend.forecast is None):
        return None
    return is_crossed(budget, alert.threshold, spend)


def alerts_of(connection: sqlite3.Connection, budget_id: str) -> list[Alert]:
    """The latest first."""
    rows = connection.execute(
        f"SELECT {_ALERT} FROM budget_alerts WHERE budget_id = ? ORDER BY alert_no DESC",  # noqa: S608 - own SQL
        (budget_id,),
    )
    return [_alert(row) for row in rows]


def alerts_since(connection: sqlite3.Connection, since_ms: int, budget_id: str | None = None) -> list[Alert]:
    """Alerts that are not rearmed, and were raised after *since_ms* or in a period that ended after
    it; of one budget, or of all.
    """
    of_one = "" if budget_id is None else "budget_id = ?2 AND"
    rows = connection.execute(
        f"SELECT {_ALERT} FROM budget_alerts WHERE {of_one} NOT is_rearmed AND (end_day * {DAY_MS} > ?1 OR at_ms > ?1)"  # noqa: S608 - own SQL
        " ORDER BY alert_no",
        (since_ms,) if budget_id is None else (since_ms, budget_id),
    )
    return [_alert(row) for row in rows]


# ---- webhooks


def waiting_webhooks(connection: sqlite3.Connection) -> dict[str, int]:
    """Names of the webhooks that are to be called -> how many alerts wait for each."""
    rows = connection.execute(
        "SELECT webhook, count(*) FROM budget_alerts WHERE delivery = 'pending' GROUP BY webhook ORDER BY min(alert_no)"
    )
    return dict(rows.fetchall())


def next_waiting(connection: sqlite3.Connection, webhook: str) -> Waiting | None:
    """What *webhook* is to be called with next, the least tried first: an alert that its receiver
    never takes holds up no other.
    """
    row = connection.execute(
        "SELECT alert_no, alert_id, webhook, body, attempts, at_ms FROM budget_alerts WHERE delivery = 'pending'"
        " AND webhook = ? ORDER BY attempts, alert_no LIMIT 1",
        (webhook,),
    ).fetchone()
    return None if row is None else Waiting(*row)


def note_attempt(connection: sqlite3.Connection, alert_no: int, outcome: Delivery, now_ms: int) -> None:
    """Count a try of the webhook that ended with *outcome*; `pending` is tried again."""
    ended = outcome != "pending"
    connection.execute(
        "UPDATE budget_alerts SET attempts = attempts + 1, delivery = ?, ended_at_ms = ?,"
        " body = CASE WHEN ? THEN NULL ELSE body END WHERE alert_no = ?",
        (outcome, now_ms if ended else None, ended, alert_no),
    )
