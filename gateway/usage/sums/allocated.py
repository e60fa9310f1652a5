"""The sums as allocation rules give them to teams, projects and tags. A question that names no
target is answered from the rows as they are.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from gateway.common.lists.conventions import BadListRequest
from gateway.usage.sums import bounds
from gateway.usage.sums.allocation import Cell, Definition, Place, cells_at, count_of, involved
from gateway.usage.sums.buckets import Buckets
from gateway.usage.sums.figures import Breakdown, Bucket, Group, UsageSums, less, together
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.home import AskedGroups, AsOf, FailedCosts, SumRows
from gateway.usage.sums.latency import AskedLatency, LatencyGroup
from gateway.usage.sums.matching import Matcher, filters_of
from gateway.usage.sums.names import NO_FILTERS, Absent, Filters, Name
from gateway.usage.sums.timespan import Interval, TimeRange

MAX_CELLS: Final = 50_000
"""Combinations of names that one question is answered from, before the shares and with them."""
MAX_REMEMBERED: Final = 3
"""Questions: the groups, and those of the period before."""


class TooManyCells(BadListRequest):
    """The question has more than `MAX_CELLS`."""


Groups = Mapping[tuple[Name, ...], UsageSums]


class Remembered:
    """The groups of the latest questions of one asker, who takes them page by page."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, Groups] = {}

    def groups(self, question: Hashable, ask: Callable[[], Groups]) -> Groups:
        found = self._groups.pop(question, None)
        self._groups[question] = ask() if found is None else found
        if len(self._groups) > MAX_REMEMBERED:
            del self._groups[next(iter(self._groups))]
        return self._groups[question]


class AllocatedSumRows:
    """*rows* by *definitions*."""

    def __init__(self, rows: SumRows, definitions: Sequence[Definition], remembered: Remembered | None = None) -> None:
        self._rows = rows
        self._definitions = definitions
        self._remembered = Remembered() if remembered is None else remembered

    def totals(self, within: TimeRange, *, now_hour: int, where: Filters = NO_FILTERS) -> UsageSums:
        if not involved(self._definitions, where):
            return self._rows.totals(within, now_hour=now_hour, where=where)
        return together(cell.sums for cell in self._cells(within, (), where, now_hour))

    def over_time(
        self, within: TimeRange, *, now_hour: int, interval: Interval = "day", where: Filters = NO_FILTERS
    ) -> list[Bucket]:
        if not involved(self._definitions, where):
            return self._rows.over_time(within, now_hour=now_hour, interval=interval, where=where)
        found: dict[int, list[UsageSums]] = defaultdict(list)
        for cell in self._cells(within, (), where, now_hour, interval):
            found[cell.start_ms].append(cell.sums)
        return [Bucket(start_ms, together(found[start_ms])) for start_ms in sorted(found)]

    def breakdown(self, within: TimeRange, asked: AskedGroups, *, now_hour: int) -> Breakdown:
        if not involved(self._definitions, (*asked.by, *asked.where)):
            return self._rows.breakdown(within, asked, now_hour=now_hour)
        found = self._groups(within, asked.by, asked.where, now_hour)
        total, other = together(found.values()), (Absent.OTHER,) * len(asked.by)
        groups = {names: sums for names, sums in found.items() if names != other}
        ordered = _ordered(groups, asked)
        page = ordered[asked.offset : asked.offset + min(asked.limit, bounds.MAX_GROUPS)]
        shown = tuple(Group(names, groups[names]) for names in page)
        return Breakdown(shown, len(groups), less(total, [group.sums for group in shown]), total)

    def names(
        self, within: TimeRange, dimension: Dimension, *, now_hour: int, most: int, where: Filters = NO_FILTERS
    ) -> list[tuple[Name, ...]]:
        if not involved(self._definitions, (dimension, *where)):
            return self._rows.names(within, dimension, now_hour=now_hour, most=most, where=where)
        groups = self._groups(within, (dimension,), where, now_hour)
        return _ordered(groups, AskedGroups((dimension,)))[:most]

    def given_away(self, definition: Definition, within: TimeRange, *, now_hour: int) -> list[UsageSums]:
        """What each rule of *definition* gives away. Raises TooManyCells."""
        columns = [definition.target, *sorted(definition.matched)]
        found = self._read(within, columns, {definition.target: (Absent.UNKNOWN,)}, now_hour)
        parts: dict[int, list[UsageSums]] = defaultdict(list)
        matcher = Matcher(definition)
        for cell in found:
            rule = matcher.rule_for(dict(zip(columns, cell.names, strict=True)))
            if rule is not None:
                parts[id(rule)].append(cell.sums)
        return [together(parts[id(rule)]) for rule in definition.rules]

    def cells(
        self,
        within: TimeRange,
        by: Sequence[Dimension],
        *,
        now_hour: int,
        most: int,
        where: Filters = NO_FILTERS,
        interval: Interval | None = None,
    ) -> list[Cell] | None:
        if not involved(self._definitions, (*by, *where)):
            return self._rows.cells(within, by, now_hour=now_hour, most=most, where=where, interval=interval)
        parts: dict[tuple[int, tuple[Name, ...]], list[UsageSums]] = defaultdict(list)
        for cell in self._cells(within, by, where, now_hour, interval):
            parts[cell.start_ms, cell.names].append(cell.sums)
        cells = [Cell(names, together(sums), start_ms) for (start_ms, names), sums in parts.items()]
        return cells if len(cells) <= most else None

    def latencies(self, within: TimeRange, asked: AskedLatency, *, now_hour: int) -> dict[LatencyGroup, Buckets]:
        """Of the calls that bring the names themselves: a percentile cannot be split."""
        return self._rows.latencies(within, asked, now_hour=now_hour)

    def failed_costs(self, within: TimeRange) -> FailedCosts:
        return self._rows.failed_costs(within)

    def as_of(self, *, now_hour: int) -> AsOf:
        return self._rows.as_of(now_hour=now_hour)

    def revision(self, day: int) -> int:
        return self._rows.revision(day)

    def _groups(self, within: TimeRange, by: Sequence[Dimension], where: Filters, now_hour: int) -> Groups:
        filters = tuple((dimension, tuple(names)) for dimension, names in where.items())
        question = (within, tuple(by), filters, now_hour, tuple(self._definitions))
        return self._remembered.groups(question, lambda: self._found_groups(within, by, where, now_hour))

    def _found_groups(self, within: TimeRange, by: Sequence[Dimension], where: Filters, now_hour: int) -> Groups:
        parts: dict[tuple[Name, ...], list[UsageSums]] = defaultdict(list)
        for cell in self._cells(within, by, where, now_hour):
            parts[cell.names].append(cell.sums)
        return {names: together(sums) for names, sums in parts.items()}

    def _cells(
        self,
        within: TimeRange,
        by: Sequence[Dimension],
        where: Filters,
        now_hour: int,
        interval: Interval | None = None,
    ) -> list[Cell]:
        """Those that *where* keeps, with names of *by*. Raises TooManyCells."""
        definitions = involved(self._definitions, (*by, *where))
        targets = {each.target for each in definitions}
        filtered = [each for each in where if each in targets]
        shown = [*dict.fromkeys((*by, *filtered))]
        columns = [*dict.fromkeys((*shown, *targets, *(name for each in definitions for name in sorted(each.matched))))]
        parts: dict[Place, list[UsageSums]] = defaultdict(list)
        matchers = [Matcher(each) for each in definitions]
        for each in filters_of(definitions, where):
            for cell in self._read(within, columns, each, now_hour, interval):
                parts[_place_of(cell, columns, shown, matchers)].append(cell.sums)
        if sum(map(count_of, parts)) > MAX_CELLS:
            raise _too_many()
        cells = cells_at({place: together(sums) for place, sums in parts.items()}, definitions)
        return _kept(cells, shown, {each: where[each] for each in filtered}, len(by))

    def _read(
        self,
        within: TimeRange,
        columns: Sequence[Dimension],
        where: Filters,
        now_hour: int,
        interval: Interval | None = None,
    ) -> list[Cell]:
        """Raises TooManyCells."""
        found = self._rows.cells(within, columns, now_hour=now_hour, most=MAX_CELLS, where=where, interval=interval)
        if found is None:
            raise _too_many()
        return found


