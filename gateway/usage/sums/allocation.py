"""Rules that give a team, a project or a tag to calls that bring none. Pure.

Rules are applied to sums when a question is asked, and nothing that is kept changes. A call without
the target belongs to the first rule that it matches. Its sums are split by the shares of that rule:
what rounding leaves over belongs to the first share. So every total is the same with and without.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from gateway.usage.sums.figures import COUNTS, EXACT, UsageSums
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.saved_filter import Kept

PERCENT_DECIMALS: Final = 6
_WHOLE: Final = 100 * 10**PERCENT_DECIMALS


class Share(NamedTuple):
    name: str
    percent: Decimal
    """Above 0; of one rule they add up to 100."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    match: Kept
    """As a filter keeps it: a call has one of the names of each dimension. Empty: any call."""
    shares: tuple[Share, ...]

    def matches(self, names: Mapping[Dimension, Name]) -> bool:
        return all(_is_among(names[dimension], wanted) for dimension, wanted in self.match.items())


def _is_among(name: Name, wanted: Sequence[str | None]) -> bool:
    return None in wanted if name is Absent.UNKNOWN else name in wanted


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

    def rule_for(self, names: Mapping[Dimension, Name]) -> Rule | None:
        """That of a call with *names*; None where it has the target, or no rule matches."""
        if names[self.target] is not Absent.UNKNOWN:
            return None
        return next((rule for rule in self.rules if rule.matches(names)), None)

    @property
    def matched(self) -> frozenset[Dimension]:
        """Dimensions that the rules look at."""
        return frozenset(dimension for rule in self.rules for dimension in rule.match)


# ---- splitting


def split(sums: UsageSums, shares: Sequence[Share]) -> list[UsageSums]:
    """*sums* by *shares*. All parts add up to *sums*: counts stay whole, money exact to 1e-18."""
    counts = {name: _parts(getattr(sums, name), shares) for name in COUNTS}
    costs, estimated = _money_parts(sums.costs, shares), _money_parts(sums.estimated_costs, shares)
    return [
        UsageSums(
            **{name: parts[at] for name, parts in counts.items()},  # type: ignore[arg-type]  # None only where the whole is
            costs=costs[at],
            estimated_costs=estimated[at],
        )
        for at in range(len(shares))
    ]


def _parts(whole: int | None, shares: Sequence[Share]) -> Sequence[int | None]:
    if whole is None:
        return [None] * len(shares)
    size, sign = abs(whole), 1 if whole >= 0 else -1
    rest = [size * int(share.percent.scaleb(PERCENT_DECIMALS)) // _WHOLE for share in shares[1:]]
    return [sign * part for part in (size - sum(rest), *rest)]


def _money_parts(amounts: Mapping[str, Decimal], shares: Sequence[Share]) -> list[dict[str, Decimal]]:
    found: list[dict[str, Decimal]] = [{} for _ in shares]
    for currency, amount in amounts.items():
        for into, part in zip(found, _parts(int(amount.scaleb(18, EXACT)), shares), strict=True):
            into[currency] = Decimal(part or 0).scaleb(-18, EXACT)
    return found


# ---- cells


class Cell(NamedTuple):
    """The sums of one combination of names, in one hour or day where there are several."""

    names: tuple[Name, ...]
    sums: UsageSums
    start_ms: int = 0


Place = tuple[int, tuple["Name | Rule", ...]]
"""Start, and names; in the place of a target's name the rule that gives it."""


def place_of(cell: Cell, columns: Sequence[Dimension], shown: Sequence[Dimension], by: Sequence[Definition]) -> Place:
    """Where *cell*, whose names are of *columns*, goes by the definitions *by*."""
    names = dict(zip(columns, cell.names, strict=True))
    given = {each.target: rule for each in by if (rule := each.rule_for(names)) is not None}
    return cell.start_ms, tuple(given.get(each, names[each]) for each in shown)


def expanded(place: Place, sums: UsageSums) -> Iterator[Cell]:
    """The cells of *place*: a rule in it is its shares."""
    start_ms, names = place
    at = next((at for at, name in enumerate(names) if isinstance(name, Rule)), None)
    if at is None:
        yield Cell(tuple(name for name in names if not isinstance(name, Rule)), sums, start_ms)
        return
    rule = names[at]
    assert isinstance(rule, Rule)  # noqa: S101 - found just now
    for share, part in zip(rule.shares, split(sums, rule.shares), strict=True):
        yield from expanded((start_ms, (*names[:at], share.name, *names[at + 1 :])), part)


def involved(definitions: Iterable[Definition], dimensions: Iterable[Dimension]) -> list[Definition]:
    """Those that change what is asked by *dimensions*."""
    asked = {*dimensions}
    return [each for each in definitions if each.rules and each.target in asked]
