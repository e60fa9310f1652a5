"""One item of a gateway's payload, and where each value that was read of it came from. Pure.

1. A value that stands at a path of the source's own table is that path's; the table's other paths that hold one are passed over.
2. Any other value was found by the source's rules, in a raw answer, or made of several: the source is asked again with one place of
   the document changed at a time (`effects`). Places that hold the value itself go before those that only decide about it.
3. What no place changes is a rule's.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gateway.contract.errors import GatewayError
from gateway.explain.effects import Ask, Effects, Values, Way, at, effects_in, emptied, path_shown, replaced, without
from gateway.explain.picking import fields_of, value_of
from gateway.explain.placed import Placed, WatchedRead
from gateway.explain.records import Origins
from gateway.normalise.context import Context
from gateway.normalise.conventions.shared import kind_of
from gateway.normalise.conventions.table import Convention
from gateway.normalise.extract import COUNT, Extracted
from gateway.normalise.provenance import Provenance
from gateway.normalise.record import error_name
from gateway.normalise.texts import Json
from gateway.sources.documents import Document
from gateway.sources.fields import PickedIn, pick_fields
from gateway.sources.reporting import Report, epoch_ms, span_of_time, trace_ids
from gateway.sources.source import Read
from gateway.sources.sums import Sum

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_PLACE = re.compile(r"([^\[\]]*)\[(\d+)\]")
_MAX_PLACES = 8
RECORD_ID = "record_id"


class Reading(NamedTuple):
    """What one item was read as."""

    said: Report | Sum
    picked: Extracted
    """As it was before a record was made of it."""
    convention: Convention


def reading_of(placed: Placed) -> Reading | None:
    """None for an item that was no call and no sum, or that was read as it stood."""
    said, *rest = placed.reading or (None,)
    if not isinstance(said, Report | Sum):
        return None
    (convention,) = [x for x in rest if isinstance(x, Convention)]
    return Reading(said, placed.picked or Extracted(), convention)


def values_of(reading: Reading) -> Values:
    """All that was read, by picked field, and by field of the record for what is not picked."""
    picked = reading.picked
    values = {field: value_of(picked, field) for field in fields_of(picked)}
    for field in ("error_type", "status_code", "duration_ms"):
        values.pop(field, None)  # of a report these are its own, and no table's
    told = _of_report(reading.said) if isinstance(reading.said, Report) else _of_sum(reading.said)
    known = {field: value for field, value in told.items() if value is not None and value is not False and value != ""}
    return {**values, **known}


def _of_report(report: Report) -> dict[str, Any]:
    start_ms, _, duration_ms = span_of_time(report)
    trace_id, span_id, parent = trace_ids(report)
    return {
        "started_at": start_ms,
        "duration_ms": duration_ms,
        "status": report.failed,
        "error_type": error_name(report.error or "error") if report.failed else None,
        "trace.trace_id": trace_id,
        "trace.span_id": span_id,
        "trace.parent_span_id": parent,
        "source.library_version": report.version,
        RECORD_ID: f"{report.channel}/{report.event_id}",
    }


def _of_sum(one: Sum) -> dict[str, Any]:
    return {
        "period.start": one.start_ms,
        "period.end": one.end_ms,
        "started_at": one.start_ms,
        "calls": one.calls,
        RECORD_ID: one.identity,
    }


class Item(NamedTuple):
    """An item among its documents, and who reads it."""

    documents: Sequence[Document]
    read: Read
    placed: Placed
    context: Context


def origins_of(item: Item, reading: Reading) -> Origins:
    """Where each value came from."""
    values = values_of(reading)
    base = _base(item, reading, values)
    tables = _by_table(reading)
    found: dict[str, Provenance] = {}
    effects = effects_in(base.document, base.ask, values)
    for field, value in values.items():
        table = tables.get(field)
        is_tables = table is not None and table.value == value
        found[field] = base.told(field, value, effects, table.told if table is not None and is_tables else None)
        if table is not None and not is_tables:
            found[field] = also_passed(found[field], (*table.told.attributes, *table.told.passed_over))
    return found


def also_passed(told: Provenance, names: Sequence[str]) -> Provenance:
    """*told*, with *names* among those passed over."""
    others = dict.fromkeys(name for name in (*told.passed_over, *names) if name not in told.attributes)
    return told._replace(passed_over=tuple(others))


# ---- the table


class _Tables(NamedTuple):
    """What the table alone finds for one field."""

    told: Provenance
    value: Any


def _by_table(reading: Reading) -> dict[str, _Tables]:
    picked, found = reading.said.picked, dict[str, _Tables]()
    if not isinstance(picked, PickedIn):
        return found
    for field, paths in reading.convention.own.items():
        values = {path: value_of(pick_fields(picked.document, _only(field, path)), field) for path in paths}
        present = [path for path in paths if values[path] is not None]
        if not present:
            continue
        won = present[0]
        if kind_of(field) == COUNT:
            won = next((path for path in present if values[path]), won)
        passed = tuple(path for path in present if path != won)
        found[field] = _Tables(Provenance("item", (won,), passed), values[won])
    return found


@lru_cache(maxsize=4096)
def _only(field: str, path: str) -> Convention:
    """A table of one path."""
    return Convention("", own={field: (path,)})


# ---- the document that is asked about


class _Base:
    """A document that holds the item, and as little else as may be."""

    def __init__(self, document: Json, ask: Ask, also: frozenset[str], *, is_list: bool = False) -> None:
        """*is_list*: it is a list of documents, whose places in it say nothing."""
        self.document = document
        self.ask = ask
        self._also = also
        self._first = 1 if is_list else 0

    def told(self, field: str, value: Any, effects: Effects, by_table: Provenance | None) -> Provenance:
        """Where *value* came from; passed over is what gives one if that is not there, and so on."""
        ways = self._ways(field, value, effects) or self._enough(field, value, effects)
        told = by_table or self._told(ways)
        at_paths = [self._way(path) for path in (*told.attributes, *told.passed_over)] if by_table is not None else []
        given = [way for way in at_paths if way] or ways
        return also_passed(told, self._others(field, value, self._less(given))) if given else told

    def _told(self, ways: Sequence[Way]) -> Provenance:
        if not ways:
            return Provenance("rule")
        texts = [at(self.document, way) for way in ways]
        is_inside = any(isinstance(text, str) and text.lstrip()[:1] in {"{", "["} for text in texts)
        return Provenance("text" if is_inside else "item", self._names(ways))

    def _others(self, field: str, value: Any, left: Json) -> list[str]:
        """Names of what gives *field* in *left*, then of what gives it without that, and so on.

        What decides whether there is a value at all was not passed over: without it *value* is not read.
        """
        found: list[str] = []
        for _ in range(_MAX_PLACES):
            values = self.ask(left)
            if values is None or field not in values:
                break
            ways = self._ways(field, values[field], effects_in(left, self.ask, {field: values[field]}))
            if not ways:
                break
            found += self._names([way for way in ways if self._less_says([way], field, value)])
            for way in ways:
                left = without(left, way)
        return found

    def _way(self, path: str) -> Way:
        """Where a table's *path* is in the document; () where it is not laid over this one."""
        parts = tuple(0 if part == "*" else part for part in path.split("."))
        return next((way for way in ((path,), parts) if at(self.document, way) is not None), ())

    def _ways(self, field: str, value: Any, effects: Effects) -> list[Way]:
        """The places that say *value*; else those that change it, less those that decide whether there is one at all."""
        changing = [effects.altered.get(field, []), effects.lost.get(field, []), effects.removed.get(field, [])]
        saying = [way for ways in (*changing, effects.vital) for way in ways if _says(at(self.document, way), value)]
        return (list(dict.fromkeys(saying)) or next(filter(None, changing), []))[:_MAX_PLACES]

    def _enough(self, field: str, value: Any, effects: Effects) -> list[Way]:
        """The places of which each alone gives *value*, so that no single one changes it."""
        gone: list[Way] = []
        for way in effects.all_ways():
            values = self.ask(self._less([*gone, way]))
            if values is None:
                continue
            gone.append(way)
            if values.get(field) != value:
                alone = (
                    one for one in gone if self._less_says([other for other in gone if other != one], field, value)
                )
                return list(alone)[:_MAX_PLACES]
        return []

    def _less(self, ways: Sequence[Way]) -> Json:
        left = self.document
        for way in ways:
            left = without(left, way)
        return left

    def _less_says(self, ways: Sequence[Way], field: str, value: Any) -> bool:
        values = self.ask(self._less(ways))
        return values is not None and values.get(field) == value

    def _names(self, ways: Sequence[Way]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path_shown(way[self._first :], self._also) for way in ways))


