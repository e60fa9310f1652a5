"""Sums of usage, as answers hold them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from operator import attrgetter
from typing import Any, Final, NamedTuple

from gateway.usage.sums.names import Name
from gateway.usage.sums.tally import COST, INPUT, NOTHING, SUM_NAMES

COUNTS: Final = SUM_NAMES[:COST]
EXACT: Final = Context(prec=60)
_counts_of = attrgetter(*COUNTS)


@dataclass(frozen=True, slots=True)
class UsageSums:
    """Billed calls of one group. Tokens are None where no call of it states them. The costs hold
    each currency in which a call has a cost; calls without a cost add nothing to them.
    """

    calls: int = 0
    """Those of aggregates included, where these state them."""
    failed_calls: int = 0
    calls_without_usage: int = 0
    """Neither input nor output tokens are known; failed calls included."""
    calls_missing_usage: int = 0
    """Of these: the provider used tokens, and the sender did not state them."""
    calls_without_cost: int = 0
    calls_without_price: int = 0
    """Of these: the tokens are known, so only a price is missing."""
    input_tokens: int | None = None
    """With cache reads and cache writes."""
    output_tokens: int | None = None
    """With reasoning."""
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    reasoning_tokens: int | None = None
    cacheable_tokens: int | None = None
    """Input tokens of the calls that state their cache reads: the base of their share."""
    cached_tokens: int | None = None
    """As many of these as were read from a cache."""
    costs: Mapping[str, Decimal] = field(default_factory=dict)
    """Currency -> amount, exact to 1e-18."""
    estimated_costs: Mapping[str, Decimal] = field(default_factory=dict)
    """The part of `costs` that was estimated from a price list, where there is any."""

    @property
    def cache_read_share(self) -> float | None:
        """From 0 to 1; None where no call states its cache reads."""
        if not self.cacheable_tokens:
            return None
        return (self.cached_tokens or 0) / self.cacheable_tokens


NO_USAGE: Final = UsageSums()


@dataclass(frozen=True, slots=True)
class Bucket:
    """One hour or day."""

    start_ms: int
    sums: UsageSums


@dataclass(frozen=True, slots=True)
class Group:
    """Usage of one name, or of one combination of names."""

    names: tuple[Name, ...]
    """As `group_by` orders them."""
    sums: UsageSums
    versions: tuple["Group", ...] = ()
    """Of one model the dated names inside it, most calls first, each as a group of that name alone;
    empty where the model's own name is the only one.
    """


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Usage by one dimension or more: a page of the groups, and what they leave."""

    groups: tuple[Group, ...]
    count: int
    """Groups on all pages. Calls beyond the bounds on names are in none of them."""
    rest: UsageSums | None
    """Everything that is on no row of this page; None when that is nothing."""
    total: UsageSums


def money(micro: int, rest: int) -> Decimal:
    """An amount of *micro* 1e-6 and *rest* 1e-18."""
    return EXACT.add(Decimal(micro).scaleb(-6, EXACT), Decimal(rest).scaleb(-18, EXACT))


class Cells(NamedTuple):
    """The sums of one group in one currency."""

    counts: Sequence[int | None]
    """As `COUNTS` names them."""
    currency: str | None
    """None where no cost is known."""
    cost: Decimal
    is_estimated: bool


class Adder:
    """Adds up rows of one group."""

    def __init__(self) -> None:
        self._counts: list[int | None] = [*NOTHING[:COST]]
        self._costs: dict[str, Decimal] = {}
        self._estimated: dict[str, Decimal] = {}
        self.is_empty = True

    def add(self, cells: Cells) -> None:
        self.is_empty = False
        self._counts = _added(self._counts, cells.counts)
        if cells.currency is not None:
            _add_cost(self._costs, cells)
            if cells.is_estimated:
                _add_cost(self._estimated, cells)

    def sums(self) -> UsageSums:
        counts: dict[str, Any] = dict(zip(COUNTS, self._counts, strict=True))
        return UsageSums(**counts, costs=self._costs, estimated_costs=self._estimated)


def _add_cost(costs: dict[str, Decimal], cells: Cells) -> None:
    if cells.currency is not None:
        costs[cells.currency] = EXACT.add(costs.get(cells.currency, Decimal(0)), cells.cost)


def together(parts: Iterable[UsageSums]) -> UsageSums:
    """The sum of *parts*, which have no call in common."""
    counts: list[int | None] = [None] * len(COUNTS)
    costs, estimated = dict[str, Decimal](), dict[str, Decimal]()
    for part in parts:
        counts = _added(counts, _counts_of(part))
        for into, amounts in ((costs, part.costs), (estimated, part.estimated_costs)):
            for currency, amount in amounts.items():
                into[currency] = EXACT.add(into[currency], amount) if currency in into else amount
    known: dict[str, Any] = {name: value for name, value in zip(COUNTS, counts, strict=True) if value is not None}
    return UsageSums(**known, costs=costs, estimated_costs=estimated)


def _added(mine: Sequence[int | None], theirs: Sequence[int | None]) -> list[int | None]:
    """Unknown adds nothing, and nothing but unknown stays unknown."""
    return [
        one if other is None else other if one is None else one + other for one, other in zip(mine, theirs, strict=True)
    ]


def less(total: UsageSums, parts: Iterable[UsageSums]) -> UsageSums | None:
    """What *parts* leave of *total*; None when that is nothing. Tokens of which nothing is left are
    None: whether the calls that are left state them is not known.
    """
    left: dict[str, Any] = {name: getattr(total, name) for name in COUNTS}
    costs, estimated = dict(total.costs), dict(total.estimated_costs)
    for part in parts:
        for name in COUNTS:
            if left[name] is not None:
                left[name] = max(0, left[name] - (getattr(part, name) or 0))
        _take(costs, part.costs)
        _take(estimated, part.estimated_costs)
    if not any(left.values()) and not costs:
        return None
    tokens = {name: left[name] or None for name in COUNTS[INPUT:]}
    return UsageSums(**left | tokens, costs=costs, estimated_costs=estimated)


def _take(costs: dict[str, Decimal], part: Mapping[str, Decimal]) -> None:
    """Take *part* from *costs*; a currency of which nothing is left is left out. Beyond the bounds
    on series *costs* may lack a currency of *part*.
    """
    for currency, cost in part.items():
        left = EXACT.subtract(costs.pop(currency, cost), cost)
        if left:
            costs[currency] = left


def money_text(amount: Decimal) -> str:
    """Plain digits: no exponent, no trailing zeros, no negative zero."""
    return format(amount.normalize(EXACT), "f") if amount else "0"
