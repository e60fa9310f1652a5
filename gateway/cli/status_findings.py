"""What is wrong with a running gateway by its own report, and what to do; for `doctor` and
`status`. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from exporters.cost_service.answers import NOT_UNDERSTOOD
from exporters.cost_service.liveness import LIVENESS_SCOPE
from exporters.keyring import NO_KEY_GRANTS, NOT_WANTED, no_key_grants
from exporters.pacing import REFUSES_ALL
from gateway.cli.finding import Finding, Level
from gateway.cli.options import RefusedByGateway
from gateway.cli.remedies import scopes_in, scopes_text, upstream_remedy
from gateway.common.contract.scopes import ENROLL_SCOPE, HEARTBEAT_SCOPE, INGEST_SCOPE
from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.observability.cell_faults import cell_faults
from gateway.observability.lane_log import is_closed
from gateway.observability.metrics import EDGE_OUTCOMES, CellStatus, LaneStatus
from gateway.observability.quarantine import degraded
from gateway.operate.edges import edges_in
from gateway.pipeline.delivery.lanes import LANE_NEEDS
from gateway.serve.http.to_owner import NO_OWNER
from spool.record import OWN_LANES

MAX_REFUSALS: Final = 5
NO_OWNER_REMEDY: Final = (
    "wait some seconds: another gateway takes the cell when the last owner's lease ends. If none does, run"
    " `telemetry-gateway doctor` with the --config of a gateway, and look in their logs for `cell could not be owned`"
)
KEY_REMEDY: Final = "add a key with SCOPE under upstream.keys, and restart"
BILLING_REMEDY: Final = (
    "the connection has to be established and active at the upstream, and a key has to grant send-billing-data"
)
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

REFUSAL_REMEDIES: Final[Mapping[str, str]] = {
    "no_key": "give the sender the header `Authorization` with a key of `keys create`",
    "key_unknown_or_disabled": "`keys list`: is the sender's key there, and enabled?",
    "not_found": "correct the sender's path: `sources` lists those that there are",
    "grpc_on_http_port": "point the sender at the port of gRPC, or set its protocol to http/protobuf",
    "foreign_host": "make a key: open intake answers on loopback alone",
}


def of_senders(answer: Mapping[str, Any]) -> Iterator[Finding]:
    """Of the list of senders; what is refused is in the status."""
    for each in answer["senders"]:
        name = harmless(each["service_name"] or each["product"] or "unknown")
        key = f" with key {each['key']}" if each["key"] else ""
        for warned in each["warnings"]:
            if warned["code"] != "refused":
                text = f"{name} ({each['format']}){key}: {warned['text']}"
                yield Finding("warning", "senders", text, warned["remedy"])


def of_edges(answer: Mapping[str, Any]) -> Iterator[Finding]:
    """Of the list of the gateways that forward to this one, the longest silent first."""
    edges = edges_in(answer["devices"])
    if not edges:
        return
    verb = "forwards" if len(edges) == 1 else "forward"
    releases = ", ".join(sorted({harmless(edge.version) for edge in edges if edge.version}))
    text = f"{plural(len(edges), 'gateway', 'gateways')} {verb} to this one; version {releases or 'unknown'}"
    yield Finding("ok", "edges", text)
    wrong = [edge for edge in edges if edge.fault is not None]
    for edge in wrong[:MAX_REFUSALS]:
        yield Finding("warning", "edges", f"{harmless(edge.device_id)} {edge.fault}", edge.remedy)
    if len(wrong) > MAX_REFUSALS:
        text = f"{plural(len(wrong) - MAX_REFUSALS, 'more has', 'more have')} a fault"
        yield Finding("warning", "edges", text, "the page Devices names them all")


def of_status(status: Mapping[str, Any]) -> Iterator[Finding]:
    """Of the document of `GET /v2/status`."""
    edge, lanes = status["edge"], status["lanes"]
    if edge["received"] != sum(edge[outcome] for outcome in EDGE_OUTCOMES):
        yield Finding("fault", "counts", "what was received is not accounted for", "report it with /v2/status")
    if not edge["received"] and not status.get("refused"):
        remedy = "point one at it: `telemetry-gateway sources` shows how, for each kind"
        yield Finding("warning", "senders", "none has sent anything", remedy)
    for name, lane in lanes.items():
        yield of_lane(name, lane)
    if (cell := status.get("cell")) is not None:
        yield from of_cell(cell, status.get("spool", {}).get("max_bytes"))
    if (upstream := status.get("upstream")) is not None:
        yield of_liveness(upstream)
    if (billing := status.get("billing")) is not None:
        yield of_billing(billing)
    for connection in status.get("billing_relay", ()):
        yield of_relay(connection)
    if "quarantine" in status and (why := degraded(status["quarantine"])) is not None:
        remedy = "docs/operations.md, `When the spool is damaged or lost`; then `spool acknowledge`"
        yield Finding("fault", "spool", why, remedy)
    yield from of_letters(status.get("dead_letters", ()))
    yield from of_refused(status.get("refused", ()))


def of_letters(letters: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    if letters:
        records = sum(letter["records"] for letter in letters)
        reasons = ", ".join(dict.fromkeys(letter["reason"] for letter in letters))
        remedy = "`spool dead-letters list`: remedy what it complained of, then replay or drop them"
        yield Finding("warning", "dead letters", f"{plural(records, 'record', 'records')}: {reasons}", remedy)


def of_refused(requests: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for refused in requests[:MAX_REFUSALS]:
        path = "a path that is not served" if refused["reason"] == "not_found" else refused["route"]
        text = (
            f"{plural(refused['requests'], 'request', 'requests')} on {path} from {refused['last_peer']}"
            f" refused with {refused['status']} ({refused['reason']}), the last at {refused['last_at']}"
        )
        yield Finding("warning", "senders", text, refusal_remedy(refused))


def is_without_owner(error: Exception) -> bool:
    """Whether a gateway of a cell answered that it reaches no owner, who alone knows."""
    is_refusal = isinstance(error, RefusedByGateway) and error.status == HTTPStatus.SERVICE_UNAVAILABLE
    return is_refusal and NO_OWNER in str(error)


def without_owner(error: Exception) -> Finding:
    """What *error*, of a gateway that reaches no owner, comes to."""
    return Finding("fault", "cell", f"this gateway runs, but {error}", NO_OWNER_REMEDY)


def of_cell(cell: CellStatus, max_bytes: int | None) -> Iterator[Finding]:
    """Who owns it, and what is wrong with it."""
    if cell["owner"] is not None:
        gateways = plural(len(cell["members"]), "gateway", "gateways")
        yield Finding("ok", "cell", f"{harmless(cell['owner'])} owns it, epoch {cell['epoch']}; {gateways}")
    for fault in cell_faults(cell, max_bytes):
        yield Finding("fault" if fault.stops_counting else "warning", "cell", harmless(fault.text), fault.remedy)


def refusal_remedy(refused: Mapping[str, Any]) -> str:
    """What to do about refused requests; of a missing scope, the command that adds it."""
    if refused["reason"] != "scope_missing":
        return REFUSAL_REMEDIES.get(refused["reason"], "docs/operations.md, `When nothing arrives`")
    scopes = " ".join(f"--scope {scope}" for scope in scopes_at(refused["route"]))
    return f"`keys edit {scopes} {refused['last_key']}`, with the scopes that it has already"


def scopes_at(route: str) -> list[str]:
    """Those that requests at a *route* of senders need; to enrol by a heartbeat also needs
    `ENROLL_SCOPE`.
    """
    from gateway.operate.openapi.document import gateway_document  # noqa: PLC0415 - a tenth of a second, rarely needed

    described = gateway_document()["paths"].get(route, {})
    found = {each["x-scope"] for each in described.values() if isinstance(each, dict) and "x-scope" in each}
    if not described:  # of gRPC
        return [INGEST_SCOPE]
    return sorted(found | ({ENROLL_SCOPE} if HEARTBEAT_SCOPE in found else set()))


def of_liveness(upstream: Mapping[str, Any]) -> Finding:
    """What the gateway found when it asked last; a warning alone, since the lanes state what they
    meet.
    """
    at, success = upstream["checked_at"], upstream["last_success_at"] or "never since the start"
    match upstream["liveness"]:
        case "unreachable":
            text, remedy = f"did not answer at {at}; a lane got through last: {success}", "check upstream.base_url"
            return Finding("warning", "liveness", text, remedy)
        case "key_rejected_or_scope_missing":
            text = f"refused the key for {LIVENESS_SCOPE} at {at}; a lane got through last: {success}"
            remedy = f"have the key given {LIVENESS_SCOPE} at the service, or take it from the key in upstream.keys"
            return Finding("warning", "liveness", text, remedy)
        case "no_key":
            text = f"not asked, since {no_key_grants([LIVENESS_SCOPE])}; a lane got through last: {success}"
            return Finding("ok", "liveness", text)
        case None:
            return Finding("ok", "liveness", "not asked yet")
        case _:
            return Finding("ok", "liveness", f"answered at {at}")


def of_billing(lane: Mapping[str, Any]) -> Finding:
    """Of the lane of billing drops."""
    what, days = "lane billing", f"{plural(lane['days_due'], 'day is', 'days are')} due"
    if lane["state"] != "ok":
        text = f"{lane['state']}, {days}: {lane['reason'] or 'no reason is known'}"
        level: Level = "warning" if lane["state"] == "retrying" else "fault"
        return Finding(level, what, text, BILLING_REMEDY)
    if lane["days_refused"]:
        text = f"{plural(lane['days_refused'], 'day is', 'days are')} refused"
        return Finding("fault", what, text, "`billing show --month YYYY-MM` states why; then `billing send`")
    return Finding("ok", what, f"ok, {days}")


def of_relay(connection: Mapping[str, Any]) -> Finding:
    """Of the drops that senders gave to the gateway for one connection."""
    what, state = f"billing connection {connection['connection']}", connection["state"]
    waiting = plural(connection["waiting"], "drop of senders waits", "drops of senders wait")
    if state != "ok":
        level: Level = "warning" if state == "retrying" else "fault"
        reason = connection["reason"] or "no reason is known"
        remedy = with_scopes(KEY_REMEDY, what, reason) if "key that can be read grants" in reason else BILLING_REMEDY
        return Finding(level, what, f"{state}, {waiting}: {reason}", remedy)
    if connection["refused"]:
        text = f"{plural(connection['refused'], 'drop of senders was', 'drops of senders were')} refused"
        return Finding("fault", what, text, "`billing relayed --state refused` states why; then --retry or --remove ID")
    return Finding("ok", what, f"ok, {waiting}")


def of_lane(name: str, lane: LaneStatus) -> Finding:
    what, state = f"lane {name}", lane["state"]
    waiting = f"{plural(lane['pending'], 'record waits', 'records wait')}"
    if state == "ok" or (state == "off" and not lane["pending"]):
        return Finding("ok", what, f"{state}, {waiting}" + (f"; {NOT_WANTED}" if lane["reason"] == NOT_WANTED else ""))
    text = f"{state}, {waiting}: {lane['reason'] or 'no reason is known'}"
    level: Level = "fault" if state == "held" or is_closed(lane) else "warning"
    return Finding(level, what, text, lane_remedy(name, lane))


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
