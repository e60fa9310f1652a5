"""What a credential sees of calls, costs and budgets: everything, or only the calls of some teams,
projects or tags. Pure.

A limit is a list of (dimension, names). A call is inside if it has one of the names of each
dimension. A call whose team is unknown is nobody's, so it is inside no limit of a team.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from gateway.common.contract.errors import Forbidden
from gateway.common.contract.tags import is_tag

Reach = tuple[tuple[str, tuple[str, ...]], ...]
"""(Dimension, names), dimensions and names in order and each once."""

EVERYTHING: Final[Reach] = ()
NAMED: Final = ("team", "project")
"""Dimensions that can limit, with tags."""
MAX_NAMES: Final = 50
"""Of one dimension."""
MAX_NAME_CHARS: Final = 256


def is_limiting(dimension: str) -> bool:
    return dimension in NAMED or is_tag(dimension)


def reach_of(given: Mapping[str, Iterable[str]]) -> Reach:
    """*given* in its one form."""
    return tuple((dimension, tuple(sorted(set(given[dimension])))) for dimension in sorted(given))


def reach_faults(given: Mapping[str, Any], field: str) -> list[str]:
    """What is wrong with a limit, by *field* and dimension."""
    return [f"{field}.{dimension}: {_FORM} is needed" for dimension, names in given.items() if not _is_sound(names)]


_FORM: Final = f"a list of 1 to {MAX_NAMES} names of 1 to {MAX_NAME_CHARS} printable characters"


def _is_sound(names: Any) -> bool:
    return (
        isinstance(names, list | tuple)
        and 1 <= len(names) <= MAX_NAMES
        and all(isinstance(name, str) and 1 <= len(name) <= MAX_NAME_CHARS and name.isprintable() for name in names)
    )


def reach_text(reach: Reach) -> str:
    """`team checkout or search, project web`; as people read it."""
    return ", ".join(f"{dimension} {' or '.join(names)}" for dimension, names in reach)


def reach_json(reach: Reach) -> dict[str, list[str]]:
    return {dimension: list(names) for dimension, names in reach}


def reach_column(reach: Reach) -> str:
    """As a column of a table has it; empty for everything."""
    return json.dumps(reach_json(reach), ensure_ascii=False) if reach else ""


def reach_in(text: str) -> Reach:
    """What `reach_column` wrote."""
    return reach_of(json.loads(text)) if text else EVERYTHING


def is_within(inner: Mapping[Any, Collection[object]], reach: Reach) -> bool:
    """Whether a filter keeps only calls inside *reach*. *inner*: dimension -> names it keeps."""
    return all(dimension in inner and set(inner[dimension]) <= set(names) for dimension, names in reach)


def reach_within(kept: Mapping[Any, Collection[object]]) -> Reach:
    """The least limit that a filter is inside of: what of it can limit."""
    names = {name: [each for each in kept[name] if isinstance(each, str)] for name in kept if is_limiting(name)}
    return reach_of({name: found for name, found in names.items() if len(found) == len(kept[name])})


def narrowed(given: Mapping[Any, Collection[object]], reach: Reach) -> dict[Any, Collection[object]]:
    """A filter with *reach* as a part of it. Raises Forbidden where it names anything beyond."""
    refuse_beyond(given, reach)
    return {**dict(reach), **given}


def refuse_beyond(given: Mapping[Any, Collection[object]], reach: Reach) -> None:
    """Raises Forbidden where a filter names what is not inside *reach*."""
    for dimension, names in reach:
        if not set(given.get(dimension, ())) <= set(names):
            raise Forbidden(
                f"{dimension}: this credential is limited to {reach_text(reach)}, and another {dimension} was asked for",
                reason="beyond_limit",
            )
