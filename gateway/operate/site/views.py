"""Views: those that are kept, and each one with what it shows now."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from aiohttp import web

from gateway.operate import views as operations
from gateway.operate.parts import stores_of
from gateway.operate.site.explore_asked import Asked, asked_of
from gateway.operate.site.explore_texts import period_text
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask, change, present
from gateway.operate.site.usage_figures import Row, cost_of
from gateway.operate.site.usage_question import filter_texts, title_of
from gateway.operate.site.view import Action, View, form_fields, see
from gateway.operate.site.words import words
from gateway.usage.sums.answer_json import time_text
from gateway.usage.sums.answering import Line, answered
from gateway.usage.sums.names import Name
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.ranges import ms_of, zone_of
from gateway.usage.sums.request import read_question
from gateway.usage.views.store import Views
from gateway.usage.views.view import SLASH, question_of, view_of, view_times
from gateway.usage.views.view import View as Kept

LIST: Final = "/views"
ONE: Final = LIST + "/{view_id}"
MAX_ROWS: Final = 100
MAX_TABS: Final = 20
UNSAID: Final = {"sort_key": "cost", "sort_order": "desc", "time_zone": "UTC"}
"""What a question means that does not say it."""
SORTING: Final = ("sort_key", "sort_order")


async def load(request: web.Request) -> dict[str, Any]:
    return views(await ask(request, operations.LIST, stores_of(request).views))


def views(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of an answer of the list."""
    return {"list": listing(LIST, answer)}


class Saved(NamedTuple):
    """A view as Explore offers it."""

    view_id: str
    name: str
    path: str
    """Of Explore with its question."""
    is_current: bool
    """Whether it is what is asked."""


async def saved_views(store: Views | None, asked: Asked) -> list[Saved]:
    """The first of them."""
    if store is None:
        return []
    found = await operations.listed(store, operations.LIST.call(query=[("limit", str(MAX_TABS))]))
    return [saved_view(each, explored(view_of(each), store.now_ms()), asked) for each in found["views"]]


def saved_view(view: Mapping[str, Any], path: str, asked: Asked) -> Saved:
    theirs = asked_of(parse_qsl(urlsplit(path).query))
    is_current = {**UNSAID, **theirs.body("")} == {**UNSAID, **asked.body("")}
    return Saved(view["id"], view["name"], path, is_current)


async def load_one(request: web.Request) -> dict[str, Any]:
    """Raises NotFound, BadListRequest for hours that are no longer kept, DatabaseUnavailable."""
    store, queries = present(stores_of(request).views), present(stores_of(request).usage)
    view, now_ms = await store.read(request.match_info["view_id"]), store.now_ms()
    await queries.refresh()
    return {**shown(view, now_ms), **await rows_of(queries, view, now_ms)}


def shown(view: Kept, now_ms: int) -> dict[str, Any]:
    """The template's context of the view itself."""
    head = "Start" if view.interval else ", ".join(map(title_of, view.group_by))
    start, end = (ms_of(time) for time in view_times(view, now_ms))
    moves = SLASH not in view.range
    return {
        "view": view,
        "range": words(view.range).capitalize() if moves else period_text(start, end, zone_of(view.time_zone)),
        "filters": filter_texts(view.filter),
        "head": head,
        "explore": explored(view, now_ms),
    }


def explored(view: Kept, now_ms: int) -> str:
    """The path of Explore with its question."""
    moves = SLASH not in view.range
    pairs = [pair for pair in question_of(view, now_ms) if not (moves and pair[0] in {"from", "to", "range"})]
    if view.interval is not None:  # its order is that of time
        pairs = [("chart" if name == "interval" else name, value) for name, value in pairs if name not in SORTING]
    pairs += [("range", view.range)] if moves else []
    return f"/usage?{urlencode(pairs)}"


async def rows_of(queries: UsageQueries, view: Kept, now_ms: int) -> dict[str, Any]:
    """The rows, what they leave, and the total."""
    limit = [("limit", str(MAX_ROWS))]
    answer = await answered(queries, read_question([*question_of(view, now_ms), *limit], now_ms))
    return {
        "rows": [row_of(names_of_line(line), line.sums) for line in answer.lines],
        "count": answer.count,
        "rest": None if answer.rest is None else row_of(("everything else",), answer.rest),
        "total": row_of(("total",), answer.total),
    }


def names_of_line(line: Line) -> tuple[str, ...]:
    return names_of(line.names) if line.start_ms is None else (time_text(line.start_ms) or "",)


def row_of(names: tuple[str, ...], sums: Any) -> Row:
    return Row(names, "", sums, cost_of(sums))


def names_of(names: Sequence[Name]) -> tuple[str, ...]:
    return tuple(each if isinstance(each, str) else f"({each.value})" for each in names)


async def rename(request: web.Request) -> web.Response:
    """Raises FormFault."""
    fields = form_fields(request)
    body = {"name": fields.get("name", "")}
    await change(request, operations.CHANGE, stores_of(request).views, body, typed=body)
    return see(request, path_of(request.match_info["view_id"]), "The view is renamed.")


async def delete(request: web.Request) -> web.Response:
    await change(request, operations.DELETE, stores_of(request).views, {})
    return see(request, LIST, "The view is deleted.")


def path_of(view_id: str) -> str:
    return ONE.format(view_id=view_id)


VIEW: Final = View(
    path=LIST, title="Views", template="views.html", load=load, in_navigation=False, below="/usage", honours_limits=True
)
DETAIL: Final = View(
    path=ONE,
    title="View",
    template="view.html",
    load=load_one,
    in_navigation=False,
    below="/usage",
    honours_limits=True,
)
VIEWS: Final = (VIEW, DETAIL)
ACTIONS: Final = (
    Action(path=ONE, title="Rename a view", handler=rename, view=DETAIL),
    Action(path=ONE + "/delete", title="Delete a view", handler=delete, view=DETAIL),
)
