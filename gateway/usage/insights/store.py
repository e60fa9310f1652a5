"""The gateway's insights: one row for each cause, kept over
restarts, and manual ones.

A finding becomes a `new` insight; found again, its text is updated. An insight that a round no
longer finds is `addressed`, unless an operator put it on hold or ignored it; a cause that
returns is `new` again. A finding of an earlier process stays until this process finds it too,
unless the round remembers its cause: figures that begin at the start cannot show that an
earlier cause is over. So a status `addressed` that an operator set outlives a restart for
`SETTLEMENT_KEPT_MS`; found after a later start, the cause persists or returned, and is `new`.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from functools import partial
from typing import Final, Self, TypeVar

from gateway.common.contract.reach import Reach
from gateway.common.lists.conventions import ListRequest, Page
from gateway.usage.insights.finding import UNSETTLED, Finding, Insight, InsightDetail
from gateway.usage.insights.home import InsightHome, InsightRows
from gateway.usage.insights.kept import (
    Comment,
    add_comment,
    change_comment,
    change_insight,
    create_insight,
    delete_insight,
    find_insight,
    forget_old_settlements,
    insight_item,
    note_findings,
    read_insight,
)
from gateway.usage.insights.limited import LimitedInsightHome

SETTLEMENT_KEPT_MS: Final = 24 * 3600 * 1000
"""A day: restarts of one evening's work reopen nothing."""

T = TypeVar("T")
Content = Mapping[str, object]
"""A decoded body; checked here."""


class InsightStore:
    """Open with `InsightStore.open`. An unknown id raises NoSuchInsight; every method may raise
    DatabaseUnavailable.
    """

    def __init__(
        self, home: InsightHome, now_ms: Callable[[], int], random_bytes: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._home = home
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._standing: dict[str, Finding] = {}
        """By id, the findings of the last round."""
        self._remembered: AbstractSet[str] = frozenset()
        """Causes whose standing insights are exactly the findings of the last round."""
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, home: InsightHome, *, now_ms: Callable[[], int]) -> Self:
        """The insights at *home*."""
        await home.commit(partial(forget_old_settlements, before_ms=now_ms() - SETTLEMENT_KEPT_MS))
        return cls(home, now_ms)

    def limited(self, reach: Reach) -> "InsightStore":
        """The insights that a caller sees who sees *reach*."""
        part = copy(self)
        part._home = LimitedInsightHome(self._home, reach)  # noqa: SLF001 - its own
        return part

    async def note(self, findings: Sequence[Finding], *, remembered: AbstractSet[str] = frozenset()) -> None:
        """Store the findings of one round; without a change nothing is read or written.

        *remembered*: causes whose figures outlive a restart; their insights that are not among
        *findings* are over. Raises DatabaseUnavailable; the next round repeats it.
        """
        async with self._turn:
            standing = {finding.insight_id: finding for finding in findings}
            fresh = remembered - self._remembered
            if standing != self._standing or fresh:
                gone = self._standing.keys() - standing.keys()
                changed = [finding for id_, finding in standing.items() if self._standing.get(id_) != finding]
                noted = findings if fresh else changed
                await self._home.commit(partial(_note, noted, self._now_ms(), gone, fresh))
                self._standing, self._remembered = standing, self._remembered | remembered

    async def page(self, request: ListRequest) -> Page:
        """The page of *request*; its items are `Insight`s."""
        return await self._home.read(lambda kept: kept.page(request))

    async def unsettled(self) -> list[Insight]:
        """Open insights, the latest first."""
        rows = [row for row in await self._home.read(lambda kept: kept.every()) if row.status in UNSETTLED]
        return [insight_item(row) for row in sorted(rows, key=lambda row: -row.last_updated_ms)]

    async def read(self, insight_id: str) -> InsightDetail:
        return await self._home.read(partial(read_insight, insight_id=insight_id))

    async def create(self, content: Content) -> InsightDetail:
        """Raises InvalidInsight, TooMany."""
        return await self._write(create_insight, content, insight_id=self._new_id())

    async def change(self, insight_id: str, content: Content, *, by: str) -> InsightDetail:
        """Raises InvalidInsight, FoundInsight."""
        return await self._write(change_insight, insight_id, content, by=by)

    async def delete(self, insight_id: str) -> None:
        """An insight whose cause still stands returns as a new one with the next round."""
        async with self._turn:
            await self._home.commit(partial(delete_insight, insight_id=insight_id))
            self._standing.pop(insight_id, None)

    async def comments(self, insight_id: str, request: ListRequest) -> Page:
        """*request* is one of `COMMENT_LIST.of(insight_id)`; items are `Comment`s."""

        def page(kept: InsightRows) -> Page:
            find_insight(kept, insight_id)
            return kept.comments(insight_id, request)

        return await self._home.read(page)

    async def add_comment(self, insight_id: str, content: Content, *, by: str) -> Comment:
        """Raises InvalidInsight, TooMany."""
        return await self._write(add_comment, insight_id, content, comment_id=self._new_id(), by=by)

    async def change_comment(self, insight_id: str, comment_id: str, content: Content, *, by: str) -> Comment:
        """Raises InvalidInsight, NoSuchComment."""
        return await self._write(change_comment, insight_id, comment_id, content, by=by)

    async def _write(self, change: Callable[..., T], *args: object, **fields: object) -> T:
        now_ms = self._now_ms()
        return await self._home.commit(lambda kept: change(kept, *args, now_ms=now_ms, **fields))

    def _new_id(self) -> str:
        return self._random_bytes(16).hex()


def _note(
    findings: Sequence[Finding],
    now_ms: int,
    gone: AbstractSet[str],
    remembered: AbstractSet[str],
    kept: InsightRows,
) -> None:
    """Store one round; *gone* insights are over, and those of *remembered* causes that are not
    among *findings*.
    """
    if remembered:
        found = {finding.insight_id for finding in findings}
        stood = {row.insight_id for row in kept.every() if row.standing and row.cause in remembered}
        gone |= stood - found
    note_findings(kept, findings, now_ms, gone=gone)
