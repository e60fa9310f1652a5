"""What is safe while something is wrong. Pure."""

from collections.abc import Mapping
from typing import Any

from gateway.common.plural import plural
from gateway.observability.metrics import EDGE_OUTCOMES
from gateway.operate.findings.lanes import adds_up
from spool.dead_letters import QUARANTINED


def safe_text(status: Mapping[str, Any]) -> str:
    """`Nothing that was accepted is lost: 120 records wait on disk, 3 refused records are kept.`

    What was refused is not in it: its senders were asked to send it again.
    """
    if not all_add_up(status):
        return "Whether something is lost is not known: the counts do not add up."
    kept = kept_texts(status)
    rest = f": {', '.join(kept)}" if kept else ""
    lost = lost_texts(status)
    return f"{', '.join(lost)}. All else is kept{rest}." if lost else f"Nothing that was accepted is lost{rest}."


def all_add_up(status: Mapping[str, Any]) -> bool:
    edge = status["edge"]
    is_edge_whole = edge["received"] == sum(edge[outcome] for outcome in EDGE_OUTCOMES)
    return is_edge_whole and all(map(adds_up, status["lanes"].values()))


def kept_texts(status: Mapping[str, Any]) -> list[str]:
    waiting = sum(lane["pending"] for lane in status["lanes"].values())
    refused = sum(each["records"] for each in status.get("dead_letters", ()) if each["reason"] != QUARANTINED)
    texts = [plural(waiting, "record waits", "records wait") + " on disk"] if waiting else []
    return [*texts, *([plural(refused, "refused record is", "refused records are") + " kept"] if refused else [])]


def lost_texts(status: Mapping[str, Any]) -> list[str]:
    """Records that are lost although they were acknowledged."""
    expired = sum(lane["expired"] for lane in status["lanes"].values())
    letters = sum(each["dead_letters"].get("expired", 0) for each in status.get("resends", {}).values())
    texts = []
    if expired:
        texts.append(f"{plural(expired, 'record was', 'records were')} given up for their age (spool.max_age)")
    if letters:
        texts.append(f"{plural(letters, 'refused record', 'refused records')} expired (spool.keep_dead_letters)")
    if salvages := status.get("quarantine", {}).get("salvages", 0):
        gone = status["quarantine"]["records"]
        how_many = "an unknown number of records" if gone is None else plural(gone, "record", "records")
        if gone != 0:
            texts.append(f"{how_many} could not be read after {plural(salvages, 'damage', 'damages')} of the spool")
    return texts
