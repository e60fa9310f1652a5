"""The tables of insights and their changes: one layout and one set of rules, in control.db and
in the local service's file.

Every function here runs inside the caller's transaction. A change is validated and
applied in that one transaction, so concurrent changes are serial and each keeps the
fields that it does not name.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypedDict

from gateway.common.contract.json_types import Time
from gateway.common.storage.database import Database, scripts_of
from gateway.usage.insights.changes import (
    MAX_COMMENTS,
    MAX_MADE,
    CommentBody,
    FoundInsight,
    NewInsight,
    NoSuchComment,
    NoSuchInsight,
    TooMany,
    checked_change,
    status_when_found,
    status_when_gone,
)
from gateway.usage.insights.finding import Finding, Insight, InsightDetail, Status, StatusChange
from spool.clock import rfc3339_ms

MAX_FOUND: Final = 5_000
"""Found insights that are kept; see `_FORGET`."""

# Order of eviction: gone before standing, untouched before edited, then by the oldest update.
_UNTOUCHED = "status_set_by IS NULL AND insight_id NOT IN (SELECT insight_id FROM insight_comments)"
_FORGET = (
    "DELETE FROM insights WHERE insight_id IN (SELECT insight_id FROM insights WHERE cause <> ''"  # noqa: S608 - own SQL
    f" ORDER BY standing DESC, {_UNTOUCHED}, last_updated_ms DESC, insight_no DESC LIMIT -1 OFFSET ?)"
)


class InsightRow(NamedTuple):
    insight_id: str
    insight_no: int | None
    """None before it is stored."""
    cause: str
    """"" for a manual one."""
    title: str
    category: str
    effort: str
    cost_impact: str | None
    status: Status
    last_updated_ms: int
    standing: int = 0
    """1 while the latest round that evaluates its cause found it."""
    status_set_by: str | None = None
    status_set_at_ms: int | None = None


class CommentRow(NamedTuple):
    comment_no: int
    comment_id: str
    author: str
    text: str
    created_at_ms: int
    updated_by: str | None
    updated_at_ms: int


_COLUMNS = ", ".join(InsightRow._fields)
_COMMENT_COLUMNS = ", ".join(CommentRow._fields)
_PUT = (
    f"INSERT INTO insights ({_COLUMNS})"  # noqa: S608 - own SQL
    " VALUES (?1, coalesce(?2, (SELECT coalesce(max(insight_no), 0) + 1 FROM insights)), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
    " ON CONFLICT (insight_id) DO UPDATE SET title = excluded.title, category = excluded.category, effort = excluded.effort,"
    " cost_impact = excluded.cost_impact, status = excluded.status, last_updated_ms = excluded.last_updated_ms,"
    " standing = excluded.standing, status_set_by = excluded.status_set_by, status_set_at_ms = excluded.status_set_at_ms"
)


class Comment(TypedDict):
    """An item of the list of comments."""

    id: str
    author: str
    """Name of the key that it was written with."""
    text: str
    created_at: Time
    updated_by: str | None
    """Name of the key that changed it last; null while it is as it was written."""
    updated_at: Time


class CommentAnswer(TypedDict):
    comment: Comment


async def make_insight_tables(database: Database) -> None:
    """Raises DatabaseUnavailable."""
    await database.migrate("insights", scripts_of("gateway.usage.insights.migrations"))


def insight_item(row: InsightRow) -> Insight:
    """The item of the list of insights that *row* becomes."""
    return Insight(
        id=row.insight_id,
        status=row.status,
        category=row.category,
        cost_impact=row.cost_impact,
        effort=row.effort,
        title=row.title,
        last_updated=rfc3339_ms(row.last_updated_ms),
    )


def read_insight(connection: sqlite3.Connection, insight_id: str) -> InsightDetail:
    """Raises NoSuchInsight."""
    row = find_insight(connection, insight_id)
    set_at_ms = row.status_set_at_ms
    changes = connection.execute(
        "SELECT status, at_ms, set_by FROM insight_history WHERE insight_id = ? ORDER BY change_no", (insight_id,)
    )
    return InsightDetail(
        **insight_item(row),
        cause=row.cause or None,
        status_set_by=row.status_set_by,
        status_set_at=None if set_at_ms is None else rfc3339_ms(set_at_ms),
        history=[StatusChange(status=status, at=rfc3339_ms(at_ms), by=by) for status, at_ms, by in changes],
    )


def comment_item(row: CommentRow) -> Comment:
    return Comment(
        id=row.comment_id,
        author=row.author,
        text=row.text,
        created_at=rfc3339_ms(row.created_at_ms),
        updated_by=row.updated_by,
        updated_at=rfc3339_ms(row.updated_at_ms),
    )


def every_insight(connection: sqlite3.Connection) -> list[InsightRow]:
    return [InsightRow(*row) for row in connection.execute(f"SELECT {_COLUMNS} FROM insights")]  # noqa: S608 - own SQL


def find_insight(connection: sqlite3.Connection, insight_id: str) -> InsightRow:
    """Raises NoSuchInsight."""
    query = f"SELECT {_COLUMNS} FROM insights WHERE insight_id = ?"  # noqa: S608 - own SQL
    row = connection.execute(query, (insight_id,)).fetchone()
    if row is None:
        raise NoSuchInsight
    return InsightRow(*row)


def put_insight(connection: sqlite3.Connection, row: InsightRow) -> None:
    """Store *row*, or change the one that has its id."""
    connection.execute(_PUT, row)


def create_insight(
    connection: sqlite3.Connection, content: Mapping[str, object], *, insight_id: str, now_ms: int
) -> InsightDetail:
    """Create a manual insight. Raises InvalidInsight, TooMany."""
    new = NewInsight.checked(content)
    (made,) = connection.execute("SELECT count(*) FROM insights WHERE cause = ''").fetchone()
    if made >= MAX_MADE:
        raise TooMany(f"insights: {MAX_MADE} were made by hand already; delete some first")
    put_insight(connection, InsightRow(insight_id, None, "", **new.model_dump(), last_updated_ms=now_ms))
    return read_insight(connection, insight_id)


def change_insight(
    connection: sqlite3.Connection, insight_id: str, content: Mapping[str, object], *, by: str, now_ms: int
) -> InsightDetail:
    """Raises InvalidInsight, NoSuchInsight, FoundInsight."""
    change = checked_change(content)
    row = find_insight(connection, insight_id)
    fixed = next((field for field in change if field != "status"), None)
    if row.cause and fixed is not None:
        raise FoundInsight(fixed)
    if "status" in change:
        change |= {"status_set_by": by, "status_set_at_ms": now_ms}
    changed = row._replace(**change, last_updated_ms=now_ms)  # type: ignore[arg-type]  # checked: the names are columns, the values their types
    put_insight(connection, changed)
    return read_insight(connection, insight_id)


def delete_insight(connection: sqlite3.Connection, insight_id: str) -> None:
    """Delete it with its comments; found again it is a new one. Raises NoSuchInsight."""
    if not connection.execute("DELETE FROM insights WHERE insight_id = ?", (insight_id,)).rowcount:
        raise NoSuchInsight


def add_comment(
    connection: sqlite3.Connection,
    insight_id: str,
    content: Mapping[str, object],
    *,
    comment_id: str,
    by: str,
    now_ms: int,
) -> Comment:
    """Raises InvalidInsight, NoSuchInsight, TooMany."""
    text = CommentBody.checked(content).text
    find_insight(connection, insight_id)
    query = "SELECT count(*) FROM insight_comments WHERE insight_id = ?"
    (written,) = connection.execute(query, (insight_id,)).fetchone()
    if written >= MAX_COMMENTS:
        raise TooMany(f"comments: an insight has at most {MAX_COMMENTS}; change one instead")
    connection.execute(
        "INSERT INTO insight_comments (comment_id, insight_id, author, text, created_at_ms, updated_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (comment_id, insight_id, by, text, now_ms, now_ms),
    )
    return comment_item(_find_comment(connection, insight_id, comment_id))


def change_comment(
    connection: sqlite3.Connection,
    insight_id: str,
    comment_id: str,
    content: Mapping[str, object],
    *,
    by: str,
    now_ms: int,
) -> Comment:
    """Replace its text; the author stays.

    Raises InvalidInsight, NoSuchInsight, NoSuchComment.
    """
    text = CommentBody.checked(content).text
    find_insight(connection, insight_id)
    connection.execute(
        "UPDATE insight_comments SET text = ?, updated_by = ?, updated_at_ms = ? WHERE insight_id = ? AND comment_id = ?",
        (text, by, now_ms, insight_id, comment_id),
    )
    return comment_item(_find_comment(connection, insight_id, comment_id))


def _find_comment(connection: sqlite3.Connection, insight_id: str, comment_id: str) -> CommentRow:
    query = f"SELECT {_COMMENT_COLUMNS} FROM insight_comments WHERE insight_id = ? AND comment_id = ?"  # noqa: S608 - own SQL
    row = connection.execute(query, (insight_id, comment_id)).fetchone()
    if row is None:
        raise NoSuchComment
    return CommentRow(*row)


def note_findings(
    connection: sqlite3.Connection, findings: Sequence[Finding], now_ms: int, *, gone: Iterable[str] | None = None
) -> None:
    """Store the findings of one round. One cause has one insight; only
    changed rows are written.

    *gone*: ids whose cause is over; *findings* may then be the changed ones alone. None:
    *findings* are complete, and a standing insight that is not among them is over.
    """
    found = {finding.insight_id: finding for finding in findings}
    over = _standing_ids(connection) - set(found) if gone is None else set(gone)
    before = _rows_of(connection, [*found, *over])
    after = [_found(before.get(insight_id), finding, now_ms) for insight_id, finding in found.items()]
    after += [_gone(before[insight_id], now_ms) for insight_id in over if insight_id in before]
    connection.executemany(_PUT, [row for row in after if before.get(row.insight_id) != row])
    if found.keys() - before.keys():
        _forget(connection)


def _standing_ids(connection: sqlite3.Connection) -> set[str]:
    return {insight_id for (insight_id,) in connection.execute("SELECT insight_id FROM insights WHERE standing")}


def _rows_of(connection: sqlite3.Connection, insight_ids: Sequence[str]) -> dict[str, InsightRow]:
    """The rows that exist, by id."""
    query = f"SELECT {_COLUMNS} FROM insights WHERE insight_id IN (SELECT value FROM json_each(?))"  # noqa: S608 - own SQL
    return {row[0]: InsightRow(*row) for row in connection.execute(query, (json.dumps(insight_ids),))}


def _forget(connection: sqlite3.Connection) -> None:
    (kept,) = connection.execute("SELECT count(*) FROM insights WHERE cause <> ''").fetchone()
    if kept > MAX_FOUND:
        connection.execute(_FORGET, (MAX_FOUND,))


def _found(row: InsightRow | None, finding: Finding, now_ms: int) -> InsightRow:
    new = InsightRow(
        insight_id=finding.insight_id,
        insight_no=None,
        cause=finding.cause,
        title=finding.title,
        category=finding.category,
        effort=finding.effort,
        cost_impact=finding.cost_impact,
        status="new",
        last_updated_ms=now_ms,
        standing=1,
    )
    if row is None:
        return new
    updated = row._replace(title=new.title, category=new.category, effort=new.effort, cost_impact=new.cost_impact)
    status = status_when_found(row.status, was_standing=bool(row.standing))
    return _moved(row, updated._replace(status=status), now_ms)._replace(standing=1)


def _gone(row: InsightRow, now_ms: int) -> InsightRow:
    return _moved(row, row._replace(status=status_when_gone(row.status)), now_ms)._replace(standing=0)


def _moved(before: InsightRow, after: InsightRow, now_ms: int) -> InsightRow:
    """*after*, dated when it differs; a status that the rules set names no operator."""
    if after.status != before.status:
        after = after._replace(status_set_by=None, status_set_at_ms=None)
    return before if after == before else after._replace(last_updated_ms=now_ms)


def forget_old_settlements(connection: sqlite3.Connection, before_ms: int) -> None:
    """End the standing of insights that an operator addressed before *before_ms*:
    found again they are new.
    """
    connection.execute(
        "UPDATE insights SET standing = 0 WHERE standing AND status = 'addressed' AND status_set_at_ms < ?",
        (before_ms,),
    )
