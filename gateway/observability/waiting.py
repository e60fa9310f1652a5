"""Lanes that keep what they are given and send none of it, since no key may or no exporter would.

Their senders are answered as ever, so this is where an operator learns of it.
"""

from collections.abc import Callable, Mapping

import structlog

from exporters.keyring import NO_KEY_GRANTS
from gateway.common.plural import plural
from gateway.observability.metrics import LaneStatus

log = structlog.get_logger()


def waiting_in_vain(lanes: Mapping[str, LaneStatus]) -> dict[str, str]:
    """Lane -> a sentence with its state, how much waits, and the scope that is missing."""
    return {name: waiting_text(name, lane) for name, lane in lanes.items() if lane["pending"] and is_closed(lane)}


def is_closed(lane: LaneStatus) -> bool:
    """Whether nothing but an operator can open it: an upstream that answers again would not."""
    return lane["state"] == "off" or (lane["reason"] or "").startswith(NO_KEY_GRANTS)


def waiting_text(name: str, lane: LaneStatus) -> str:
    why = f": {lane['reason']}" if lane["reason"] else ""
    return f"lane {name} is {lane['state']}, with {plural(lane['pending'], 'record', 'records')} waiting{why}"


class WaitingLanes:
    """Logs when records begin to wait in vain, once for each lane."""

    def __init__(self, lanes: Callable[[], Mapping[str, LaneStatus]]) -> None:
        self._lanes = lanes
        self._logged: set[str] = set()

    async def run_maintenance(self) -> None:
        lanes = self._lanes()
        waiting = waiting_in_vain(lanes)
        for name in waiting.keys() - self._logged:
            lane = lanes[name]
            log.warning(
                "records wait in a lane that sends nothing",
                lane=name,
                state=lane["state"],
                pending=lane["pending"],
                reason=lane["reason"],
            )
        self._logged = set(waiting)
