"""Names of columns in SQL that both engines read."""

from collections.abc import Collection
from typing import Final

USER: Final = '"user"'
"""A word of Postgres' own, unless it is quoted."""


def quoted(columns: Collection[str]) -> tuple[str, ...]:
    return tuple(USER if name == "user" else name for name in columns)
