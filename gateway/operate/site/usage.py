"""Usage by one dimension: every provider, model, team, …, page by page."""

from collections.abc import Sequence
from typing import Any, Final, get_args

from aiohttp import web

from gateway.common.contract.errors import BadPayload, NotFound
from gateway.operate.parts import PARTS, STORES
from gateway.operate.site.usage_figures import Row, cost_of, row_of_group
from gateway.operate.site.usage_question import RANGES, SHOWN, Question, dimension_of, question_of
from gateway.operate.site.view import View
from gateway.operate.site.views import tabs
from gateway.usage.sums.figures import Breakdown
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.request import OrderBy

PATH: Final = "/usage"
PER_PAGE: Final = 50
MAX_DIGITS: Final = 9
ORDERS: Final[tuple[OrderBy, ...]] = get_args(OrderBy)
SORTED: Final[dict[OrderBy, str]] = {
    "name": "Name", "cost": "Cost", "calls": "Calls", "input_tokens": "Input tokens", "output_tokens": "Output tokens",
}  # fmt: skip
"""Column -> its head, in the order of the table."""


def usage(
    question: Question,
    dimension: Dimension,
    order: OrderBy,
    first: int,
    found: Breakdown,
    saved: Sequence[tuple[str, str, bool]] = (),
) -> dict[str, Any]:
    """The template's context. *saved*: links to views that are kept."""
    rows = [row_of_group(question, dimension, group) for group in found.groups]

    def path(**changed: str | int) -> str:
        return question.path(PATH, **{"by": dimension, "sort": order, "first": 0, **changed})

    return {
        "shown": SHOWN[dimension],
        "ranges": [
            (each.title, question.of_range(each).path(PATH, by=dimension, sort=order), each == question.range)
            for each in RANGES
        ],
        "dimensions": [(shown, path(by=each), each == dimension) for each, shown in SHOWN.items()],
        "filters": [
            (each.text, question.without(each.dimension).path(PATH, by=dimension)) for each in question.filters
        ],
        "heads": [(head, path(sort=each), each == order) for each, head in SORTED.items()],
        "rows": rows,
        "rest": None if found.rest is None else Row(("everything else",), "", found.rest, cost_of(found.rest)),
        "total": Row(("total",), "", found.total, cost_of(found.total)),
        "first": first + 1,
        "last": first + len(rows),
        "count": found.count,
        "before": path(first=max(0, first - PER_PAGE)) if first else "",
        "after": path(first=first + PER_PAGE) if first + len(rows) < found.count else "",
        "overview": question.path(),
        "saved": saved,
    }


async def load(request: web.Request) -> dict[str, Any]:
    """Raises BadPayload, NotFound, DatabaseUnavailable."""
    queries, query = request.app[STORES].usage, request.query
    if queries is None:
        raise NotFound("this gateway counts no usage")
    question = question_of(list(query.items()))
    dimension, order = dimension_of(query.get("by", "model")), order_of(query.get("sort", "cost"))
    first = first_of(query.get("first", "0"))
    await queries.refresh()
    found = await queries.by(
        dimension, within=question.range.within(request.app[PARTS].now_ms()), where=question.where, order_by=order,
        ascending=order == "name", offset=first, limit=PER_PAGE,
    )  # fmt: skip
    saved = await tabs(request.app[STORES].views)
    return usage(question, dimension, order, first, found, saved)


def order_of(name: str) -> OrderBy:
    for each in ORDERS:
        if each == name:
            return each
    raise BadPayload(f"sort: one of {', '.join(ORDERS)} is needed")


def first_of(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS:
        raise BadPayload("first: the number of the first row, from 0, is needed")
    return int(text)


VIEW: Final = View(path=PATH, title="Usage", template="usage.html", load=load, in_navigation=False, below="/")
