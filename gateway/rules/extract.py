"""One pass over an item's attributes: the few that a table maps become plain Python
values, all others stay unread.

The interest in each attribute name is decided once and remembered, so the pass costs
one look-up a name. Content is never copied out: a text that no table names is not even
turned into a Python string.
"""

from collections.abc import Callable, Mapping
from typing import Final

from gateway.read.view import AnyValue, Attributes
from gateway.rules.nested import numbers_json
from gateway.rules.texts import unquoted

MAX_TEXT_CHARS = 256
"""Longer values of mapped attributes are cut: no name or id is that long."""
MAX_COUNT = 1 << 40
"""A count of tokens beyond this is no count."""
_MAX_KEYS = 8192
_MAX_KEY_CHARS = 128
_MAX_OTHER = 32
_MAX_PLANS = 256
_MAX_PLAN_CHARS = 4096
_MAX_NUMBER_CHARS = 40


# How an attribute's value is read. Plain integers: this is compared once an attribute.
TEXT: Final = 0
"""A name or id, cut to MAX_TEXT_CHARS; numbers and booleans become text."""
COUNT: Final = 1
"""A whole number >= 0; also from a double or a decimal text."""
NUMBER: Final = 2
"""A float; also from a decimal text. Booleans are 0 and 1."""
FIRST: Final = 3
"""The first text of a list, of a list in JSON text, or the text itself."""
RAW: Final = 4
"""A whole text that is read further (JSON with usage, a raw answer) and then
dropped; of a map its numbers."""
OTHER: Final = 5
"""A number under a usage name that no table knows."""
WHO: Final = 6
"""As TEXT, but about the sender and its user: kept apart, for these are not about a model."""


OBJECT: Final = "raw_object"
"""Field of an attribute that holds a provider's own usage object, under any convention."""

Interest = tuple[str, int, int] | tuple[()]
"""Field, rank (0 is the name that wins; others count where no better name has a value) and kind.
Empty for no interest. A plain tuple: unpacking a NamedTuple takes twice the time."""

NO_INTEREST: Interest = ()

_NUMERIC = frozenset({NUMBER, OTHER})

PEOPLE: Final = ("user", "session", "team", "project")
"""Fields of the attribution that a placeholder does not fill, and that spans inherit."""
_PEOPLE: Final = frozenset(PEOPLE)
_PLACEHOLDERS = (
    "default_user_id", "default-user-id", "default_user", "default-user", "defaultUser", "anonymous", "Anonymous",
    "unknown", "Unknown", "None", "none", "null", "undefined", "n/a", "N/A",
)  # fmt: skip
NO_ONE: Final = frozenset(_PLACEHOLDERS) | frozenset(f'"{word}"' for word in _PLACEHOLDERS)
"""Words that senders write where they know no one (LiteLLM has the first for a key without a user),
also in JSON quotes: as absent, so that a name behind it counts."""


class Extracted:
    """The values of one item, by field."""

    __slots__ = ("counts", "numbers", "other", "texts", "who")

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.numbers: dict[str, float] = {}
        self.who: dict[str, str] = {}
        self.other: dict[str, int | float] | None = None

    def value(self, field: str) -> str | int | float | None:
        """The value of *field*, whatever its kind; None where it has none."""
        for values in (self.texts, self.counts, self.numbers, self.who, self.other or {}):
            if field in values:
                return values[field]
        return None

    def complete(self, other: "Extracted") -> None:
        """Take the values of *other* for the fields that have none."""
        for mine, theirs in (
            (self.texts, other.texts),
            (self.counts, other.counts),
            (self.numbers, other.numbers),
            (self.who, other.who),
        ):
            for field, value in theirs.items():
                mine.setdefault(field, value)  # type: ignore[arg-type]  # both of one kind

    def __repr__(self) -> str:
        """Names only: raw texts may hold content."""
        return f"Extracted({sorted([*self.texts, *self.counts, *self.numbers, *self.who])})"


class ExtractionPlan:
    """How one set of attribute names is read: for each field the name that
    wins, and the names behind it.
    """

    __slots__ = ("counts", "firsts", "has_object", "lower", "rest", "texts", "who")

    def __init__(self, names: tuple[str, ...], interests: Mapping[str, Interest]) -> None:
        self.texts: list[tuple[str, str]] = []
        self.counts: list[tuple[str, str]] = []
        self.firsts: list[tuple[str, str]] = []
        self.who: list[tuple[str, str]] = []
        self.rest: list[tuple[str, str, int]] = []
        self.lower: list[tuple[str, str, int]] = []
        """By rank: read where the winner has no value, or counts 0: senders write 0
        under the names they do not use."""
        lists = {TEXT: self.texts, COUNT: self.counts, FIRST: self.firsts, WHO: self.who}
        found = sorted((interest[1], interest[0], interest[2], name) for name in names if (interest := interests[name]))
        placed: set[str] = set()
        for _, field, kind, name in found:
            if field in placed:
                self.lower.append((field, name, kind))
            elif kind in lists:
                lists[kind].append((field, name))
            else:
                self.rest.append((field, name, kind))
            placed.add(field)
        self.has_object = OBJECT in placed
        """Whether some name holds a provider's usage object: most plans have none."""


NO_PLAN: Final = ExtractionPlan((), {})
"""Reads nothing."""


