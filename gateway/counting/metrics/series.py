"""Temporality: what a data point adds to what its series stated before. Pure.

1. A delta point counts as it is; its key names the report itself, so an equal one is a repeat.
2. A cumulative point counts as the difference to the last value under its key (series and
   start time). The first one counts in full: its usage is real, and no one counted it before.
   Another start time is another key, so a restarted sender begins again, and two processes
   that share all labels never mix.
3. Order is known by the value, not by clocks: more is later. Less at a later time is a reset
   without a new start time, and counts in full; less at no later time is an old report.
4. What repeats (a flush after a periodic export, an export without news, a resend) adds nothing.
"""

from typing import NamedTuple


class State(NamedTuple):
    """The last that was counted under one key."""

    start_ns: int
    time_ns: int
    value: int
    measurements: int
    """Of a histogram; -1 for what counts none."""
    seen_ms: int
    """When this was last written down, in ms of our clock: a state whose series is not reported
    again is forgotten."""


class PointReport(NamedTuple):
    """The numbers of one data point."""

    is_delta: bool
    start_ns: int
    """0 when unknown."""
    time_ns: int
    value: int
    measurements: int
    """-1 for none."""


class Delta(NamedTuple):
    """What a report adds."""

    is_new: bool
    value: int
    measurements: int
    """-1 for none."""
    start_ns: int
    """Of the time in which it was used."""
    is_idle: bool = False
    """Nothing was used since the last report, which is itself worth knowing."""


REPEAT = Delta(is_new=False, value=0, measurements=-1, start_ns=0)


def advance(state: State | None, report: PointReport, now_ms: int) -> tuple[Delta, State]:
    """What *report* adds to *state*, None when its key was never seen; and the state after it."""
    begin = report.start_ns or report.time_ns
    if state is None:
        first = State(report.start_ns, report.time_ns, report.value, report.measurements, now_ms)
        return Delta(is_new=True, value=report.value, measurements=report.measurements, start_ns=begin), first
    if report.is_delta:
        return REPEAT, state
    later = report.time_ns > state.time_ns
    if report.value < state.value:
        if not later:
            return REPEAT, state
        reset = State(report.start_ns, report.time_ns, report.value, report.measurements, now_ms)
        return Delta(is_new=True, value=report.value, measurements=report.measurements, start_ns=state.time_ns), reset
    value = report.value - state.value
    measurements = (
        max(0, report.measurements - state.measurements)
        if report.measurements >= 0 <= state.measurements
        else report.measurements
    )
    start_ns = min(state.time_ns, report.time_ns)
    if not value and measurements <= 0:
        return REPEAT._replace(start_ns=start_ns, is_idle=later), state._replace(
            time_ns=max(state.time_ns, report.time_ns)
        )
    after = State(
        report.start_ns,
        max(state.time_ns, report.time_ns),
        report.value,
        max(report.measurements, state.measurements),
        now_ms,
    )
    return Delta(is_new=True, value=value, measurements=measurements, start_ns=start_ns), after
