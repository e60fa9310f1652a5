"""What is wrong with a running gateway by its own report, and what to do: for `doctor`, `status`
and the top of the page. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from exporters.cost_service.liveness import LIVENESS_SCOPE
from exporters.keyring import no_key_grants
from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.observability.cell_faults import cell_faults
from gateway.observability.metrics import EDGE_OUTCOMES, CellStatus
from gateway.observability.quarantine import degraded
from gateway.operate.findings.billing import of_billing, of_relay
from gateway.operate.findings.finding import Finding, Level, Step
from gateway.operate.findings.lanes import DELIVERY, of_lane
from gateway.operate.findings.letters import of_letters
from gateway.operate.findings.senders import NOTHING_SENT, of_refused
from gateway.operate.site.words import size

MAX_UNPRICED: Final = 3
MODEL_MAX_CHARS: Final = 100
SPOOL_FULL_AT: Final = 0.8
DISK_LOW_BYTES: Final = 1 << 30
"""As the alerts have both: deploy/prometheus."""


def of_status(
    status: Mapping[str, Any], *, now_ms: int | None = None, letters: Sequence[Mapping[str, Any]] = ()
) -> Iterator[Finding]:
    """Of the document of `GET /v2/status`. *now_ms*: leaves out requests that were refused more
    than an hour ago. *letters*: the newest dead letters, for the upstream's words.
    """
    edge, lanes = status["edge"], status["lanes"]
    if edge["received"] != sum(edge[outcome] for outcome in EDGE_OUTCOMES):
        text = "what was received is not accounted for"
        yield Finding("fault", "counts", text, "report it with `GET /v2/status`", step=DELIVERY)
    if not edge["received"] and not status.get("refused"):
        yield NOTHING_SENT
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
    yield from of_spool(status)
    yield from of_letters(status.get("dead_letters", ()), letters)
    yield from of_unpriced(status.get("unpriced", {}))
    yield from of_refused(status.get("refused", ()), now_ms)


def of_spool(status: Mapping[str, Any]) -> Iterator[Finding]:
    """Damage, and room that runs out."""
    if "quarantine" in status and (why := degraded(status["quarantine"])) is not None:
        remedy = "docs/operations.md, `When the spool is damaged or lost`; then `telemetry-gateway spool acknowledge`"
        yield Finding("fault", "spool", why, remedy)
    spool: Mapping[str, Any] = status.get("spool", {})
    used, most, free = spool.get("used_bytes", 0), spool.get("max_bytes", 0), spool.get("disk_free_bytes")
    if most and used > SPOOL_FULL_AT * most:
        text = f"{used / most:.0%} full: {size(used)} of {size(most)} (spool.max_bytes)"
        why = "the upstream takes less than senders send; when it is full, senders are asked to wait"
        remedy = "look at the lanes; if they are well, raise spool.max_bytes"
        yield Finding("warning", "spool", text, remedy, why, DELIVERY)
    if free is not None and free < DISK_LOW_BYTES:
        text = f"{size(max(0, free))} are left on the disk of the data directory"
        remedy = "make room there, or lower spool.max_bytes or spool.keep_delivered"
        why = "when it is full, senders are asked to wait"
        yield Finding("fault" if free <= 0 else "warning", "disk", text, remedy, why, DELIVERY)


def of_unpriced(unpriced: Mapping[str, int]) -> Iterator[Finding]:
    """Models without a price, the most used first."""
    models = sorted(unpriced.items(), key=lambda each: (-each[1], each[0]))
    for model, calls in models[:MAX_UNPRICED]:
        name = harmless(model)[:MODEL_MAX_CHARS]
        text = f"{name} has no price; {plural(calls, 'call has', 'calls have')} no cost"
        why = "neither the price list nor your price file (pricing.file) has it"
        remedy = "add it to the price file (`pricing.file`); the page Prices writes the lines and says where they go"
        step = Step("Price it", f"/prices?{urlencode({'model': model})}")
        yield Finding("warning", "prices", text, remedy, why, step)
    if len(models) > MAX_UNPRICED:
        calls = sum(count for _, count in models[MAX_UNPRICED:])
        text = f"{plural(len(models) - MAX_UNPRICED, 'more model has', 'more models have')} no price; {plural(calls, 'call has', 'calls have')} no cost"
        yield Finding("warning", "prices", text, step=Step("See them all", "/prices"))


def of_cell(cell: CellStatus, max_bytes: int | None) -> Iterator[Finding]:
    """Who owns it, and what is wrong with it."""
    if cell["owner"] is not None:
        gateways = plural(len(cell["members"]), "gateway", "gateways")
        yield Finding("ok", "cell", f"{harmless(cell['owner'])} owns it, epoch {cell['epoch']}; {gateways}")
    for fault in cell_faults(cell, max_bytes):
        level: Level = "fault" if fault.stops_counting else "warning"
        yield Finding(level, "cell", harmless(fault.text), fault.remedy, step=DELIVERY)


def of_liveness(upstream: Mapping[str, Any]) -> Finding:
    """What the gateway found when it asked last; a warning alone, since the lanes state what they
    meet.
    """
    at, success = upstream["checked_at"], upstream["last_success_at"] or "never since the start"
    match upstream["liveness"]:
        case "unreachable":
            text, remedy = f"did not answer at {at}; a lane got through last: {success}", "check upstream.base_url"
            return Finding("warning", "liveness", text, remedy, step=DELIVERY)
        case "key_rejected_or_scope_missing":
            text = f"refused the key for {LIVENESS_SCOPE} at {at}; a lane got through last: {success}"
            remedy = f"have the key given {LIVENESS_SCOPE} at the service, or take it from the key in upstream.keys"
            return Finding("warning", "liveness", text, remedy, step=DELIVERY)
        case "no_key":
            text = f"not asked, since {no_key_grants([LIVENESS_SCOPE])}; a lane got through last: {success}"
            return Finding("ok", "liveness", text)
        case None:
            return Finding("ok", "liveness", "not asked yet")
        case _:
            return Finding("ok", "liveness", f"answered at {at}")
