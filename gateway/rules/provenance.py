"""Extraction with provenance: which name gave each picked value, and which names were
present and passed over. Pure.

The values are those of `pick`; here each name that a table maps is read by itself beside it.
What a convention or a source then writes is noted with the origin that the value carries. A
constant without one follows from the attribute that was read last (`traced.Recording.source_of`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from gateway.common.traced import By, Leaf, Origin, Recording, active_recording, carried, origin_of, shown
from gateway.read.view import AnyValue, Attributes, Span
from gateway.rules.extract import AttributeTable, Extracted, pick, read_value
from gateway.rules.tags import Tags, is_value

_DICTS = ("texts", "counts", "numbers", "who")
_V = TypeVar("_V")


class Provenance(NamedTuple):
    """Where a value came from."""

    by: By
    attributes: tuple[str, ...] = ()
    """Names, as sent; more than one where a value is made of several."""
    passed_over: tuple[str, ...] = ()
    """Names present that could have given it: without them the value is the same."""


def joined(parts: Sequence[Provenance]) -> Provenance:
    """Several origins of one value as one."""
    attributes = tuple(dict.fromkeys(name for part in parts for name in part.attributes))
    passed = dict.fromkeys(name for part in parts for name in part.passed_over if name not in attributes)
    return Provenance(parts[0].by, attributes, tuple(passed))


def stated_by(recording: Recording, leaves: Sequence[Leaf], passed: Iterable[Leaf] = ()) -> Provenance:
    """Of a value that was made of *leaves*, preferred to *passed*; without any, a rule."""
    names = dict.fromkeys(map(recording.shown, leaves))
    others = dict.fromkeys(name for name in map(recording.shown, passed) if name not in names)
    by: By = next((leaf.by for leaf in leaves if leaf.by == "text"), leaves[0].by if leaves else "rule")
    return Provenance(by, tuple(names), tuple(others))


def carried_by(recording: Recording, *values: Any) -> Provenance:
    """Of what is made of *values*, by the origins that they carry."""
    origins = [origin for value in values if (origin := origin_of(value)) is not None]
    passed = [leaf for origin in origins for leaf in origin.passed]
    return stated_by(recording, [leaf for origin in origins for leaf in origin.leaves], passed)


class _Written(NamedTuple):
    """One field as it was last written."""

    leaves: tuple[Leaf, ...]
    passed: tuple[Leaf, ...] = ()


class RecordedExtracted(Extracted):
    """Extracted values that note where each was written from."""

    __slots__ = ("recording", "written")

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.written: dict[str, _Written] = {}
        for name in _DICTS:
            setattr(self, name, _RecordedValues(self))

    @classmethod
    def of(cls, picked: Extracted, recording: Recording) -> "RecordedExtracted":
        """*picked* as it is now; where nothing was recorded, by
        the origins that its values carry.
        """
        if isinstance(picked, cls):
            return picked.copy()
        made = cls(recording)
        for name in _DICTS:
            values = getattr(picked, name)
            dict.update(getattr(made, name), values)
            for field, value in values.items():
                origin = origin_of(value)
                made.written[field] = _Written(() if origin is None else origin.leaves)
        made.other = picked.other
        return made

    def copy(self) -> "RecordedExtracted":
        """As it is now; what is written later is not in it."""
        made = RecordedExtracted(self.recording)
        for name in _DICTS:
            dict.update(getattr(made, name), getattr(self, name))
        made.other = None if self.other is None else dict(self.other)
        made.written = dict(self.written)
        return made

    def values(self) -> dict[str, Any]:
        """Every value by its field."""
        return {**(self.other or {}), **self.who, **self.numbers, **self.counts, **self.texts}

    def provenance(self, field: str) -> Provenance | None:
        """Where the value of *field* came from; None where it has none."""
        if field not in self.values():
            return None
        written = self.written.get(field)
        if written is None:
            origin = origin_of(self.values()[field])
            written = _Written(() if origin is None else origin.leaves)
        return stated_by(self.recording, written.leaves, written.passed)

    def provenances(self) -> dict[str, Provenance]:
        """Of each field that has a value."""
        return {field: found for field in self.values() if (found := self.provenance(field)) is not None}

    def note_names(self, field: str, found: Sequence[tuple[Leaf, Any]]) -> None:
        """*found*: the leaves that hold a value of *field*, best first, each
        with what it gives by itself.
        """
        values = next((getattr(self, name) for name in _DICTS if dict.__contains__(getattr(self, name), field)), None)
        value = (self.other or {}).get(field) if values is None else dict.__getitem__(values, field)
        won = next((leaf for leaf, each in found if each == value), None)
        if won is None:
            return
        self.written[field] = _Written((won,), tuple(leaf for leaf, _ in found if leaf != won))
        if values is not None:
            dict.__setitem__(values, field, carried(value, Origin((won,), self.recording)))

    def note_paths(self, field: str, found: Sequence[tuple[str, Any]]) -> None:
        """The same for paths in a document, which a table of ours or the operator's asks for."""
        self.recording.asked.update(path for path, _ in found)
        self.note_names(field, [(Leaf("item", (path,)), value) for path, value in found])

    def note_write(self, field: str, value: Any, before: _Written | None) -> None:
        """*value* is written; what *before* gave is passed over,
        unless the value is made of it.
        """
        origin = self.recording.source_of(value)
        leaves = () if origin is None else origin.leaves
        others = (
            *(() if origin is None else origin.passed),
            *(() if before is None else (*before.leaves, *before.passed)),
        )
        self.written[field] = _Written(leaves, tuple(leaf for leaf in others if leaf not in leaves))

    def note_passed(self, field: str, value: Any) -> None:
        """*value* would be written, had the field none."""
        origin = self.recording.source_of(value)
        if origin is not None and field in self.written:
            written = self.written[field]
            self.written[field] = written._replace(passed=(*written.passed, *origin.leaves))


