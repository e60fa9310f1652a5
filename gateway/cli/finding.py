"""What `check` and `doctor` found."""

from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "fault"]


class Finding(NamedTuple):
    """What was looked at, and what was found there."""

    level: Level
    what: str
    text: str
    remedy: str | None = None


Part = Literal[
    "data directory",
    "disk",
    "keys",
    "open intake",
    "secrets",
    "local service",
    "spool",
    "database",
    "clock",
    "connections",
    "cell",
    "upstream",
    "mcp",
    "TLS",
    "listeners",
]


class Found(NamedTuple):
    """Something that is not as it should be."""

    part: Part
    text: str
    remedy: str | None = None
    """None where what its part says holds."""
