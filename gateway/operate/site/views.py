"""Views: those that are kept, and each one with what it shows now."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from gateway.operate import views as operations
from gateway.operate.parts import STORES
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask, present
from gateway.operate.site.usage_figures import Row, cost_of
from gateway.operate.site.usage_question import SHOWN, filter_texts
from gateway.operate.site.view import View
from gateway.usage.sums.answer_json import time_text
from gateway.usage.sums.names import Name
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.request import Question, read_question
from gateway.usage.views.store import Views
from gateway.usage.views.view import View as Kept
from gateway.usage.views.view import question_of

LIST: Final = "/views"
ONE: Final = LIST + "/{view_id}"
MAX_ROWS: Final = 100
MAX_TABS: Final = 20


async def load(request: web.Request) -> dict[str, Any]:
    return views(await ask(request, operations.LIST, request.app[STORES].views))


def views(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of an answer of the list."""
    return {"list": listing(LIST, answer)}


async def tabs(store: Views | None) -> list[tuple[str, str, bool]]:
    """Name, path, whether it is shown, of the first views: for the page of usage."""
    if store is None:
        return []
    found = await operations.listed(store, operations.LIST.call(query=[("limit", str(MAX_TABS))]))
    return [(each["name"], path_of(each["id"]), False) for each in found["views"]]


async def load_one(request: web.Request) -> dict[str, Any]:
    """Raises NotFound, BadListRequest for hours that are no longer kept, DatabaseUnavailable."""
    store, queries = present(request.app[STORES].views), present(request.app[STORES].usage)
    view = await store.read(request.match_info["view_id"])
    question = read_question(question_of(view, store.now_ms()), store.now_ms())
    await queries.refresh()
    return {**shown(view), **await rows_of(queries, question)}


def shown(view: Kept) -> dict[str, Any]:
    """The template's context of the view itself."""
    head = "Start" if view.interval else ", ".join(SHOWN[each] for each in view.group_by)
    return {"view": view, "filters": filter_texts(view.filter), "head": head}


async def rows_of(queries: UsageQueries, question: Question) -> dict[str, Any]:
    """The rows, what they leave, and the total."""
    within, where = question.within, question.where
    if question.interval is not None:
        buckets = await queries.over_time(within, interval=question.interval, where=where)
        total = await queries.totals(within, where=where)
        rows = [row_of((time_text(each.start_ms) or "",), each.sums) for each in buckets[-MAX_ROWS:]]
        return {"rows": rows, "count": len(buckets), "rest": None, "total": row_of(("total",), total)}
    found = await queries.by(
        *question.group_by,
        within=within,
        where=where,
        order_by=question.order_by,
        ascending=question.request.sort.order == "asc",
        limit=MAX_ROWS,
    )
    return {
        "rows": [row_of(names_of(group.names), group.sums) for group in found.groups],
        "count": found.count,
        "rest": None if found.rest is None else row_of(("everything else",), found.rest),
        "total": row_of(("total",), found.total),
    }


def row_of(names: tuple[str, ...], sums: Any) -> Row:
    return Row(names, "", sums, cost_of(sums))


def names_of(names: Sequence[Name]) -> tuple[str, ...]:
    return tuple(each if isinstance(each, str) else f"({each.value})" for each in names)


def path_of(view_id: str) -> str:
    return ONE.format(view_id=view_id)


VIEW: Final = View(path=LIST, title="Views", template="views.html", load=load, in_navigation=False, below="/")
DETAIL: Final = View(path=ONE, title="View", template="view.html", load=load_one, in_navigation=False, below="/")
VIEWS: Final = (VIEW, DETAIL)
