"""Gateways that forward to this one, as their heartbeats show them; for `doctor` and the page.
Pure.

They are the devices of kind `gateway` but for the one that this gateway is itself. One with
`profile: device` is a `workstation`: a laptop may be silent for days, so nothing is found wrong
with it.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from gateway.common.lists.conventions import MAX_LIMIT
from gateway.common.plural import plural
from gateway.fleet.devices.operated import ORIGINS
from gateway.fleet.devices.own import DISTRIBUTION, OLDEST_S, PENDING
from gateway.operate.devices import DeviceJson

QUERY: Final = (
    ("kind", "gateway"),
    *(("first_contact", contact) for contact in ORIGINS if contact != "gateway"),
    ("sort_key", "last_contact_at"),
    ("limit", str(MAX_LIMIT)),
)
"""Of the list of devices: gateways but for this one, the longest silent first."""
BEHIND_S: Final = 600
"""Longer than an edge holds anything while its hub takes what it forwards: metrics for
`counting.metrics_settle`."""
SILENT: Final = "start it, or look at its network: what it holds is forwarded when it is back"
BEHIND: Final = "`telemetry-gateway status` there states why its lane does not send"
ONE_ID: Final = (
    "take devices.own_id out of the configuration that they share: each then has the id of its data directory"
)
SHUT_OUT: Final = "`telemetry-gateway devices show` states more, `devices unblock` ends it"


class Edge(NamedTuple):
    device_id: str
    version: str
    """Empty where it did not state it."""
    state: str
    last_heartbeat_at: str
    pending: int | None
    """Records that wait there, as of that heartbeat; None of an earlier release, which does not
    state it."""
    oldest_s: int | None
    """Seconds for which the oldest of them waited."""
    fault: str | None
    """Words that follow its id; None where nothing is wrong."""
    remedy: str | None


def edges_in(devices: Iterable[DeviceJson]) -> list[Edge]:
    """Those of *devices*, the answer to `QUERY`, that are gateways of ours."""
    return [_edge(device) for device in devices if device["client"].get("name") == DISTRIBUTION]


def _edge(device: DeviceJson) -> Edge:
    pending, oldest_s = (device["counters"].get(name) for name in (PENDING, OLDEST_S))
    fault, remedy = _fault(device, pending or 0, oldest_s or 0)
    version, at = device["client"].get("version", ""), device["last_contact_at"]
    return Edge(device["device_id"], version, device["state"], at, pending, oldest_s, fault, remedy)


def _fault(device: DeviceJson, pending: int, oldest_s: int) -> tuple[str, str] | tuple[None, None]:
    match device["state"]:
        case "offline" | "inactive":
            return f"is silent since {device['last_contact_at']}", SILENT
        case "blocked" | "quarantined" as state:
            return f"is {state}: {device['reason'] or 'no reason is known'}", SHUT_OUT
        case "conflict":
            return "is an id under which several gateways send heartbeats", ONE_ID
        case _ if oldest_s > BEHIND_S:
            waiting = plural(pending, "record waits", "records wait")
            return f"is behind: {waiting} there, the oldest for {oldest_s} s at its last heartbeat", BEHIND
        case _:
            return None, None
