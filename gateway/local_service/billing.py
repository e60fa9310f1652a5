"""Billing drops: every row is validated; of a drop only the number of rows is stored (wire contract
6.5).
"""

import re
import sqlite3
from datetime import datetime

from gateway.local_service.amounts import parse_decimal
from gateway.local_service.call import Answer, Call, json_answer
from gateway.local_service.checks import Fields, as_list, as_object, choice, decoded_object, present, text
from gateway.local_service.errors import Invalid
from gateway.local_service.times import parse_utc

MAX_BYTES = 5_000_000
MAX_ROWS = 1_000_000
OPERATIONS = ("replace_drop", "replace_hourly", "sum")
DEFAULT_OPERATION = "replace_drop"
LINE_ITEM_TYPES = (
    *("Usage", "Tax", "Support", "Purchase", "CommittedUsePurchase", "Discount", "Credit", "Fee", "Adjustment"),
)
_COSTS = (
    "cost/cost",
    "cost/discounted_cost",
    "cost/amortized_cost",
    "cost/discounted_amortized_cost",
    "cost/on_demand_cost",
)
_NUMBERS = frozenset({*_COSTS, "usage/amount"})
_COLUMNS = _NUMBERS | {
    *("time/usage_start", "lineitem/type", "usage/units", "bill/invoice_id"),
    *("resource/id", "resource/service", "resource/account", "resource/region", "resource/usage_family"),
    *("action/operation", "action/usage_type", "action/region", "action/account"),
}
_FREE_COLUMN = re.compile(r"(?:resource/tag:|k8s/).{1,256}", re.DOTALL)
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def validate(connection: sqlite3.Connection, call: Call) -> Answer:
    """The dry run: the same checks, nothing stored."""
    month, _, row_count = _checked(decoded_object(call.body))
    return json_answer(200, {"connection": {"month": month, "row_count": row_count}})


def drop(connection: sqlite3.Connection, call: Call) -> Answer:
    month, operation, row_count = _checked(decoded_object(call.body))
    connection.execute(
        "INSERT INTO billing_drops (drop_id, connection_id, month, operation, row_count, stored_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (call.request_id, call.params["connection_id"], month, operation, row_count, call.now_ms),
    )
    return json_answer(200, {"connection": {"drop_id": call.request_id, "month": month, "row_count": row_count}})


def _checked(body: Fields) -> tuple[str, str, int]:
    """(month as YYYY-MM, operation, number of rows). Raises Invalid with the row's position."""
    month = _month(text(body, "month"))
    operation = DEFAULT_OPERATION if body.get("operation") is None else choice(body, "operation", OPERATIONS)
    rows = as_list(present(body, "data"), "data")
    if not 1 <= len(rows) <= MAX_ROWS:
        raise Invalid("invalid_data", f"data: 1 to {MAX_ROWS} rows are needed")
    for index, row in enumerate(rows):
        try:
            _check_row(as_object(row, "row"), month)
        except Invalid as error:
            raise Invalid(error.code, f"data[{index}]: {error}") from error
    return month, operation, len(rows)


def _month(value: str) -> str:
    """Both forms are seen in the wild: a full time, and YYYY-MM."""
    time = parse_utc(f"{value}-01" if re.fullmatch(r"\d{4}-\d\d", value) else value)
    if time is None:
        raise Invalid("invalid_month", "month: YYYY-MM or an ISO 8601 time is needed")
    return _month_of(time)


def _month_of(time: datetime) -> str:
    return f"{time.year:04}-{time.month:02}"


def _check_row(row: Fields, month: str) -> None:
    for name, value in row.items():
        _check_cell(name, value)
    _check_usage_start(text(row, "time/usage_start"), month)
    present(row, "cost/cost")
    if "lineitem/type" in row:
        choice(row, "lineitem/type", LINE_ITEM_TYPES)
    if "resource/id" not in row and any(name.startswith("resource/tag:") for name in row):
        raise Invalid("missing_resource/id", "resource/id: it is needed beside a tag")


def _check_cell(name: str, value: object) -> None:
    if name not in _COLUMNS and _FREE_COLUMN.fullmatch(name) is None:
        raise Invalid("unknown_column", "a column is none of the Common Bill Format")
    if not isinstance(value, str):
        raise Invalid(f"invalid_{name}", f"{name}: all values are strings")
    if name in _NUMBERS and (_PLAIN_NUMBER.fullmatch(value) is None or parse_decimal(value) is None):
        raise Invalid(f"invalid_{name}", f"{name}: a plain decimal without exponent is needed")


def _check_usage_start(value: str, month: str) -> None:
    time = parse_utc(value)
    if time is None or (time.minute, time.second, time.microsecond) != (0, 0, 0):
        raise Invalid("invalid_time/usage_start", "time/usage_start: a full hour in UTC is needed")
    if _month_of(time) != month:
        raise Invalid("invalid_time/usage_start", "time/usage_start: it is outside the month of the request")
