"""How much a thing remembers, by what can be reached from it, whatever its parts are called."""

from collections import deque
from collections.abc import Iterator
from typing import Any


def largest(thing: Any) -> int:
    """Entries of the largest collection in *thing*, at any depth."""
    return max(_sizes(thing, set()), default=0)


def _sizes(thing: Any, seen: set[int]) -> Iterator[int]:
    if id(thing) in seen or isinstance(thing, str | bytes | type) or callable(thing):
        return
    seen.add(id(thing))
    if isinstance(thing, dict | list | tuple | set | frozenset | deque):
        yield len(thing)
        inner = [*thing, *thing.values()] if isinstance(thing, dict) else thing
    else:
        slots = (name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ()))
        inner = [getattr(thing, name, None) for name in (*getattr(thing, "__dict__", ()), *slots)]
    for each in inner:
        yield from _sizes(each, seen)
