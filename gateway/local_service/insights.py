"""Insights over HTTP. The list is published in full (service-interface parts 2.2 and 4.1); the
other paths and bodies are the gateway's.

The types of the fields are not published but for `status`: money is a decimal string here as
everywhere, times are RFC 3339. Which status may follow which is not published either: any may. The
rules and the tables are `gateway.usage.insights`'.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import wraps

from gateway.common.storage.database import Database
from gateway.local_service.amounts import decimal_text
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.checks import decoded_object
from gateway.local_service.errors import Invalid
from gateway.local_service.lists import list_answer
from gateway.stores.sql.database import make_tables
from gateway.stores.sql.insights import INSIGHTS, OF_INSIGHT, PART, SqlInsightRows, comments_list
from gateway.usage.insights import kept
from gateway.usage.insights.changes import InsightError
from gateway.usage.insights.finding import Status
from gateway.usage.insights.home import InsightRow


@dataclass(frozen=True, slots=True)
class Insight:
    """An insight of the operator; see `Service.add_insight`."""

    title: str
    category: str
    status: Status
    cost_impact: Decimal | None
    """None when unknown."""
    effort: str
    last_updated_ms: int


async def open_insights(database: Database, moved: str) -> None:
    """Create the insights' tables; *moved*: the script that moves the rows of the table of service
    0001.
    """
    await make_tables(database, PART)
    await database.migrate("service insights", [moved])


def _as_service_errors(
    operation: Callable[[sqlite3.Connection, ServiceCall], ServiceAnswer],
) -> Callable[[sqlite3.Connection, ServiceCall], ServiceAnswer]:
    """*operation*, with its errors as ServiceError."""

    @wraps(operation)
    def translated(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
        try:
            return operation(connection, call)
        except InsightError as error:
            raise Invalid(error.code, str(error), status=error.status) from error

    return translated


def insights(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    return list_answer(connection, INSIGHTS, call)


@_as_service_errors
def create(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    content = decoded_object(call.body)
    made = kept.create_insight(SqlInsightRows(connection), content, insight_id=call.request_id, now_ms=call.now_ms)
    return json_answer(201, {"insight": made})


@_as_service_errors
def read(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    return json_answer(200, {"insight": kept.read_insight(SqlInsightRows(connection), call.params["insight_id"])})


@_as_service_errors
def change(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    content, insight_id = decoded_object(call.body), call.params["insight_id"]
    changed = kept.change_insight(SqlInsightRows(connection), insight_id, content, by=call.key_name, now_ms=call.now_ms)
    return json_answer(200, {"insight": changed})


@_as_service_errors
def delete(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    kept.delete_insight(SqlInsightRows(connection), call.params["insight_id"])
    return ServiceAnswer(204)


@_as_service_errors
def comments(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    insight_id = call.params["insight_id"]
    kept.find_insight(SqlInsightRows(connection), insight_id)
    return list_answer(connection, comments_list(insight_id), call, only=OF_INSIGHT, params=(insight_id,))


@_as_service_errors
def add_comment(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """POST of a comment: 201 with it."""
    written = kept.add_comment(
        SqlInsightRows(connection),
        call.params["insight_id"],
        decoded_object(call.body),
        comment_id=call.request_id,
        by=call.key_name,
        now_ms=call.now_ms,
    )
    return json_answer(201, {"comment": written})


@_as_service_errors
def change_comment(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """PUT of a comment: 200 with it."""
    changed = kept.change_comment(
        SqlInsightRows(connection),
        call.params["insight_id"],
        call.params["comment_id"],
        decoded_object(call.body),
        by=call.key_name,
        now_ms=call.now_ms,
    )
    return json_answer(200, {"comment": changed})


def add_insight(connection: sqlite3.Connection, insight: Insight, insight_id: str) -> None:
    """Insert *insight* as if a detector had found it."""
    impact = insight.cost_impact
    row = InsightRow(
        insight_id=insight_id,
        insight_no=None,
        cause="",
        title=insight.title,
        category=insight.category,
        effort=insight.effort,
        cost_impact=None if impact is None else decimal_text(impact),
        status=insight.status,
        last_updated_ms=insight.last_updated_ms,
    )
    SqlInsightRows(connection).put([row])
