"""Explore: what AI costs, by one dimension and a second, beside the period before and over time."""

from collections.abc import Sequence
from datetime import tzinfo
from importlib.util import find_spec
from typing import Any, Final

from aiohttp import web

from gateway.operate import views as operations
from gateway.operate.parts import PARTS, reach_of, stores_of
from gateway.operate.site.allocation_links import give_link
from gateway.operate.site.budget_links import NO_BUDGETS, BudgetLinks, budget_links
from gateway.operate.site.explore_answers import Explored, explored
from gateway.operate.site.explore_asked import OWN_RANGE, PATH, PER_PAGE, Asked, Step, asked_of
from gateway.operate.site.explore_charts import charts_of, table_of
from gateway.operate.site.explore_rows import percent, rest_of, row_of_line, signed, total_of
from gateway.operate.site.explore_texts import RANGE_TEXTS, TABS, covering_note, field_text, range_text
from gateway.operate.site.operating import change, present
from gateway.operate.site.usage_answers import SlowAnswers
from gateway.operate.site.usage_question import SHOWN, title_of
from gateway.operate.site.view import Action, View, form_fields, see
from gateway.operate.site.views import Saved, saved_views
from gateway.usage.sums.figures import NO_USAGE
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.request import OrderBy, Question
from gateway.usage.sums.tags import dimensions_of

SORTED: Final[dict[OrderBy, str]] = {
    "cost": "Cost", "calls": "Calls", "input_tokens": "Input tokens", "output_tokens": "Output tokens",
}  # fmt: skip
"""Column -> its head, in the order of the table."""
STEPS: Final[tuple[tuple[Step, str], ...]] = (("hour", "Hours"), ("day", "Days"))
SAVE: Final = f"{PATH}/views"
HAS_PARQUET: Final = find_spec("pyarrow") is not None


def explore(
    asked: Asked,
    question: Question,
    found: Explored,
    saved: Sequence[Saved] = (),
    budgets: BudgetLinks = NO_BUDGETS,
) -> dict[str, Any]:
    """The template's context. *saved*: the views that are kept."""
    return {
        **question_context(asked, question, found),
        **answer_context(asked, question, found, budgets),
        "saved": [(each.name, each.path, each.is_current) for each in saved],
        "replaceable": [(each.view_id, each.name) for each in saved],
        "budget": budgets.of(asked.filters),
        "give": give_link(asked.filters),
    }


def question_context(asked: Asked, question: Question, found: Explored) -> dict[str, Any]:
    """The links and forms that change the question."""
    answer, zone, by = found.answer, question.zone, asked.group_by
    offered = dict.fromkeys((*SHOWN, *asked.tags, *by))
    return {
        "asked": asked,
        "zone": zone_name(zone),
        "ranges": [(text, asked.of_range(name), asked.value("range") == name) for name, text in TABS.items()],
        "all_ranges": RANGE_TEXTS,
        "range": asked.value("range") or OWN_RANGE,
        "since": field_text(question.from_ms, zone),
        "until": field_text(question.to_ms, zone),
        "shown_range": range_text(answer.within, zone),
        "before": None if answer.before is None else range_text(answer.before.within, zone),
        "compares": question.before is not None,
        "has_before": answer.before is not None and answer.before.total is not None,
        "compare": asked.path(compare=None if question.before is not None else "previous"),
        "has_latency": question.latency,
        "latency": asked.path(latency=None if question.latency else "true") if asked.can_have_latency else "",
        "covering": covering_note(question, answer.within),
        "dimensions": [(title_of(each), asked.path(group_by=with_first(each, by)), each == by[0]) for each in offered],
        "by": [title_of(each) for each in by],
        "first_dimension": by[0],
        "then": [(each, title_of(each), each in by[1:]) for each in offered if each != by[0]],
        "filters": [(each.text, asked.less(each)) for each in asked.filters],
        "search": asked.value("search"),
        "steps": [(text, asked._replace(step=step).path(), step == found.over_time.interval) for step, text in STEPS],
    }


