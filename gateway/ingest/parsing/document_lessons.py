"""A JSON document in the place of all others of its shape, and what its source's rules make of it
(`gateway.ingest.parsing.lessons`). Pure.

The rules read it as any document. Numbers that vary are recorded as they compute with them, and
texts that vary have letters of their form. What a rule reads beside the source's leaves is refused.
"""

import uuid
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple, NoReturn

from gateway.common.varying import Computation, FormedText, VaryingText
from gateway.ingest.parsing.document_values import (
    ABSENT,
    COUNT,
    HEX,
    NO_NAMES,
    REAL,
    UNREAD,
    UUID,
    Form,
    Key,
    Profile,
    SameText,
    varying_of,
)
from gateway.ingest.parsing.lessons import Lesson, call_lesson
from gateway.ingest.parsing.parse import stamped
from gateway.normalise.context import Context
from gateway.normalise.templates import Refused, Stand
from gateway.pricing.prices import Prices
from gateway.sources.documents import Document
from gateway.sources.source import Source, SourceRead

NOT_A_CALL: Final = "not_a_call"


class DocumentLesson(NamedTuple):
    lesson: Lesson
    texts: list[FormedText]
    """Those that stand for others, by number."""


def document_lesson(
    source: Source,
    names: frozenset[str],
    seen: tuple[Profile, Key, tuple[Any, ...]],
    context: Context,
    prices: Prices,
    stands: Stand,
    computation: Computation,
) -> DocumentLesson:
    """What documents of one shape come to.

    *names*: of the document itself; *seen*: its profile, key, and what varies in it. What is
    computed is recorded in *computation*. Raises Refused for what no lesson states, and whatever
    code raises that cannot work with what stands for a value.
    """
    texts: list[FormedText] = []
    received: Any = computation.given("received_ms", context.received_at_ms, is_time=True)
    general = context._replace(received_at_ms=received, received_at=stands.received_at)
    out = SourceRead()
    source.read([Document("", _standing(names, seen, computation, stands, texts))], out, general)
    calls = out.calls
    if calls.items != 1 or calls.rejected or out.measured.items or out.threads or out.threads_of_calls or out.answer:
        raise Refused("rejected" if calls.rejected else "related")
    if calls.links or calls.bearers or calls.stated or calls.suppressed.keys() - {NOT_A_CALL}:
        raise Refused("related")
    call = None
    if calls.calls:
        (read,) = stamped(calls.calls, general)
        if read.span_id or read.trace_id or read.group or not isinstance(read.record["record_id"], VaryingText):
            raise Refused("identity")
        call = call_lesson(read, computation, prices, stands._replace(texts=tuple(texts)))
    lesson = Lesson(computation.nodes, computation.conditions, bool(calls.ignored), bool(calls.suppressed), None, call)
    return DocumentLesson(lesson, texts)


def _standing(
    names: frozenset[str],
    seen: tuple[Profile, Key, tuple[Any, ...]],
    computation: Computation,
    stands: Stand,
    texts: list[FormedText],
) -> "_Observed":
    """The document, with what stands for each value that varies."""
    profile, key, values = seen
    known = {path: value for (path, _), value in zip(profile.places, key, strict=True) if value is not UNREAD}
    if any(isinstance(value, float | list | dict) for value in known.values()):
        raise Refused("other_value")
    lists = {path for path, kind in profile.places if kind == "list"}
    objects = {path for path, kind in profile.places if kind == "object"}
    for (place, name), value in zip(varying_of(profile), values, strict=True):
        path, form = profile.places[place][0], key[place]
        if isinstance(form, Form) and form is not ABSENT:
            known[path] = _stand_for(
                form, int(name.lstrip("abcdefghijklmnopqrstuvwxyz")), value, computation, stands, texts
            )
    return _Observed((), _Known(known, objects, lists, names))


def _stand_for(
    form: Form, number: int, value: Any, computation: Computation, stands: Stand, texts: list[FormedText]
) -> Any:
    if form is COUNT:
        return computation.given("count", value, number)
    if form is REAL:
        return computation.given_real(number, value)
    if isinstance(form, SameText):
        return texts[form.number]
    while len(texts) <= number:
        texts.append(_text(form, len(texts), stands, texts))
    return texts[number]


def _text(form: Form, number: int, stands: Stand, among: list[FormedText]) -> FormedText:
    digits = sha256(stands.trace_id + stands.span_id + bytes([number])).hexdigest()[:32]
    letters = str(uuid.UUID(digits)) if form is UUID else digits if form is HEX else f"name.{digits[:20]}"
    text = FormedText(letters, number)
    text.absent, text.among = NO_NAMES, among
    return text


class _Known(NamedTuple):
    values: Mapping[tuple[str, ...], Any]
    """What is known at a path; of an object or list whether it is empty, or None or `ABSENT`."""
    objects: set[tuple[str, ...]]
    lists: set[tuple[str, ...]]
    names: frozenset[str]
    """Of the document itself."""


def _refuse(*_: object, **__: object) -> NoReturn:
    raise Refused("other_value")


class _Observed(dict[str, Any]):
    """An object of the document: only what is known of it can be read."""

    def __init__(self, path: tuple[str, ...], known: _Known, *, is_empty: bool = False) -> None:
        super().__init__()
        self._path, self._known, self._is_empty = path, known, is_empty

    def _at(self, name: str) -> Any:
        path, known = (*self._path, name), self._known
        if path not in known.values:
            if self._path or name in known.names:
                raise Refused("other_value")
            return ABSENT
        value = known.values[path]
        if value is None or value is ABSENT:
            return value
        if path in known.lists:
            return _ObservedList(path, known, is_empty=value)
        return _Observed(path, known, is_empty=value) if path in known.objects else value

    def get(self, name: str, default: Any = None) -> Any:
        value = self._at(name)
        return default if value is ABSENT else value

    def __getitem__(self, name: str) -> Any:
        value = self._at(name)
        if value is ABSENT:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        if not self._path:
            return name in self._known.names
        return self._at(str(name)) is not ABSENT

    def __len__(self) -> int:
        return int(not self._is_empty) if self._path else len(self._known.names)

    __iter__ = keys = values = items = copy = pop = popitem = setdefault = update = _refuse
    __eq__ = __or__ = __ror__ = __ior__ = __reversed__ = __setitem__ = __delitem__ = _refuse
    __hash__ = None


class _ObservedList(list[Any]):
    """A list of the document, of which only the first entry can be read."""

    def __init__(self, path: tuple[str, ...], known: _Known, *, is_empty: bool) -> None:
        super().__init__()
        self._path, self._known, self._is_empty = path, known, is_empty

    def __getitem__(self, index: Any) -> Any:
        if index != 0 or self._is_empty:
            raise Refused("other_value")
        return _Observed(self._path, self._known).get("*")

    def __len__(self) -> int:
        return int(not self._is_empty)

    def __iter__(self) -> Iterator[Any]:
        raise Refused("other_value")

    __contains__ = __eq__ = __reversed__ = index = count = copy = __add__ = _refuse
    __hash__ = None
