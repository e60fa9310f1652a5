"""Whether to worry, and about what: the sentences at the top of the overview. Pure."""

from gateway.common.plural import plural
from gateway.observability.cell_faults import cell_faults
from gateway.observability.lane_log import waiting_in_vain
from gateway.observability.metrics import EDGE_OUTCOMES, LaneStatus, Status
from gateway.observability.quarantine import degraded
from gateway.usage.billing.lane import BillingStatus
from gateway.usage.billing.relay import BillingRelayStatus
from spool.dead_letters import QUARANTINED

WELL = "Every item is accounted for, and every lane in use delivers."


def faults_of(status: Status) -> list[str]:
    """What is wrong by *status*, a sentence each; empty when all is well."""
    edge, lanes = status["edge"], status["lanes"]
    faults = []
    if edge["received"] != sum(edge[outcome] for outcome in EDGE_OUTCOMES):
        faults.append("the counts at the edge do not add up")
    faults += [f"the counts of lane {name} do not add up" for name, lane in lanes.items() if not adds_up(lane)]
    waiting = waiting_in_vain(lanes)
    faults += [
        f"lane {name} is {lane['state']}"
        for name, lane in lanes.items()
        if lane["state"] in ("behind", "retrying", "held") and name not in waiting
    ]
    faults += waiting.values()
    if (cell := status.get("cell")) is not None:
        faults += [fault.text for fault in cell_faults(cell, max_bytes(status))]
    if (billing := status.get("billing")) is not None:
        faults += of_billing(billing)
    for connection in status.get("billing_relay", ()):
        faults += of_relay(connection)
    if "quarantine" in status and (why := degraded(status["quarantine"])) is not None:
        faults.append(why)
    refused = letters_to_look_at(status)
    if refused:
        faults.append(f"{plural(refused, 'record was', 'records were')} refused by the upstream")
    return faults


def max_bytes(status: Status) -> int | None:
    """`spool.max_bytes`, above which senders are refused."""
    return status["spool"]["max_bytes"] if "spool" in status else None


def of_billing(lane: BillingStatus) -> list[str]:
    """What is wrong with the lane of billing drops."""
    faults = [] if lane["state"] == "ok" else [f"lane billing is {lane['state']}"]
    if lane["days_refused"]:
        days = plural(lane["days_refused"], "day was", "days were")
        faults.append(f"{days} refused by the billing connection")
    return faults


def of_relay(connection: BillingRelayStatus) -> list[str]:
    """What is wrong with the drops of senders for one connection."""
    name, waiting = connection["connection"], plural(connection["waiting"], "drop waits", "drops wait")
    faults = []
    if connection["state"] != "ok":
        faults.append(f"billing connection {name} is {connection['state']}, and {waiting}")
    if connection["refused"]:
        faults.append(f"{plural(connection['refused'], 'drop was', 'drops were')} refused by billing connection {name}")
    return faults


def letters_to_look_at(status: Status) -> int:
    """Dead letters of the upstream that are still here; those that an operator dropped are dealt
    with, though they stay counted, and what the spool lost is no one's refusal.
    """
    if "dead_letters" in status:
        return sum(reason["records"] for reason in status["dead_letters"] if reason["reason"] != QUARANTINED)
    return sum(lane["dead_lettered"] for lane in status["lanes"].values())


def adds_up(lane: LaneStatus) -> bool:
    return lane["kept"] == lane["delivered"] + lane["pending"] + lane["dead_lettered"] + lane["expired"]
