"""The table of the record's fields: what a row holds, and the table read off the types. Pure.

A row is the annotation of a field in `spool.record`. The field's name and type are in the same
line: which values it may have, whether it may be absent or null. All that knows the fields of a
record follows from the table: the check of a record from outside, how two observations of a call
become one, spans, `explain`, the generic mapping, OpenAPI, the pages.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints, is_typeddict

Path = tuple[str, ...]
"""A field of the record: `("usage", "input_tokens")`."""

Merge = Literal[
    "first",  # of the fullest observation, also where that does not have it
    "fill",  # of the fullest observation that has it
    "any",  # true if one observation says so
    "join",  # the names of all observations; where two have one, that of the fuller one
    "each",  # each of its fields by the field's own row
    "together",  # with the part of the record that it is in
    "whole",  # a sum of tokens: filled, and with it the status of the usage
    "part",  # tokens: filled if all parts of the `whole` add up to no more than it
    "within",  # tokens: filled if they are no more than the `whole`
    "own",  # by a rule of its own, in `gateway.counting.calls.merge`
]
"""How two observations of one call become one value."""

IN_SPAN: Final = "span"
"""`Row.attribute` of a field that a span has no attribute for: its times and its status."""


Form = Literal[
    "schema", "record_id", "trace_id", "span_id", "name", "model", "who", "time", "amount", "currency", "count", "tokens", "ms",
    "truth", "word", "flags", "labels", "numbers", "part",
]  # fmt: skip
"""Which values a field may have, with their unit. `spool.record` has those of the first line as
types; the others follow from a type: bool, the words of a Literal, a list, texts or numbers under
names of the sender's, an object with fields of its own."""
_FORMS: Final[dict[Any, Form]] = {bool: "truth", dict[str, str]: "labels", dict[str, int | float]: "numbers"}


class Row(NamedTuple):
    """What the table has of a field besides its type."""

    means: str
    """Its line in `docs/formats.md`."""
    merge: Merge
    words: tuple[str, ...] = ()
    """What conventions call it (`gateway.rules.conventions.shared`): the first that has a value
    is the field's. Empty for what the gateway finds out or sets itself."""
    attribute: str = ""
    """Of a span, by OpenTelemetry's conventions; without it `telemetry_gateway.` and the path."""
    resource: str = ""
    """The same, of the resource."""
    whole: str = ""
    """The tokens that these are a part of."""
    absent: str = ""
    """What its absence means, where that is not "unknown"; a record from outside may lack it."""
    described: str = ""
    """Its description in OpenAPI, where its name does not say it."""
    is_needed: bool = False
    """A record from outside that lacks it is refused, though its type does not ask for it."""
    is_list: bool = False
    """It is one text here and a list of one in a span."""
    is_dimension: bool = False
    """A unit-cost stream can be divided by it."""


class Field(NamedTuple):
    """A field of the record, or of a part of it."""

    path: Path
    form: Form
    row: Row
    words: tuple[str, ...]
    """Of the form `word`."""
    is_required: bool
    """Every record has it, if only as null."""
    is_nullable: bool

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def is_needed(self) -> bool:
        """A record from outside without it is refused."""
        return self.row.is_needed or not (self.row.absent or self.is_nullable or not self.is_required)

    @property
    def is_free(self) -> bool:
        """The names in it are the sender's."""
        return self.form in {"labels", "numbers"}


class Table(tuple[Field, ...]):
    """All fields, each part before its own fields."""

    __slots__ = ()

    def of(self, part: str = "") -> tuple[Field, ...]:
        """The fields of the record itself, or of one part."""
        above = (part,) if part else ()
        return tuple(field for field in self if field.path[:-1] == above)

    def merged(self, merge: Merge, part: str = "") -> tuple[str, ...]:
        """Names of the fields of a part that observations are merged in by *merge*."""
        return tuple(field.name for field in self.of(part) if field.row.merge == merge)

    def parts_of(self, whole: str) -> tuple[str, ...]:
        """Names of the tokens that add up to no more than *whole*."""
        return tuple(field.name for field in self if field.row.merge == "part" and field.row.whole == whole)


def table_of(record: type) -> Table:
    """The table in the annotations of *record*. Raises TypeError for a field without a row, and
    ValueError for a name that two fields claim.
    """
    table = Table(_fields(record, ()))
    check_once("attribute", (name for field in table for name in (field.row.attribute, field.row.resource)))
    check_once("word", (word for field in table if len(field.row.words) == 1 for word in field.row.words))
    check_once("name in a mapping", (field.name for field in table if field.row.words))
    for field in table:
        whole = (*field.path[:-1], field.row.whole)
        if (field.row.merge in {"part", "within"}) != (whole in {each.path for each in table}):
            raise ValueError(f"{'.'.join(field.path)}: a part, and only a part, names its whole")
    return table


def _fields(part: type, above: Path) -> Iterator[Field]:
    required: frozenset[str] = part.__required_keys__  # type: ignore[attr-defined]  # a TypedDict
    kinds = get_type_hints(part)
    for name, hint in get_type_hints(part, include_extras=True).items():
        path, kind, notes = (*above, name), kinds[name], list(_notes(hint))
        if is_nullable := type(None) in get_args(kind):
            (kind,) = (each for each in get_args(kind) if each is not type(None))
        row = next((note for note in notes if isinstance(note, Row)), None)
        form: Form | None = next((note for note in notes if note in get_args(Form)), None) or _form_of(kind)
        if row is None or form is None:
            raise TypeError(f"{'.'.join(path)}: needs a type with a form, and a Row")
        yield Field(path, form, row, get_args(kind) if form == "word" else (), name in required, is_nullable)
        if form == "part":
            yield from _fields(kind, path)


def _notes(hint: Any) -> Iterator[Any]:
    """What *hint*, and what is in it, is annotated with."""
    yield from getattr(hint, "__metadata__", ())
    for inner in get_args(hint):
        yield from _notes(inner)


def _form_of(kind: Any) -> Form | None:
    if is_typeddict(kind):
        return "part"
    return "word" if get_origin(kind) is Literal else "flags" if get_origin(kind) is list else _FORMS.get(kind)


def check_once(what: str, names: Iterable[str]) -> None:
    """Raises ValueError for a name that comes twice."""
    if twice := [name for name, times in Counter(names).items() if times > 1 and name not in {"", IN_SPAN}]:
        raise ValueError(f"two fields claim the {what} {', '.join(twice)}")
