"""The table of the record's fields: what a row holds, and the table read off the types. Pure.

A row is the annotation of a field in `spool.record`. The field's name and type are in the same
line: which values it may have, whether it may be absent or null. All that knows the fields of a
record follows from the table: the check of a record from outside, how two observations of a call
become one, spans, `explain`, the generic mapping, OpenAPI, the pages.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

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


class Form(Enum):
    """Which values a field may have, with their unit."""

    SCHEMA = auto()
    RECORD_ID = auto()
    TRACE_ID = auto()
    SPAN_ID = auto()
    NAME = auto()
    """An id or a name, one word."""
    MODEL = auto()
    """The name of a model, a deployment or a library: one word, or a few."""
    WHO = auto()
    """A text of at most 256 characters."""
    TIME = auto()
    """RFC 3339 UTC with milliseconds."""
    AMOUNT = auto()
    """A decimal number as text."""
    CURRENCY = auto()
    """ISO 4217."""
    COUNT = auto()
    TOKENS = auto()
    MS = auto()
    # These follow from the type.
    TRUTH = auto()
    WORD = auto()
    """One of the words of a Literal."""
    FLAGS = auto()
    LABELS = auto()
    NUMBERS = auto()
    PART = auto()
    """An object with fields of its own."""


_TYPES: Final = {bool: Form.TRUTH, dict[str, str]: Form.LABELS, dict[str, int | float]: Form.NUMBERS}
_FREE: Final = frozenset({Form.LABELS, Form.NUMBERS})


class Row(NamedTuple):
    """What the table has of a field besides its type."""

    means: str
    """Its line in `docs/formats.md`."""
    merge: Merge
    words: tuple[str, ...] = ()
    """What conventions call it (`gateway.normalise.conventions.shared`): the first that has a value
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
    """Of `Form.WORD`."""
    part: type | None
    """Of `Form.PART`: its TypedDict."""
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
        return self.form in _FREE


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
    for name, hint in get_type_hints(part, include_extras=True).items():
        field = _field((*above, name), hint, is_required=name in required)
        yield field
        if field.part is not None:
            yield from _fields(field.part, field.path)


def _field(path: Path, hint: Any, *, is_required: bool) -> Field:
    notes: list[Any] = []
    kinds = list(_unwrapped(hint, notes))
    row = next((note for note in notes if isinstance(note, Row)), None)
    plain = [kind for kind in kinds if kind is not type(None)]
    form = next((note for note in notes if isinstance(note, Form)), None) or _form_of(plain[0])
    if row is None or form is None or len(plain) != 1:
        raise TypeError(f"{'.'.join(path)}: needs one type with a form, and a Row")
    words = get_args(plain[0]) if form is Form.WORD else ()
    part = plain[0] if form is Form.PART else None
    return Field(path, form, row, words, part, is_required, type(None) in kinds)


def _unwrapped(hint: Any, notes: list[Any]) -> Iterator[Any]:
    """The types that *hint* allows; what they are annotated with is added to *notes*."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        notes += args[1:]
        yield from _unwrapped(args[0], notes)
    elif origin in {NotRequired, Required}:
        yield from _unwrapped(args[0], notes)
    elif origin in {Union, UnionType}:
        for arg in args:
            yield from _unwrapped(arg, notes)
    else:
        yield hint


def _form_of(kind: Any) -> Form | None:
    if is_typeddict(kind):
        return Form.PART
    if get_origin(kind) is Literal:
        return Form.WORD
    return Form.FLAGS if get_origin(kind) is list else _TYPES.get(kind)


def check_once(what: str, names: Iterable[str]) -> None:
    """Raises ValueError for a name that comes twice."""
    counted = Counter(name for name in names if name not in {"", IN_SPAN})
    twice = [name for name, times in counted.items() if times > 1]
    if twice:
        raise ValueError(f"two fields claim the {what} {', '.join(twice)}")