def answer_context(asked: Asked, question: Question, found: Explored, budgets: BudgetLinks) -> dict[str, Any]:
    """The figures, and links to further ones."""
    answer, first, order = found.answer, asked.first, question.order_by
    rows = [row_of_line(asked, line, budgets) for line in answer.lines]
    has_calls = answer.total != NO_USAGE
    return {
        "rows": rows,
        "has_budgets": bool(budgets),
        "rest": rest_of(answer, len(rows)),
        "total": total_of(answer),
        "has_calls": has_calls,
        "charts": charts_of(found.over_time, answer.total, order) if has_calls else [],
        "over_time": table_of(found.over_time, answer.total, order) if has_calls else None,
        "chart_zone": zone_name(found.over_time.days.zone),
        "names_head": head_of(asked, question, "name"),
        "heads": [(text, *head_of(asked, question, each)) for each, text in SORTED.items()],
        "first": first + 1,
        "last": first + len(rows),
        "count": answer.count,
        "pages_before": asked.path(first=str(max(0, first - PER_PAGE))) if first else "",
        "pages_after": asked.path(first=str(first + PER_PAGE)) if first + len(rows) < answer.count else "",
        "chart_files": [
            (text, asked.path(f"{PATH}.{form}", interval=found.over_time.interval)) for form, text in FILES
        ],
        "files": [(text, asked.path(f"{PATH}.{form}")) for form, text in FILES],
        "link": asked.path(),
        "save": asked.path(SAVE),
        "counted_ms": found.as_of.counted_through_ms,
        "signed": signed,
        "percent": percent,
    }


FILES: Final = (("csv", "CSV"), ("parquet", "Parquet")) if HAS_PARQUET else (("csv", "CSV"),)


def head_of(asked: Asked, question: Question, column: OrderBy) -> tuple[str, str]:
    """The path that sorts by *column*, in the other direction where it does already; and
    `aria-sort`.
    """
    order, is_current = question.request.sort.order, question.order_by == column
    natural = "asc" if column == "name" else "desc"
    wanted = ("asc" if order == "desc" else "desc") if is_current else natural
    current = {"asc": "ascending", "desc": "descending"}[order] if is_current else ""
    return asked.path(sort_key=column, sort_order=wanted), current


def with_first(dimension: str, by: Sequence[str]) -> str:
    return ",".join(dict.fromkeys([dimension, *by[1:]]))


def zone_name(zone: tzinfo) -> str:
    return str(zone)


async def load(request: web.Request) -> dict[str, Any]:
    """Raises BadPayload, BadListRequest, NotFound, Overloaded, DatabaseUnavailable."""
    queries: UsageQueries = present(stores_of(request).usage)
    asked = asked_of(list(request.query.items()))._replace(tags=tuple(dimensions_of(queries.tags)))
    question = asked.question(request.app[PARTS].now_ms())
    await queries.refresh()

    async def ask() -> Explored:
        async with queries.apart() as apart:
            return await explored(apart, question, asked.step)

    found, fresh_in_s = await request.app[EXPLORED].answer((asked, question.within, reach_of(request)), ask)
    saved = await saved_views(stores_of(request).views, asked)
    return {**explore(asked, question, found, saved, budget_links(request)), "fresh_in_s": fresh_in_s}


EXPLORED: Final = web.AppKey("explored", SlowAnswers[Any, Explored])


async def save(request: web.Request) -> web.Response:
    """As a new view, or as the question of the one that is chosen. Raises FormFault."""
    fields, store = form_fields(request), stores_of(request).views
    asked = asked_of(list(request.query.items()))
    if view_id := fields.get("replaced"):
        body = {**UNASKED, **asked.body("")}
        del body["name"]
        await change(request, operations.CHANGE, store, body, path={"view_id": view_id})
    else:
        await change(request, operations.CREATE, store, asked.body(fields.get("name", "")), typed=fields)
    return see(request, asked.path(), "The view was saved.")


UNASKED: Final = {
    "interval": None,
    "compare": None,
    "search": None,
    "time_zone": "UTC",
    "sort_key": "cost",
    "sort_order": "desc",
}
"""What a view that is replaced has no longer, unless the question has it."""


VIEW: Final = View(path=PATH, title="Explore", template="explore.html", load=load, honours_limits=True)
ACTIONS: Final = (Action(path=SAVE, title="Save a question about usage as a view", handler=save, view=VIEW),)
