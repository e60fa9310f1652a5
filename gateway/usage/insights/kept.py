"""Insights and their changes: one set of rules, for the gateway and the local service.

Every function here runs inside the caller's commit. A change is validated and applied in that one
commit, so concurrent changes are serial and each keeps the fields that it does not name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypedDict

from gateway.common.contract.json_types import Time
from gateway.common.contract.reach import reach_column
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
from gateway.usage.insights.finding import Finding, Insight, InsightDetail, StatusChange
from gateway.usage.insights.home import CommentRow, InsightRow, InsightRows
from spool.clock import rfc3339_ms

MAX_FOUND: Final = 5_000
"""Found insights that are kept; see `InsightRows.keep_found`."""


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


def read_insight(kept: InsightRows, insight_id: str) -> InsightDetail:
    """Raises NoSuchInsight."""
    row = find_insight(kept, insight_id)
    set_at_ms = row.status_set_at_ms
    return InsightDetail(
        **insight_item(row),
        cause=row.cause or None,
        status_set_by=row.status_set_by,
        status_set_at=None if set_at_ms is None else rfc3339_ms(set_at_ms),
        history=[
            StatusChange(status=status, at=rfc3339_ms(at_ms), by=by) for status, at_ms, by in kept.history(insight_id)
        ],
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


def find_insight(kept: InsightRows, insight_id: str) -> InsightRow:
    """Raises NoSuchInsight."""
    row = kept.find(insight_id)
    if row is None:
        raise NoSuchInsight
    return row


def create_insight(kept: InsightRows, content: Mapping[str, object], *, insight_id: str, now_ms: int) -> InsightDetail:
    """Create a manual insight. Raises InvalidInsight, TooMany."""
    new = NewInsight.checked(content)
    if kept.count(found=False) >= MAX_MADE:
        raise TooMany(f"insights: {MAX_MADE} were made by hand already; delete some first")
    kept.put([InsightRow(insight_id, None, "", **new.model_dump(), last_updated_ms=now_ms)])
    return read_insight(kept, insight_id)


def change_insight(
    kept: InsightRows, insight_id: str, content: Mapping[str, object], *, by: str, now_ms: int
) -> InsightDetail:
    """Raises InvalidInsight, NoSuchInsight, FoundInsight."""
    change = checked_change(content)
    row = find_insight(kept, insight_id)
    fixed = next((field for field in change if field != "status"), None)
    if row.cause and fixed is not None:
        raise FoundInsight(fixed)
    if "status" in change:
        change |= {"status_set_by": by, "status_set_at_ms": now_ms}
    changed = row._replace(**change, last_updated_ms=now_ms)  # type: ignore[arg-type]  # checked: the names are columns, the values their types
    kept.put([changed])
    return read_insight(kept, insight_id)


def delete_insight(kept: InsightRows, insight_id: str) -> None:
    """Delete it with its comments; found again it is a new one. Raises NoSuchInsight."""
    if not kept.delete(insight_id):
        raise NoSuchInsight


def add_comment(
    kept: InsightRows,
    insight_id: str,
    content: Mapping[str, object],
    *,
    comment_id: str,
    by: str,
    now_ms: int,
) -> Comment:
    """Raises InvalidInsight, NoSuchInsight, TooMany."""
    text = CommentBody.checked(content).text
    find_insight(kept, insight_id)
    if kept.count_comments(insight_id) >= MAX_COMMENTS:
        raise TooMany(f"comments: an insight has at most {MAX_COMMENTS}; change one instead")
    return comment_item(kept.add_comment(insight_id, comment_id, author=by, text=text, now_ms=now_ms))


def change_comment(
    kept: InsightRows,
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
    find_insight(kept, insight_id)
    changed = kept.change_comment(insight_id, comment_id, text=text, by=by, now_ms=now_ms)
    if changed is None:
        raise NoSuchComment
    return comment_item(changed)


def note_findings(
    kept: InsightRows, findings: Sequence[Finding], now_ms: int, *, gone: Iterable[str] | None = None
) -> None:
    """Store the findings of one round. One cause has one insight; only
    changed rows are written.

    *gone*: ids whose cause is over; *findings* may then be the changed ones alone. None:
    *findings* are complete, and a standing insight that is not among them is over.
    """
    found = {finding.insight_id: finding for finding in findings}
    over = kept.standing() - set(found) if gone is None else set(gone)
    before = kept.of([*found, *over])
    after = [_found(before.get(insight_id), finding, now_ms) for insight_id, finding in found.items()]
    after += [_gone(before[insight_id], now_ms) for insight_id in over if insight_id in before]
    kept.put([row for row in after if before.get(row.insight_id) != row])
    if found.keys() - before.keys():
        kept.keep_found(MAX_FOUND)


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
        standing=True,
        reach=reach_column(finding.reach),
    )
    if row is None:
        return new
    updated = row._replace(
        title=new.title, category=new.category, effort=new.effort, cost_impact=new.cost_impact, reach=new.reach
    )
    status = status_when_found(row.status, was_standing=row.standing)
    return _moved(row, updated._replace(status=status), now_ms)._replace(standing=True)


def _gone(row: InsightRow, now_ms: int) -> InsightRow:
    return _moved(row, row._replace(status=status_when_gone(row.status)), now_ms)._replace(standing=False)


def _moved(before: InsightRow, after: InsightRow, now_ms: int) -> InsightRow:
    """*after*, dated when it differs; a status that the rules set names no operator."""
    if after.status != before.status:
        after = after._replace(status_set_by=None, status_set_at_ms=None)
    return before if after == before else after._replace(last_updated_ms=now_ms)


def forget_old_settlements(kept: InsightRows, before_ms: int) -> None:
    """End the standing of insights that an operator addressed before *before_ms*:
    found again they are new.
    """
    old = [
        row
        for row in kept.every()
        if row.standing
        and row.status == "addressed"
        and row.status_set_at_ms is not None
        and row.status_set_at_ms < before_ms
    ]
    kept.put([row._replace(standing=False) for row in old])
