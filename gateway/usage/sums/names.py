"""Names of models, teams, users, … as sums have them. Pure."""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final

from gateway.usage.sums.grains import Dimension


class Absent(Enum):
    """What stands in the place of a name."""

    UNKNOWN = "unknown"
    """The record has none."""
    OTHER = "other"
    """It was beyond the bound on series."""
    FORGOTTEN = "forgotten"
    """It was removed by an operator."""


Name = str | Absent

Filters = Mapping[Dimension, Collection[Name]]
"""A call has any of the names of each dimension."""
NO_FILTERS: Final[Filters] = {}
