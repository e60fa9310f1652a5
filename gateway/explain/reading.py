"""Where the values came from that one item of a gateway's payload was read as. Pure.

Picked values have their provenance (`RecordedExtracted`). Beside them a `Report` or a
`Sum` has times, a failure, ids: each came from what it carries, else from the latest
read of the item that states it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.common.traced import By, Leaf, Origin, Recording, Text, active_recording, origin_of
from gateway.explain.records import Origins
from gateway.normalise.call import Normalised
from gateway.normalise.conventions.table import Convention
from gateway.normalise.points import UsagePoints
from gateway.normalise.provenance import Provenance, RecordedExtracted, joined
from gateway.sources.reporting import Report, epoch_ms, span_of_time, trace_ids
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
        """Note what was read of one item and what became of it."""
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


# ---- origins

RECORD_ID = "record_id"
REPORTED = (
    "started_at", "duration_ms", "status", "error_type", "source.library_version", "trace.trace_id", "trace.span_id",
    "trace.parent_span_id",
)  # fmt: skip
"""Fields of the record that a report states beside its picked values."""
_OWN = frozenset({"error_type", "status_code", "duration_ms"})
"""Picked fields that a report states itself, and no table."""
_STEP = re.compile(r"\[\d+\]|([^.\[\]]+)")
_RULE = Provenance("rule")
_FAILURE_WORDS = frozenset({"error", "failed", "failure"})
_FAILURES = range(400, 600)
"""Of HTTP status codes."""


def origins_of(position: str, document: str, reading: Reading) -> Origins:
    """Where each value of the item at *position*, in the document at *document*, came from."""
    picked = reading.picked
    picked.recording.base = _base(position.removeprefix(document).lstrip("."))
    found = {field: stated for field, stated in picked.provenances().items() if field not in _OWN}
    reads = _Reads(picked.recording, reading.first_read)
    reported = reading.reported
    values = _of_report(reported, reads) if isinstance(reported, Report) else _of_sum(reported, reads)
    return {**found, **values}


def _is_failure_code(read: Any) -> bool:
    return str(read).isdecimal() and int(read) in _FAILURES


def also_passed(stated: Provenance, others: Sequence[Provenance]) -> Provenance:
    """*stated*, with the names of *others* among those passed over."""
    names = dict.fromkeys(name for part in (stated, *others) for name in (*part.passed_over, *part.attributes))
    return stated._replace(passed_over=tuple(name for name in names if name not in stated.attributes))


def _base(position: str) -> tuple[str, ...]:
    """Path of the entry of a list that holds the item."""
    entry = position[: position.rfind("]") + 1]
    return tuple(match[1] or "*" for match in _STEP.finditer(entry))


class _Reads:
    """The reads of one item."""

    def __init__(self, recording: Recording, first: int) -> None:
        self._recording = recording
        self._first = first

    def provenance(self, *values: Any) -> Provenance:
        """Where *values* came from, of which one value is made."""
        origins = [origin for value in values if (origin := self._origin(value)) is not None]
        passed = [leaf for origin in origins for leaf in origin.passed]
        return self.of([leaf for origin in origins for leaf in origin.leaves], passed)

    def of(self, leaves: list[Leaf], passed: list[Leaf] | None = None) -> Provenance:
        if not leaves:
            return _RULE
        names = tuple(dict.fromkeys(map(self._recording.shown, leaves)))
        by: By = "text" if any(leaf.by == "text" for leaf in leaves) else "item"
        others = dict.fromkeys(map(self._recording.shown, passed or ()))
        return Provenance(by, names, tuple(name for name in others if name not in names))

    def time(self, *times_ms: int | None) -> Provenance:
        """Where one value made of *times_ms* came from."""
        found: list[Leaf] = []
        for time_ms in times_ms:
            if (carried := origin_of(time_ms)) is not None:
                found += carried.leaves
            elif time_ms is not None:
                reads = self._recording.reads[self._first :]
                found += next((list(origin.leaves) for origin, read in reads if epoch_ms(read) == time_ms), [])
        return self.of(found)

    def failure(self, is_failure: Callable[[Any], bool]) -> Provenance:
        """Where the latest read is from that states a failure."""
        reads = self._recording.reads[self._first :]
        return next((self.of(list(origin.leaves)) for origin, read in reversed(reads) if is_failure(read)), _RULE)

    def _origin(self, value: Any) -> Origin | None:
        if value is None or value == "":
            return None
        return origin_of(value) or self._recording.read_of(value, self._first)


def _of_report(report: Report, reads: _Reads) -> dict[str, Provenance]:
    start_ms, _, duration_ms = span_of_time(report)
    trace_id, span_id, parent = trace_ids(report)
    found = {RECORD_ID: _identity(report.event_id, reads)}
    if start_ms is not None:
        is_stated = report.start_ms is not None
        end = reads.time(report.end_ms)
        found["started_at"] = also_passed(reads.time(report.start_ms), [end]) if is_stated else end
    if duration_ms is not None:
        is_stated = report.duration_ms is not None
        found["duration_ms"] = (
            reads.provenance(report.duration_ms) if is_stated else reads.time(report.start_ms, report.end_ms)
        )
    if report.failed:
        code, named = reads.failure(_is_failure_code), reads.provenance(report.error)
        stated = [part for part in (named, code) if part.attributes]
        found["error_type"] = also_passed(stated[0], stated[1:]) if stated else _RULE
        word = reads.failure(lambda read: isinstance(read, str) and read.lower() in _FAILURE_WORDS)
        found["status"] = word if word.attributes else joined(stated[::-1]) if stated else _RULE
    for path, value, sent in (
        ("trace.trace_id", trace_id, report.trace_id),
        ("trace.span_id", span_id, report.span_id),
        ("trace.parent_span_id", parent, report.parent_span_id),
        ("source.library_version", report.version, report.version),
    ):
        if value:
            found[path] = reads.provenance(sent)
    return found


def _of_sum(one: Sum, reads: _Reads) -> dict[str, Provenance]:
    found = {RECORD_ID: reads.provenance(*one.identity)}
    if one.calls is not None:
        found["calls"] = reads.provenance(one.calls)
    start, end = reads.time(one.start_ms), reads.time(one.end_ms)
    found |= {"period.start": start, "started_at": start, "period.end": end if end.attributes else start}
    return found


def _identity(event_id: str, reads: _Reads) -> Provenance:
    """Of an id that is made of several values, where each came from."""
    if isinstance(event_id, Text):
        return reads.provenance(event_id)
    parts = [reads.provenance(part) for part in event_id.split("\x1f") if part]
    named = [part for part in parts if part.attributes]
    return joined(named) if named else _RULE
