"""Names of columns in SQL that both engines read."""

from collections.abc import Collection
from typing import Final

USER: Final = '"user"'
"""A word of Postgres' own, unless it is quoted."""


def quoted(columns: Collection[str]) -> tuple[str, ...]:
    """A tag's colon has to be quoted too."""
    return tuple(f'"{name}"' if name == "user" or ":" in name else name for name in columns)
