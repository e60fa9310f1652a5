"""Insights in control.db: one row a cause, kept over restarts.

A finding becomes a `new` insight; found again, its text is brought up to date. What a round finds no more is `addressed`,
unless somebody set it aside; should it come back, it is `new` again. What a round of an earlier process found stays as it is
until this one finds it too: figures that begin at the start say nothing about what was before it.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import NamedTuple, Self

from gateway.insights.finding import UNSETTLED, Finding, Insight, Status
from gateway.keys.database import Database
from gateway.keys.record import rfc3339
from gateway.list_conventions import ListRequest, Page, SortValue, page_of

MOST_INSIGHTS = 5_000
"""Kept; beyond it the one that was updated longest ago goes first."""

_FOUND = (
    "INSERT INTO insights (insight_id, insight_no, cause, title, category, effort, cost_impact, status, last_updated_ms)"
    " VALUES (?1, (SELECT coalesce(max(insight_no), 0) + 1 FROM insights), ?2, ?3, ?4, ?5, ?6, 'new', ?7)"
    " ON CONFLICT (insight_id) DO UPDATE SET title = excluded.title, category = excluded.category,"
    " effort = excluded.effort, cost_impact = excluded.cost_impact, last_updated_ms = excluded.last_updated_ms,"
    " status = CASE WHEN ?8 AND status = 'addressed' THEN 'new' ELSE status END"
)
_GONE = (
    "UPDATE insights SET status = 'addressed', last_updated_ms = ?2"
    " WHERE insight_id = ?1 AND status IN ('new', 'in_progress')"
)
_FORGET = (
    "DELETE FROM insights WHERE insight_id IN"
    " (SELECT insight_id FROM insights ORDER BY last_updated_ms DESC, insight_no DESC LIMIT -1 OFFSET ?)"
)


class InsightRow(NamedTuple):
    insight_no: int
    status: Status
    category: str
    cost_impact: str | None
    effort: str
    title: str
    last_updated_ms: int


class _Round(NamedTuple):
    """What one round changes."""

    come: list[Finding]
    """Which the round before did not find."""
    told_anew: list[Finding]
    """With another text than before."""
    gone: list[str]
    """Ids of what the round before found, and this one did not."""


class InsightStore:
    """Open with `InsightStore.open`."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms
        self._standing: dict[str, Finding] = {}
        """By id, what the last round found."""
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, database: Database, *, now_ms: Callable[[], int]) -> Self:
        """The insights in *database*, their table made when missing."""
        migrations = [(files("gateway.insights.migrations") / "0001_insights.sql").read_text()]
        await database.migrate("insights", migrations)
        return cls(database, now_ms)

    async def note(self, findings: Sequence[Finding]) -> None:
        """Take one round: all that is found now. Writes only what changed.

        Raises DatabaseUnavailable; the next round makes up for it.
        """
        async with self._turn:
            standing = {finding.insight_id: finding for finding in findings}
            changes = _changes(self._standing, standing)
            if any(changes):
                await self._database.write(partial(_write, changes, self._now_ms()))
            self._standing = standing

    async def page(self, request: ListRequest) -> Page:
        """The page that *request* asks for; its items are `Insight`s."""
        rows = await self._database.read(_rows)
        return page_of(request, rows, field_of=_field, id_of=lambda row: row.insight_no, item_of=_item)

    async def unsettled(self) -> list[Insight]:
        """Those that somebody should still look at, the latest first."""
        rows = [row for row in await self._database.read(_rows) if row.status in UNSETTLED]
        return [_item(row) for row in sorted(rows, key=lambda row: -row.last_updated_ms)]


def _changes(before: Mapping[str, Finding], now: Mapping[str, Finding]) -> _Round:
    return _Round(
        [finding for insight_id, finding in now.items() if insight_id not in before],
        [finding for insight_id, finding in now.items() if before.get(insight_id, finding) != finding],
        [insight_id for insight_id in before if insight_id not in now],
    )


def _write(changes: _Round, now_ms: int, connection: sqlite3.Connection) -> None:
    connection.executemany(_FOUND, [(*_columns(finding), now_ms, True) for finding in changes.come])
    connection.executemany(_FOUND, [(*_columns(finding), now_ms, False) for finding in changes.told_anew])
    connection.executemany(_GONE, [(insight_id, now_ms) for insight_id in changes.gone])
    connection.execute(_FORGET, (MOST_INSIGHTS,))


def _columns(finding: Finding) -> tuple[object, ...]:
    return (
        finding.insight_id,
        finding.cause,
        finding.title,
        finding.category,
        finding.effort,
        finding.cost_impact,
    )


def _rows(connection: sqlite3.Connection) -> list[InsightRow]:
    found = connection.execute(
        "SELECT insight_no, status, category, cost_impact, effort, title, last_updated_ms FROM insights"
    )
    return [InsightRow(*row) for row in found]


def _field(row: InsightRow, name: str) -> SortValue:
    """An unknown cost sorts below every other."""
    if name == "cost_impact":
        return -1.0 if row.cost_impact is None else float(row.cost_impact)
    return row.last_updated_ms if name == "last_updated" else str(getattr(row, name))


def _item(row: InsightRow) -> Insight:
    return Insight(
        status=row.status,
        category=row.category,
        cost_impact=row.cost_impact,
        effort=row.effort,
        title=row.title,
        last_updated=rfc3339(row.last_updated_ms),
    )