def _says(place: Json, value: Any) -> bool:
    """Whether the value itself stands there, also inside a text, or as the same time."""
    if place is None or isinstance(place, bool) or isinstance(value, bool | tuple):
        return bool(place == value)
    if isinstance(value, int | float):
        is_inside = (
            isinstance(place, str) and re.search(rf"(?<![\w.]){re.escape(str(value))}(?![\w.])", place) is not None
        )
        return place == value or is_inside or epoch_ms(place) == value
    return isinstance(place, str) and str(value) in place


def _base(item: Item, reading: Reading, values: Values) -> _Base:
    """The smallest document of which the same is read: what the table was laid over, else the item's own document, else all of them."""
    also = frozenset(part for paths in reading.convention.own.values() for path in paths for part in path.split("."))
    picked, position = reading.said.picked, item.placed.position
    ask = _asking(item, [position], position)
    if isinstance(picked, PickedIn) and ask([dict(picked.document)]) == values:
        return _Base(dict(picked.document), lambda document: ask([document]), also)
    own = next((x for x in reversed(item.documents) if _holds(x.position, position)), None)
    if own is not None:
        ask_own = _asking(item, [own.position], position)
        if ask_own([own.value]) == values:
            rest = f"[0]{position[len(own.position) :]}"
            trimmed = _trimmed([own.value], rest, ask_own, values)
            short, rest = _short(trimmed, rest)
            ask_short = _asking(item, [own.position], own.position + rest.removeprefix("[0]"))
            is_same = ask_short(short) == values
            return _Base(*((short, ask_short) if is_same else (trimmed, ask_own)), also, is_list=True)
    ask_all = _asking(item, [x.position for x in item.documents], position)
    everything = [x.value for x in item.documents]
    trimmed = _trimmed(everything, "", ask_all, values) if ask_all(everything) == values else None
    return _Base(trimmed, ask_all, also, is_list=True)


