"""Which attribute gave each picked value. Pure.

The tables and the reading are the normaliser's own (`pick`, `ExtractionPlan`, a convention's `read_texts`): here they are asked again
with one name at a time, or with one text altered, and what changes tells where a value came from.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gateway.decode.view import Attributes
from gateway.explain.story import By, Provenance, joined, shown
from gateway.normalise.conventions.table import Convention, nothing_more
from gateway.normalise.extract import COUNT, AttributeTable, Extracted, ExtractionPlan, pick_planned

Origins = Mapping[str, Provenance]
"""Extracted field -> where its value came from."""

_MAX_SOURCES = 8
_DICTS = ("texts", "counts", "numbers", "who")


def value_of(picked: Extracted, field: str) -> Any:
    """The value under *field*, whatever its kind; None where there is none."""
    for values in (picked.texts, picked.counts, picked.numbers, picked.who, picked.other or {}):
        if field in values:
            return values[field]
    return None


def fields_of(picked: Extracted) -> set[str]:
    return {*picked.texts, *picked.counts, *picked.numbers, *picked.who, *(picked.other or ())}


def copy_of(picked: Extracted) -> Extracted:
    copied = Extracted()
    for name in _DICTS:
        setattr(copied, name, dict(getattr(picked, name)))
    copied.other = None if picked.other is None else dict(picked.other)
    return copied


def without(picked: Extracted, field: str) -> Extracted:
    """*picked*, as if nothing had told *field*."""
    left = copy_of(picked)
    for name in _DICTS:
        getattr(left, name).pop(field, None)
    if left.other:
        left.other.pop(field, None)
    return left


# ---- attributes


def origins_in(attributes: Attributes, interests: AttributeTable, by: By = "item") -> dict[str, Provenance]:
    """Where each field that `pick` finds in *attributes* comes from."""
    return {
        field: _winner(attributes, interests, field, names, by)
        for field, names in names_by_field(interests.plan(tuple(attributes))).items()
        if any(_alone(attributes, interests, field, name) is not None for name in names)
    }


def names_by_field(plan: ExtractionPlan) -> dict[str, list[str]]:
    """The names that a plan reads, best first."""
    found: dict[str, list[str]] = {}
    for field, name in (*plan.texts, *plan.counts, *plan.firsts, *plan.who):
        found.setdefault(field, []).append(name)
    for field, name, _ in (*plan.rest, *plan.lower):
        found.setdefault(field, []).append(name)
    return found


def _alone(attributes: Attributes, interests: AttributeTable, field: str, name: str) -> Any:
    """What *name* says when nothing else does."""
    return value_of(pick_planned(attributes, ExtractionPlan((name,), interests)), field)


def _winner(attributes: Attributes, interests: AttributeTable, field: str, names: Iterable[str], by: By) -> Provenance:
    """The first name with a value; of counts the first that is not 0, as `pick` has it."""
    values = {name: _alone(attributes, interests, field, name) for name in names}
    present = [name for name in values if values[name] is not None]
    won = present[0]
    if _is_count(interests, won):
        won = next((name for name in present if values[name]), won)
    return Provenance(by, (shown(won),), tuple(shown(name) for name in present if name != won))


def _is_count(interests: AttributeTable, name: str) -> bool:
    interest = interests[name]
    return len(interest) != 0 and interest[2] == COUNT


# ---- texts


def read_texts(
    convention: Convention, before: Extracted, origins: Origins, *, failed: bool
) -> tuple[Extracted, Origins]:
    """What a convention makes of *before*, and where each value came from after that."""
    if convention.read_texts is nothing_more:
        return before, origins

    def read(picked: Extracted) -> Extracted:
        after = copy_of(picked)
        convention.read_texts(after, failed=failed)
        return after

    after = read(before)
    return after, {field: _told(field, before, origins, read) for field in fields_of(after)}


def _told(field: str, before: Extracted, origins: Origins, read: Callable[[Extracted], Extracted]) -> Provenance:
    """Where *field* came from; passed over is what would give it if that were not there, and so on."""
    given: list[Provenance] = []
    left = before
    while (value := value_of(read(left), field)) is not None and len(given) < _MAX_SOURCES:
        sources = _sources(field, value, left, read)
        told = [_inside(source, origins[source]) for source in sources if source in origins]
        if not told:
            break
        given.append(joined(sorted(told, key=lambda x: x.by != "text")))
        for source in sources:
            left = without(left, source)
    if not given:
        return Provenance("rule")
    won, *others = given
    if field in origins and value_of(before, field) is not None:
        others.append(origins[field])
    passed = (name for x in others for name in (*x.attributes, *x.passed_over))
    return won._replace(
        passed_over=tuple(x for x in dict.fromkeys((*won.passed_over, *passed)) if x not in won.attributes)
    )


def _sources(field: str, value: Any, picked: Extracted, read: Callable[[Extracted], Extracted]) -> list[str]:
    """The picked fields that *field* is made of: itself where nothing changes it; else those whose change changes it; else
    those without which it would be another."""
    if value == value_of(picked, field) and value_of(read(_altered_field(picked, field)), field) != value:
        return [field]
    altered = [source for source, other in _altered(picked, value) if value_of(read(other), field) != value]
    return altered or [x for x in sorted(fields_of(picked)) if value_of(read(without(picked, x)), field) != value]


def _altered_field(picked: Extracted, field: str) -> Extracted:
    """*picked* with another value under *field*."""
    altered = copy_of(picked)
    for values in (altered.texts, altered.who):
        if field in values:
            values[field] += "0"
    if field in altered.counts:
        altered.counts[field] += 1
    if field in altered.numbers:
        altered.numbers[field] += 1
    return altered


def _inside(source: str, told: Provenance) -> Provenance:
    return told._replace(by="text") if source.startswith("raw_") else told


def _altered(picked: Extracted, value: Any) -> Iterator[tuple[str, Extracted]]:
    """Each text that says *value*, and *picked* with another value wherever that text says it."""
    for source, text in picked.texts.items():
        other = text
        if isinstance(value, str):
            other = text.replace(value, value[:-1] + ("1" if value.endswith("0") else "0"))
        elif isinstance(value, int):
            other = re.sub(rf"(?<![\w.]){value}(?![\w.])", str(value + 1), text)
        if other != text:
            altered = copy_of(picked)
            altered.texts[source] = other
            yield source, altered


# ---- decisions


def deciding(picked: Extracted, origins: Origins, decide: Callable[[Extracted], str]) -> Provenance:
    """The attributes that make *decide* decide so: those without which it would not, or each that is enough by itself."""
    decided, known = decide(picked), [field for field in sorted(fields_of(picked)) if field in origins]
    needed = [field for field in known if decide(without(picked, field)) != decided]
    enough = needed or _enough(picked, known, decide)
    return joined([origins[field] for field in enough]) if enough else Provenance("rule")


def _enough(picked: Extracted, fields: list[str], decide: Callable[[Extracted], str]) -> list[str]:
    """Of *fields* those that each alone, beside none of the others that also do, give the same decision."""
    decided = decide(picked)
    for number in range(1, len(fields) + 1):
        removed = fields[:number]
        if decide(_without_all(picked, removed)) != decided:
            return [x for x in removed if decide(_without_all(picked, [y for y in removed if y != x])) == decided]
    return []


def _without_all(picked: Extracted, fields: Iterable[str]) -> Extracted:
    left = picked
    for field in fields:
        left = without(left, field)
    return left
