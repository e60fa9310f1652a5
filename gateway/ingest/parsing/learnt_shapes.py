"""Shapes of spans that were learnt, and their lessons. Pure."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

from gateway.ingest.parsing.attribute_bytes import OddAttribute, UnreadAttributes, heads_of
from gateway.ingest.parsing.lesson_code import Run, run_of
from gateway.ingest.parsing.lessons import Lesson, lesson_bytes
from gateway.ingest.parsing.span_values import Values, values_of
from gateway.normalise.templates import Role

MAX_VARIANTS: Final = 16
"""Lessons of one shape: each for another outcome of the conditions."""
MAX_ATTRIBUTES: Final = 512
_ENTRY_BYTES: Final = 120
"""About what one object takes beside its content."""

Key = tuple[Any, ...]
ScopeKey = tuple[int, bytes, bytes]
"""Context, resource and scope."""


class Learnt(NamedTuple):
    """A lesson, and the function made of it."""

    run: Run
    lesson: Lesson
    service: str | None
    """Of the resource that spans of it came from."""
    refused: str
    """Why the rules read the spans that it holds for; "" where they need not."""


class Shape:
    """Spans with one key."""

    __slots__ = ("learnt", "refused")

    def __init__(self, refused: str = "") -> None:
        self.learnt: tuple[Learnt, ...] = ()
        self.refused = refused
        """Why the rules read such spans; "" where they need not."""

    def add(self, learnt: Learnt) -> int:
        """Add *learnt* before the others, of which the oldest may go; returns how many bytes more
        that takes.
        """
        gone = self.learnt[MAX_VARIANTS - 1 :]
        self.learnt = (learnt, *self.learnt[: MAX_VARIANTS - 1])
        return lesson_bytes(learnt.lesson) - sum(lesson_bytes(old.lesson) for old in gone)

    def refuse(self, reason: str) -> None:
        self.learnt, self.refused = (), reason


UNKNOWN: Final = Shape()


class Names:
    """Spans of one scope with one list of names."""

    __slots__ = ("heads", "shapes", "values", "varying")

    def __init__(
        self,
        heads: tuple[bytes, ...],
        values: Values,
        varying: Sequence[str] = (),
        shapes: dict[Key, Shape] | None = None,
    ) -> None:
        self.heads, self.values, self.varying = heads, values, varying
        self.shapes: dict[Key, Shape] = shapes or {}


def _nothing(*_: object) -> tuple[Key, Key]:
    return (), ()


NO_NAMES: Final = Names((), _nothing)
ODD_NAMES: Final = Names((), _nothing, (), {(): Shape("odd_attribute")})


class ScopeShapes:
    """Spans of one scope of one resource, from one sender."""

    __slots__ = ("by_heads", "last", "service")

    def __init__(self, service: str | None) -> None:
        self.service = service
        self.by_heads: dict[tuple[bytes, ...], Names] = {}
        self.last: dict[int, Names] = {}
        """Number of attributes -> the names that spans with so many had last."""

    def names_of(self, entries: Sequence[bytes]) -> Names:
        """Those of the attributes *entries*."""
        last = self.last.get(len(entries), NO_NAMES)
        if last.heads and all(map(bytes.startswith, entries, last.heads)):
            return last
        try:
            found = self.by_heads.get(heads_of(entries), NO_NAMES)
        except OddAttribute:
            found = ODD_NAMES
        if found.values is not _nothing:  # these distinguish no span from one with other names
            self.last[len(entries)] = found
        return found


class ShapeMemory:
    """All that was learnt, within a bound. Shared by threads: what is being read sees it change."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._unread = UnreadAttributes()
        self._lock = Lock()
        self.scopes: dict[ScopeKey, ScopeShapes] = {}
        self.bytes = 0
        """About how much it takes."""

    def learn(
        self,
        scope: ScopeKey,
        service: str | None,
        entries: Sequence[bytes],
        roles: Mapping[str, Role],
        *,
        reads_name: bool,
        refused: str,
    ) -> None:
        """Note how spans of a scope with the names of the attributes *entries* are read; *refused*:
        why the rules read all of them. What is known stays.
        """
        heads = heads_of(entries)
        if len(set(heads)) < len(heads) or len(heads) > MAX_ATTRIBUTES:
            refused = "repeated_name" if len(heads) <= MAX_ATTRIBUTES else "many_attributes"
        if refused:
            names = Names(heads, _nothing, (), {(): Shape(refused)})
        else:
            names = Names(heads, *values_of(heads, roles, self._unread, reads_name=reads_name))
        with self._lock:
            if self.bytes >= self._max_bytes:
                self._clear()
            found = self.scopes.setdefault(scope, ScopeShapes(service))
            if heads not in found.by_heads:
                found.by_heads[heads] = names
                self.bytes += sum(map(len, scope[1:])) + 6 * sum(map(_bytes_of, heads))

    def teach(
        self, scope: ScopeKey, entries: Sequence[bytes], rest: tuple[Any, ...], lesson: Lesson | None, refused: str
    ) -> None:
        """Add *lesson* to the shape of a span with *entries* and, as `Values` takes it, the *rest*.
        *refused*: why the rules read the spans that it holds for, or without it all of the shape.
        `learn` comes before.
        """
        found = self.scopes.get(scope)
        if found is None:
            return
        names = found.names_of(entries)
        key, _ = names.values(entries, *rest)
        if names.values is _nothing:
            return
        learnt = None if lesson is None else Learnt(run_of(lesson, names.varying), lesson, found.service, refused)
        with self._lock:
            shape = names.shapes.get(key)
            if shape is None:
                shape = names.shapes[key] = Shape()
                self.bytes += sum(map(_bytes_of, key))
            if learnt is None:
                shape.refuse(refused)
            else:
                self.bytes += shape.add(learnt)

    def clear(self) -> None:
        """Forget everything: prices or rules changed."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self.scopes.clear()
        self.bytes = 0


def _bytes_of(part: object) -> int:
    return _ENTRY_BYTES + (len(part) if isinstance(part, bytes | str) else 0)
