"""How billing drops fare, the gateway's own and those of senders, and what to do. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.common.plural import plural
from gateway.operate.findings.finding import Finding, Level
from gateway.operate.findings.lanes import DELIVERY, KEY_REMEDY, with_scopes

BILLING_REMEDY: Final = (
    "the connection has to be established and active at the upstream, and a key has to grant send-billing-data"
)


def of_billing(lane: Mapping[str, Any]) -> Finding:
    """Of the lane of billing drops."""
    what, days = "lane billing", f"{plural(lane['days_due'], 'day is', 'days are')} due"
    if lane["state"] != "ok":
        level: Level = "warning" if lane["state"] == "retrying" else "fault"
        reason = lane["reason"] or "no reason is known"
        return Finding(level, what, f"{lane['state']}, {days}", BILLING_REMEDY, reason, DELIVERY)
    if lane["days_refused"]:
        text = f"{plural(lane['days_refused'], 'day was', 'days were')} refused by the billing connection"
        remedy = "`telemetry-gateway billing show --month YYYY-MM` states why; then `telemetry-gateway billing send`"
        return Finding("fault", what, text, remedy, step=DELIVERY)
    return Finding("ok", what, f"ok, {days}")


def of_relay(connection: Mapping[str, Any]) -> Finding:
    """Of the drops that senders gave to the gateway for one connection."""
    what, state = f"billing connection {connection['connection']}", connection["state"]
    waiting = plural(connection["waiting"], "drop of senders waits", "drops of senders wait")
    if state != "ok":
        level: Level = "warning" if state == "retrying" else "fault"
        reason = connection["reason"] or "no reason is known"
        remedy = with_scopes(KEY_REMEDY, what, reason) if "key that can be read grants" in reason else BILLING_REMEDY
        return Finding(level, what, f"{state}, {waiting}", remedy, reason, DELIVERY)
    if connection["refused"]:
        text = f"{plural(connection['refused'], 'drop of senders was', 'drops of senders were')} refused"
        remedy = (
            "`telemetry-gateway billing relayed --state refused` states why; then repeat it with --retry or --remove ID"
        )
        return Finding("fault", what, text, remedy, step=DELIVERY)
    return Finding("ok", what, f"ok, {waiting}")
