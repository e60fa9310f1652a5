"""Sums of usage in memory: `gateway.usage.sums.home` with plain dictionaries and loops."""

import copy
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple, TypeVar

from gateway.common.contract.tags import MAX_TAGS, is_tag, tag_of
from gateway.common.model_versions import model_of
from gateway.usage.sums import bounds, grains
from gateway.usage.sums.allocation import Cell
from gateway.usage.sums.buckets import Buckets, add_buckets
from gateway.usage.sums.figures import Adder, Breakdown, Bucket, Cells, Group, UsageSums, less, money
from gateway.usage.sums.grains import (
    DAY,
    DIMENSIONS,
    FAILED_COSTS,
    FINE,
    FORGOTTEN_ID,
    HOUR,
    OTHER_ID,
    TAGGED,
    TAGGED_COLUMNS,
    TAGS,
    UNKNOWN_ID,
    Dimension,
    Ids,
    add_up,
    by_grain,
    folded,
    grain_for,
    tag_grain,
    within_bounds,
)
from gateway.usage.sums.history import History, Model, Usage
from gateway.usage.sums.home import AskedGroups, AsOf, Counted, FailedCosts, SumRows
from gateway.usage.sums.latency import KEPT_BY, AskedLatency, LatencyGroup
from gateway.usage.sums.names import NO_FILTERS, Absent, Filters, Name
from gateway.usage.sums.summing import sums_of_hour, to_sum
from gateway.usage.sums.tally import (
    ATTO,
    CACHEABLE,
    CACHED,
    CALLS,
    COST,
    FAILED,
    FAILED_COSTS_BY,
    HOUR_MS,
    INPUT,
    MISSING_USAGE,
    OTHER,
    OUTPUT,
    PICO,
    SUM_NAMES,
    WITHOUT_PRICE,
    Key,
    LatencyKey,
    Sums,
    Tally,
)
from gateway.usage.sums.timespan import SPANS, Interval, KeptHours, Segment, TimeRange, segments

T = TypeVar("T")
FIRST_NAME: Final = 16
ABSENT: Final = {Absent.UNKNOWN: UNKNOWN_ID, Absent.OTHER: OTHER_ID, Absent.FORGOTTEN: FORGOTTEN_ID}
NO_NAME: Final = -1
USER: Final = DIMENSIONS.index("user")
OF_DETECTORS: Final = (CALLS, FAILED, MISSING_USAGE, WITHOUT_PRICE, INPUT, OUTPUT, CACHEABLE, CACHED, COST)

Period = tuple[int, int, int]
"""Hours of it, id of its grain, its first hour."""


def _periods() -> dict[Period, dict[Ids, Sums]]:
    return {}