def _too_many() -> TooManyCells:
    return TooManyCells(
        f"allocation: the question has more than {MAX_CELLS} combinations of names: ask for a shorter time, or"
        " with allocation=none"
    )


def _place_of(cell: Cell, columns: Sequence[Dimension], shown: Sequence[Dimension], by: Sequence[Matcher]) -> Place:
    """Where *cell*, whose names are of *columns*, goes by the rules of *by*."""
    names = dict(zip(columns, cell.names, strict=True))
    given = {each.target: rule for each in by if (rule := each.rule_for(names)) is not None}
    return cell.start_ms, tuple([given.get(each, names[each]) for each in shown])


def _kept(cells: Iterable[Cell], shown: Sequence[Dimension], where: Filters, width: int) -> list[Cell]:
    """Those that *where* keeps, with the first *width* names."""
    at = {shown.index(dimension): {*names} for dimension, names in where.items()}
    return [
        cell._replace(names=cell.names[:width])
        for cell in cells
        if all(cell.names[place] in names for place, names in at.items())
    ]


# ---- order


def _ordered(groups: Mapping[tuple[Name, ...], UsageSums], asked: AskedGroups) -> list[tuple[Name, ...]]:
    """As the rows order them; groups of equal rank by their names."""
    currency = asked.currency or _main_currency(groups.values())

    def rank(names: tuple[Name, ...]) -> tuple[object, ...]:
        sums = groups[names]
        match asked.order_by:
            case "name":
                return tuple((isinstance(name, str), _text(name).encode()) for name in names)
            case "cost":
                cost = sums.costs.get(currency)
                return (cost is not None, cost or Decimal(0), sums.calls)
            case "calls" | "input_tokens" | "output_tokens":
                value = getattr(sums, asked.order_by)
                return (value is not None, value or 0)

    return sorted(sorted(groups, key=lambda names: [*map(_text, names)]), key=rank, reverse=not asked.ascending)


def _text(name: Name) -> str:
    return name if isinstance(name, str) else name.value


def _main_currency(sums: Iterable[UsageSums]) -> str:
    """The one in which most calls have a cost; "" for none."""
    calls: dict[str, int] = defaultdict(int)
    for each in sums:
        for currency in each.costs:
            calls[currency] += each.calls
    return min(calls, key=lambda currency: (-calls[currency], currency), default="")
