"""Budgets: the list with what is spent of each, and each one with its filter and alerts."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from aiohttp import web

from gateway.operate import budgets as operations
from gateway.operate.parts import STORES
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask
from gateway.operate.site.usage_question import filter_texts
from gateway.operate.site.view import View

LIST: Final = "/budgets"
ONE: Final = LIST + "/{budget_id}"
WIDTH: Final = 100
"""Of a bar: 1 % each."""


async def load(request: web.Request) -> dict[str, Any]:
    return budgets(await ask(request, operations.LIST, request.app[STORES].budgets))


def budgets(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of an answer of the list."""
    rows = [{**each, "bar": bar_of(each["state"]), "money": money_of(each["state"])} for each in answer["budgets"]]
    return {"list": listing(LIST, {**answer, "budgets": rows}, shown=("period",))}


async def load_one(request: web.Request) -> dict[str, Any]:
    return budget((await ask(request, operations.SHOW, request.app[STORES].budgets, query=()))["budget"])


def budget(found: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of one budget."""
    state, filters = found["state"], filter_texts(found["filter"])
    return {"budget": found, "bar": bar_of(state), "money": money_of(state), "filters": filters}


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


VIEW: Final = View(path=LIST, title="Budgets", template="budgets.html", load=load)
DETAIL: Final = View(path=ONE, title="Budget", template="budget.html", load=load_one, in_navigation=False, below=LIST)
VIEWS: Final = (VIEW, DETAIL)
