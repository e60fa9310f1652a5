"""Where the value of each option is from: the file, the environment, a flag, the profile or the
default. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

OriginKind = Literal["default", "profile", "file", "environment", "flag"]


class Origin(NamedTuple):
    kind: OriginKind
    where: str = ""
    """`line 12` of the file, or the variable's name; empty for the others."""


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Origins:
    """Of one configuration. An option that is not in `set_by` has its default, or its profile's."""

    file: Path | None = None
    set_by: Mapping[str, Origin] = field(default_factory=dict)
    """Option, such as `listen.http` -> where it was set last."""
