"""Values that carry their origin, and documents that note which of their names are read. Pure.

Only an explanation makes them (`recording`). Sources and conventions read them with their
ordinary code: a `Text` is a `str`, a `Whole` an `int`, a `TracedObject` a `dict`. Ingest
makes none, so it pays nothing for them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

By = Literal[
    "item",  # an attribute of the item itself, a path in its document
    "text",  # inside an attribute's text: JSON, a raw answer
    "event",  # an attribute of an event on the span
    "resource",  # an attribute of the resource
    "scope",  # the instrumentation scope
    "envelope",  # ids, times, status of the span or log record
    "rule",  # a rule of the convention
    "default",  # no input stated it
    "price_list",
    "other_item",  # another item of the payloads
]

_SAFE_NAME = re.compile(r"[\w-]+([./:][\w-]+)*", re.ASCII)
_MAX_NAME_CHARS = 128
UNSHOWN = "(a name that is not shown)"
_ANY = "*"


class Leaf(NamedTuple):
    """One place in the input."""

    by: By
    path: tuple[str, ...]
    """Names from the document's root, `*` for an entry of a list; of an
    attribute its name alone."""


class Origin:
    """The leaves that a value was made of, and the recording they belong to."""

    __slots__ = ("leaves", "passed", "recording")

    def __init__(self, leaves: Iterable[Leaf], recording: "Recording", passed: Iterable[Leaf] = ()) -> None:
        """*passed*: leaves that a reader preferred these to."""
        self.leaves = tuple(dict.fromkeys(leaves))
        self.passed = tuple(passed)
        self.recording = recording

    def __add__(self, other: "Origin") -> "Origin":
        return Origin((*self.leaves, *other.leaves), self.recording, (*self.passed, *other.passed))

    def inside(self) -> "Origin":
        """The same leaves, as texts that hold the value."""
        return Origin((leaf._replace(by="text") for leaf in self.leaves), self.recording)


class Recording:
    """The reads of one explanation, in their order."""

    def __init__(self, *, of_attributes: bool = True) -> None:
        """*of_attributes*: a constant follows from the value read last.

        A document is read in a row, so there none does.
        """
        self._of_attributes = of_attributes
        self.reads: list[tuple[Origin, Any]] = []
        self.asked: set[str] = set()
        """Names that code or configuration asked for: only these are shown."""
        self.base: tuple[str, ...] = ()
        """Path of the item whose names are shown: they begin below it."""

    def note_read(self, origin: Origin, value: Any) -> None:
        if value is not None and not isinstance(value, dict | list):
            self.reads.append((origin, value))

    def source_of(self, value: Any) -> Origin | None:
        """The origin of a value that is written; None for a constant of a rule that reads
        documents.
        """
        return origin_of(value) or (self.reads[-1][0] if self._of_attributes and self.reads else None)

    def traced(self, value: Any) -> Any:
        """*value*, a whole document, with origins in it; values that carry one keep it."""
        return _traced(value, (), None, self)

    def shown(self, leaf: Leaf) -> str:
        """The leaf's name: of its path the parts that were asked for."""
        path = leaf.path[len(self.base) :] if leaf.path[: len(self.base)] == self.base else leaf.path
        parts = [part if part in self.asked else _ANY for part in path]
        return ".".join(parts) if any(part != _ANY for part in parts) else UNSHOWN


_RECORDING: ContextVar[Recording | None] = ContextVar("recording", default=None)


def active_recording() -> Recording | None:
    """The recording of the explanation under way; None while ingesting."""
    return _RECORDING.get()


@contextmanager
def recording() -> Iterator[Recording]:
    """Record what the code inside picks from documents."""
    made = Recording(of_attributes=False)
    token = _RECORDING.set(made)
    try:
        yield made
    finally:
        _RECORDING.reset(token)


