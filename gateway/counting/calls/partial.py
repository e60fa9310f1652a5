"""Reports that state a part of a call: the create and the update of one generation. Pure.

1. A report that names no model does not know what was called: provider and operation are
   those of the report that names one, and where the call went well that model is the
   response's too, unless it is named.
2. The start is that of the report that knows it, the end that of the one that knows it, and
   the duration lies between. A beginning that is reported apart from its end began first.
3. A part that another report stated leaves no flag.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gateway.common.contract.flags import START_UNKNOWN, UNFINISHED
from gateway.rules.record import INPUT_ONLY, UNKNOWN_PROVIDER
from spool.record import Record


def complete_called(merged: dict[str, Any], report: Record, *, is_finished: bool) -> None:
    """Rule 1, before the names of *report* are filled in.

    *is_finished*: the fullest report states an end.
    """
    if merged.get("provider") not in {None, UNKNOWN_PROVIDER} or merged.get("request_model"):
        return
    model = report.get("request_model") or report.get("response_model")
    if not model:
        return
    merged["provider"] = report.get("provider")
    merged["operation"] = report["operation"]
    if is_finished and merged["status"] == "ok" and UNFINISHED in report["flags"]:
        merged["response_model"] = model
    usage = merged["usage"]
    if merged["operation"] in INPUT_ONLY and usage["status"] == "partial" and usage.get("input_tokens") is not None:
        usage["status"] = "reported"


def complete_times(merged: dict[str, Any], reports: Sequence[Record]) -> None:
    """Rules 2 and 3."""
    began = [report["started_at"] for report in reports if START_UNKNOWN not in report["flags"]]
    ended = [report["started_at"] for report in reports if report["flags"] and _knows_only_the_end(report)]
    if began and START_UNKNOWN in merged["flags"]:
        merged["started_at"] = min(began)
        merged["flags"].remove(START_UNKNOWN)
    if began and ended and merged.get("duration_ms") is None:
        merged["duration_ms"] = _ms_between(merged["started_at"], max(ended))
    opened = [report["started_at"] for report in reports if UNFINISHED in report["flags"] and _knows_its_start(report)]
    if opened and merged.get("duration_ms") is not None and min(opened) < merged["started_at"]:
        merged["duration_ms"] += _ms_between(min(opened), merged["started_at"]) or 0
        merged["started_at"] = min(opened)
    if UNFINISHED in merged["flags"] and any(UNFINISHED not in report["flags"] for report in reports):
        merged["flags"].remove(UNFINISHED)


def _knows_only_the_end(report: Record) -> bool:
    return START_UNKNOWN in report["flags"] and UNFINISHED not in report["flags"]


def _knows_its_start(report: Record) -> bool:
    return START_UNKNOWN not in report["flags"]


def _ms_between(start: str, end: str) -> int | None:
    """None where the clocks of both disagree."""
    duration = round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000)
    return duration if duration >= 0 else None
