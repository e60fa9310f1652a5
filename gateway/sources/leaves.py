"""What the rules of a source read of a document: which values decide, and which vary from one
document to the next. Pure.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from gateway.normalise.conventions.table import Convention

Role = Literal["key", "count", "real", "text", "absent"]
"""`key`: a text, boolean or whole number that decides what becomes of the document; `count`: a
whole number; `real`: a number; `text`: an id; `absent`: read where nothing else states what it
does, so only whether anything stands there decides."""
FIRST_ENTRY = "*"
"""Part of a path: the first entry of a list."""


class Leaf(NamedTuple):
    path: tuple[str, ...]
    role: Role = "key"


def leaves_of(convention: Convention, roles: Mapping[str, Role], others: Mapping[str, Role]) -> tuple[Leaf, ...]:
    """The leaves of a source whose rules read the paths of *convention*, with *roles* by field, and
    the paths *others*.
    """
    found: dict[str, Role] = {}
    for field, paths in convention.own.items():
        for path in paths:
            found[path] = roles.get(field, found.get(path, "key"))
    return tuple(Leaf(tuple(path.split(".")), role) for path, role in {**found, **others}.items())
