"""Where the values came from that one item of a gateway's payload was read as. Pure.

Picked values have their provenance (`RecordedExtracted`). Beside them a `Report` or a
`Sum` has times, a failure, ids: each came from what it carries, else from the latest
read of the item that states it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.common.traced import Recording, active_recording
from gateway.pipeline.explain.records import Origins
from gateway.products.reporting import Report, span_of_time, trace_ids
from gateway.products.source import SourceRead
from gateway.products.sums import Sum
from gateway.rules.call import Normalised
from gateway.rules.conventions.table import Convention
from gateway.rules.points import UsagePoints
from gateway.rules.provenance import Provenance, RecordedExtracted, carried_by, joined, stated_by


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
    reported = reading.reported
    return found | (_of_report(reported, reading) if isinstance(reported, Report) else _of_sum(reported, reading))


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


def _of_report(report: Report, reading: Reading) -> dict[str, Provenance]:
    recording = reading.picked.recording
    start_ms, _, duration_ms = span_of_time(report)
    trace_id, span_id, parent = trace_ids(report)
    start, end = carried_by(recording, report.start_ms), carried_by(recording, report.end_ms)
    found = {RECORD_ID: carried_by(recording, report.event_id)}
    if start_ms is not None:
        found["started_at"] = end if report.start_ms is None else also_passed(start, [end])
    if duration_ms is not None:
        is_stated = report.duration_ms is not None
        found["duration_ms"] = carried_by(
            recording, *((report.duration_ms,) if is_stated else (report.start_ms, report.end_ms))
        )
    if report.failed:
        stated = [carried_by(recording, report.error), _latest(reading, _is_failure_code)]
        stated = [part for part in stated if part.attributes]
        found["error_type"] = also_passed(stated[0], stated[1:]) if stated else _RULE
        word = _latest(reading, lambda read: isinstance(read, str) and read.lower() in _FAILURE_WORDS)
        found["status"] = word if word.attributes else joined(stated[::-1]) if stated else _RULE
    for path, value, sent in (
        ("trace.trace_id", trace_id, report.trace_id),
        ("trace.span_id", span_id, report.span_id),
        ("trace.parent_span_id", parent, report.parent_span_id),
        ("source.library_version", report.version, report.version),
    ):
        if value:
            found[path] = carried_by(recording, sent)
    return found


def _latest(reading: Reading, states: Callable[[Any], bool]) -> Provenance:
    """Where the item's latest read came from that *states* something."""
    recording = reading.picked.recording
    reads = reversed(recording.reads[reading.first_read :])
    return next((stated_by(recording, origin.leaves) for origin, read in reads if states(read)), _RULE)


def _of_sum(one: Sum, reading: Reading) -> dict[str, Provenance]:
    recording = reading.picked.recording
    found = {RECORD_ID: carried_by(recording, *one.identity)}
    if one.calls is not None:
        found["calls"] = carried_by(recording, one.calls)
    start, end = carried_by(recording, one.start_ms), carried_by(recording, one.end_ms)
    return {**found, "period.start": start, "started_at": start, "period.end": end if end.attributes else start}
