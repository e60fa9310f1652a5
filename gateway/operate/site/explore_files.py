"""What Explore shows as a file: CSV, and Parquet where pyarrow is installed."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from aiohttp import web

from gateway.common.contract.errors import NotFound
from gateway.operate.parts import PARTS, stores_of
from gateway.operate.site.explore_answers import explored
from gateway.operate.site.explore_asked import PER_PAGE, Asked, asked_of, at_row
from gateway.operate.site.operating import present
from gateway.usage.export.compared import columns, compared_rows, course_rows
from gateway.usage.export.files import WRITERS, NoParquet
from gateway.usage.export.rows import Row
from gateway.usage.sums.answer_json import time_text
from gateway.usage.sums.answering import Answer, Line, answered
from gateway.usage.sums.bounds import MAX_GROUPS
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.request import Question

MAX_ROWS: Final = 10_000
"""Groups of one file; the others are in its last row."""
TYPES: Final = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


def file_handler(form: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        """Raises BadPayload, BadListRequest, NotFound, Overloaded, DatabaseUnavailable."""
        queries: UsageQueries = present(stores_of(request).usage)
        asked = asked_of(list(request.query.items()))
        is_of_chart = "interval" in request.query
        question = asked.question(request.app[PARTS].now_ms(), limit=PER_PAGE if is_of_chart else MAX_GROUPS)
        await queries.refresh()
        async with queries.apart() as apart:
            table = await (chart_table if is_of_chart else group_table)(apart, asked, question)
        try:
            body = await asyncio.to_thread(file_of, form, table)
        except NoParquet as error:
            raise NotFound(str(error)) from error
        disposition = f'attachment; filename="{name_of(question)}.{form}"'
        return web.Response(body=body, content_type=TYPES[form], headers={"Content-Disposition": disposition})

    return handle


class Table(NamedTuple):
    columns: Sequence[str]
    rows: Iterable[Row]


async def group_table(queries: UsageQueries, asked: Asked, question: Question) -> Table:
    """Every group, with the period before where it is compared."""
    answer, lines = await every_line(queries, question)
    head = columns(asked.group_by, compares=question.before is not None, has_latency=question.latency)
    return Table(head, compared_rows(answer, lines, asked.group_by))


async def chart_table(queries: UsageQueries, asked: Asked, question: Question) -> Table:
    """The groups of the charts over time."""
    answer, found, _ = await explored(queries, question, asked.step)
    only = answer.lines[0].names if answer.count == 1 and answer.lines else None
    periods = [(time_text(start_ms) or "", time_text(end_ms) or "") for start_ms, end_ms in found.periods()]
    courses = [(only if each.line is None else each.line.names, each.sums) for each in found.courses]
    return Table(columns(asked.group_by, compares=False), course_rows(periods, courses, asked.group_by))


async def every_line(queries: UsageQueries, question: Question) -> tuple[Answer, list[Line]]:
    """The answer, and the groups of all its pages."""
    question = at_row(question, 0)
    answer = await answered(queries, question)
    lines = [*answer.lines]
    while answer.lines and len(lines) < min(answer.count, MAX_ROWS):
        answer = await answered(queries, at_row(question, len(lines)))
        lines += answer.lines
    return answer, lines


def file_of(form: str, table: Table) -> bytes:
    """Raises NoParquet."""
    file = io.BytesIO()
    WRITERS[form](file, table.columns, table.rows)
    return file.getvalue()


def name_of(question: Question) -> str:
    """`usage-2026-11-16-to-2026-11-23`."""
    since, until = (
        f"{datetime.fromtimestamp(ms / 1000, question.zone):%Y-%m-%d}" for ms in (question.from_ms, question.to_ms)
    )
    return f"usage-{since}-to-{until}"
