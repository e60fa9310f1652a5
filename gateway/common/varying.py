"""Numbers that vary from item to item of one shape, computed with by name, not by value. Pure.

Code that is given a `Varying` for a number runs as ever. Each operation is recorded, and each
comparison with its outcome: for every other item whose numbers give the same outcomes, the code
does the same. What cannot be recorded raises `NotVarying`, or TypeError: a `Varying` is no `int`,
so that no library reads its value unseen.
"""

from typing import Any, Final, NamedTuple, Self


class NotVarying(Exception):
    """The code does something with a value that varies which cannot be recorded."""


class Time(NamedTuple):
    """Milliseconds since the epoch as a text of RFC 3339; their place."""

    place: int


class Money(NamedTuple):
    """A price of 1e-15 units as a decimal text; its place."""

    place: int


_MAX_NODES: Final = 250
_MAX_DIVISOR: Final = (1 << 63) - 1


class Computation:
    """What was computed, in order, and which comparisons came out how."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, int, int], int] = {}
        self._conditions: dict[tuple[str, int, int], bool] = {}

    @property
    def nodes(self) -> list[tuple[str, int, int]]:
        """Operation and its operands: places of nodes before it, or plain numbers."""
        return list(self._places)

    @property
    def conditions(self) -> list[tuple[str, int, int, bool]]:
        """Comparison, places of both sides, outcome."""
        return [(*key, outcome) for key, outcome in self._conditions.items()]

    def given(self, name: str, value: int, number: int = 0, *, is_time: bool = False) -> "Varying":
        """The number *name* of the item, which is *value* in this one."""
        return Varying(self, self.place(name, number), value, is_time=is_time)

    def place(self, operation: str, left: int = 0, right: int = 0) -> int:
        """The place of a node; equal ones have one."""
        place = self._places.setdefault((operation, left, right), len(self._places))
        if place >= _MAX_NODES:
            raise NotVarying
        return place

    def note(self, test: str, left: "Varying", right: "Varying", outcome: bool) -> bool:  # noqa: FBT001 - the outcome, passed on
        """*outcome*, noted as that of the *test*."""
        if left.place != right.place:
            self._conditions[test, left.place, right.place] = outcome
        return outcome


class Varying:
    """A whole number of an item; `value` is what it is in this one."""

    __slots__ = ("computation", "is_time", "place", "value")

    def __init__(self, computation: Computation, place: int, value: int, *, is_time: bool = False) -> None:
        self.computation, self.place, self.value, self.is_time = computation, place, value, is_time

    def as_time(self) -> Any:
        return Time(self.place)

    def as_money(self) -> Any:
        return Money(self.place)

    def _with(self, other: Any) -> "Varying | None":
        if isinstance(other, Varying):
            return other
        if type(other) is not int:
            return None
        return Varying(self.computation, self.computation.place("const", other), other, is_time=True)

    def _made(self, operation: str, left: "Varying", right: "Varying", value: int) -> "Varying":
        place = self.computation.place(operation, left.place, right.place)
        return Varying(self.computation, place, value, is_time=left.is_time and right.is_time)

    def __add__(self, other: Any) -> Any:
        right = self._with(other)
        return NotImplemented if right is None else self._made("add", self, right, self.value + right.value)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        right = self._with(other)
        return NotImplemented if right is None else self._made("sub", self, right, self.value - right.value)

    def __rsub__(self, other: Any) -> Any:
        left = self._with(other)
        return NotImplemented if left is None else self._made("sub", left, self, left.value - self.value)

    def __mul__(self, other: Any) -> Any:
        right = self._with(other)
        return NotImplemented if right is None else self._made("mul", self, right, self.value * right.value)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._divided("div", other, self.value // self._divisor(other))

    def __mod__(self, other: Any) -> Any:
        return self._divided("rem", other, self.value % self._divisor(other))

    def _divided(self, operation: str, by: int, value: int) -> "Varying":
        place = self.computation.place(operation, self.place, by)
        return Varying(self.computation, place, value, is_time=self.is_time)

    def _divisor(self, other: Any) -> int:
        if type(other) is not int or not 0 < other <= _MAX_DIVISOR:
            raise NotVarying
        return other

    def _compared(self, test: str, left: "Varying", right: "Varying") -> bool:
        a, b = left.value, right.value
        outcome = a < b if test == "less" else a <= b if test == "at_most" else a == b
        return self.computation.note(test, left, right, outcome)

    def __lt__(self, other: Any) -> Any:
        right = self._with(other)
        return NotImplemented if right is None else self._compared("less", self, right)

    def __le__(self, other: Any) -> Any:
        right = self._with(other)
        return NotImplemented if right is None else self._compared("at_most", self, right)

    def __gt__(self, other: Any) -> Any:
        left = self._with(other)
        return NotImplemented if left is None else self._compared("less", left, self)

    def __ge__(self, other: Any) -> Any:
        left = self._with(other)
        return NotImplemented if left is None else self._compared("at_most", left, self)

    def __eq__(self, other: object) -> bool:
        right = self._with(other)
        if right is not None:
            return self._compared("equal", self, right)
        if other is None or isinstance(other, str):
            return False
        raise NotVarying

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        """Of a time: as a key it must be this very one. A count is the key of nothing."""
        if not self.is_time:
            raise NotVarying
        return hash(self.value) if self == self.value else 0

    def __repr__(self) -> str:
        return f"Varying({self.place})"

    def __str__(self) -> str:
        raise NotVarying

    def __format__(self, form: str) -> str:
        raise NotVarying


class VaryingText(str):
    """A text in the place of any other that is a name of one word: ASCII letters, digits and
    `_.:/$#@+=-`, at most 128, and no word that means nothing.

    Whatever looks at its letters raises `NotVarying`.
    """

    __slots__ = ("number",)
    number: int
    """Which of the item's texts that vary."""

    def __new__(cls, text: str, number: int) -> Self:
        made = super().__new__(cls, text)
        made.number = number
        return made

    def __contains__(self, part: object) -> bool:
        if part in {" ", "\n", "\r"}:
            return False
        raise NotVarying

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if other is None:
            return False
        raise NotVarying

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _refuse(*_: Any, **__: Any) -> Any:
    raise NotVarying


_UNSEEN: Final = {"__contains__", "__eq__", "__ne__", "__hash__", "__len__", "__new__", "__init__", "__repr__"}
"""What of a text does not look at its letters, or is defined above."""
for _name in set(vars(str)) - _UNSEEN - {"__doc__", "__getattribute__"}:
    setattr(VaryingText, _name, _refuse)
