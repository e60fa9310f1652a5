"""Tags in questions about usage, and in its sums. Pure.

The sums keep the tags of a call as one text, its set: the JSON
object of those that it has, by name.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import orjson

from gateway.common.contract.tags import PREFIX, is_tag, tag_of
from gateway.common.lists.conventions import BadListRequest

PARAMETER: Final = "tag"
"""Of a question: it filters by any tag."""


def dimensions_of(tags: Iterable[str]) -> tuple[str, ...]:
    """As questions name them."""
    return tuple(PREFIX + name for name in tags)


def parameter_of(dimension: str, name: str) -> tuple[str, str]:
    """The parameter of a question that filters by *name*: `tag=feature=search` of a tag."""
    return (PARAMETER, f"{tag_of(dimension)}={name}") if is_tag(dimension) else (dimension, name)


def filter_in(parameter: str, value: str) -> tuple[str, str]:
    """Dimension and name of a filter, from its parameter. Raises BadListRequest."""
    if parameter != PARAMETER:
        return parameter, value
    tag, _, name = value.partition("=")
    if not is_tag(PREFIX + tag) or not name:
        raise BadListRequest(f"{PARAMETER}: NAME=VALUE is needed, such as feature=search")
    return PREFIX + tag, name


def by_dimension(filters: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """*filters*, whose tags are in one parameter, with each tag by itself. Raises
    BadListRequest.
    """
    found: dict[str, tuple[str, ...]] = {}
    for parameter, values in filters.items():
        for dimension, name in (filter_in(parameter, value) for value in values):
            found[dimension] = (*found.get(dimension, ()), name)
    return found


def set_text(tags: Mapping[str, str]) -> str:
    """*tags* as a series names them; "" for none."""
    return orjson.dumps(tags, option=orjson.OPT_SORT_KEYS).decode() if tags else ""


def tags_in(text: str) -> dict[str, str]:
    """What `set_text` made a text of."""
    found: dict[str, str] = orjson.loads(text) if text else {}
    return found


def check_tags(dimensions: Iterable[str], known: Collection[str]) -> None:
    """Raises BadListRequest for a tag that is not configured."""
    for dimension in dimensions:
        if is_tag(dimension) and tag_of(dimension) not in known:
            which = f"of {', '.join(dimensions_of(known))}" if known else "none is configured"
            raise BadListRequest(f"{dimension}: no such tag ({which}); the option `tags` of the configuration has them")
