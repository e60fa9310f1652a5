"""The conditions of a lesson, as few as possible: for each number within which bounds it has to be.
Pure.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.common.varying import REAL, ROUND
from gateway.ingest.parsing.lessons import Lesson

Condition = tuple[str, int, int, bool]
Node = tuple[str, int, int]
_NOT: Final = {"less": "at_most", "at_most": "less"}


class Bounds:
    """Of one number; None for no bound."""

    __slots__ = ("high", "low")

    def __init__(self) -> None:
        self.low: int | None = None
        self.high: int | None = None

    def at_least(self, low: int) -> None:
        self.low = low if self.low is None else max(low, self.low)

    def at_most(self, high: int) -> None:
        self.high = high if self.high is None else min(high, self.high)


class Conditions(NamedTuple):
    bounds: dict[int, Bounds]
    """By the place of the number."""
    between: list[Condition]
    """Of two numbers, and those that a number is not equal to."""


def conditions_of(lesson: Lesson, kept: set[int]) -> Conditions:
    """The conditions of *lesson*; *kept*: places of numbers that are needed besides."""
    nodes, reals = lesson.nodes, _reals(lesson.nodes)
    found = Conditions({}, [])
    unequal: list[Condition] = []
    for condition in dict.fromkeys(map(_positive, lesson.conditions)):
        test, left, right, outcome = condition
        if "const" not in {nodes[left][0], nodes[right][0]} or not reals.isdisjoint({left, right}):
            found.between.append(condition)
        elif test == "equal" and not outcome:
            unequal.append(condition)
        else:
            _bound(found.bounds, nodes, condition)
    for condition in unequal:
        if not _narrowed(found.bounds, nodes, condition):
            found.between.append(condition)
    used = kept | {place for _, left, right, _ in found.between for place in (left, right)}
    _through_divisions(found.bounds, nodes, used)
    return found


def _reals(nodes: Sequence[Node]) -> set[int]:
    """Places of the numbers that are not whole."""
    reals: set[int] = set()
    for place, (kind, left, right) in enumerate(nodes):
        if kind == REAL or (kind in {"add", "sub", "mul"} and not reals.isdisjoint({left, right})):
            reals.add(place)
    return reals


def _positive(condition: Condition) -> Condition:
    """The same, as what holds: `a < b` is not true where `b <= a` is."""
    test, left, right, outcome = condition
    return condition if outcome or test == "equal" else (_NOT[test], right, left, True)


def _bound(bounds: dict[int, Bounds], nodes: Sequence[Node], condition: Condition) -> None:
    """A condition that holds, of a number and a constant."""
    test, left, right, _ = condition
    less = int(test == "less")
    if nodes[right][0] == "const":
        of = bounds.setdefault(left, Bounds())
        of.at_most(nodes[right][1] - less)
        if test == "equal":
            of.at_least(nodes[right][1])
    else:
        of = bounds.setdefault(right, Bounds())
        of.at_least(nodes[left][1] + less)
        if test == "equal":
            of.at_most(nodes[left][1])


def _narrowed(bounds: dict[int, Bounds], nodes: Sequence[Node], condition: Condition) -> bool:
    """Whether a number that is not equal to a constant is so by a narrower bound."""
    _, left, right, _ = condition
    place, constant = (left, right) if nodes[right][0] == "const" else (right, left)
    value, of = nodes[constant][1], bounds.get(place, Bounds())
    if of.low == value:
        of.at_least(value + 1)
    elif of.high == value:
        of.at_most(value - 1)
    return (of.low is not None and value < of.low) or (of.high is not None and of.high < value)


def _through_divisions(bounds: dict[int, Bounds], nodes: Sequence[Node], used: set[int]) -> None:
    """Bounds of a quotient that is needed for nothing else, as those of what is divided."""
    needed = used | {
        operand
        for kind, left, right in nodes
        for operand in ((left,) if kind in {"div", "rem", ROUND} else (left, right))
        if kind in {"add", "sub", "mul", "div", "rem", ROUND}
    }
    for place in sorted(bounds, reverse=True):
        kind, left, by = nodes[place]
        if kind != "div" or place in needed:
            continue
        of, under = bounds.pop(place), bounds.setdefault(left, Bounds())
        if of.low is not None:
            under.at_least(of.low * by)
        if of.high is not None:
            under.at_most(of.high * by + by - 1)
