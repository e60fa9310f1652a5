"""The overview: whether all is well, and what AI costs, over time and by whom."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiohttp import web

from gateway.observability.metrics import Status
from gateway.observability.waiting_metrics import waiting_note
from gateway.operate.findings.finding import Finding
from gateway.operate.findings.senders import NOTHING_SENT
from gateway.operate.parts import PARTS, reach_of, stores_of
from gateway.operate.site.allocation_links import GiveLink, give_link
from gateway.operate.site.budget_links import NO_BUDGETS, BudgetLinks, budget_links
from gateway.operate.site.usage_answers import Usage, UsageAnswers
from gateway.operate.site.usage_figures import (
    Row,
    charts_of,
    cost_of,
    every_bucket,
    headline,
    row_of_group,
    table_of,
)
from gateway.operate.site.usage_question import RANGES, SHOWN, Question, question_of
from gateway.operate.site.verdict import verdict
from gateway.operate.site.view import View
from gateway.operate.verdict import VerdictSource
from gateway.usage.insights.finding import Insight
from gateway.usage.sums.figures import NO_USAGE, Breakdown
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Absent

BUDGETED: Final[tuple[Dimension, ...]] = ("model", "team", "project")
"""Their rows lead to budgets."""


class Table(NamedTuple):
    """Usage by one dimension."""

    dimension: Dimension
    title: str
    rows: tuple[Row, ...]
    groups: int
    """Of all groups."""
    rest: Row | None
    path: str
    """Of the list of all."""
    has_budgets: bool


def overview(
    status: Status,
    findings: Sequence[Finding],
    insights: Sequence[Insight],
    question: Question,
    usage: Usage,
    now_ms: int,
    budgets: BudgetLinks = NO_BUDGETS,
) -> dict[str, Any]:
    """The template's context. Where nothing was received, the page says what to do about that."""
    return {
        **figures(question, usage, now_ms, budgets),
        **verdict([each for each in findings if each != NOTHING_SENT], status),
        "waiting_note": waiting_note(status),
        "open_insights": len(insights),
        "nothing_received": not status["edge"]["received"] and usage.total == NO_USAGE,
    }


def figures(question: Question, usage: Usage, now_ms: int, budgets: BudgetLinks) -> dict[str, Any]:
    """The part of it that everyone sees, of its own calls."""
    interval = question.range.interval
    single = [single_of(question, each, found) for each, found in usage.by.items() if is_single(found)]
    buckets = every_bucket(usage.buckets, question.range.within(now_ms), interval, now_ms)
    return {
        "ranges": [(each.title, question.of_range(each).path(), each == question.range) for each in RANGES],
        "filters": [(each.text, question.without(each.dimension).path()) for each in question.filters],
        "sums": usage.total,
        "cost": cost_of(usage.total),
        "headline": headline(usage.total),
        "charts": charts_of(buckets, usage.total, interval) if usage.total != NO_USAGE else [],
        "interval": interval,
        "over_time": table_of(buckets),
        "tables": [
            table_by(question, each, found, budgets) for each, found in usage.by.items() if not is_single(found)
        ],
        "single": [each for each in single if isinstance(each, Single)],
        "unnamed": [each for each in single if isinstance(each, Unnamed)],
        "counted_ms": usage.counted_through_ms,
        "fresh_in_s": usage.fresh_in_s,
    }


def table_by(question: Question, dimension: Dimension, found: Breakdown, budgets: BudgetLinks) -> Table:
    links = budgets if dimension in BUDGETED else NO_BUDGETS
    rows = [
        row_of_group(question, dimension, group)._replace(
            budget=links.of([*question.filters, (dimension, group.names[0])]),
            give=give_link([*question.filters, (dimension, group.names[0])]),
        )
        for group in found.groups
    ]
    others = found.count - len(rows)
    name = f"{others:,} more" if others > 0 else "other"
    rest = None if found.rest is None else Row((name,), "", found.rest, cost_of(found.rest))
    return Table(dimension, SHOWN[dimension], tuple(rows), found.count, rest, question.explored(dimension), bool(links))


def is_single(found: Breakdown) -> bool:
    """Whether a line says as much as a table."""
    return found.count == 1 and found.rest is None and not any(group.versions for group in found.groups)


class Single(NamedTuple):
    """A dimension in which all calls have one name: a few words in place of a table."""

    title: str
    name: str
    path: str
    """Of the list of it."""


class Unnamed(NamedTuple):
    """A dimension in which no call has a name."""

    title: str
    give: GiveLink | None
    """None for one that no rules give."""


def single_of(question: Question, dimension: Dimension, found: Breakdown) -> Single | Unnamed:
    title, name = SHOWN[dimension].lower(), found.groups[0].names[0] if found.groups else Absent.OTHER
    if name is Absent.UNKNOWN:
        return Unnamed(title, give_link([*question.filters, (dimension, name)]))
    return Single(title, name if isinstance(name, str) else name.value, question.explored(dimension))


async def load(request: web.Request) -> dict[str, Any]:
    """Raises BadPayload, DatabaseUnavailable."""
    parts = request.app[PARTS]
    now_ms = parts.now_ms()
    question = question_of(list(request.query.items()))
    usage = await request.app[ANSWERS].answer(question, now_ms, reach_of(request))
    if reach_of(request):
        own = figures(question, usage, now_ms, budget_links(request))
        return {**own, **UNLIMITED_ONLY, "open_insights": len(await own_insights(request))}
    return overview(
        parts.status(),
        await request.app[VERDICT].findings(),
        await parts.unsettled(),
        question,
        usage,
        now_ms,
        budget_links(request),
    )


UNLIMITED_ONLY: Final[Mapping[str, Any]] = {"waiting_note": "", "nothing_received": False}
"""What concerns the gateway as a whole, for limited callers."""


async def own_insights(request: web.Request) -> Sequence[Insight]:
    """Those that a limited caller should look at."""
    insights = stores_of(request).insights
    return () if insights is None else await insights.store.unsettled()


ANSWERS: Final = web.AppKey("answers", UsageAnswers)
VERDICT: Final = web.AppKey("verdict", VerdictSource)
VIEW: Final = View(path="/", title="Overview", template="overview.html", load=load, honours_limits=True)
