"""Rules that give a team, a project or a tag to calls that bring none. Pure.

Rules are applied to sums when a question is asked, and nothing that is kept changes. A call without
the target belongs to the first rule that it matches. Its sums are split by the shares of that rule
(`gateway.usage.sums.splitting`). So every total is the same with and without.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from gateway.usage.sums.figures import UsageSums
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Name
from gateway.usage.sums.saved_filter import Kept
from gateway.usage.sums.splitting import Share, Splitter


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    match: Kept
    """As a filter keeps it: a call has one of the names of each dimension. Empty: any call."""
    shares: tuple[Share, ...]


class Definition(NamedTuple):
    """The rules of one target, as one version has them."""

    target: Dimension
    version: int
    """From 1 on."""
    rules: tuple[Rule, ...]
    """In their order; none: nothing is allocated."""
    note: str = ""
    created_at_ms: int = 0
    created_by: str = ""

    @property
    def matched(self) -> frozenset[Dimension]:
        """Dimensions that the rules look at."""
        return frozenset(dimension for rule in self.rules for dimension in rule.match)


# ---- cells


class Cell(NamedTuple):
    """The sums of one combination of names, in one hour or day where there are several."""

    names: tuple[Name, ...]
    sums: UsageSums
    start_ms: int = 0


Place = tuple[int, tuple["Name | Rule", ...]]
"""Start, and names; in the place of a target's name the rule that gives it."""


def count_of(place: Place) -> int:
    """How many cells it has."""
    return prod(len(name.shares) for name in place[1] if isinstance(name, Rule))


def cells_at(places: Mapping[Place, UsageSums], by: Iterable[Definition]) -> Iterator[Cell]:
    """The cells of *places*: a rule in one is its shares. Places are taken by time and name, so any
    home of the sums gives the same cells.
    """
    numbers = {rule: number for number, rule in enumerate(rule for each in by for rule in each.rules)}
    splitters = {rule: Splitter(rule.shares) for rule in numbers}

    def expanded(start_ms: int, names: tuple[Name | Rule, ...], sums: UsageSums) -> Iterator[Cell]:
        at = next((at for at, name in enumerate(names) if isinstance(name, Rule)), None)
        if at is None:
            yield Cell(tuple(name for name in names if not isinstance(name, Rule)), sums, start_ms)
            return
        rule = names[at]
        assert isinstance(rule, Rule)  # noqa: S101 - found just now
        for share, part in zip(rule.shares, splitters[rule].split(sums), strict=True):
            yield from expanded(start_ms, (*names[:at], share.name, *names[at + 1 :]), part)

    for start_ms, names in sorted(places, key=lambda place: _order_of(place, numbers)):
        yield from expanded(start_ms, names, places[start_ms, names])


def _order_of(place: Place, numbers: Mapping[Rule, int]) -> tuple[int, list[tuple[int, str]]]:
    start_ms, names = place
    return start_ms, [
        (numbers[name], "") if isinstance(name, Rule) else (-1, name) if isinstance(name, str) else (-2, name.value)
        for name in names
    ]


def involved(definitions: Iterable[Definition], dimensions: Iterable[Dimension]) -> list[Definition]:
    """Those that change what is asked by *dimensions*."""
    asked = {*dimensions}
    return [each for each in definitions if each.rules and each.target in asked]
