"""Where insights are kept, of the gateway and of the local service, as this room uses it."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from gateway.common.lists.conventions import ListRequest, Page
from gateway.common.storage.home import Home
from gateway.usage.insights.finding import Status

MAX_STATUSES: Final = 50
"""Kept of one insight."""


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
    standing: bool = False
    """True while the latest round that evaluates its cause found it."""
    status_set_by: str | None = None
    status_set_at_ms: int | None = None
    reach: str = ""
    """What a caller has to see to see it, as `reach_column` has it; empty for everything."""


class CommentRow(NamedTuple):
    comment_no: int
    comment_id: str
    author: str
    text: str
    created_at_ms: int
    updated_by: str | None
    updated_at_ms: int


class StatusRow(NamedTuple):
    """A change of an insight's status."""

    status: Status
    at_ms: int
    set_by: str | None


class InsightRows(Protocol):
    """What is kept of insights, inside one commit or snapshot."""

    def every(self) -> list[InsightRow]: ...

    def find(self, insight_id: str) -> InsightRow | None: ...

    def of(self, insight_ids: Sequence[str]) -> dict[str, InsightRow]:
        """Those that exist, by id."""

    def standing(self) -> set[str]:
        """Ids of those whose cause was found by the latest round."""

    def history(self, insight_id: str) -> list[StatusRow]:
        """Its latest `MAX_STATUSES` statuses, in order; each change that is put is one."""

    def put(self, rows: Iterable[InsightRow]) -> None:
        """Store them, in place of those with their ids."""

    def delete(self, insight_id: str) -> bool:
        """With its comments; whether it was there."""

    def count(self, *, found: bool) -> int:
        """Of the found ones, or of those that were made by hand."""

    def keep_found(self, most: int) -> None:
        """Forget found insights beyond *most*: gone before standing, untouched before edited, then
        by the oldest update.
        """

    def page(self, request: ListRequest) -> Page:
        """Its items are `Insight`."""

    def count_comments(self, insight_id: str) -> int: ...

    def add_comment(self, insight_id: str, comment_id: str, *, author: str, text: str, now_ms: int) -> CommentRow: ...

    def change_comment(self, insight_id: str, comment_id: str, *, text: str, by: str, now_ms: int) -> CommentRow | None:
        """None where the insight has no such comment."""

    def comments(self, insight_id: str, request: ListRequest) -> Page:
        """Its items are `Comment`."""


InsightHome = Home[InsightRows]
