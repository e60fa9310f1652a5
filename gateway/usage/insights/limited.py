"""The insights that a limited caller sees: those about budgets inside its limit, and those that are
made by hand inside it. Others are about services, lanes and devices of all teams.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from gateway.common.contract.reach import Reach, is_within, reach_column, reach_in
from gateway.common.lists.conventions import ListRequest, Page, SortValue
from gateway.common.lists.memory import page_of
from gateway.usage.insights.home import CommentRow, InsightHome, InsightRow, InsightRows, StatusRow
from gateway.usage.insights.kept import insight_item
from gateway.usage.sums.limited_filter import number_of

T = TypeVar("T")
UNKNOWN = float("-inf")


class LimitedInsightHome:
    """*home* for a caller who sees *reach*."""

    def __init__(self, home: InsightHome, reach: Reach) -> None:
        self._home = home
        self._reach = reach

    async def commit(self, change: Callable[[InsightRows], T]) -> T:
        return await self._home.commit(lambda kept: change(LimitedInsightRows(kept, self._reach)))

    async def read(self, question: Callable[[InsightRows], T]) -> T:
        return await self._home.read(lambda kept: question(LimitedInsightRows(kept, self._reach)))


class LimitedInsightRows:
    """`InsightRows` inside a limit; a row beyond it is not there."""

    def __init__(self, kept: InsightRows, reach: Reach) -> None:
        self._kept = kept
        self._reach = reach

    def _sees(self, row: InsightRow) -> bool:
        return is_within(dict(reach_in(row.reach)), self._reach)

    def every(self) -> list[InsightRow]:
        return [row for row in self._kept.every() if self._sees(row)]

    def find(self, insight_id: str) -> InsightRow | None:
        return self.of([insight_id]).get(insight_id)

    def of(self, insight_ids: Sequence[str]) -> dict[str, InsightRow]:
        return {insight_id: row for insight_id, row in self._kept.of(insight_ids).items() if self._sees(row)}

    def standing(self) -> set[str]:
        return {row.insight_id for row in self.every() if row.standing}

    def history(self, insight_id: str) -> list[StatusRow]:
        return self._kept.history(insight_id) if self.find(insight_id) is not None else []

    def put(self, rows: Iterable[InsightRow]) -> None:
        """What is new gets the limit."""
        own = reach_column(self._reach)
        self._kept.put([row if row.insight_no is not None else row._replace(reach=own) for row in rows])

    def delete(self, insight_id: str) -> bool:
        return self.find(insight_id) is not None and self._kept.delete(insight_id)

    def count(self, *, found: bool) -> int:
        return sum(bool(row.cause) is found for row in self.every())

    def keep_found(self, most: int) -> None:
        """Detectors alone find, and they have no limit."""

    def page(self, request: ListRequest) -> Page:
        return page_of(
            request, self.every(), field_of=_field, id_of=lambda row: number_of(row.insight_id), item_of=insight_item
        )

    def count_comments(self, insight_id: str) -> int:
        return self._kept.count_comments(insight_id)

    def add_comment(self, insight_id: str, comment_id: str, *, author: str, text: str, now_ms: int) -> CommentRow:
        return self._kept.add_comment(insight_id, comment_id, author=author, text=text, now_ms=now_ms)

    def change_comment(self, insight_id: str, comment_id: str, *, text: str, by: str, now_ms: int) -> CommentRow | None:
        return self._kept.change_comment(insight_id, comment_id, text=text, by=by, now_ms=now_ms)

    def comments(self, insight_id: str, request: ListRequest) -> Page:
        return self._kept.comments(insight_id, request)


def _field(row: InsightRow, name: str) -> SortValue:
    if name == "cost_impact":
        return UNKNOWN if row.cost_impact is None else float(row.cost_impact)
    value: SortValue = getattr(row, {"last_updated": "last_updated_ms"}.get(name, name))
    return value
