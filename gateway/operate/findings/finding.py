"""What `check`, `doctor`, `status` and the top of the page found."""

from typing import Any, Literal, NamedTuple

Level = Literal["ok", "warning", "fault"]


class Step(NamedTuple):
    """Where on the page a finding is looked into or mended."""

    label: str
    path: str
    is_change: bool = False
    """A viewer may not go there."""


class Finding(NamedTuple):
    """What was looked at, and what was found there."""

    level: Level
    what: str
    text: str
    remedy: str | None = None
    why: str | None = None
    """The reason, where *text* leaves it out; words of the upstream are cut."""
    step: Step | None = None

    @property
    def whole(self) -> str:
        """*text* with its reason."""
        return self.text if self.why is None else f"{self.text}: {self.why}"

    def document(self) -> dict[str, Any]:
        """For `--json`."""
        return {"level": self.level, "what": self.what, "text": self.whole, "remedy": self.remedy}


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
