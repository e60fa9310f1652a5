"""Insights: the one list that is published in full (service-interface parts 2.2 and 4.1).

No published endpoint makes an insight, so they come in by `add_insight`. The types of the fields are not published
but for `status`: money is a decimal string here as everywhere, times are RFC 3339.
"""

import sqlite3
from dataclasses import dataclass
from decimal import Decimal

from gateway.insights.finding import INSIGHT_LIST, Status
from gateway.keys.record import rfc3339
from gateway.local_service.amounts import decimal_text
from gateway.local_service.call import Answer, Call
from gateway.local_service.lists import ListTable, list_answer


@dataclass(frozen=True, slots=True)
class Insight:
    title: str
    category: str
    status: Status
    cost_impact: Decimal
    effort: str
    last_updated_ms: int


def _item(row: tuple[object, ...]) -> dict[str, object]:
    *texts, last_updated_ms = row
    names = ("status", "category", "cost_impact", "effort", "title")
    return dict(zip(names, texts, strict=True)) | {"last_updated": rfc3339(last_updated_ms)}  # type: ignore[arg-type]  # an INTEGER column


INSIGHTS = ListTable(
    shape=INSIGHT_LIST,
    source="insights",
    row_id="insight_no",
    expressions={
        "category": "category",
        "cost_impact": "CAST(cost_impact AS REAL)",
        "effort": "effort",
        "last_updated": "last_updated_ms",
        "status": "status",
        "title": "title",
    },
    select="status, category, cost_impact, effort, title, last_updated_ms",
    item_of=_item,
)


def insights(connection: sqlite3.Connection, call: Call) -> Answer:
    return list_answer(connection, INSIGHTS, call)


def add_insight(connection: sqlite3.Connection, insight: Insight) -> None:
    connection.execute(
        "INSERT INTO insights (status, category, cost_impact, effort, last_updated_ms, title) VALUES (?, ?, ?, ?, ?, ?)",
        (
            insight.status,
            insight.category,
            decimal_text(insight.cost_impact),
            insight.effort,
            insight.last_updated_ms,
            insight.title,
        ),
    )
