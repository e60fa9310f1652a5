"""What a tag is: a label of records that an operator chose as a dimension. Pure.

A tag is asked for as `tag:NAME`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

PREFIX: Final = "tag:"
NAME: Final = r"[a-z][a-z0-9_]{0,31}"
MAX_TAGS: Final = 20
"""Configured ones."""
OF_FIELD: Final = "environment"
"""The tag that is a field of the attribution; every other one is a label of it."""
_DIMENSION: Final = re.compile(PREFIX + NAME)


def is_tag(dimension: str) -> bool:
    return _DIMENSION.fullmatch(dimension) is not None


def tag_of(dimension: str) -> str:
    """The name of the tag, without `tag:`."""
    return dimension.removeprefix(PREFIX)


def values_of(attribution: Mapping[str, Any], tags: Collection[str]) -> dict[str, str]:
    """Those of *tags* that the attribution of a record has."""
    labels = attribution.get("labels") or {}
    found = {name: attribution.get(OF_FIELD) if name == OF_FIELD else labels.get(name) for name in tags}
    return {name: value for name, value in found.items() if value}