def _asking(item: Item, places: Sequence[str], position: str) -> Ask:
    """Reads a list of documents, which stand at *places*, for the item at *position*."""

    def ask(documents: Json) -> Values | None:
        out = WatchedRead()
        values = documents if isinstance(documents, list) else []
        try:
            item.read([Document(*one) for one in zip(places, values, strict=True)], out, item.context)
        except GatewayError:
            return None
        # Of several items at one place, the points of a row, all say the same.
        found = next((x for x in out.placed if x.position == position), None)
        again = None if found is None else reading_of(found)
        return None if again is None else values_of(again)

    return ask


def _holds(document: str, position: str) -> bool:
    """Whether what stands at *position* is in the document at *document*; a body that is one document stands nowhere."""
    return not document or (position.startswith(document) and position[len(document) :][:1] in {"", ".", "["})


def _trimmed(documents: Json, position: str, ask: Ask, values: Values) -> Json:
    """*documents* without the entries of lists that stand beside *position* and have no part in the item."""
    way: list[str | int] = []
    steps = [int(number) if number else name for number, name in _STEP.findall(position)]
    for step in steps or [-1]:
        held = at(documents, way)
        if isinstance(step, int) and isinstance(held, list):
            documents = _alone(documents, tuple(way), step, ask, values)
        way.append(step)
    return documents


def _short(documents: Json, position: str) -> tuple[Json, str]:
    """The same without the emptied entries of lists on the way, and where the item stands then."""
    way: list[str | int] = []
    told = ""
    for text, number in _PLACE.findall(position):
        way += [name for name in text.split(".") if name]
        held = _list(documents, tuple(way))
        index = int(number)
        kept = [value for n, value in enumerate(held) if n == index or value not in ({}, [], None)]
        if index < len(held) and len(kept) < len(held):
            index = sum(value not in ({}, [], None) for value in held[:index])
            documents = replaced(documents, tuple(way), kept)
        told += f"{text}[{index}]"
        way.append(index)
    return documents, told + position[position.rfind("]") + 1 :]


def _alone(documents: Json, way: Way, index: int, ask: Ask, values: Values) -> Json:
    """Without the other entries of the list at *way*: as many at once as have no part in the item."""
    waiting = [(0, len(_list(documents, way)))]
    while waiting:
        start, stop = waiting.pop()
        bare = [
            emptied(value) if start <= n < stop and n != index else value
            for n, value in enumerate(_list(documents, way))
        ]
        left = replaced(documents, way, bare)
        if ask(left) == values:
            documents = left
        elif stop - start > 1:
            middle = (start + stop) // 2
            waiting += [(start, middle), (middle, stop)]
    return documents


def _list(documents: Json, way: Way) -> list[Json]:
    held = at(documents, way)
    return held if isinstance(held, list) else []
