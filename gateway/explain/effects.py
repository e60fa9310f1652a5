"""Which places of a JSON document gave the values that were read of it. Pure.

The reading itself is somebody else's (`Ask`): it is asked again with one place altered, then with that place left out, and the values that
change tell what the place gives. Whole branches go first: of one that gives nothing, nothing more is asked.
"""

import re
import sys
from ast import Constant, parse, walk
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from inspect import getsource
from typing import Any, NamedTuple

import orjson

from gateway.normalise.texts import Json
from gateway.normalise.traced import UNSHOWN

Way = tuple[str | int, ...]
"""From a document to a place in it: a key or an index a step."""
Values = Mapping[str, Any]
Ask = Callable[[Json], Values | None]
"""A document -> what is read of one item in it; None where the item is not there any more."""

MAX_ASKED = 5_000
"""Readings for one item; what is not found within them has no origin."""
_MAX_DEPTH = 40
_KEPT_CHARS = 100
"""Names are read no longer than some hundred characters, so a longer text is altered before its end too."""
_WORD = re.compile(r"[\w./:$@+-]{1,80}", re.ASCII)
_NUMBER = re.compile(r"(\d{1,15})(\.\d*|)", re.ASCII)
_DATE = re.compile(r"[2-9]\d{3}-\d\d-\d\d", re.ASCII)
_CODE = ("gateway.sources.", "gateway.normalise.")


class Effects(NamedTuple):
    """Value -> the places that change it."""

    altered: dict[str, list[Way]]
    """With another content there it is another one."""
    lost: dict[str, list[Way]]
    """With another content there it is none."""
    removed: dict[str, list[Way]]
    """Without the place it is another one, or none."""
    vital: list[Way]
    """With another content, or without the place, the item itself is gone."""
    idle: list[Way]
    """By themselves they change nothing; another place may say the same."""

    def all_ways(self) -> list[Way]:
        told = (ways for places in (self.altered, self.lost, self.removed) for ways in places.values())
        return list(dict.fromkeys([*self.idle, *(way for ways in told for way in ways)]))


def effects_in(document: Json, ask: Ask, known: Values) -> Effects:
    """What each place of *document* does to *known*, which is what is read of it."""
    found = Effects({}, {}, {}, [], [])
    _Walk(document, ask, known, found).into((), document)
    return found


class _Walk:
    def __init__(self, document: Json, ask: Ask, known: Values, found: Effects) -> None:
        self._document = document
        self._ask = ask
        self._known = known
        self._found = found
        self._left = MAX_ASKED

    def into(self, way: Way, value: Json) -> None:
        """Note what the places below *way* give."""
        parts: Iterable[tuple[str | int, Json]] = ()
        if isinstance(value, dict):
            parts = value.items()
        elif isinstance(value, list):
            parts = enumerate(value)
        for name, inner in parts:
            self._part((*way, name), inner)

    def _part(self, way: Way, value: Json) -> None:
        if value is None or self._left <= 0 or len(way) > _MAX_DEPTH:
            return
        self._left -= 2
        by_altered = self._ask(replaced(self._document, way, altered(value)))
        by_removed = self._ask(without(self._document, way))
        if self._is_known(by_altered) and self._is_known(by_removed):
            self._found.idle.append(way)
            return
        if isinstance(value, dict | list):
            self.into(way, value)
        else:
            self._note(way, by_altered, by_removed)

    def _is_known(self, values: Values | None) -> bool:
        return values is not None and all(values.get(field) == value for field, value in self._known.items())

    def _note(self, way: Way, by_altered: Values | None, by_removed: Values | None) -> None:
        if by_altered is None or by_removed is None:
            self._found.vital.append(way)
        for field, value in self._known.items():
            if by_altered is not None and by_altered.get(field) != value:
                places = self._found.altered if field in by_altered else self._found.lost
                places.setdefault(field, []).append(way)
            if by_removed is not None and by_removed.get(field) != value:
                self._found.removed.setdefault(field, []).append(way)


# ---- documents with one place changed


def altered(value: Json, depth: int = _MAX_DEPTH) -> Json:
    """*value* with another content in each of its places."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return _other_text(value, depth)
    if isinstance(value, dict) and depth:
        return {name: altered(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, list) and depth:
        return [altered(inner, depth - 1) for inner in value]
    return value


def _other_text(text: str, depth: int) -> str:
    """A date, a number and JSON stay such; in any other text something is new within what is kept of names, and at the end."""
    if _DATE.match(text):
        return f"{int(text[:4]) - 1}{text[4:]}"
    if (number := _NUMBER.fullmatch(text)) is not None:
        return f"{int(number[1]) + 1}{number[2]}"
    if depth and text.lstrip()[:1] in {"{", "["}:
        with suppress(orjson.JSONDecodeError, orjson.JSONEncodeError):
            return orjson.dumps(altered(orjson.loads(text), depth - 1)).decode()
    kept, rest = text[:_KEPT_CHARS], text[_KEPT_CHARS:]
    return f"{kept}0{rest}0"


def replaced(document: Json, way: Way, value: Json) -> Json:
    """*document* with *value* at *way*; what is not on the way is shared with it."""
    if not way:
        return value
    name, *rest = way
    if isinstance(document, dict) and isinstance(name, str):
        return {**document, name: replaced(document[name], tuple(rest), value)}
    if isinstance(document, list) and isinstance(name, int):
        return [*document[:name], replaced(document[name], tuple(rest), value), *document[name + 1 :]]
    return document


def without(document: Json, way: Way) -> Json:
    """*document* without what stands at *way*. An entry of a list leaves an empty one, so that the others keep their places."""
    holder = at(document, way[:-1])
    if isinstance(holder, dict):
        return replaced(document, way[:-1], {name: value for name, value in holder.items() if name != way[-1]})
    return replaced(document, way, emptied(at(document, way)))


def emptied(value: Json) -> Json:
    """Nothing, of the same kind."""
    return {} if isinstance(value, dict) else [] if isinstance(value, list) else None


def at(document: Json, way: Sequence[str | int]) -> Json:
    """What stands at *way*; None where nothing does."""
    for name in way:
        if isinstance(document, dict) and isinstance(name, str):
            document = document.get(name)
        elif isinstance(document, list) and isinstance(name, int) and 0 <= name < len(document):
            document = document[name]
        else:
            return None
    return document


# ---- names


def path_shown(way: Way, also: frozenset[str] = frozenset()) -> str:
    """*way* by its dots. `*` stands for an entry of a list, and for a name that neither our code nor *also* has."""
    known = our_words() | also
    parts = [part if isinstance(part, str) and _is_of(known, part) else "*" for part in way]
    return ".".join(parts) if any(part != "*" for part in parts) else UNSHOWN


def _is_of(known: frozenset[str], name: str) -> bool:
    """Whether *name* is one of our words, or two of them that the code puts together (`resource/tag:` and another)."""
    head, colon, tail = name.rpartition(":")
    return name in known or (bool(colon) and head + colon in known and tail in known)


@lru_cache(maxsize=1)
def our_words() -> frozenset[str]:
    """Every word that our own code of reading has as a text: what it may ask a document for."""
    words: set[str] = set()
    for name, module in list(sys.modules.items()):
        if name.startswith(_CODE):
            try:
                code = parse(getsource(module))
            except (OSError, TypeError):
                continue
            texts = (node.value for node in walk(code) if isinstance(node, Constant) and isinstance(node.value, str))
            for text in texts:
                if _WORD.fullmatch(text):
                    words |= {text, *text.split(".")}
    return frozenset(words - {""})
