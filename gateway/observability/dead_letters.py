"""Dead letters and resends as counts by lane and reason: what `/v2/status` and the
metrics report about them. Pure.
"""

from typing import TypedDict

from gateway.common.contract.json_types import Count, Time
from spool.clock import rfc3339_ms
from spool.dead_letters import DeadLetterSummary, ReasonCount
from spool.record import Lane


class ReasonFigures(TypedDict):
    """Dead letters of one lane that have one reason and are kept."""

    lane: Lane
    reason: str
    records: Count
    bytes: Count
    oldest_at: Time
    newest_at: Time


class ResendFigures(TypedDict):
    """What was sent again in one lane, or never will be; counted since the spool was made."""

    dead_letters: dict[str, Count]
    """`replayed`, `dropped`, `expired`"""
    sent_again: dict[str, Count]
    """Of delivered records: `delivered`, `refused`, `given_up`"""
    waiting: Count
    """Delivered records that are still to be sent again."""


def reason_figures(summary: DeadLetterSummary) -> list[ReasonFigures]:
    return [reason_json(reason) for reason in summary.reasons]


def reason_json(reason: ReasonCount) -> ReasonFigures:
    return {
        "lane": reason.lane,
        "reason": reason.reason,
        "records": reason.records,
        "bytes": reason.size_bytes,
        "oldest_at": rfc3339_ms(reason.oldest_ms),
        "newest_at": rfc3339_ms(reason.newest_ms),
    }


def resend_figures(summary: DeadLetterSummary) -> dict[Lane, ResendFigures]:
    """Only lanes of which there is anything to state."""
    figures: dict[Lane, ResendFigures] = {}

    def of(lane: Lane) -> ResendFigures:
        return figures.setdefault(lane, {"dead_letters": {}, "sent_again": {}, "waiting": 0})

    for lane, name, n in summary.counts:
        what, _, end = name.partition(".")
        group = of(lane)["dead_letters" if what == "dead_letters" else "sent_again"]
        group[end] = n
    for lane, n in summary.sending_again:
        of(lane)["waiting"] = n
    return figures