class AttributeTable(dict[str, Interest]):
    """Attribute name -> interest, and set of names -> plan.

    Both are made when first seen, and remembered within bounds.
    """

    def __init__(self, known: Mapping[str, Interest], decide: Callable[[str], Interest]) -> None:
        super().__init__(known)
        self._known = dict(known)
        self._decide = decide
        self.plans: dict[tuple[str, ...], ExtractionPlan] = {}

    def __missing__(self, key: str) -> Interest:
        interest = self._known[key] if key in self._known else self._decide(key)
        if len(key) <= _MAX_KEY_CHARS:
            if len(self) >= _MAX_KEYS:
                self.clear()
                self.update(self._known)
            self[key] = interest
        return interest

    def plan(self, names: tuple[str, ...]) -> ExtractionPlan:
        """The plan for *names*; instrumentations send few sets of names, so
        nearly all spans find theirs made.
        """
        known = self.plans.get(names)
        if known is not None:
            return known
        plan = ExtractionPlan(names, self)
        if sum(map(len, names)) <= _MAX_PLAN_CHARS:
            if len(self.plans) >= _MAX_PLANS:
                self.plans.clear()
            self.plans[names] = plan
        return plan


def pick(attributes: Attributes, names: tuple[str, ...], interests: AttributeTable) -> Extracted:
    """The mapped values of *attributes*, whose names are *names*.

    Empty texts and numbers that are none count as absent.
    """
    return pick_planned(attributes, interests.plan(names))


def pick_planned(attributes: Attributes, plan: ExtractionPlan) -> Extracted:  # noqa: C901 - the hot loop, unrolled by kind
    """The mapped values of *attributes*, which have the names that *plan* was made for."""
    picked = Extracted()
    texts, counts = picked.texts, picked.counts
    for field, name in plan.texts:
        value = attributes[name]
        text = value.string_value or _scalar_text(value)
        if text:
            texts[field] = text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS]
    for field, name in plan.counts:
        value = attributes[name]
        count = value.int_value or _count(value)
        if count is not None and 0 <= count <= MAX_COUNT:
            counts[field] = count
    for field, name in plan.firsts:
        value = attributes[name]
        text = value.string_value
        text = _first_in(text) if text else _first_of(value)
        if text:
            texts[field] = text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS]
    for field, name in plan.who:
        value = attributes[name]
        text = value.string_value or _scalar_text(value)
        if text and (text not in NO_ONE or field not in _PEOPLE):
            picked.who[field] = text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS]
    for field, name, kind in plan.rest:
        read_value(picked, field, kind, attributes[name])
    for field, name, kind in plan.lower:
        if field not in texts and not counts.get(field) and field not in picked.who and field not in picked.numbers:
            read_value(picked, field, kind, attributes[name])
    return picked


def read_value(picked: Extracted, field: str, kind: int, value: AnyValue) -> None:
    """One value of any kind."""
    if kind == COUNT:
        count = value.int_value or _count(value)
        if count is not None and 0 <= count <= MAX_COUNT:
            picked.counts[field] = count
    elif kind in _NUMERIC:
        number = _number(value)
        if number is not None:
            _keep_number(picked, field, kind, number)
    else:
        text = _text(kind, value)
        if text and not (kind == WHO and text in NO_ONE and field in _PEOPLE):
            (picked.who if kind == WHO else picked.texts)[field] = text


def _keep_number(picked: Extracted, field: str, kind: int, number: float) -> None:
    if kind == NUMBER:
        picked.numbers[field] = number
        return
    if picked.other is None:
        picked.other = {}
    if 0 < abs(number) <= MAX_COUNT and len(picked.other) < _MAX_OTHER:
        picked.other[field] = int(number) if number.is_integer() else number


def _text(kind: int, value: AnyValue) -> str:
    text = value.string_value
    if kind == RAW:
        return text or (numbers_json(value) if value.HasField("kvlist_value") else "")
    if kind == FIRST:
        return (_first_in(text) or _first_of(value))[:MAX_TEXT_CHARS]
    return (text or _scalar_text(value))[:MAX_TEXT_CHARS]


def _scalar_text(value: AnyValue) -> str:
    """A number or boolean as text; "" for anything else."""
    if value.int_value or value.HasField("int_value"):
        return str(value.int_value)
    if value.HasField("bool_value"):
        return "true" if value.bool_value else "false"
    if value.HasField("double_value"):
        number = value.double_value
        return str(int(number)) if number.is_integer() else repr(number)
    return ""


def _count(value: AnyValue) -> int | None:
    """The whole number in *value*; None when it is none. Called where
    the plain integer is 0 or absent.
    """
    if value.HasField("int_value"):
        return value.int_value
    number = None if value.HasField("bool_value") else _number(value)
    return int(number) if number is not None and number.is_integer() else None


def _number(value: AnyValue) -> float | None:
    """The finite number in *value*; None when it is none."""
    if value.HasField("double_value"):
        number = value.double_value
    elif value.HasField("int_value"):
        number = float(value.int_value)
    elif value.HasField("bool_value"):
        number = float(value.bool_value)
    else:
        number = _number_in(value.string_value)
    return number if abs(number) < float("inf") else None


def _number_in(text: str) -> float:
    """The number that *text* is, also under JSON quotes; NaN when it is none."""
    word = text.strip().strip('"').lower()
    if word in {"true", "false"}:
        return float(word == "true")
    if len(word) > _MAX_NUMBER_CHARS or "_" in word:  # Python would take 1_000
        return float("nan")
    try:
        return float(word)
    except ValueError:
        return float("nan")


def _first_of(value: AnyValue) -> str:
    for entry in value.array_value.values:
        return entry.string_value
    return ""


def _first_in(text: str) -> str:
    """The first word of a list in JSON or Python text; the text itself when it is no list."""
    if text.startswith("["):
        return text[1:].split(",", 1)[0].strip(" ]").strip("\"'")
    return unquoted(text)