@dataclass
class KeptSums:
    ids: dict[str, int] = field(default_factory=dict)
    last_id: int = FIRST_NAME - 1
    versions: dict[int, int] = field(default_factory=dict)
    """Id of a dated name of a model -> that of the model."""
    periods: dict[Period, dict[Ids, Sums]] = field(default_factory=_periods)
    revisions: dict[int, int] = field(default_factory=dict)
    """First hour of a day -> how often usage was added to it."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Tag -> its number."""
    sets: dict[int, dict[str, int]] = field(default_factory=dict)
    """Id of a set of tags -> tag -> id of its value."""
    tagged: dict[tuple[int, int], dict[Ids, Sums]] = field(default_factory=dict)
    """Hours of a period, its first hour -> every series with its tags."""
    by_tag: dict[tuple[str, int], dict[Ids, Sums]] = field(default_factory=dict)
    """Tag, day -> its values."""
    levels: dict[int, int] = field(default_factory=dict)
    """First hour of a day that was folded -> how often."""
    counted_from: int | None = None
    """First hour of the day in which counting began."""
    hours_from: int = 0
    summed: TimeRange = field(default=TimeRange(0, 0))
    """Hours with the sums of every grain."""
    latencies: dict[LatencyKey, Buckets] = field(default_factory=dict[LatencyKey, Buckets])
    room_checked: int = 0
    as_of_ms: int | None = None
    counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Source -> its last counted number, and the hour in which counting it began."""
    hours: dict[tuple[int | str, ...], list[int]] = field(default_factory=dict)
    """The names of one series in one hour -> its sums, as detectors read them."""
    models: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """(provider, model) -> hours of its first and last call."""


class MemorySums:
    def __init__(self, check: Callable[[], None], kept: KeptSums) -> None:
        """*check* raises DatabaseUnavailable once the home is closed."""
        self._check = check
        self.kept = kept

    async def begin(self, now_ms: int, tags: Collection[str] = ()) -> None:
        self._check()
        if self.kept.counted_from is None:
            self.kept.counted_from = now_ms // HOUR_MS // DAY * DAY
        _keep_tags(self.kept, [*tags])

    async def counted_through(self, source: str) -> int:
        self._check()
        return self.kept.counted.get(source, (0, 0))[0]

    async def store(self, counted: Counted) -> None:
        self._check()
        changed = copy.deepcopy(self.kept)
        earlier_ms, later_ms = sorted((counted.now_ms, counted.age_ms))
        kept_hour, now_hour = earlier_ms // HOUR_MS, counted.now_ms // HOUR_MS
        _store_history(changed, counted, now_hour=later_ms // HOUR_MS, kept_hour=kept_hour)
        _store_sums(changed, counted.tally, now_hour=now_hour, kept_hour=kept_hour)
        _sum_hours(changed, kept_hour)
        for key, buckets in counted.tally.latencies.items():
            if buckets and key.hour > kept_hour - bounds.KEPT_DAYS * DAY:
                add_buckets(changed.latencies.setdefault(key, {}), buckets)
        if counted.as_of_ms is not None:
            changed.as_of_ms = counted.as_of_ms
        vars(self.kept).update(vars(changed))

    async def history(self, now_ms: int) -> History:
        self._check()
        now_hour = now_ms // HOUR_MS
        usage = [
            Usage._make((*key, *sums))
            for key, sums in self.kept.hours.items()
            if now_hour - bounds.KEPT_HISTORY_HOURS < int(key[0]) <= now_hour
        ]
        models = [Model(*name, first) for name, (first, _) in self.kept.models.items()]
        began = min((hour for _, hour in self.kept.counted.values()), default=now_hour)
        return History(now_hour, usage, models, began)

    async def read(self, question: Callable[[SumRows], T]) -> T:
        self._check()
        return question(MemorySumRows(self.kept))

    read_apart = read

    async def forget_users(self, users: Collection[str], *, dry_run: bool) -> int:
        self._check()
        names = {self.kept.ids[user] for user in users if user in self.kept.ids}
        of_user = {grain.id for grain in grains.GRAINS if "user" in grain.dimensions}
        rows = [
            (period, ids)
            for period, series in self.kept.periods.items()
            for ids in series
            if period[1] in of_user and ids[USER] in names
        ]
        if not dry_run:
            for period, ids in rows:
                sums = self.kept.periods[period].pop(ids)
                add_up(self.kept.periods[period], (*ids[:USER], FORGOTTEN_ID, *ids[USER + 1 :]), sums)
            for series in self.kept.tagged.values():
                for ids in [each for each in series if each[USER] in names]:
                    add_up(series, (*ids[:USER], FORGOTTEN_ID, *ids[USER + 1 :]), series.pop(ids))
            self._drop(names)
        return len(rows)

    async def drop_unused_names(self) -> None:
        self._check()
        if len(self.kept.ids) > bounds.MAX_NAMES // 2:
            self._drop(self.kept.ids.values())

    def _drop(self, names: Iterable[int]) -> None:
        """Those of *names* that nothing has."""
        every = (self.kept.periods, self.kept.tagged, self.kept.by_tag)
        used = {each for periods in every for series in periods.values() for ids in series for each in ids}
        used |= {each for tags in self.kept.sets.values() for each in tags.values()}
        gone = {*names} - used - {*self.kept.versions.values()}
        self.kept.ids = {name: each for name, each in self.kept.ids.items() if each not in gone}
        self.kept.versions = {each: model for each, model in self.kept.versions.items() if each not in gone}
        self.kept.sets = {each: tags for each, tags in self.kept.sets.items() if each not in gone}


# ---- the hours of the detectors


def _store_history(kept: KeptSums, counted: Counted, *, now_hour: int, kept_hour: int) -> None:
    added: dict[tuple[int | str, ...], list[int]] = {}
    for key, sums in counted.tally.sums.items():
        if any(sums) and kept_hour - bounds.KEPT_HISTORY_HOURS < key.hour <= now_hour:
            series = (key.hour, key.provider, key.model, key.team, key.service_name, key.currency, key.cost_source)
            _add(added.setdefault(series, [0] * len(OF_DETECTORS)), [sums[each] or 0 for each in OF_DETECTORS])
    for names, numbers in added.items():
        numbers[-1] = round(Fraction(numbers[-1], ATTO // PICO))
        held = sum(other[0] == names[0] for other in kept.hours)
        fits = names in kept.hours or held < bounds.MAX_SERIES
        others: tuple[int | str, ...] = (names[0], OTHER, OTHER, OTHER, OTHER, *names[5:])
        _add(kept.hours.setdefault(names if fits else others, [0] * len(OF_DETECTORS)), numbers)
    _note_models(kept, counted.tally, kept_hour)
    began = kept.counted.get(counted.source, (0, kept_hour))[1]
    kept.counted[counted.source] = counted.through_no, began
    oldest = kept_hour - bounds.KEPT_HISTORY_HOURS
    kept.hours = {names: sums for names, sums in kept.hours.items() if oldest < int(names[0]) <= now_hour + 24}


def _note_models(kept: KeptSums, tally: Tally, kept_hour: int) -> None:
    oldest = kept_hour - bounds.MODEL_HOURS
    room = max(0, bounds.MAX_MODELS - len(kept.models))
    current = [(name, seen) for name, seen in tally.models().items() if seen[1] > oldest]
    for name, (first, last) in current[:room]:
        earlier, later = kept.models.get(name, (first, last))
        kept.models[name] = min(first, earlier), max(last, later)
    kept.models = {name: seen for name, seen in kept.models.items() if seen[1] > oldest}


def _add(mine: list[int], theirs: Sequence[int]) -> None:
    mine[:] = [one + other for one, other in zip(mine, theirs, strict=True)]


# ---- the sums of hours and days


def _store_sums(kept: KeptSums, tally: Tally, *, now_hour: int, kept_hour: int) -> None:
    sums = tally.sums
    hours: dict[int, dict[Ids, Sums]] = defaultdict(dict)
    days: dict[int, dict[Ids, Sums]] = defaultdict(dict)
    for key, ids in _numbered(kept, sums):
        if key.hour > kept_hour - bounds.KEPT_HOURS:
            add_up(hours[key.hour], ids, sums[key])
        if key.hour > kept_hour - bounds.KEPT_DAYS * DAY:
            add_up(days[key.hour // DAY * DAY], ids, sums[key])
    for span, periods in ((HOUR, hours), (DAY, days)):
        for hour, series in periods.items():
            has_all = span == DAY or kept.summed[0] <= hour < kept.summed[1]
            for grain, of_grain in by_grain(_without(series), has_all=has_all):
                _add_series(kept, span, grain, hour, of_grain)
            _add_tagged(kept, span, hour, series)
    _store_failed_costs(kept, tally.failed_costs, kept_hour)
    if kept.counted_from is None:
        kept.counted_from = now_hour // DAY * DAY
    for day in days:
        kept.revisions[day] = kept.revisions.get(day, 0) + 1
    _delete_old(kept, kept_hour)
    if kept.room_checked != now_hour:
        kept.room_checked = now_hour
        _keep_room(kept, now_hour)


def _store_failed_costs(kept: KeptSums, sums: Mapping[Key, Sums], kept_hour: int) -> None:
    days: dict[int, dict[Ids, Sums]] = defaultdict(dict)
    for key, ids in _numbered(kept, sums):
        if key.hour > kept_hour - bounds.KEPT_DAYS * DAY:
            add_up(days[key.hour // DAY * DAY], ids[:-1], sums[key])
    for day, series in days.items():
        _add_series(kept, DAY, FAILED_COSTS, day, series)


def _add_tagged(kept: KeptSums, span: int, hour: int, series: Mapping[Ids, Sums]) -> None:
    if kept.numbers:
        _add_within(kept.tagged.setdefault((span, hour), {}), TAGGED, span, series)
    for tag in kept.numbers if span == DAY else ():
        _add_within(kept.by_tag.setdefault((tag, hour), {}), tag_grain(1), DAY, _of_tag(kept, tag, series))


def _add_within(held: dict[Ids, Sums], grain: grains.Grain, span: int, series: Mapping[Ids, Sums]) -> None:
    for ids, sums in within_bounds(grain, span, held, series).items():
        add_up(held, ids, sums)


def _without(series: Mapping[Ids, Sums]) -> dict[Ids, Sums]:
    found: dict[Ids, Sums] = {}
    for ids, sums in series.items():
        add_up(found, ids[:-1], sums)
    return found


def _value(kept: KeptSums, tag: str, number: int) -> int:
    """What a set has of *tag*."""
    return number if number < FIRST_NAME else kept.sets[number].get(tag, UNKNOWN_ID)


def _of_tag(kept: KeptSums, tag: str, series: Mapping[Ids, Sums]) -> dict[Ids, Sums]:
    found: dict[Ids, Sums] = {}
    for ids, sums in series.items():
        add_up(found, (*(0,) * len(DIMENSIONS), *ids[-3:-1], _value(kept, tag, ids[-1])), sums)
    return found


def _keep_tags(kept: KeptSums, tags: Sequence[str]) -> None:
    if not kept.numbers and tags:
        kept.tagged = {
            (span, hour): {(*ids, UNKNOWN_ID): [*sums] for ids, sums in series.items()}
            for (span, grain, hour), series in kept.periods.items()
            if grain == grains.SERIES.id
        }
    gone = [tag for tag in kept.numbers if tag not in tags]
    new = [tag for tag in tags if tag not in kept.numbers]
    for tag in gone[: max(0, len(kept.numbers) + len(new) - MAX_TAGS)]:
        del kept.numbers[tag]
        kept.by_tag = {each: series for each, series in kept.by_tag.items() if each[0] != tag}
    for tag in new:
        kept.numbers[tag] = 1
        for (span, hour), series in kept.tagged.items():
            if span == DAY:
                _add_within(kept.by_tag.setdefault((tag, hour), {}), tag_grain(1), DAY, _of_tag(kept, tag, series))


def _numbered(kept: KeptSums, sums: Mapping[Key, Sums]) -> list[tuple[Key, Ids]]:
    words = {word for key in sums for word in (key.currency, key.cost_source)}
    few = {name for key in sums for name in key._replace(user="", device_id="", tags="")[1:]} - words
    models = {key.model for key in sums}
    found = _ids_of(kept, words, bounds.MAX_NAMES + bounds.ROOM_FOR_CURRENCIES)
    found |= _ids_of(kept, few, bounds.MAX_NAMES)
    found |= _ids_of(kept, {name for key in sums for name in (key.user, key.device_id)}, bounds.MAX_NAMES_WITH_MANY)
    for name in sorted(models):
        own = _ids_of(kept, {model_of(name)}, bounds.MAX_NAMES)[model_of(name)]
        if model_of(name) != name and min(own, found[name]) >= FIRST_NAME:
            kept.versions.setdefault(found[name], own)
    sets = {"": UNKNOWN_ID, **_ids_of_sets(kept, {key.tags for key in sums} - {""})}
    return [(key, (*[found[name] for name in key[1:-1]], sets[key.tags])) for key in sums if any(sums[key])]


def _ids_of_sets(kept: KeptSums, texts: Collection[str]) -> dict[str, int]:
    found = {text: OTHER_ID for text in texts if len(text.encode()) > bounds.MAX_TAG_SET_BYTES}
    new = sorted(text for text in {*texts} - {*found} if kept.ids.get(text) not in kept.sets)
    room = max(0, bounds.MAX_TAG_SETS - len(kept.sets))
    found |= dict.fromkeys(new[room:], OTHER_ID) | _ids_of(kept, new[:room], bounds.MAX_NAMES)
    held: dict[str, dict[str, str]] = {text: json.loads(text) for text in new[:room] if found[text] >= FIRST_NAME}
    values = _ids_of(kept, {value for tags in held.values() for value in tags.values()}, bounds.MAX_NAMES)
    for text, tags in held.items():
        kept.sets[found[text]] = {tag: values[value] for tag, value in tags.items()}
    return {text: found.get(text, kept.ids.get(text, OTHER_ID)) for text in texts}


def _ids_of(kept: KeptSums, names: Collection[str], most: int) -> dict[str, int]:
    found = {"": UNKNOWN_ID}
    for name in sorted({*names} - {""}):
        if name not in kept.ids and len(kept.ids) < most:
            kept.last_id += 1
            kept.ids[name] = kept.last_id
        found[name] = kept.ids.get(name, OTHER_ID)
    return found


def _add_series(kept: KeptSums, span: int, grain: grains.Grain, hour: int, series: Mapping[Ids, Sums]) -> None:
    held = kept.periods.setdefault((span, grain.id, hour), {})
    for ids, sums in within_bounds(grain, span, held, series).items():
        add_up(held, ids, sums)


def _delete_old(kept: KeptSums, now_hour: int) -> None:
    oldest_day = now_hour - bounds.KEPT_DAYS * DAY - DAY
    oldest = {HOUR: now_hour - bounds.KEPT_HOURS, DAY: oldest_day}
    kept.periods = {each: series for each, series in kept.periods.items() if each[2] > oldest[each[0]]}
    kept.tagged = {each: series for each, series in kept.tagged.items() if each[1] > oldest[each[0]]}
    kept.by_tag = {each: series for each, series in kept.by_tag.items() if each[1] > oldest[DAY]}
    kept.revisions = {day: n for day, n in kept.revisions.items() if day > oldest_day}
    kept.levels = {day: level for day, level in kept.levels.items() if day > oldest_day}


def _keep_room(kept: KeptSums, now_hour: int) -> None:
    for keep_hours in range(bounds.KEPT_HOURS - DAY, bounds.LEAST_HOURS - 1, -DAY):
        if _rows(kept, HOUR) <= bounds.MAX_HOUR_ROWS:
            break
        kept.hours_from = max(kept.hours_from, now_hour - keep_hours + 1)
        kept.periods = {
            each: series for each, series in kept.periods.items() if each[0] != HOUR or each[2] >= kept.hours_from
        }
        kept.tagged = {
            each: series for each, series in kept.tagged.items() if each[0] != HOUR or each[1] >= kept.hours_from
        }
    while _rows(kept, DAY) > bounds.MAX_DAY_ROWS:
        days = {hour for span, _, hour in kept.periods if span == DAY and hour < now_hour - DAY}
        left = sorted((kept.levels.get(day, 0), day) for day in days if kept.levels.get(day, 0) < 2)
        if not left:
            break
        level, day = left[0]
        for grain in grains.KEPT:
            columns = grain.dimensions & FINE if level == 0 else grain.dimensions
            if columns and (series := kept.periods.pop((DAY, grain.id, day), None)):
                into: dict[Ids, Sums] = {}
                for ids, sums in series.items():
                    add_up(into, folded(ids, columns), sums)
                _add_series(kept, DAY, grain, day, into)
        _fold_tags(kept, day, FINE if level == 0 else TAGGED.dimensions)
        kept.levels[day] = level + 1


def kept_hours(kept: KeptSums, now_hour: int) -> KeptHours:
    return KeptHours(max(kept.hours_from, now_hour - bounds.KEPT_HOURS + 1), kept.summed)


def _sum_hours(kept: KeptSums, now_hour: int) -> None:
    hours, kept.summed = to_sum(kept_hours(kept, now_hour), now_hour)
    for hour in hours:
        for grain, series in sums_of_hour(kept.periods.get((HOUR, grains.SERIES.id, hour), {})):
            kept.periods.pop((HOUR, grain.id, hour), None)
            _add_series(kept, HOUR, grain, hour, series)
    for span, grain_id, hour in [*kept.periods]:
        if span == HOUR and grain_id not in grains.AT_ONCE and hour < kept.summed.first_hour:
            del kept.periods[span, grain_id, hour]


def _fold_tags(kept: KeptSums, day: int, columns: Collection[str]) -> None:
    places = [(kept.tagged, (DAY, day)), *((kept.by_tag, (tag, day)) for tag in kept.numbers)]
    for periods, place in places:
        into: dict[Ids, Sums] = {}
        for ids, sums in periods.pop(place, {}).items():  # type: ignore[arg-type]  # each has keys of its own
            add_up(into, folded(ids, columns if periods is kept.tagged else (TAGS,)), sums)
        if into:
            periods[place] = into  # type: ignore[index]  # as above


def _rows(kept: KeptSums, span: int) -> int:
    """In the table that has more."""
    tags = sum(len(series) for series in kept.by_tag.values()) if span == DAY else 0
    tags += sum(len(series) for each, series in kept.tagged.items() if each[0] == span)
    return max(tags, sum(len(series) for each, series in kept.periods.items() if each[0] == span))


# ---- questions


class _Row(NamedTuple):
    hour: int
    names: Mapping[str, int]
    """Column -> id of its name; `version` is the model's own one."""
    sums: Sums


