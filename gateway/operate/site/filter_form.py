"""A filter that a budget or a view keeps, as boxes of a form. Pure.

A box has `team=core` as its value, or `team` for calls whose team is unknown. One more name may be
added by a menu of dimensions (`add_dimension`) and a text (`add_name`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from multidict import MultiMapping

from gateway.operate.site.usage_question import dimension_of, title_of
from gateway.usage.sums.grains import Dimension

FIELD: Final = "filter"
ADDED: Final = ("add_dimension", "add_name")
LINE: Final = "\n"

Names = Mapping[Dimension, Sequence[str | None]]


class Box(NamedTuple):
    value: str
    text: str


def text_of(kept: Names) -> str:
    """What boxes of *kept* hold, a line each."""
    return LINE.join(value_of(dimension, name) for dimension, names in kept.items() for name in names)


def value_of(dimension: Dimension, name: str | None) -> str:
    return dimension if name is None else f"{dimension}={name}"


def boxes(text: str) -> list[Box]:
    """Of the lines that `text_of` made."""
    return [Box(value, box_text(value)) for value in text.split(LINE) if value]


def box_text(value: str) -> str:
    dimension, is_known, name = value.partition("=")
    return f"{title_of(dimension_of(dimension))}: {name if is_known else 'unknown'}"


def chosen(form: MultiMapping[str], suffix: str = "") -> str:
    """The ticked boxes of a form and the name that it adds, as lines. *suffix*: of the fields'
    names, where a form has several filters.
    """
    dimension, name = (form.get(field + suffix, "").strip() for field in ADDED)
    added = [f"{dimension}={name}"] if dimension and name else []
    ticked = [each for each in form.getall(FIELD + suffix, []) if LINE not in each]
    return LINE.join(dict.fromkeys([*ticked, *added]))


def filter_in(values: Iterable[str]) -> dict[Dimension, list[str | None]]:
    """As the body of an operation holds it. Raises BadPayload."""
    kept: dict[Dimension, list[str | None]] = {}
    for value in values:
        dimension, is_known, name = value.partition("=")
        kept.setdefault(dimension_of(dimension), []).append(name if is_known else None)
    return kept
