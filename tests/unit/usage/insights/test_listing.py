"""What a page of the insights' list reads: a page, by an index, however long the list is."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.common.lists.conventions import CursorPosition, Position, read_request
from gateway.common.lists.table import fetch_page
from gateway.common.storage.database import scripts_of
from gateway.stores.sql.insights import INSIGHTS, SqlInsightRows
from gateway.usage.insights.home import InsightRow

ROWS = 2_000


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:")
    for script in scripts_of("gateway.stores.sqlite.migrations.insights"):
        opened.executescript(script)
    for n in range(ROWS):
        status = ("new", "on_hold", "ignored")[n % 3]
        SqlInsightRows(opened).put([InsightRow(str(n), None, "x", f"t{n}", "c", "low", None, status, n // 5)])  # type: ignore[arg-type]  # a status
    yield opened
    opened.close()


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(("key", "value"), [("status", "new"), ("last_updated", 200)])
def test_a_page_from_the_middle_of_a_long_list_is_walked_by_an_index(
    connection: sqlite3.Connection, key: str, value: str | int, order: str
) -> None:
    asked = read_request(INSIGHTS.shape, [("sort_key", key), ("sort_order", order), ("limit", "20")])
    asked = replace(asked, position=Position(CursorPosition(value, 1000), backwards=False))
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    page = fetch_page(connection, INSIGHTS, asked)
    connection.set_trace_callback(None)
    assert (len(page.items), page.total_count) == (20, ROWS)
    walks = [statement for statement in statements if "ORDER BY" in statement]
    assert len(walks) == 2, "on, and one row back"
    for walk in walks:
        plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + walk)]
        assert any("insights_by_" in step and "(" in step for step in plan), plan
        assert not [step for step in plan if step.startswith("SCAN insights") and "INDEX" not in step], plan


@pytest.mark.parametrize("key", INSIGHTS.shape.sort_keys)
def test_only_the_rows_of_the_page_become_items(connection: sqlite3.Connection, key: str) -> None:
    made: list[object] = []

    def counted(row: tuple[object, ...]) -> object:
        made.append(row)
        return INSIGHTS.item_of(row)

    asked = read_request(INSIGHTS.shape, [("sort_key", key), ("limit", "20")])
    fetch_page(connection, replace(INSIGHTS, item_of=counted), asked)
    assert len(made) == 20