class MemorySumRows:
    def __init__(self, kept: KeptSums) -> None:
        self._kept = kept

    def totals(self, within: TimeRange, *, now_hour: int, where: Filters = NO_FILTERS) -> UsageSums:
        return self._sum(self._rows(self._parts(within, now_hour), where))

    def over_time(
        self, within: TimeRange, *, now_hour: int, interval: Interval = "day", where: Filters = NO_FILTERS
    ) -> list[Bucket]:
        span = SPANS[interval]
        buckets: dict[int, list[_Row]] = defaultdict(list)
        for row in self._rows(self._parts(within, now_hour, interval), where):
            buckets[row.hour // span * span].append(row)
        return [Bucket(hour * HOUR_MS, self._sum(rows)) for hour, rows in sorted(buckets.items())]

    def breakdown(self, within: TimeRange, asked: AskedGroups, *, now_hour: int) -> Breakdown:
        parts = self._parts(within, now_hour)
        groups: dict[Ids, list[_Row]] = defaultdict(list)
        for row in self._rows(parts, asked.where, asked.by, folds_versions=asked.folds_versions):
            groups[tuple(row.names[each] for each in asked.by)].append(row)
        groups.pop((OTHER_ID,) * len(asked.by), None)
        known = asked.currency
        currency = self._main_currency(parts) if known is None else self._ids([known])[0]

        def rank(ids: Ids) -> list[tuple[bool, object]]:
            if asked.order_by == "name":
                texts = [self._names[each] for each in ids]
                return [(isinstance(text, str), text.encode() if isinstance(text, str) else b"") for text in texts]
            number = SUM_NAMES.index(asked.order_by)
            of_currency = [row for row in groups[ids] if asked.order_by != "cost" or row.names["currency"] == currency]
            values = [value for row in of_currency if (value := row.sums[number]) is not None]
            calls = sum(row.sums[CALLS] or 0 for row in groups[ids])
            return [(bool(values), sum(values)), (True, calls if asked.order_by == "cost" else 0)]

        ordered = sorted(sorted(groups), key=rank, reverse=not asked.ascending)  # equal ranks stand by their ids
        page = ordered[asked.offset : asked.offset + min(asked.limit, bounds.MAX_GROUPS)]
        shown = tuple(self._group(ids, groups[ids], asked) for ids in page)
        total = self._sum(self._rows(parts, asked.where))
        return Breakdown(shown, len(groups), less(total, [group.sums for group in shown]), total)

    def names(
        self, within: TimeRange, dimension: Dimension, *, now_hour: int, most: int, where: Filters = NO_FILTERS
    ) -> list[tuple[Name, ...]]:
        found: list[tuple[Name, ...]] = []
        for offset in range(most):
            asked = AskedGroups((dimension,), where, offset=offset, limit=1, folds_versions=dimension == "model")
            for group in self.breakdown(within, asked, now_hour=now_hour).groups:
                versions = [each.names[0] for each in group.versions if each.names != group.names]
                found.append((group.names[0], *versions))
        return found

    def latencies(self, within: TimeRange, asked: AskedLatency, *, now_hour: int) -> dict[LatencyGroup, Buckets]:
        groups: dict[LatencyGroup, Buckets] = {}
        for part in self._parts(within, now_hour, asked.interval or "day"):
            for (hour, *texts), buckets in self._kept.latencies.items():
                names = {each: text or Absent.UNKNOWN for each, text in zip(KEPT_BY, texts, strict=True)}
                own = {**names, "model": model_of(texts[1]) or Absent.UNKNOWN}
                is_kept = all({names[each], own[each]} & {*wanted} for each, wanted in asked.where.items())
                if is_kept and part.first_hour <= hour < part.end_hour:
                    span = SPANS[asked.interval] if asked.interval else 0
                    group = (hour // span * span,) if span else tuple(own[each] for each in asked.by)
                    add_buckets(groups.setdefault(group, {}), buckets)
        return groups

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
        parts = self._parts(within, now_hour, interval or "day")
        span = SPANS[interval] if interval else 0
        groups: dict[Ids, list[_Row]] = defaultdict(list)
        for row in self._rows(parts, where, by, folds_versions="model" in by):
            start = row.hour // span * span if span else 0
            groups[start, *(row.names[each] for each in by)].append(row)
        if len(groups) > most:
            return None
        names = self._names
        return [
            Cell(tuple(names[each] for each in ids), self._sum(rows), start * HOUR_MS)
            for (start, *ids), rows in groups.items()
        ]

    def failed_costs(self, within: TimeRange) -> FailedCosts:
        groups: dict[Ids, list[_Row]] = defaultdict(list)
        for (span, grain_id, day), series in self._kept.periods.items():
            if (span, grain_id) == (DAY, FAILED_COSTS.id) and within.first_hour <= day < within.end_hour:
                for ids, sums in series.items():
                    names = dict(zip(TAGGED_COLUMNS, ids, strict=False))
                    names["model"] = self._kept.versions.get(names["model"], names["model"])
                    groups[tuple(names[each] for each in FAILED_COSTS_BY)].append(_Row(day, names, sums))
        names_of = self._names
        cells = [Cell(tuple(names_of[each] for each in ids), self._sum(rows)) for ids, rows in groups.items()]
        return FailedCosts(within.first_hour, cells)

    def as_of(self, *, now_hour: int) -> AsOf:
        return AsOf(self._kept.as_of_ms, kept_hours(self._kept, now_hour).first_hour * HOUR_MS)

    def revision(self, day: int) -> int:
        return self._kept.revisions.get(day, 0)

    @property
    def _names(self) -> dict[int, Name]:
        return {number: absent for absent, number in ABSENT.items()} | {
            number: name for name, number in self._kept.ids.items()
        }

    def _parts(self, within: TimeRange, now_hour: int, interval: Interval = "day") -> list[Segment]:
        return segments(within, now_hour=now_hour, hours=kept_hours(self._kept, now_hour), interval=interval)

    def _ids(self, names: Collection[Name]) -> list[int]:
        known = self._kept.ids
        return [known.get(name, NO_NAME) if isinstance(name, str) else ABSENT[name] for name in names]

    def _rows(
        self,
        parts: Sequence[Segment],
        where: Filters,
        dimensions: Collection[Dimension] = (),
        *,
        folds_versions: bool = False,
    ) -> Iterator[_Row]:
        wanted = {name: {*self._ids(names)} for name, names in where.items()}
        if "model" in wanted:
            wanted["model"] |= {each for each, model in self._kept.versions.items() if model in wanted["model"]}
        wanted_tags = [each for each in {*dimensions, *where} if is_tag(each)]
        is_alone = len({*dimensions, *where}) == 1
        for part in parts:
            for hour, series in self._series({*dimensions, *where}, part):
                if not part.first_hour <= hour < part.end_hour:
                    continue
                for ids, sums in series.items():
                    names = {**dict(zip(TAGGED_COLUMNS, (*ids, UNKNOWN_ID), strict=False))}
                    for each in wanted_tags:
                        is_kept = tag_of(each) in self._kept.numbers
                        is_value = is_alone and part.span == DAY
                        value = names[TAGS] if is_value else _value(self._kept, tag_of(each), names[TAGS])
                        names[each] = value if is_kept else UNKNOWN_ID
                    if all(names[name] in some for name, some in wanted.items()):
                        model = names["model"]
                        own = self._kept.versions.get(model, model) if folds_versions else model
                        yield _Row(hour, {**names, "model": own, "version": model}, sums)

    def _series(self, wanted: Collection[Dimension], part: Segment) -> Iterator[tuple[int, dict[Ids, Sums]]]:
        span = part.span
        tags = [tag_of(each) for each in wanted if is_tag(each) and tag_of(each) in self._kept.numbers]
        if tags and len(wanted) == 1 and span == DAY:
            yield from ((hour, series) for (tag, hour), series in self._kept.by_tag.items() if tag == tags[0])
        elif tags or (TAGS in wanted and self._kept.numbers):
            yield from ((hour, series) for (each, hour), series in self._kept.tagged.items() if each == span)
        else:
            grain = grain_for([each for each in wanted if each in DIMENSIONS], has_all=part.has_all)
            for (each, grain_id, hour), series in self._kept.periods.items():
                if (each, grain_id) == (span, grain.id):
                    yield hour, series

    def _sum(self, rows: Iterable[_Row]) -> UsageSums:
        adder, names = Adder(), self._names
        for row in rows:
            currency = names[row.names["currency"]]
            known = currency if isinstance(currency, str) else None
            is_estimated = names[row.names["cost_source"]] == "estimated"
            adder.add(Cells(row.sums[:COST], known, money(0, row.sums[COST] or 0), is_estimated))
        return adder.sums()

    def _main_currency(self, parts: Sequence[Segment]) -> int:
        calls: dict[int, int] = defaultdict(int)
        for row in self._rows(parts, NO_FILTERS):
            calls[row.names["currency"]] += row.sums[CALLS] or 0
        named = [currency for currency in calls if currency > OTHER_ID]
        return min(named, key=lambda currency: (-calls[currency], currency), default=NO_NAME)

    def _group(self, ids: Ids, rows: Sequence[_Row], asked: AskedGroups) -> Group:
        names = self._names
        versions: dict[int, list[_Row]] = defaultdict(list)
        for row in rows if asked.folds_versions else ():
            versions[row.names["version"]].append(row)
        inside: list[Group] = []
        if asked.folds_versions and versions.keys() != {ids[asked.by.index("model")]}:
            inside = [Group((names[each],), self._sum(some)) for each, some in versions.items()]
            inside.sort(key=lambda group: (-group.sums.calls, str(group.names[0])))
        return Group(tuple(names[each] for each in ids), self._sum(rows), tuple(inside[: bounds.MAX_VERSIONS]))
