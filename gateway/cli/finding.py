"""What `doctor` found."""

from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "fault"]


class Finding(NamedTuple):
    """What was looked at, and what was found there."""

    level: Level
    what: str
    text: str
    remedy: str | None = None
