"""Each change of a lane's state in the log, when it happens and with its reason.

A lane that keeps what it is given and sends none of it is named as well when records begin to wait
in it: their senders are answered as ever, so this is where an operator learns of it.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import structlog

from exporters.keyring import NO_KEY_GRANTS
from gateway.common.plural import plural
from gateway.observability.metrics import LaneShown

log = structlog.get_logger()

PAUSE_S: Final = 10.0
CLOSED: Final = ("off", "held")


def waiting_in_vain(lanes: Mapping[str, LaneShown]) -> dict[str, str]:
    """Lane -> a sentence with its state, how much waits, and the scope that is missing."""
    return {name: waiting_text(name, lane) for name, lane in lanes.items() if lane["pending"] and is_closed(lane)}


def is_closed(lane: LaneShown) -> bool:
    """Whether it sends nothing, or keeps a part back, until something is mended: an upstream that
    answers again would not open it.
    """
    return lane["state"] in CLOSED or (lane["reason"] or "").startswith(NO_KEY_GRANTS)


def waiting_text(name: str, lane: LaneShown) -> str:
    why = f": {lane['reason']}" if lane["reason"] else ""
    return f"lane {name} is {lane['state']}, with {plural(lane['pending'], 'record', 'records')} waiting{why}"


class _Seen(NamedTuple):
    """Of one lane: the state that was logged last, and since when; a lane begins unlogged."""

    state: str
    logged_s: float
    current: str
    changes: int = 0
    """Since that line."""
    since_s: float | None = None
    """Of the logged state; None for the one at the start."""


class LaneLog:
    """Looks at the lanes, and logs what changed since it looked last: of one lane a line in
    `PAUSE_S` at most. What the lanes are at the start stands in the line of the start.
    """

    def __init__(
        self, lanes: Callable[[], Mapping[str, LaneShown]], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._lanes = lanes
        self._monotonic_s = monotonic_s
        self._seen: dict[str, _Seen] = {}
        self._waiting: set[str] = set()

    async def run_maintenance(self) -> None:
        lanes = self._lanes()
        for name, lane in lanes.items():
            self._look(name, lane)
        waiting = waiting_in_vain(lanes)
        for name in waiting.keys() - self._waiting:
            lane = lanes[name]
            log.warning(
                "records wait in a lane that sends nothing",
                lane=name,
                state=lane["state"],
                pending=lane["pending"],
                reason=lane["reason"],
            )
        self._waiting = set(waiting)

    def _look(self, name: str, lane: LaneShown) -> None:
        now_s, state = self._monotonic_s(), lane["state"]
        seen = self._seen.setdefault(name, _Seen(state, now_s - PAUSE_S, state))
        seen = seen._replace(current=state, changes=seen.changes + (state != seen.current))
        if state != seen.state and now_s - seen.logged_s >= PAUSE_S:
            level = log.info if state == "ok" else log.warning
            level(
                "lane state changed",
                lane=name,
                state=state,
                before=seen.state,
                lasted_s=None if seen.since_s is None else round(now_s - seen.since_s, 1),
                changes=seen.changes,
                reason=lane["reason"],
                pending=lane["pending"],
            )
            seen = _Seen(state, now_s, state, since_s=now_s)
        self._seen[name] = seen
