"""What a line of the checklist is, and how its result is made: a check notes what it sees, and
expects some of it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.conformance.otlp.target import Target

Level = Literal["MUST", "SHOULD", "MAY"]
Over = Literal["http", "grpc", "sender"]
Verdict = Literal["pass", "fail", "not applicable"]

LINE_TIMEOUT_S = 300.0

NUMBERS = tuple(f"B{n:02}" for part in (range(1, 13), range(20, 37), range(40, 51), range(60, 68), (70,)) for n in part)
"""Of the whole checklist."""


class NotApplicable(Exception):
    """The target cannot be asked; the text is the reason."""


@dataclass(slots=True)
class Seen:
    """What one check saw."""

    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    weaker_faults: list[str] = field(default_factory=list)
    """Against a SHOULD, or against what the checklist asks beyond the specification."""

    def note(self, text: str) -> None:
        """Stated in the table, without a verdict."""
        self.notes.append(text)

    def expect(self, holds: object, text: str) -> None:
        """*text*: what was seen, whether *holds* or not."""
        (self.notes if holds else self.faults).append(text)

    def prefer(self, holds: object, text: str) -> None:
        """As `expect`, of what the specification leaves open or recommends."""
        (self.notes if holds else self.weaker_faults).append(text)


Check = Callable[[Target, Seen], Awaitable[None]]


class Line(NamedTuple):
    number: str
    level: Level
    over: Over
    what: str
    check: Check

    def __repr__(self) -> str:
        return f"{self.number} {self.over}"


class Result(NamedTuple):
    line: Line
    verdict: Verdict
    seen: str
    level: Level = "MUST"
    """The strongest that a fault was against; of a pass, the line's own."""


LINES: list[Line] = []
"""Filled by the modules that hold the checks, in the order in which they run."""


def line(number: str, level: Level, over: Over, what: str) -> Callable[[Check], Check]:
    """Registers a check under its number; *what* is the promise in a few words."""

    def register(check: Check) -> Check:
        LINES.append(Line(number, level, over, what, check))
        return check

    return register


async def run(one: Line, target: Target) -> Result:
    """Its result; whatever a check stumbles over is a fault of the target."""
    if not target.speaks(one.over):
        return Result(one, "not applicable", f"no {one.over} address was given")
    seen = Seen()
    try:
        async with asyncio.timeout(LINE_TIMEOUT_S):
            await one.check(target, seen)
    except NotApplicable as why:
        if not (seen.faults or seen.weaker_faults):
            return Result(one, "not applicable", str(why))
    except TimeoutError:
        seen.faults.append("no answer in time")
    except Exception as error:  # noqa: BLE001 - a server under test may do anything
        seen.faults.append(f"{type(error).__name__}: {error}")
    faults = seen.faults + seen.weaker_faults
    if not faults:
        return Result(one, "pass", "; ".join(dict.fromkeys(seen.notes)), one.level)
    level: Level = one.level if seen.faults else "SHOULD"
    return Result(one, "fail", "; ".join(dict.fromkeys(faults)), level)
