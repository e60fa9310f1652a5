"""The gateway's insights in control.db: one row a cause, kept over restarts, and those that somebody made by hand.

A finding becomes a `new` insight; found again, its text is brought up to date. What a round finds no more is `addressed`, unless
somebody set it aside; should it come back, it is `new` again. What a round of an earlier process found stays as it is until
this one finds it too, unless the round remembers its cause: figures that begin at the start say nothing about what was before it. So what a person called `addressed`
stays that over a restart for `SETTLEMENT_KEPT_MS`; found after a later start, it was not mended, or came back, and is `new`.
"""

import asyncio
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, Self, TypeVar

from gateway.insights.finding import UNSETTLED, Finding, Insight, InsightDetail
from gateway.insights.listing import INSIGHTS, OF_INSIGHT, comments_list
from gateway.insights.tables import (
    Comment,
    add_comment,
    change_comment,
    change_insight,
    create_insight,
    delete_insight,
    every_insight,
    find_insight,
    forget_old_settlements,
    insight_detail,
    insight_item,
    make_insight_tables,
    note_findings,
)
from gateway.lists.conventions import ListRequest, Page
from gateway.lists.table import fetch_page
from gateway.storage.database import Database

SETTLEMENT_KEPT_MS: Final = 24 * 3600 * 1000
"""A day: restarts of one evening's work bring nothing back."""

T = TypeVar("T")
Content = Mapping[str, object]
"""A decoded body; checked here."""


class InsightStore:
    """Open with `InsightStore.open`. What is asked of an id raises NoSuchInsight; every verb may raise DatabaseUnavailable."""

    def __init__(
        self, database: Database, now_ms: Callable[[], int], random_bytes: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._standing: dict[str, Finding] = {}
        """By id, what the last round found."""
        self._remembered: AbstractSet[str] = frozenset()
        """Causes of which it is known that nothing stands but what the last round found."""
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, database: Database, *, now_ms: Callable[[], int]) -> Self:
        """The insights in *database*, their tables made when missing."""
        await make_insight_tables(database)
        await database.write(partial(forget_old_settlements, before_ms=now_ms() - SETTLEMENT_KEPT_MS))
        return cls(database, now_ms)

    async def note(self, findings: Sequence[Finding], *, remembered: AbstractSet[str] = frozenset()) -> None:
        """Take one round: all that is found now. Nothing is written, nor read, where nothing changed.

        *remembered*: causes whose figures outlive a restart. What an earlier process found of them is over when it is not among *findings*.
        Raises DatabaseUnavailable; the next round makes up for it.
        """
        async with self._turn:
            standing = {finding.insight_id: finding for finding in findings}
            fresh = remembered - self._remembered
            if standing != self._standing or fresh:
                gone = self._standing.keys() - standing.keys()
                changed = [finding for id_, finding in standing.items() if self._standing.get(id_) != finding]
                told = findings if fresh else changed
                await self._database.write(partial(_note, told, self._now_ms(), gone, fresh))
                self._standing, self._remembered = standing, self._remembered | remembered

    async def page(self, request: ListRequest) -> Page:
        """The page that *request* asks for; its items are `Insight`s."""
        return await self._database.read(partial(fetch_page, table=INSIGHTS, request=request))

    async def unsettled(self) -> list[Insight]:
        """Those that somebody should still look at, the latest first."""
        rows = [row for row in await self._database.read(every_insight) if row.status in UNSETTLED]
        return [insight_item(row) for row in sorted(rows, key=lambda row: -row.last_updated_ms)]

    async def read(self, insight_id: str) -> InsightDetail:
        return insight_detail(await self._database.read(partial(find_insight, insight_id=insight_id)))

    async def create(self, content: Content) -> InsightDetail:
        """Raises InvalidInsight, TooMany."""
        return await self._write(create_insight, content, insight_id=self._new_id())

    async def change(self, insight_id: str, content: Content, *, by: str) -> InsightDetail:
        """Raises InvalidInsight, FoundInsight."""
        return await self._write(change_insight, insight_id, content, by=by)

    async def delete(self, insight_id: str) -> None:
        """One whose cause still stands is back, as a new one, with the next round."""
        async with self._turn:
            await self._database.write(partial(delete_insight, insight_id=insight_id))
            self._standing.pop(insight_id, None)

    async def comments(self, insight_id: str, request: ListRequest) -> Page:
        """*request* is one of `comments_list(insight_id)`; items are `Comment`s."""

        def page(connection: sqlite3.Connection) -> Page:
            find_insight(connection, insight_id)
            return fetch_page(connection, comments_list(insight_id), request, only=OF_INSIGHT, params=(insight_id,))

        return await self._database.read(page)

    async def add_comment(self, insight_id: str, content: Content, *, by: str) -> Comment:
        """Raises InvalidInsight, TooMany."""
        return await self._write(add_comment, insight_id, content, comment_id=self._new_id(), by=by)

    async def change_comment(self, insight_id: str, comment_id: str, content: Content, *, by: str) -> Comment:
        """Raises InvalidInsight, NoSuchComment."""
        return await self._write(change_comment, insight_id, comment_id, content, by=by)

    async def _write(self, change: Callable[..., T], *args: object, **fields: object) -> T:
        now_ms = self._now_ms()
        return await self._database.write(lambda connection: change(connection, *args, now_ms=now_ms, **fields))

    def _new_id(self) -> str:
        return self._random_bytes(16).hex()


def _note(
    findings: Sequence[Finding],
    now_ms: int,
    gone: AbstractSet[str],
    remembered: AbstractSet[str],
    connection: sqlite3.Connection,
) -> None:
    """Take one round; what stands of the causes *remembered*, and is not among *findings*, is over as well as what is *gone*."""
    if remembered:
        found = {finding.insight_id for finding in findings}
        stood = {row.insight_id for row in every_insight(connection) if row.standing and row.cause in remembered}
        gone |= stood - found
    note_findings(connection, findings, now_ms, gone=gone)
