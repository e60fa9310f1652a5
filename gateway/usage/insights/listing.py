"""The lists of insights and of their comments: the same on the gateway and on the local service."""

from typing import Any, Final

from gateway.common.lists.conventions import ListShape, Sort
from gateway.common.lists.table import ListTable, cut
from gateway.usage.insights.finding import INSIGHT_LIST
from gateway.usage.insights.tables import CommentRow, InsightRow, comment_item, insight_item


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
        # An unknown cost sorts below every other.
        "cost_impact": "ifnull(CAST(cost_impact AS REAL), -9e999)",
        "effort": "effort",
        "last_updated": "last_updated_ms",
        "status": "status",
        "title": cut("title"),
    },
    select=", ".join(InsightRow._fields),
    item_of=_insight,
)

_COMMENTS: Final = ListTable(
    shape=ListShape(root="comments", sort_keys=("created_at",), default_sort=Sort("created_at", "asc")),
    source="insight_comments",
    row_id="comment_no",
    expressions={"created_at": "created_at_ms"},
    select=", ".join(CommentRow._fields),
    item_of=_comment,
)

OF_INSIGHT: Final = "insight_id = ?"
"""Which comments are one insight's."""


def comments_list(insight_id: str) -> ListTable:
    """To be asked with `OF_INSIGHT`; its cursors are of this insight only."""
    return _COMMENTS.of(insight_id)
