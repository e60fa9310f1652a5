"""Looking on while a gateway's payload is read: what it comes to as ever, and where each item stands. Pure."""

from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.explain.picking import copy_of
from gateway.normalise.call import Normalised
from gateway.normalise.extract import Extracted
from gateway.normalise.points import UsagePoints
from gateway.sources.reporting import Report
from gateway.sources.source import SourceRead
from gateway.sources.sums import Sum


class Placed(NamedTuple):
    """One item that was counted."""

    position: str
    reason: str = ""
    """Why it is suppressed; "" for a call or a point, and for what is ignored."""
    reading: tuple[object, ...] = ()
    """What a call or a point was read as."""
    picked: Extracted | None = None
    """Of a reading, before a record was made of it."""


def _placed(position: str, reason: str, reading: tuple[object, ...]) -> Placed:
    said = reading[0] if reading else None
    return Placed(position, reason, reading, copy_of(said.picked) if isinstance(said, Report | Sum) else None)


@dataclass(slots=True)
class PlacedCalls(Normalised):
    placed: list[Placed] = field(default_factory=list)

    def place(self, position: str, reason: str = "", *reading: object) -> None:
        self.placed.append(_placed(position, reason, reading))


@dataclass(slots=True)
class PlacedPoints(UsagePoints):
    placed: list[Placed] = field(default_factory=list)

    def place(self, position: str, *reading: object) -> None:
        self.placed.append(_placed(position, "", reading))


@dataclass(slots=True)
class WatchedRead(SourceRead):
    calls: PlacedCalls = field(default_factory=PlacedCalls)
    measured: PlacedPoints = field(default_factory=PlacedPoints)

    @property
    def placed(self) -> list[Placed]:
        return [*self.calls.placed, *self.measured.placed]
