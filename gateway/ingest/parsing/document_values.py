"""What a JSON document is to the lessons of its source: the key of what repeats in it, and what
varies. Pure.

The names of the document itself, in their order, and the values that rules read are the key; a
number or text that varies is in it by its form alone. A value of a form that no rule expects (a
list, a fraction in the place of a name) is in no lesson's key.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from gateway.ingest.parsing.made_function import made
from gateway.normalise.templates import MOST_HOLE_CHARS, WORDS
from gateway.sources.leaves import FIRST_ENTRY, Leaf, Role

Key = tuple[Any, ...]
Values = Callable[[dict[str, Any]], tuple[Key, tuple[Any, ...]] | None]
"""`values(document)` -> the key, and what varies in the order of `Profile.varying`; None where an
object or list is expected and something else stands there."""


class Form:
    """Stands in a key for any value of that form."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class SameText(Form):
    """That of a text that is also the text of *number*."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name)
        self.number = number


COUNT: Final = Form("count")
REAL: Final = Form("real")
UUID: Final = Form("uuid")
HEX: Final = Form("hex")
NAME: Final = Form("name")
ABSENT: Final = Form("absent")
UNREAD: Final = Form("unread")
"""In the place of what no rule may read."""
NONE: Final[dict[str, Any]] = {}
"""In the place of an object that is not there."""
CACHE_HIT: Final = "_cache_hit"
NO_NAMES: Final = WORDS | {CACHE_HIT}
"""No text that varies is one of these or holds the last."""
_MOST: Final = 10**15
_MOST_REAL: Final = 10**11
_FORM = re.compile(
    r"(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})|(?P<hex>[0-9a-f]{32})"
    rf"|(?!(?:-*[0-9a-fA-F]){{32}}-*\Z)(?P<name>[A-Za-z0-9_.:/$#@+=-]{{1,{MOST_HOLE_CHARS}}})"
)
"""A name is never a trace id, however that is written."""
_FORMS: Final = {"uuid": UUID, "hex": HEX, "name": NAME}


def form_of(text: Any) -> Form | None:
    """The form of a text that may vary; None for any other value."""
    if type(text) is not str or (match := _FORM.fullmatch(text)) is None or text in WORDS or CACHE_HIT in text:
        return None
    return _FORMS[match.lastgroup or ""] if text.strip("0-") else None


class Profile(NamedTuple):
    """How documents with one list of names are looked at."""

    values: Values
    varying: tuple[str, ...]
    """Names of what varies: `count0`, `real0`, `hole0`, …"""
    places: tuple[tuple[tuple[str, ...], str], ...]
    """Path and role of each leaf of the key, in its order, then path and kind (`object`, `list`) of
    what they stand in."""


class _Tree(NamedTuple):
    """The leaves below one object."""

    leaves: dict[str, Role]
    objects: dict[str, "_Tree"]


def _tree(leaves: Iterable[tuple[tuple[str, ...], Role]]) -> _Tree:
    made_tree = _Tree({}, {})
    below: dict[str, list[tuple[tuple[str, ...], Role]]] = {}
    for (first, *rest), role in leaves:
        if rest:
            below.setdefault(first, []).append((tuple(rest), role))
        else:
            made_tree.leaves[first] = role
    made_tree.objects.update({name: _tree(inner) for name, inner in below.items()})
    return made_tree


class _Maker:
    """Writes the function `values`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {
            "ABSENT": ABSENT, "NONE": NONE, "UNREAD": UNREAD, "COUNT": COUNT, "REAL": REAL,
            "form_of": form_of,
        }  # fmt: skip
        self.key: list[str] = []
        self.states: list[str] = []
        self.varying: list[str] = []
        self.leaves: list[tuple[tuple[str, ...], str]] = []
        self.objects: list[tuple[tuple[str, ...], str]] = []
        self._numbers = {"count": 0, "real": 0, "hole": 0}

    def constant(self, value: object) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def object(self, tree: _Tree, source: str, path: tuple[str, ...], names: frozenset[str] | None) -> None:
        """Read all of *tree* below the object *source*; *names*: of the document itself, whose
        other names are not there.
        """
        for name, role in tree.leaves.items():
            if names is None or name in names:
                self._leaf(role, self._got(source, name, is_there=names is not None), (*path, name))
        for name, inner in tree.objects.items():
            if names is not None and name not in names:
                continue
            got = self._got(source, name, is_there=names is not None)
            if FIRST_ENTRY in inner.objects:
                got = self._first(got, (*path, name))
                self._inner(inner.objects[FIRST_ENTRY], got, (*path, name, FIRST_ENTRY))
            else:
                self._inner(inner, got, (*path, name))

    def _got(self, source: str, name: str, *, is_there: bool) -> str:
        key = self.constant(name)
        return f"{source}[{key}]" if is_there else f"{source}.get({key}, ABSENT)"

    def _inner(self, tree: _Tree, got: str, path: tuple[str, ...]) -> None:
        number = len(self.states)
        self.states.append(f"s{number}")
        self.objects.append((path, "object"))
        self.lines += [
            f"c{number} = {got}",
            f"if type(c{number}) is dict: s{number} = not c{number}",
            f"elif c{number} is None or c{number} is ABSENT: s{number}, c{number} = c{number}, NONE",
            "else: return None",
        ]
        self.object(tree, f"c{number}", path, None)

    def _first(self, got: str, path: tuple[str, ...]) -> str:
        number = len(self.states)
        self.states.append(f"s{number}")
        self.objects.append((path, "list"))
        self.lines += [
            f"c{number} = {got}",
            f"if type(c{number}) is list: s{number}, c{number} = not c{number}, c{number}[0] if c{number} else None",
            f"elif c{number} is None or c{number} is ABSENT: s{number}, c{number} = c{number}, None",
            "else: return None",
        ]
        return f"c{number}"

    def _leaf(self, role: Role, got: str, path: tuple[str, ...]) -> None:
        name = f"x{len(self.key)}"
        self.key.append(name)
        self.leaves.append((path, role))
        self.lines.append(f"{name} = {got}")
        if role == "key":
            return
        if role == "absent":
            self.lines.append(f"if {name} is not None and {name} is not ABSENT: {name} = UNREAD")
            return
        kind = "hole" if role == "text" else role
        value = f"{kind}{self._numbers[kind]}"
        self._numbers[kind] += 1
        self.varying.append(value)
        self.lines.append(f"{value} = {name}")
        if role == "count":
            self.lines.append(f"if type({name}) is int and 0 <= {name} < {_MOST}: {name} = COUNT")
        elif role == "real":
            self.lines += [
                f"if (type({name}) is float or type({name}) is int) and 0 <= {name} < {_MOST_REAL}:",
                f"    {value}, {name} = {name} * 1.0, REAL",
            ]
        else:
            self.lines += self._same(name, value)

    def _same(self, name: str, hole: str) -> list[str]:
        """The form of a text; one that an earlier text is as well is the same in each document."""
        texts = [f"hole{number}" for number in range(self._numbers["hole"] - 1)]
        lines = []
        for number, other in enumerate(texts):
            lines += [
                f"{'el' * bool(number)}if {hole} == {other}: {name} = {self.constant(same_as(number))} if form_of({hole}) else {name}"
            ]
        lines += ["else:"] if lines else ["if True:"]
        return [*lines, f"    {name} = form_of({name}) or {name}"]


@cache
def same_as(number: int) -> "SameText":
    """The form of a text that is also the text of that number."""
    return SameText(f"same{number}", number)


def profile_of(names: tuple[str, ...], leaves: Iterable[Leaf]) -> Profile:
    """How documents with these *names*, in that order, are looked at."""
    maker = _Maker()
    maker.object(_tree((leaf.path, leaf.role) for leaf in leaves), "document", (), frozenset(names))
    key = "".join(f"{x}, " for x in (*maker.key, *maker.states))
    varying = "".join(f"{x}, " for x in maker.varying)
    lines = [*maker.lines, f"return ({key}), ({varying})"]
    values = made("values(document)", lines, maker.constants)
    return Profile(values, tuple(maker.varying), (*maker.leaves, *maker.objects))


def varying_of(profile: Profile) -> Iterator[tuple[int, str]]:
    """Place in the key of each value that varies, and its name."""
    roles = [role for _, role in profile.places if role not in {"object", "list"}]
    places = (place for place, role in enumerate(roles) if role not in {"key", "absent"})
    return zip(places, profile.varying, strict=True)
