"""From figures of a filter to its budget: the one that is set, or the form of a new one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from aiohttp import web

from gateway.operate.parts import stores_of
from gateway.operate.site.view import can_change
from gateway.usage.budgets.book import Standing
from gateway.usage.budgets.budget import Budget, ratio
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.tags import parameter_of

LIST: Final = "/budgets"
NEW: Final = f"{LIST}/new"
Filters = Iterable[tuple[Dimension, Name]]
_Key = frozenset[tuple[Dimension, str | None]]


class BudgetLink(NamedTuple):
    path: str
    name: str
    """Of the budget; empty for one that is not set yet."""
    percent: str
    """Of its amount that is spent in this period."""
    is_over: bool


class BudgetLinks:
    """Links of one page."""

    def __init__(self, standings: Sequence[Standing], *, can_set: bool) -> None:
        """*can_set*: whether who looks may set one."""
        self._can_set = can_set
        self._set: Mapping[_Key, BudgetLink] = {
            key: link_of(each)
            for each in sorted(standings, key=spent_share)
            if (key := key_of(each.budget)) is not None
        }

    def __bool__(self) -> bool:
        """Whether there is any link."""
        return self._can_set or bool(self._set)

    def of(self, filters: Filters) -> BudgetLink | None:
        """None for names that no filter can keep, and where nothing is set and nothing may be."""
        names = list(filters)
        if any(not isinstance(name, str) and name is not Absent.UNKNOWN for _, name in names):
            return None
        wanted = frozenset((dimension, name if isinstance(name, str) else None) for dimension, name in names)
        return self._set.get(wanted) or (BudgetLink(new_path(names), "", "", is_over=False) if self._can_set else None)


def spent_share(standing: Standing) -> float:
    return ratio(standing.spend.spent, standing.budget.amount)


def link_of(standing: Standing) -> BudgetLink:
    share = spent_share(standing)
    budget = standing.budget
    return BudgetLink(f"{LIST}/{budget.budget_id}", budget.name, f"{share * 100:.0f} %", is_over=share >= 1)


def key_of(budget: Budget) -> _Key | None:
    """None for one that counts several names of a dimension: no row has its calls alone."""
    if any(len(names) > 1 for names in budget.filter.values()):
        return None
    return frozenset((dimension, names[0]) for dimension, names in budget.filter.items())


def new_path(filters: Filters) -> str:
    """Of the form that is filled in with *filters*."""
    kept = list(filters)
    named = [parameter_of(dimension, name) for dimension, name in kept if isinstance(name, str)]
    unknown = ",".join(dimension for dimension, name in kept if not isinstance(name, str))
    query = urlencode([*named, *([("unknown", unknown)] if unknown else [])])
    return f"{NEW}?{query}" if query else NEW


NO_BUDGETS: Final = BudgetLinks((), can_set=False)


def budget_links(request: web.Request) -> BudgetLinks:
    """For the page that is asked for."""
    budgets = stores_of(request).budgets
    return NO_BUDGETS if budgets is None else BudgetLinks(budgets.known(), can_set=can_change(request))
