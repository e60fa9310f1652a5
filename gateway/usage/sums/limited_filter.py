"""Filters and names of what a limited caller keeps: budgets and views. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.reach import Reach, narrowed, reach_text
from gateway.common.one_line import MAX_CHARS

MAX_KEPT: Final = 50
"""Of budgets, and of views, inside one limit: others need room, too."""

B = TypeVar("B", bound=BaseModel)


def limited_body(body: B, reach: Reach, *, is_new: bool) -> B:
    """The body of a budget or view with its filter inside *reach*. A new one gets the limit as a
    filter; of a change, what is not given stays.

    Raises Forbidden for a filter that names others, and BadPayload for a name that is too long.
    """
    given: dict[str, Any] = {}
    if "name" in body.model_fields_set:
        given["name"] = limited_name(str(body.name), reach)  # type: ignore[attr-defined]  # each has one
    if is_new or "filter" in body.model_fields_set:
        given["filter"] = limited_filter(body.filter, reach)  # type: ignore[attr-defined]  # the same
    return body.model_copy(update=given)


def limited_filter(given: Mapping[Any, Sequence[str | None]], reach: Reach) -> dict[Any, list[Any]]:
    return {dimension: list(names) for dimension, names in narrowed(given, reach).items()}


def limited_name(name: str, reach: Reach) -> str:
    """*name* with the limit: names are unique among all callers, and one that is taken would show
    what others keep.
    """
    suffix = f" ({reach_text(reach)})"
    if name.endswith(suffix):
        return name
    if len(name) + len(suffix) > MAX_CHARS:
        raise BadPayload(f"name: with the limit behind it, {MAX_CHARS} characters at most are possible")
    return name + suffix


def number_of(hex_id: str) -> int:
    """Orders equal rows, as the number of making does, and shows no one how many there are."""
    return int(hex_id[:15], 16)
