"""`InsightHome` in a database, and the same tables in the local service's file."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gateway.common.lists.conventions import ListRequest, Page
from gateway.common.lists.table import BELOW_ALL, ListTable, cut, fetch_page
from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.database import SqlHome, make_tables
from gateway.stores.sql.one_of import one_of
from gateway.usage.insights.finding import COMMENT_LIST, INSIGHT_LIST
from gateway.usage.insights.home import CommentRow, InsightHome, InsightRow, StatusRow
from gateway.usage.insights.kept import comment_item, insight_item
from spool.sql.connection import Connection

# Order of eviction: gone before standing, untouched before edited, then by the oldest update.
_UNTOUCHED = "status_set_by IS NULL AND insight_id NOT IN (SELECT insight_id FROM insight_comments)"
_FORGET = (
    "DELETE FROM insights WHERE cause <> '' AND insight_id NOT IN (SELECT insight_id FROM insights WHERE cause <> ''"  # noqa: S608 - own SQL
    f" ORDER BY standing DESC, {_UNTOUCHED}, last_updated_ms DESC, insight_no DESC LIMIT ?)"
)

PART: Final = "insights"
_COLUMNS = ", ".join(InsightRow._fields)
_COMMENT_COLUMNS = ", ".join(CommentRow._fields)
_PUT = (
    f"INSERT INTO insights ({_COLUMNS})"  # noqa: S608 - own SQL
    " VALUES (?, coalesce(?, (SELECT coalesce(max(insight_no), 0) + 1 FROM insights)), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (insight_id) DO UPDATE SET title = excluded.title, category = excluded.category, effort = excluded.effort,"
    " cost_impact = excluded.cost_impact, status = excluded.status, last_updated_ms = excluded.last_updated_ms,"
    " standing = excluded.standing, status_set_by = excluded.status_set_by, status_set_at_ms = excluded.status_set_at_ms,"
    " reach = excluded.reach"
)


async def open_insights(database: SqlDatabase[Connection]) -> InsightHome:
    """The insights in *database*; missing tables are created. Raises DatabaseUnavailable."""
    await make_tables(database, PART)
    return SqlHome(database, SqlInsightRows)


class SqlInsightRows:
    """`InsightRows` in the caller's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def every(self) -> list[InsightRow]:
        return [_row(each) for each in self._connection.execute(f"SELECT {_COLUMNS} FROM insights")]  # noqa: S608 - own SQL

    def find(self, insight_id: str) -> InsightRow | None:
        return self.of([insight_id]).get(insight_id)

    def of(self, insight_ids: Sequence[str]) -> dict[str, InsightRow]:
        listed, parameters = one_of(self._connection, insight_ids, "TEXT")
        query = f"SELECT {_COLUMNS} FROM insights WHERE insight_id IN {listed}"  # noqa: S608 - own SQL
        return {each[0]: _row(each) for each in self._connection.execute(query, parameters)}

    def standing(self) -> set[str]:
        found = self._connection.execute("SELECT insight_id FROM insights WHERE standing")
        return {insight_id for (insight_id,) in found}

    def history(self, insight_id: str) -> list[StatusRow]:
        """A trigger of the table writes it."""
        found = self._connection.execute(
            "SELECT status, at_ms, set_by FROM insight_history WHERE insight_id = ? ORDER BY change_no", (insight_id,)
        )
        return [StatusRow(*row) for row in found]

    def put(self, rows: Iterable[InsightRow]) -> None:
        self._connection.executemany(_PUT, rows)

    def delete(self, insight_id: str) -> bool:
        return self._connection.execute("DELETE FROM insights WHERE insight_id = ?", (insight_id,)).rowcount > 0

    def count(self, *, found: bool) -> int:
        (n,) = self._connection.execute("SELECT count(*) FROM insights WHERE (cause <> '') = ?", (found,)).fetchone()
        return int(n)

    def keep_found(self, most: int) -> None:
        if self.count(found=True) > most:
            self._connection.execute(_FORGET, (most,))

    def page(self, request: ListRequest) -> Page:
        return fetch_page(self._connection, INSIGHTS, request)

    def count_comments(self, insight_id: str) -> int:
        query = "SELECT count(*) FROM insight_comments WHERE insight_id = ?"
        (n,) = self._connection.execute(query, (insight_id,)).fetchone()
        return int(n)

    def add_comment(self, insight_id: str, comment_id: str, *, author: str, text: str, now_ms: int) -> CommentRow:
        self._connection.execute(
            "INSERT INTO insight_comments (comment_id, insight_id, author, text, created_at_ms, updated_at_ms)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (comment_id, insight_id, author, text, now_ms, now_ms),
        )
        return self._comment(insight_id, comment_id)[0]

    def change_comment(self, insight_id: str, comment_id: str, *, text: str, by: str, now_ms: int) -> CommentRow | None:
        self._connection.execute(
            "UPDATE insight_comments SET text = ?, updated_by = ?, updated_at_ms = ?"
            " WHERE insight_id = ? AND comment_id = ?",
            (text, by, now_ms, insight_id, comment_id),
        )
        return next(iter(self._comment(insight_id, comment_id)), None)

    def _comment(self, insight_id: str, comment_id: str) -> list[CommentRow]:
        query = f"SELECT {_COMMENT_COLUMNS} FROM insight_comments WHERE insight_id = ? AND comment_id = ?"  # noqa: S608 - own SQL
        return [CommentRow(*row) for row in self._connection.execute(query, (insight_id, comment_id))]

    def comments(self, insight_id: str, request: ListRequest) -> Page:
        return fetch_page(self._connection, comments_list(insight_id), request, only=OF_INSIGHT, params=(insight_id,))


def _row(columns: Sequence[Any]) -> InsightRow:
    row = InsightRow(*columns)
    return row._replace(standing=bool(row.standing))


# ---- lists


def _insight(row: tuple[Any, ...]) -> object:
    return insight_item(InsightRow(*row))


def _comment(row: tuple[Any, ...]) -> object:
    return comment_item(CommentRow(*row))


INSIGHTS: Final = ListTable(
    shape=INSIGHT_LIST,
    source="insights",
    row_id="insight_no",
    expressions={
        "category": "category",
        "cost_impact": f"coalesce(CAST(cost_impact AS DOUBLE PRECISION), {BELOW_ALL})",
        "effort": "effort",
        "last_updated": "last_updated_ms",
        "status": "status",
        "title": cut("title"),
    },
    select=", ".join(InsightRow._fields),
    item_of=_insight,
    numbers=("cost_impact", "last_updated"),
)

_COMMENTS: Final = ListTable(
    shape=COMMENT_LIST,
    source="insight_comments",
    row_id="comment_no",
    expressions={"created_at": "created_at_ms"},
    select=", ".join(CommentRow._fields),
    item_of=_comment,
    numbers=("created_at",),
)

OF_INSIGHT: Final = "insight_id = ?"
"""Which comments are one insight's."""


def comments_list(insight_id: str) -> ListTable:
    """To be asked with `OF_INSIGHT`; its cursors are of this insight only."""
    return _COMMENTS.of(insight_id)
