"""A filter of usage as a resource keeps it: dimension -> names, null for an unknown one. Pure."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Final, Protocol, TypeVar

from pydantic import Field

from gateway.common.contract.tags import MAX_TAGS, NAME, PREFIX
from gateway.usage.sums.grains import DIMENSIONS, Dimension
from gateway.usage.sums.names import Absent, Filters, Name
from gateway.usage.sums.tags import parameter_of
from gateway.usage.sums.tally import MAX_NAME_CHARS

MAX_VALUES: Final = 50
"""Of one dimension."""

_Value = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)] | None
DimensionWord = Annotated[str, Field(pattern=f"^({'|'.join(DIMENSIONS)}|{PREFIX}{NAME})$")]
"""A dimension in a body."""
SavedFilter = Annotated[
    dict[DimensionWord, Annotated[list[_Value], Field(min_length=1, max_length=MAX_VALUES)]],
    Field(
        description=(
            f"an object of {', '.join(DIMENSIONS)} or {PREFIX}NAME, each with a list of 1 to {MAX_VALUES} names of at most"
            f" {MAX_NAME_CHARS} characters, null for an unknown name,"
        ),
        max_length=len(DIMENSIONS) + MAX_TAGS,
        json_schema_extra={"example": {"team": ["core", None], "model": ["gpt-4o"]}},
    ),
]
"""Of a body. A call has any of the names of each dimension; an empty object keeps every call."""

Kept = Mapping[Dimension, tuple[str | None, ...]]
"""The same, checked."""


ShownFilter = Mapping[str, list[str | None]]
"""As answers hold it."""


def kept_filter(given: Mapping[Dimension, list[str | None]]) -> dict[Dimension, tuple[str | None, ...]]:
    """*given* with each name once, by the order of the dimensions."""
    order = (*DIMENSIONS, *sorted(given.keys() - {*DIMENSIONS}))
    return {name: tuple(dict.fromkeys(given[name])) for name in order if name in given}


def where_of(kept: Kept) -> Filters:
    """As questions about usage take it."""
    return {dimension: tuple(map(_name, names)) for dimension, names in kept.items()}


def _name(name: str | None) -> Name:
    return Absent.UNKNOWN if name is None else name


def query_of(kept: Kept) -> list[tuple[str, str]]:
    """As parameters of `GET /v2/usage`."""
    named: list[tuple[str, str]] = [
        parameter_of(dimension, name) for dimension, names in kept.items() for name in names if name is not None
    ]
    unknown = [dimension for dimension, names in kept.items() if None in names]
    return [*named, ("unknown", ",".join(unknown))] if unknown else named


class _HasFilter(Protocol):
    @property
    def filter(self) -> Kept: ...


Filtered = TypeVar("Filtered", bound=_HasFilter)


def without_users(resources: Iterable[Filtered], users: Collection[str]) -> list[tuple[Filtered, Kept | None]]:
    """Those of *resources* whose filter names one of *users*, each with what is left of its filter;
    None where no user is left: it would select every user then.
    """
    named: list[tuple[Filtered, Kept | None]] = []
    for each in resources:
        names = each.filter.get("user", ())
        left = tuple(name for name in names if name not in users)
        if left != names:
            named.append((each, {**each.filter, "user": left} if left else None))
    return named


def filter_text(kept: Kept) -> str:
    """As a column holds it."""
    return json.dumps(kept, ensure_ascii=False)


def filter_of(text: str) -> dict[Dimension, tuple[str | None, ...]]:
    """What `filter_text` wrote."""
    found: dict[Any, list[str | None]] = json.loads(text)
    return {dimension: tuple(names) for dimension, names in found.items()}
