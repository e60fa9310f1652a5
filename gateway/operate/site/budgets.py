"""Budgets: the list with what is spent of each, a new one, and each with its filter and alerts."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from aiohttp import web

from gateway.operate import budgets as operations
from gateway.operate.parts import PARTS, reach_of, stores_of
from gateway.operate.role import Role
from gateway.operate.site import budget_form, filter_form
from gateway.operate.site.explore_asked import asked_of
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask, change
from gateway.operate.site.usage_figures import Cost, cost_of
from gateway.operate.site.usage_question import SHOWN, filter_texts, title_of
from gateway.operate.site.view import Action, View, posted, see
from gateway.usage.budgets.budget import PERIODS
from gateway.usage.sums.names import Absent
from gateway.usage.sums.saved_filter import kept_filter, where_of
from gateway.usage.sums.tags import dimensions_of
from gateway.usage.sums.timespan import TimeRange

LIST: Final = "/budgets"
NEW: Final = LIST + "/new"
ONE: Final = LIST + "/{budget_id}"
WIDTH: Final = 100
"""Of a bar: 1 % each."""
LOOKED_AT_DAYS: Final = 30
MEASURE_TEXTS: Final[Mapping[str, str]] = {"actual": "spent", "forecast": "forecast"}
FORM_CHOICES: Final[Mapping[str, Any]] = {
    "periods": PERIODS, "webhooks": (), "dimensions": SHOWN, "boxes": filter_form.boxes,
}  # fmt: skip
CURRENCY: Final = "USD"


async def load(request: web.Request) -> dict[str, Any]:
    return budgets(await ask(request, operations.LIST, stores_of(request).budgets))


def budgets(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of an answer of the list."""
    rows = [{**each, "bar": bar_of(each["state"]), "money": money_of(each["state"])} for each in answer["budgets"]]
    return {"list": listing(LIST, {**answer, "budgets": rows}, shown=("period",))}


async def load_new(request: web.Request) -> dict[str, Any]:
    """For the calls that the filters in the query keep. Raises BadPayload, DatabaseUnavailable."""
    kept = filter_asked(request)
    cost = await cost_of_late(request, kept)
    currency = cost.amounts[0].currency if cost.amounts else CURRENCY
    return {**choices(request), "values": budget_form.values_of_new(kept, currency), "cost": cost}


def filter_asked(request: web.Request) -> filter_form.Names:
    kept: dict[Any, list[str | None]] = {}
    for each in asked_of(list(request.query.items())).filters:
        kept.setdefault(each.dimension, []).append(None if isinstance(each.name, Absent) else each.name)
    return kept


async def cost_of_late(request: web.Request, kept: filter_form.Names) -> Cost:
    """What such calls cost in the last days; nothing where nothing is counted."""
    queries = stores_of(request).usage
    if queries is None:
        return Cost((), 0)
    within = TimeRange.last_days(LOOKED_AT_DAYS, request.app[PARTS].now_ms())
    where = where_of(kept_filter({name: list(names) for name, names in kept.items()}))
    return cost_of(await queries.totals(within, where=where))


async def load_one(request: web.Request) -> dict[str, Any]:
    found = (await ask(request, operations.SHOW, stores_of(request).budgets, query=()))["budget"]
    return {**budget(found), **choices(request)}


def budget(found: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of one budget."""
    state, filters = found["state"], filter_texts(found["filter"])
    values = budget_form.values_of(found)
    facts = {
        "measures": MEASURE_TEXTS,
        "budget": found,
        "bar": bar_of(state),
        "money": money_of(state),
        "filters": filters,
    }
    return {**facts, **FORM_CHOICES, "values": values}


def choices(request: web.Request) -> Mapping[str, Any]:
    """What the form offers, with the webhooks of the configuration."""
    running, queries = request.app[PARTS].running, stores_of(request).usage
    tags = () if queries is None else dimensions_of(queries.tags)
    offered = {**FORM_CHOICES, "dimensions": {**SHOWN, **{each: title_of(each) for each in tags}}}
    if running is None or reach_of(request):
        return offered
    return {**offered, "webhooks": tuple(running().config.budgets.webhooks)}


def money_of(state: Mapping[str, Any]) -> dict[str, Decimal | None]:
    """Amounts to be read; None where one is not known."""
    return {name: None if state[name] is None else Decimal(state[name]) for name in ("spent", "remaining", "forecast")}


def bar_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Widths in percent of the amount, each at most `WIDTH`: spent, and forecast beyond it; and how
    it is marked.
    """
    spent = min(WIDTH, max(0, round(state["ratio"] * WIDTH)))
    ahead = min(WIDTH, max(0, round((state["forecast_ratio"] or 0) * WIDTH)))
    mark = "over" if state["ratio"] >= 1 else "near" if max(state["ratio"], state["forecast_ratio"] or 0) >= 1 else "in"
    percent = f"{state['ratio'] * 100:.0f} %"
    return {"spent": spent, "ahead": max(0, ahead - spent), "mark": mark, "percent": percent}


async def create(request: web.Request) -> web.Response:
    made = await changed(request, operations.CREATE)
    return see(request, path_of(made["id"]), f"The budget “{made['name']}” is set.")


async def edit(request: web.Request) -> web.Response:
    made = await changed(request, operations.CHANGE)
    return see(request, path_of(made["id"]), f"The budget “{made['name']}” is changed.")


async def changed(request: web.Request, operation: Any) -> Mapping[str, Any]:
    """The budget after *operation* with the fields of the form. Raises FormFault, BadPayload."""
    typed = budget_form.typed_of(posted(request))
    body = budget_form.body_of(typed)
    answer = await change(request, operation, stores_of(request).budgets, body, typed, budget_form.NAMES)
    found: Mapping[str, Any] = answer["budget"]
    return found


async def delete(request: web.Request) -> web.Response:
    await change(request, operations.DELETE, stores_of(request).budgets, {})
    return see(request, LIST, "The budget is deleted.")


def path_of(budget_id: str) -> str:
    return ONE.format(budget_id=budget_id)


VIEW: Final = View(path=LIST, title="Budgets", template="budgets.html", load=load, honours_limits=True)
FORM: Final = View(
    path=NEW, title="New budget", template="budget_new.html", load=load_new, role=Role.OPERATOR, in_navigation=False,
    is_live=False, below=LIST,
)  # fmt: skip
DETAIL: Final = View(
    path=ONE,
    title="Budget",
    template="budget.html",
    load=load_one,
    in_navigation=False,
    below=LIST,
    honours_limits=True,
)
VIEWS: Final = (VIEW, FORM, DETAIL)
ACTIONS: Final = (
    Action(path=LIST, title="Set a budget", handler=create, view=FORM),
    Action(path=ONE, title="Change a budget", handler=edit, view=DETAIL),
    Action(path=ONE + "/delete", title="Delete a budget", handler=delete, view=DETAIL),
)
