"""Repeats in the log: of one cause one line in an interval, its traceback once, and a count.

A cause is a line with its fields, or where an exception arose. Lines below WARNING pass.
"""

import logging
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, Final, NamedTuple

import structlog

INTERVAL_S: Final = 60.0
LIMITED: Final = ("warning", "error", "critical")
MAX_CAUSES: Final = 1000
"""Remembered; the one that was logged longest ago goes first."""


class Line(NamedTuple):
    """What becomes of a line."""

    is_logged: bool
    repeats: int = 0
    """Lines of its cause that were left out since the last one."""
    is_first: bool = True


class _Cause(NamedTuple):
    logged_s: float
    text: str
    repeats: int = 0


class Repeats:
    """May be used by several threads."""

    def __init__(self, interval_s: float = INTERVAL_S, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._monotonic_s = monotonic_s
        self._causes: OrderedDict[Hashable, _Cause] = OrderedDict()
        self._lock = threading.Lock()

    def line(self, cause: Hashable, text: str) -> Line:
        """Note a line of *cause*, which *text* names in the log."""
        now_s = self._monotonic_s()
        with self._lock:
            found = self._causes.get(cause)
            if found is not None and now_s - found.logged_s < self._interval_s:
                self._causes[cause] = found._replace(repeats=found.repeats + 1)
                return Line(is_logged=False)
            self._causes[cause] = _Cause(now_s, text)
            self._causes.move_to_end(cause)
            if len(self._causes) > MAX_CAUSES:
                self._causes.popitem(last=False)
            return Line(is_logged=True) if found is None else Line(True, found.repeats, is_first=False)  # noqa: FBT003 its field's name says it

    def ended(self) -> list[tuple[str, int]]:
        """(text, lines left out) of each cause whose interval is over; counted again from here."""
        now_s = self._monotonic_s()
        with self._lock:
            over = {
                cause: found
                for cause, found in self._causes.items()
                if found.repeats and now_s - found.logged_s >= self._interval_s
            }
            self._causes.update({cause: found._replace(repeats=0) for cause, found in over.items()})
        return [(found.text, found.repeats) for found in over.values()]


def limited(repeats: Repeats) -> structlog.typing.Processor:
    """The limit for lines of structlog; it follows `add_log_level`. A line with `always=True`, such
    as the answer to an operator, passes.
    """

    def process(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if event.pop("always", False) or event.get("level") not in LIMITED:
            return event
        cause = tuple(sorted((name, repr(value)) for name, value in event.items()))
        line = repeats.line(cause, str(event.get("event")))
        if not line.is_logged:
            raise structlog.DropEvent
        if line.repeats:
            event["repeated"] = line.repeats
        if not line.is_first:
            event.pop("exc_info", None)
        return event

    return process


class RepeatFilter(logging.Filter):
    """The same for lines of the standard library."""

    def __init__(self, repeats: Repeats) -> None:
        super().__init__()
        self._repeats = repeats

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        line = self._repeats.line(cause_of(record), record.getMessage())
        if line.repeats:
            record.msg, record.args = f"{record.getMessage()} repeated={line.repeats}", None
        if not line.is_first:
            record.exc_info = record.exc_text = None
        return line.is_logged


def cause_of(record: logging.LogRecord) -> Hashable:
    """Of an exception, where it arose: its text and the line's may hold what differs each time."""
    if record.exc_info and record.exc_info[0] is not None:
        frames = traceback.extract_tb(record.exc_info[2])[-1:]
        return (record.name, record.exc_info[0].__name__, *((frame.filename, frame.lineno) for frame in frames))
    return (record.name, record.getMessage())
