"""Sums of metrics that wait until it is known whether calls report the same usage. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.common.plural import plural
from gateway.observability.metrics import EDGE_OUTCOMES

WAITING: Final = "waiting"


def edge_parts(status: Mapping[str, Any]) -> dict[str, int]:
    """What became of the received items, in the order of the outcomes; a sum that waits is
    `waiting` here, not `kept`: calls may still cover it.
    """
    edge, waiting = status["edge"], status.get("waiting_metrics", 0)
    parts = {name: int(edge[name]) for name in EDGE_OUTCOMES}
    return parts if not waiting else {"kept": parts.pop("kept") - waiting, WAITING: waiting, **parts}


def waiting_note(status: Mapping[str, Any]) -> str | None:
    """A sentence on the sums that wait; None where none does."""
    waiting = status.get("waiting_metrics", 0)
    if not waiting:
        return None
    sums = plural(waiting, "sum of metrics waits", "sums of metrics wait")
    return f"{sums} and {'is' if waiting == 1 else 'are'} not in the totals yet: calls may report the same usage"
