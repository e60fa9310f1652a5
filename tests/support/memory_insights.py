"""Insights in memory: `gateway.usage.insights.home` with plain dictionaries."""

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.common.lists.conventions import ListRequest, Page, SortValue
from gateway.common.lists.memory import page_of
from gateway.usage.insights.home import MAX_STATUSES, CommentRow, InsightRow, StatusRow
from gateway.usage.insights.kept import comment_item, insight_item

UNKNOWN: Final = float("-inf")


class MemoryInsightRows:
    def __init__(self) -> None:
        self._kept: dict[str, InsightRow] = {}
        self._comments: dict[str, list[CommentRow]] = {}
        self._statuses: dict[str, list[StatusRow]] = {}
        self._last_insight = self._last_comment = 0

    def every(self) -> list[InsightRow]:
        return list(self._kept.values())

    def find(self, insight_id: str) -> InsightRow | None:
        return self._kept.get(insight_id)

    def of(self, insight_ids: Sequence[str]) -> dict[str, InsightRow]:
        return {each: self._kept[each] for each in insight_ids if each in self._kept}

    def standing(self) -> set[str]:
        return {row.insight_id for row in self._kept.values() if row.standing}

    def history(self, insight_id: str) -> list[StatusRow]:
        return list(self._statuses.get(insight_id, ()))

    def put(self, rows: Iterable[InsightRow]) -> None:
        for row in rows:
            before = self._kept.get(row.insight_id)
            number = 1 + max((each.insight_no or 0 for each in self._kept.values()), default=0)
            kept = row._replace(insight_no=number if before is None else before.insight_no)
            self._kept[row.insight_id] = kept
            if before is None or before.status != row.status:
                change = StatusRow(row.status, row.last_updated_ms, row.status_set_by)
                statuses = self._statuses.setdefault(row.insight_id, [])
                statuses.append(change)
                del statuses[:-MAX_STATUSES]

    def delete(self, insight_id: str) -> bool:
        self._comments.pop(insight_id, None)
        self._statuses.pop(insight_id, None)
        return self._kept.pop(insight_id, None) is not None

    def count(self, *, found: bool) -> int:
        return sum(bool(row.cause) is found for row in self._kept.values())

    def keep_found(self, most: int) -> None:
        def worth(row: InsightRow) -> tuple[bool, bool, int, int]:
            touched = row.status_set_by is not None or bool(self._comments.get(row.insight_id))
            return row.standing, touched, row.last_updated_ms, row.insight_no or 0

        found = sorted((row for row in self._kept.values() if row.cause), key=worth, reverse=True)
        for row in found[most:]:
            self.delete(row.insight_id)

    def page(self, request: ListRequest) -> Page:
        kept = self._kept.values()
        return page_of(request, kept, field_of=_field, id_of=lambda row: row.insight_no or 0, item_of=insight_item)

    def count_comments(self, insight_id: str) -> int:
        return len(self._comments.get(insight_id, ()))

    def add_comment(self, insight_id: str, comment_id: str, *, author: str, text: str, now_ms: int) -> CommentRow:
        self._last_comment += 1
        row = CommentRow(self._last_comment, comment_id, author, text, now_ms, None, now_ms)
        self._comments.setdefault(insight_id, []).append(row)
        return row

    def change_comment(self, insight_id: str, comment_id: str, *, text: str, by: str, now_ms: int) -> CommentRow | None:
        kept = self._comments.get(insight_id, [])
        for at, row in enumerate(kept):
            if row.comment_id == comment_id:
                kept[at] = row._replace(text=text, updated_by=by, updated_at_ms=now_ms)
                return kept[at]
        return None

    def comments(self, insight_id: str, request: ListRequest) -> Page:
        return page_of(
            request,
            self._comments.get(insight_id, []),
            field_of=lambda row, _: row.created_at_ms,
            id_of=lambda row: row.comment_no,
            item_of=comment_item,
        )


def _field(row: InsightRow, name: str) -> SortValue:
    if name == "cost_impact":
        return UNKNOWN if row.cost_impact is None else float(row.cost_impact)
    value: SortValue = getattr(row, {"last_updated": "last_updated_ms"}.get(name, name))
    return value