def extracted() -> Extracted:
    """No values yet; in an explanation it notes where each that is written comes from."""
    recording = active_recording()
    return Extracted() if recording is None else RecordedExtracted(recording)


class _RecordedValues(dict[str, _V]):
    """Values of one kind."""

    def __init__(self, picked: RecordedExtracted) -> None:
        super().__init__()
        self._picked = picked

    def __setitem__(self, field: str, value: _V) -> None:
        self._picked.note_write(
            field, value, self._picked.written.get(field) if dict.__contains__(self, field) else None
        )
        written = self._picked.written[field]
        origin = Origin(written.leaves, self._picked.recording) if written.leaves else None
        super().__setitem__(field, carried(value, origin))

    def update(self, values: Mapping[str, _V]) -> None:  # type: ignore[override]
        for field, value in values.items():
            self[field] = value

    def setdefault(self, field: str, value: _V) -> _V:
        if dict.__contains__(self, field):
            self._picked.note_passed(field, value)
        else:
            self[field] = value
        return dict.__getitem__(self, field)

    def __contains__(self, field: object) -> bool:
        self._note_read(str(field))
        return dict.__contains__(self, field)

    def _note_read(self, field: str) -> None:
        written = self._picked.written.get(field)
        if written is not None and dict.__contains__(self, field):
            origin = Origin(written.leaves, self._picked.recording)
            self._picked.recording.note_read(origin, dict.__getitem__(self, field))

    def __getitem__(self, field: str) -> _V:
        self._note_read(field)
        return dict.__getitem__(self, field)

    def get(self, field: str, default: Any = None) -> Any:
        self._note_read(field)
        return dict.get(self, field, default)

    def pop(self, field: str, *default: Any) -> Any:
        self._note_read(field)
        return dict.pop(self, field, *default)


def pick_recorded(
    attributes: Attributes, table: AttributeTable, recording: Recording, by: By = "item"
) -> RecordedExtracted:
    """The values that `pick` gives, each with its provenance."""
    names = tuple(attributes)
    plain, picked = pick(attributes, names, table), RecordedExtracted(recording)
    for name in _DICTS:
        dict.update(getattr(picked, name), getattr(plain, name))
    picked.other = plain.other
    found: dict[str, list[tuple[Leaf, Any]]] = {}
    ranked = sorted((interest[1], interest[0], name, interest[2]) for name in names if (interest := table[name]))
    for _, field, name, kind in ranked:
        alone = Extracted()
        read_value(alone, field, kind, attributes[name])
        value = alone.value(field)
        if value is not None:
            recording.asked.add(shown(name))
            found.setdefault(field, []).append((Leaf(by, (shown(name),)), value))
    for field, leaves in found.items():
        picked.note_names(field, leaves)
    return picked


def add_tags(picked: RecordedExtracted, attributes: Attributes, tags: Tags, by: By = "item") -> None:
    """As `Tags.add_of`, with the provenance of each."""
    for field, value in pick_recorded(attributes, tags.interests, picked.recording, by).who.items():
        if is_value(value):
            picked.who[field] = value


class TracedValue:
    """An attribute's value, whose text or number carries where it is."""

    __slots__ = ("_origin", "_value")

    def __init__(self, value: AnyValue, origin: Origin) -> None:
        self._value = value
        self._origin = origin

    def __getattr__(self, name: str) -> Any:
        return carried(getattr(self._value, name), self._origin)


class TracedSpan(NamedTuple):
    """The attributes and events of a span, and of an event, whose values carry where they are."""

    name: str
    attributes: Attributes
    events: tuple["TracedSpan", ...] = ()

    @classmethod
    def of(cls, span: Span, recording: Recording) -> "TracedSpan":
        """All that a rule reads of *span* besides its envelope."""
        events = tuple(cls(event.name, _traced(event.attributes, recording, "event")) for event in span.events)
        return cls(span.name, _traced(span.attributes, recording, "item"), events)


def _traced(attributes: Attributes, recording: Recording, by: By) -> Attributes:
    names = {name: shown(name) for name in attributes}
    recording.asked.update(names.values())
    return {name: TracedValue(attributes[name], Origin([Leaf(by, (names[name],))], recording)) for name in names}


def deciding(picked: RecordedExtracted, decide: Callable[[], str]) -> tuple[str, Provenance | None]:
    """What *decide*, which reads *picked*, decides, and the value that it read last
    before; None where it read none.
    """
    reads = picked.recording.reads
    first = len(reads)
    decided = decide()
    if len(reads) == first:
        return decided, None
    leaves = reads[-1][0].leaves
    return decided, Provenance(leaves[0].by, tuple(map(picked.recording.shown, leaves)))