def shown(name: str) -> str:
    """*name* if it has the form of an attribute's name: a generic table matches
    names by their last word only.
    """
    return name if len(name) <= _MAX_NAME_CHARS and _SAFE_NAME.fullmatch(name) else UNSHOWN


def origin_of(value: Any) -> Origin | None:
    """The origin that *value* carries."""
    return value.origin if isinstance(value, Text | Whole | Real) else None


# ---- values


class Text(str):
    """A text with its origin; parts of it keep that."""

    __slots__ = ("origin",)
    origin: Origin


class Whole(int):
    """A whole number with its origin; sums have those of their parts."""

    origin: Origin


class Real(float):
    """A number with its origin."""

    origin: Origin


def carried(value: Any, origin: Origin | None) -> Any:
    """*value* with *origin*; a boolean, None or a container as it is."""
    kind = next((kind for plain, kind in _KINDS if type(value) in {plain, kind}), None)
    if kind is None or origin is None:
        return value
    made = kind(value)
    made.origin = origin
    return made


_KINDS: tuple[tuple[type, type], ...] = ((str, Text), (int, Whole), (float, Real))


def _keeping(name: str) -> Any:
    plain = getattr(str, name)

    def method(self: Text, *arguments: Any, **named: Any) -> Any:
        made = plain(self, *arguments, **named)
        if isinstance(made, str):
            return carried(made, self.origin)
        return type(made)(carried(part, self.origin) for part in made)

    return method


for _name in ("__getitem__", "strip", "lstrip", "rstrip", "lower", "upper", "removeprefix", "removesuffix", "replace",
              "partition", "rpartition", "split", "rsplit"):  # fmt: skip
    setattr(Text, _name, _keeping(_name))


def _joining(kind: type, name: str) -> Any:
    plain = getattr(kind, name)

    def method(self: Any, other: Any) -> Any:
        made, theirs = plain(self, other), origin_of(other)
        if made is NotImplemented:
            return made
        return carried(made, self.origin if theirs is None else self.origin + theirs)

    return method


def _as_text(value: Any) -> Any:
    return carried(repr(value), value.origin)


for _kind in (Whole, Real):
    for _name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__floordiv__", "__truediv__"):
        setattr(_kind, _name, _joining(_kind.__bases__[0], _name))
    _kind.__str__ = _as_text  # type: ignore[method-assign]


# ---- documents


class TracedObject(dict[str, Any]):
    """A JSON object whose values carry their origins."""

    def __init__(
        self, value: Mapping[str, Any], path: tuple[str, ...], inside: Origin | None, record: Recording
    ) -> None:
        """*inside*: of an object that was read out of a text, that text's origin."""
        self._path = path
        self._inside = inside
        self._recording = record
        super().__init__((_Key(name), _traced(part, (*path, name), inside, record)) for name, part in value.items())

    def _note(self, name: str) -> None:
        if type(name) is str:
            self._recording.asked.add(name)
        self._recording.note_read(self.origin(name), dict.get(self, name))

    def origin(self, name: str) -> Origin:
        """Of the member *name*."""
        path = Leaf("item", (*self._path, name))
        return origin_of(dict.get(self, name)) or self._inside or Origin([path], self._recording)

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return dict.get(self, name, default)

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return dict.__getitem__(self, name)

    def __contains__(self, name: object) -> bool:
        if type(name) is str:
            self._recording.asked.add(name)
        return dict.__contains__(self, name)


class _Key(str):
    """A name of the input: unlike one that code asks for it is no plain `str`."""

    __slots__ = ()


def _traced(value: Any, path: tuple[str, ...], inside: Origin | None, record: Recording) -> Any:
    if isinstance(value, TracedObject):
        return value
    if isinstance(value, dict):
        return TracedObject(value, path, inside, record)
    if isinstance(value, list):
        return [_traced(part, (*path, _ANY), inside, record) for part in value]
    return carried(value, origin_of(value) or inside or Origin([Leaf("item", path)], record))
