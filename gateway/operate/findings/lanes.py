"""How a lane fares, and what to do where it does not deliver. Pure."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from exporters.cost_service.answers import NOT_UNDERSTOOD
from exporters.keyring import NO_KEY_GRANTS, NOT_WANTED
from exporters.pacing import REFUSES_ALL
from gateway.common.plural import plural
from gateway.observability.lane_log import is_closed
from gateway.observability.metrics import LaneStatus
from gateway.operate.findings.finding import Finding, Level, Step
from gateway.operate.findings.upstream import scopes_in, scopes_text, upstream_remedy
from gateway.pipeline.delivery.lanes import LANE_NEEDS
from spool.record import OWN_LANES

DELIVERY: Final = Step("See the lanes", "/delivery")
KEY_REMEDY: Final = "add a key with SCOPE under upstream.keys, and restart"
NO_SCOPE_REMEDY: Final = "add a key with SCOPE under upstream.keys, and restart; where the lane is not wanted, name it in upstream.unused_lanes"
LANE_REMEDIES: Final[Mapping[str, str]] = {
    "off": NO_SCOPE_REMEDY,
    "held": "correct the key or the address that the reason names; the lane tries again by itself",
    "retrying": "look at the upstream; the lane tries again by itself, and nothing is lost meanwhile",
    "behind": "give the gateway more CPU: calls wait longer for their settling than counting.settle",
}
REASON_REMEDIES: Final[Mapping[str, str]] = {
    NO_KEY_GRANTS: NO_SCOPE_REMEDY,
    NOT_WANTED: "some sender uses it: take LANE out of upstream.unused_lanes and restart, or stop what posts for it",
    REFUSES_ALL: (
        "correct what it complains of, here or at the upstream; the lane probes and goes on by itself. If the refusals are"
        " right, `telemetry-gateway spool set-aside LANE` makes dead letters of them, to be replayed later"
    ),
    NOT_UNDERSTOOD: (
        "look at what answers at the lane's address: a proxy, a login, another version of the service; the lane probes"
        " and goes on by itself. `telemetry-gateway spool set-aside LANE` makes dead letters of the records it is held by"
    ),
}
"""Words of a lane's reason -> what to do, before what its state says."""


def of_lane(name: str, lane: LaneStatus) -> Finding:
    what, state = f"lane {name}", lane["state"]
    if not adds_up(lane):
        return Finding("fault", what, "its counts do not add up", "report it with `GET /v2/status`", step=DELIVERY)
    waiting = f"{plural(lane['pending'], 'record waits', 'records wait')}"
    if state == "ok" or (state == "off" and not lane["pending"]):
        return Finding("ok", what, f"{state}, {waiting}" + (f"; {NOT_WANTED}" if lane["reason"] == NOT_WANTED else ""))
    level: Level = "fault" if state == "held" or is_closed(lane) else "warning"
    reason = (lane["reason"] or "no reason is known").removeprefix(f"{name}: ").rstrip(": ")
    return Finding(level, what, f"{state}, {waiting}", lane_remedy(name, lane), reason, step_of(name, lane))


def adds_up(lane: LaneStatus) -> bool:
    return lane["kept"] == lane["delivered"] + lane["pending"] + lane["dead_lettered"] + lane["expired"]


def step_of(name: str, lane: LaneStatus) -> Step:
    if REFUSES_ALL in (lane["reason"] or "") and lane["dead_lettered"]:
        return Step("See what it refused", f"/dead-letters?{urlencode({'lane': name})}")
    return DELIVERY


def lane_remedy(name: str, lane: LaneStatus) -> str:
    for words, remedy in REASON_REMEDIES.items():
        if words in (lane["reason"] or ""):
            return with_scopes(remedy, name, lane["reason"] or "").replace("LANE", name)
    found = upstream_remedy(lane["reason"] or "", LANE_NEEDS.get(name, ())) if is_own(name) else None
    return found or with_scopes(LANE_REMEDIES[lane["state"]], name, lane["reason"] or "")


def is_own(name: str) -> bool:
    """Whether the lane sends to the upstream, whose options the remedies name."""
    return name in OWN_LANES


def with_scopes(remedy: str, name: str, reason: str) -> str:
    """*remedy* with the scopes that *reason* names, else those that the lane needs."""
    return remedy.replace("SCOPE", scopes_text(scopes_in(reason) or LANE_NEEDS.get(name, ())))
