"""Items of a gateway's payload as its source reads them, each with its position and what was recorded of it. Pure."""

from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.normalise.call import Normalised
from gateway.normalise.conventions.table import Convention
from gateway.normalise.points import UsagePoints
from gateway.normalise.provenance import RecordedExtracted
from gateway.normalise.traced import Recording, active_recording
from gateway.sources.reporting import Report
from gateway.sources.source import SourceRead
from gateway.sources.sums import Sum


class Reading(NamedTuple):
    """What a call or a point was read as."""

    reported: Report | Sum
    convention: Convention
    picked: RecordedExtracted
    """As it was before a record was made of it."""
    first_read: int
    """Number of the recording's first read for this item."""


class Placed(NamedTuple):
    """One item that was counted."""

    position: str
    reason: str = ""
    """Why it is suppressed; "" for a call or a point, and for what is ignored."""
    is_counted: bool = False
    """It became a call or a point."""
    reading: Reading | None = None
    """None for what was read as it stood."""
    value: object = None
    """Of a record that came as a record."""


class _Notes(list[Placed]):
    """Items in the order in which they were counted."""

    def __init__(self) -> None:
        super().__init__()
        self.first_read = 0

    def add(self, position: str, reason: str, reading: tuple[object, ...]) -> None:
        recording = active_recording() or Recording()
        reported, *rest = reading or (None,)
        made = None
        if isinstance(reported, Report | Sum):
            convention = next(x for x in rest if isinstance(x, Convention))
            picked = RecordedExtracted.of(reported.picked, recording)
            made = Reading(reported, convention, picked, self.first_read)
        self.append(Placed(position, reason, bool(reading), made, reported))
        self.first_read = len(recording.reads)


@dataclass(slots=True)
class PlacedCalls(Normalised):
    placed: _Notes = field(default_factory=_Notes)

    def note_position(self, position: str, reason: str = "", *reading: object) -> None:
        self.placed.add(position, reason, reading)


@dataclass(slots=True)
class PlacedPoints(UsagePoints):
    placed: _Notes = field(default_factory=_Notes)

    def note_position(self, position: str, *reading: object) -> None:
        self.placed.add(position, "", reading)


@dataclass(slots=True)
class PlacedRead(SourceRead):
    calls: PlacedCalls = field(default_factory=PlacedCalls)
    measured: PlacedPoints = field(default_factory=PlacedPoints)
