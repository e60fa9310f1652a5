"""The rows of Explore: a group's names, its figures, and those of the period before. Pure."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple
from urllib.parse import urlencode

from gateway.common.contract.tags import is_tag
from gateway.operate.site import words
from gateway.operate.site.allocation_links import GiveLink, give_link
from gateway.operate.site.budget_links import BudgetLink, BudgetLinks
from gateway.operate.site.explore_asked import Asked, Filter, name_text
from gateway.operate.site.usage_figures import MAX_CURRENCIES, NO_CALL, Cost, cost_of
from gateway.usage.sums.answering import Answer, Line
from gateway.usage.sums.buckets import Latency
from gateway.usage.sums.change import Change, Changes, changes
from gateway.usage.sums.figures import UsageSums
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.tags import parameter_of

CALLS: Final = "/calls"
OF_CALLS: Final[Mapping[Dimension, str]] = {
    "provider": "provider",
    "model": "model",
    "team": "team",
    "project": "project",
    "key": "key",
    "service_name": "service",
    "device_id": "device",
}
"""Dimension -> the filter of `GET /v2/calls`."""


SMALL: Final = Decimal("0.1")
"""Percentages below it have two decimals."""


class Version(NamedTuple):
    """A dated name of a model."""

    part: "Part"
    sums: UsageSums
    cost: Cost


class Part(NamedTuple):
    """A name, and the path of its own groups; empty for what has no name."""

    text: str
    path: str
    versions: tuple[Version, ...] = ()


class Row(NamedTuple):
    names: tuple[Part, ...]
    sums: UsageSums
    cost: Cost
    before: UsageSums | None
    """None where there was nothing, or nothing is compared."""
    cost_before: Cost | None
    changed: Changes | None
    calls: str = ""
    """Path of its calls; empty where they cannot be told apart."""
    budget: BudgetLink | None = None
    latency: Latency | None = None
    """None where it was not asked for, or is of what has no row."""
    give: GiveLink | None = None
    """To the rules that give its calls a team; None where they have what rules give."""

    @property
    def key(self) -> str:
        return " · ".join(part.text for part in self.names)

    @property
    def cost_changes(self) -> list[tuple[str, Change]]:
        """By currency, as `cost` orders them; also of those that only the period before has."""
        if self.changed is None:
            return []
        order = sorted(self.changed.costs.items(), key=lambda item: (item[0] != "USD", item[0]))
        return order[:MAX_CURRENCIES]


def row_of(names: Sequence[Part], sums: UsageSums, before: UsageSums | None) -> Row:
    cost_before = None if before is None else cost_of(before)
    return Row(tuple(names), sums, cost_of(sums), before, cost_before, changes(sums, before))


def row_of_line(asked: Asked, line: Line, budgets: BudgetLinks) -> Row:
    parts = [part_of(asked, *each) for each in zip(asked.group_by, line.names, strict=True)]
    versions = [
        Version(part_of(asked, "model", each.names[0]), each.sums, cost_of(each.sums)) for each in line.versions
    ]
    parts = [
        part._replace(versions=tuple(versions)) if dimension == "model" else part
        for dimension, part in zip(asked.group_by, parts, strict=True)
    ]
    filters = filters_of(asked, line)
    row = row_of(parts, line.sums, line.previous)
    return row._replace(
        calls=calls_path(filters, line), budget=budgets.of(filters), latency=line.latency, give=give_link(filters)
    )


def filters_of(asked: Asked, line: Line) -> list[Filter]:
    """What keeps the calls of a group alone."""
    filters = [each for each in asked.filters if each.dimension not in asked.group_by]
    return [*filters, *(Filter(*each) for each in zip(asked.group_by, line.names, strict=True))]


def part_of(asked: Asked, dimension: Dimension, name: Name) -> Part:
    is_known = isinstance(name, str) or name is Absent.UNKNOWN
    return Part(name_text(name), asked.narrowed(dimension, name) if is_known else "")


def calls_path(filters: Sequence[Filter], line: Line) -> str:
    """The calls of a group; empty where a name is no filter of calls."""
    pairs: list[tuple[str, str]] = []
    for each in filters:
        of_calls = each.dimension if is_tag(each.dimension) else OF_CALLS.get(each.dimension)
        if of_calls is None or not isinstance(each.name, str):
            return ""
        pairs.append(parameter_of(of_calls, each.name))
    dated = [version.names[0] for version in line.versions]
    pairs += [("model", name) for name in dated if isinstance(name, str) and ("model", name) not in pairs]
    return f"{CALLS}?{urlencode(pairs)}"


def rest_of(answer: Answer, shown: int) -> Row | None:
    """What no row has, in either period; None where that is nothing."""
    before = None if answer.before is None else answer.before.rest
    if answer.rest is None and before is None:
        return None
    others = answer.count - shown
    text = f"{others:,} more" if others > 0 else "other" if answer.rest is not None else "only in the period before"
    return row_of([Part(text, "")], answer.rest or NO_CALL, before)


def total_of(answer: Answer) -> Row:
    row = row_of([Part("total", "")], answer.total, None if answer.before is None else answer.before.total)
    return row._replace(latency=answer.latency)


def signed(amount: Decimal | None, currency: str = "") -> str:
    """`+1,200`, of money `+USD 0.0312`; a dash for unknown."""
    if amount is None:
        return words.NONE
    written = f"{currency} {words.money(abs(amount))}" if currency else words.number(abs(amount))
    return f"{sign(amount)}{written}"


def percent(share: Decimal | None) -> str:
    """`+12.5 %`; a dash where there is none."""
    if share is None:
        return words.NONE
    written = f"{abs(share):.2f}" if 0 < abs(share) < SMALL else f"{abs(share):,.1f}"
    return f"{sign(share)}{written} %"


def sign(amount: Decimal) -> str:
    return "+" if amount > 0 else "\N{MINUS SIGN}" if amount < 0 else "\N{PLUS-MINUS SIGN}"
