"""The values that a table maps, taken out of a JSON document: the counterpart of
`gateway.rules.extract` for gateway formats. Pure.

A table is a `Convention` whose names are paths: `metadata.usage_object.prompt_tokens`. A path is
first looked up as it is written (`gen_ai.usage.input_tokens` may be one flat key), then by its
dots, one object a dot; `*` as a part stands for the first entry of a list. The first path with a
value wins, and a count of 0 gives way to a later path that states more.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gateway.common.operations import like
from gateway.rules.conventions.shared import kind_of
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import COUNT, FIRST, MAX_COUNT, MAX_TEXT_CHARS, NO_ONE, NUMBER, TEXT, WHO, Extracted
from gateway.rules.provenance import RecordedExtracted, extracted
from gateway.rules.texts import Json

_MAX_NUMBER_CHARS = 40
_MAX_DIGITS = 15
_FIRST_ENTRY = "*"
_NAMES = frozenset({TEXT, WHO})


class Path(NamedTuple):
    name: str
    parts: tuple[str, ...]


class Field(NamedTuple):
    name: str
    kind: int
    """How it is read, as in `gateway.rules.extract`."""
    paths: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Of each path: as it is written, its first part, the others. Plain tuples: this is read
    some thirty times a document."""


@lru_cache(maxsize=256)
def fields_of(convention: Convention) -> tuple[Field, ...]:
    """The table of *convention*, compiled.

    Unlike an attribute table it has no shared names: each source names its own.
    """
    return tuple(
        Field(field, kind_of(field), tuple((name, *_parted(name)) for name in names))
        for field, names in convention.own.items()
    )


def _fields_in(document: Mapping[str, Json], convention: Convention) -> Iterable[Field]:
    """The fields that *document* may hold, by its names: a product has hundreds of paths."""
    fields = fields_of(convention)
    if type(document) is not dict or len(document) >= len(fields):  # of others only what is read is known
        return fields
    places = _places(convention)
    return [fields[place] for place in sorted({place for name in document for place in places.get(name, ())})]


@lru_cache(maxsize=256)
def _places(convention: Convention) -> Mapping[str, Sequence[int]]:
    """Name of a member -> the places of the fields that may be found there."""
    found: dict[str, set[int]] = {}
    for place, (_, _, paths) in enumerate(fields_of(convention)):
        for name, first, _ in paths:
            found.setdefault(name, set()).add(place)
            found.setdefault(first, set()).add(place)
    return {name: sorted(places) for name, places in found.items()}


def _parted(name: str) -> tuple[str, tuple[str, ...]]:
    first, *rest = name.split(".")
    return first, tuple(rest)


def pick_fields(document: Mapping[str, Json], convention: Convention) -> Extracted:
    """The mapped values of *document*. Empty texts, and numbers that are none, count as absent."""
    picked = extracted()
    texts, who = picked.texts, picked.who
    for field, kind, paths in _fields_in(document, convention):
        for name, first, rest in paths:
            value = document.get(name)
            if value is None and rest:
                value = _below(document.get(first), rest)
            if value is None:
                continue
            if type(value) is str and kind in _NAMES:  # nearly all: distinguished here, it is one call less
                if value and not (kind == WHO and value in NO_ONE):
                    (who if kind == WHO else texts)[field] = value[:MAX_TEXT_CHARS]
                    break
            elif _keep(picked, field, kind, value):
                break
    if isinstance(picked, RecordedExtracted):
        _note_paths(picked, document, convention)
    return picked


def _note_paths(picked: RecordedExtracted, document: Mapping[str, Json], convention: Convention) -> None:
    """Note of each field the path that won, and those that hold a value beside it."""
    for field, kind, paths in fields_of(convention):
        found: list[tuple[str, object]] = []
        for name, first, rest in paths:
            alone = Extracted()
            value = at_path(document, Path(name, (first, *rest)))
            if value is not None:
                _keep(alone, field, kind, value)
                found += [(name, each) for each in (alone.value(field),) if each is not None]
        picked.note_paths(field, found)


def at_path(document: Mapping[str, Json], path: Path) -> Json:
    """What stands at *path*; None where nothing does."""
    name, parts = path
    value = document.get(name)
    if value is not None or len(parts) == 1:
        return value
    return _below(document.get(parts[0]), parts[1:])


def _below(value: Json, parts: tuple[str, ...]) -> Json:
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part == _FIRST_ENTRY:
            value = value[0] if value else None
        else:
            return None
    return value


def _keep(picked: Extracted, field: str, kind: int, value: Json) -> bool:
    """Write *value* down; whether the field is settled with it (a count of 0 is kept, and a
    later path may state more).
    """
    if kind == COUNT:
        count = count_of(value)
        if count is not None and not picked.counts.get(field):
            picked.counts[field] = count
        return bool(count)
    if kind == NUMBER:
        number = number_of(value)
        if number is not None:
            picked.numbers[field] = number
        return number is not None
    text = first_text(value) if kind == FIRST else text_of(value)
    if not text or (kind == WHO and text in NO_ONE):
        return False
    (picked.who if kind == WHO else picked.texts)[field] = text
    return True


def cut(text: str) -> str:
    """*text*, cut to MAX_TEXT_CHARS."""
    return text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS]


def text_of(value: Json) -> str:
    """A name or id, cut to MAX_TEXT_CHARS; numbers and booleans as text; "" for anything else."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return ""


def first_text(value: Json) -> str:
    """The text, or the first one of a list."""
    return text_of(value[0]) if isinstance(value, list) and value else text_of(value)


def count_of(value: Json) -> int | None:
    """A whole number from 0 to MAX_COUNT; also from a float or a decimal text."""
    if isinstance(value, bool):
        return None
    if (isinstance(value, str) and len(value) <= _MAX_DIGITS and value.isascii() and value.isdigit()) or (
        isinstance(value, float) and value.is_integer()
    ):
        value = like(int(value), value)
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else None


def number_of(value: Json) -> float | None:
    """A finite number; also from a decimal text; booleans are 0 and 1."""
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            return None
        return like(number, value) if math.isfinite(number) else None
    if not isinstance(value, str) or len(value) > _MAX_NUMBER_CHARS or "_" in value:
        return None
    word = value.strip().lower()
    try:
        number = float(word == "true") if word in {"true", "false"} else float(word)
    except ValueError:
        return None
    return like(number, value) if math.isfinite(number) else None
