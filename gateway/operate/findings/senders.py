"""What is wrong with those who send, and with requests that were refused. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gateway.common.contract.scopes import ENROLL_SCOPE, HEARTBEAT_SCOPE, INGEST_SCOPE
from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.operate import budgets, insights
from gateway.operate.edges import edges_in
from gateway.operate.findings.finding import Finding, Step
from gateway.operate.openapi.senders_port import senders_part

MAX_REFUSALS: Final = 5
RECENT_MS: Final = 3_600_000
SENDERS: Final = Step("See the senders", "/senders")
KEYS: Final = Step("Open the keys", "/keys", is_change=True)
CONNECT: Final = Step("See the settings of a sender", "/connect")
NOTHING_SENT: Final = Finding(
    "warning",
    "senders",
    "none has sent anything",
    "point one at it: `telemetry-gateway sources` shows how, for each kind",
    step=CONNECT,
)
REFUSAL_REMEDIES: Final[Mapping[str, str]] = {
    "no_key": "give the sender the header `Authorization` with a key; `telemetry-gateway keys create` makes one",
    "key_unknown_or_disabled": "`telemetry-gateway keys list`: is the sender's key there, and enabled?",
    "not_found": "correct the sender's path: `telemetry-gateway sources` lists those that there are",
    "grpc_on_http_port": "point the sender at the port of gRPC, or set its protocol to http/protobuf",
    "foreign_host": "make a key: open intake answers on loopback alone",
    "over_quota_requests": "raise the limits of the key, or let the sender wait: it was asked to send again later",
    "over_quota_bytes": "raise the limits of the key, or let the sender wait: it was asked to send again later",
    "bad_payload": "correct or update the sender: what it sends cannot be read, and the answer to it says why",
    "unsupported_media": "correct the sender's Content-Type: the answer to it names those that are read",
    "too_large": "have the sender send smaller batches, or raise the limit that the answer to it names",
    "spool_full": "make room, or raise spool.max_bytes: senders were asked to send again later",
}
REFUSAL_STEPS: Final[Mapping[str, Step]] = {
    "no_key": Step("Make a key", "/keys/new", is_change=True),
    "foreign_host": Step("Make a key", "/keys/new", is_change=True),
    "key_unknown_or_disabled": KEYS,
    "scope_missing": KEYS,
    "over_quota_requests": KEYS,
    "over_quota_bytes": KEYS,
    "not_found": CONNECT,
    "grpc_on_http_port": CONNECT,
}


def of_senders(answer: Mapping[str, Any]) -> Iterator[Finding]:
    """Of the list of senders; what is refused is in the status."""
    for each in answer["senders"]:
        name = harmless(each["service_name"] or each["product"] or "unknown")
        key = f" with key {each['key']}" if each["key"] else ""
        for warned in each["warnings"]:
            if warned["code"] != "refused":
                text = f"{name} ({each['format']}){key}: {warned['text']}"
                yield Finding("warning", "senders", text, warned["remedy"], step=SENDERS)


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


def of_refused(requests: Sequence[Mapping[str, Any]], now_ms: int | None = None) -> Iterator[Finding]:
    """*requests*: the latest first. *now_ms*: leaves out what was refused more than an hour ago."""
    since = None if now_ms is None else datetime.fromtimestamp((now_ms - RECENT_MS) / 1000, UTC).isoformat()
    recent = [each for each in requests if since is None or each["last_at"] >= since]
    for refused in recent[:MAX_REFUSALS]:
        yield Finding(
            "warning",
            "senders",
            refusal_text(refused),
            refusal_remedy(refused),
            step=REFUSAL_STEPS.get(refused["reason"], SENDERS),
        )


def refusal_text(refused: Mapping[str, Any]) -> str:
    """Neither what was presented as a key nor a path of the sender's own is in it."""
    path = "a path that is not served" if refused["reason"] == "not_found" else refused["route"]
    key = f" with the key {harmless(refused['last_key'])!r}" if refused.get("last_key") else ""
    return (
        f"{plural(refused['requests'], 'request', 'requests')} on {path} from {refused['last_peer']}{key}"
        f" refused with {refused['status']} ({refused['reason']}), the last at {time_text(refused['last_at'])}"
    )


def time_text(at: str) -> str:
    """`2026-01-05 10:00:00 UTC`"""
    return f"{at[:10]} {at[11:19]} UTC"


def refusal_remedy(refused: Mapping[str, Any]) -> str:
    """What to do about refused requests; of a missing scope, the command that adds it."""
    if refused["reason"] != "scope_missing":
        return REFUSAL_REMEDIES.get(refused["reason"], "docs/operations.md, `When nothing arrives`")
    scopes = " ".join(f"--scope {scope}" for scope in scopes_at(refused["route"]))
    return f"`telemetry-gateway keys edit {scopes} {refused['last_key']}`, with the scopes that it has already"


def scopes_at(route: str) -> list[str]:
    """Those that requests at a *route* of senders need; to enrol by a heartbeat also needs
    `ENROLL_SCOPE`.
    """
    shared = [each.scope for each in (insights.LIST, budgets.STATE) if each.path == route and each.scope]
    if shared:
        return shared
    described = senders_part()["paths"].get(route, {})
    found = {each["x-scope"] for each in described.values() if isinstance(each, dict) and "x-scope" in each}
    if not described:  # of gRPC
        return [INGEST_SCOPE]
    return sorted(found | ({ENROLL_SCOPE} if HEARTBEAT_SCOPE in found else set()))
