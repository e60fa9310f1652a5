"""Delivery: what came in and what became of it, each lane, dead letters by reason, the spool."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aiohttp import web

from gateway.observability.metrics import LANE_OUTCOMES, Status
from gateway.observability.waiting_metrics import edge_parts, waiting_note
from gateway.operate.findings.lanes import adds_up
from gateway.operate.parts import PARTS
from gateway.operate.site.view import View

MAX_REASONS: Final = 50
LIVENESS: Final[Mapping[str | None, str]] = {
    "ok": "it answers and accepts a key",
    "key_rejected_or_scope_missing": "it answers, but refuses the key for the scope insights:read_insights",
    "unreachable": "it does not answer",
    "no_key": "unknown. No configured key has the scope insights:read_insights",
    None: "not checked yet",
}
"""What was found of the upstream, in words."""


LANE_TEXTS: Final[Mapping[str, str]] = {
    "ai_telemetry": "AI calls",
    "devices": "heartbeats",
}
OUTCOME_TEXTS: Final[Mapping[str, str]] = {
    "kept": "it became a record, which is on disk",
    "duplicate": "the same report came before",
    "suppressed": "it reports a call that is counted already",
    "rejected": "it cannot be a record; the answer said so",
    "ignored": "it is about no use of AI",
    "delivered": "the upstream took the record",
    "pending": "the record waits on disk to be sent",
    "dead_lettered": "the upstream refused the record for good; it is kept under Dead letters",
    "expired": "the record waited longer than spool.max_age and was given up",
}


CAME_BY: Final[Mapping[str | None, str]] = {
    "start": "It is the first owner.",
    "released": "The owner before it stopped.",
    "expired": "The owner before it fell silent.",
    None: "There was no owner yet.",
}
"""How a cell came to its owner, in words."""


class Identity(NamedTuple):
    """`received 10 = kept 7 + duplicate 2 + …`"""

    whole: str
    value: int
    parts: Mapping[str, int]

    @property
    def holds(self) -> bool:
        return self.value == sum(self.parts.values())


def delivery(status: Status) -> dict[str, Any]:
    """The template's context."""
    edge, lanes = status["edge"], status["lanes"]
    sums = {outcome: sum(int(lane[outcome]) for lane in lanes.values()) for outcome in LANE_OUTCOMES}
    reasons = status.get("dead_letters", ())
    return {
        "identities": [
            Identity("received", edge["received"], edge_parts(status)),
            Identity("kept", sums.pop("kept"), sums),
        ],
        "waiting_note": waiting_note(status),
        "lanes": lanes,
        "balanced": {name: adds_up(lane) for name, lane in lanes.items()},
        "outcomes": LANE_OUTCOMES[1:],
        "resends": status.get("resends", {}),
        "reasons": reasons[:MAX_REASONS],
        "further_reasons": max(0, len(reasons) - MAX_REASONS),
        "spool": status.get("spool"),
        "billing": status.get("billing"),
        "billing_relay": status.get("billing_relay", ()),
        "upstream": status.get("upstream"),
        "cell": status.get("cell"),
        "came_by": CAME_BY,
        "lane_texts": LANE_TEXTS,
        "outcome_texts": OUTCOME_TEXTS,
        "liveness": LIVENESS,
    }


async def load(request: web.Request) -> dict[str, Any]:
    return delivery(request.app[PARTS].status())


VIEW: Final = View(path="/delivery", title="Delivery", template="delivery.html", load=load)
