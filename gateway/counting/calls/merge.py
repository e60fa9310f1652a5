"""One record out of several reports of one call. Pure. Tokens are completed, never added."""

from collections.abc import Sequence
from typing import Any, cast

from gateway.contract.flags import UNFINISHED, UNPRICED
from gateway.counting.calls.partial import complete_called, complete_times
from spool.record import Cost, Record, Usage

"""Flag of a record without a cost."""
_FILLED = (
    "provider",
    "request_model",
    "response_model",
    "response_id",
    "request_id",
    "deployment",
    "region",
    "finish_reason",
    "duration_ms",
    "time_to_first_token_ms",
    "stream",
    "service_tier",
    "trace",
)
_INPUT_PARTS = ("cache_read_input_tokens", "cache_creation_input_tokens")
_OUTPUT_PARTS = ("reasoning_output_tokens", "audio_output_tokens")
_NESTED_PARTS = (
    ("cache_creation_1h_input_tokens", "cache_creation_input_tokens"),
    ("audio_input_tokens", "input_tokens"),
)
"""(part, the count that it lies within)"""


def merge(reports: Sequence[Record], record_id: str, *, stamped: Record | None = None) -> Record:
    """The reports' common record: the first (fullest) one, completed by what only the
    others know, under *record_id*.

    Whose call it is, *stamped* states first, the fullest of those that came under a key
    with labels: no other report may write over what the key fixes. A gateway's cache
    hit makes the call unbilled, whatever else reports it. A reported cost goes before an
    estimate, which goes before none.
    """
    merged: dict[str, Any] = dict(reports[0])
    merged["usage"] = dict(reports[0]["usage"])
    attributed = [*([] if stamped is None else [stamped]), *reports]
    merged["attribution"] = dict(attributed[0]["attribution"])
    merged["flags"] = list(reports[0]["flags"])
    for report in reports[1:]:
        complete_called(merged, report, is_finished=UNFINISHED not in reports[0]["flags"])
        for name in _FILLED:
            if merged.get(name) is None and report.get(name) is not None:
                merged[name] = report.get(name)
        if merged["status"] == "error" and merged.get("error_type") is None:
            merged["error_type"] = report.get("error_type")
        complete_usage(merged["usage"], report["usage"])
        if report.get("batch"):
            merged["batch"] = True
        if not report["billed"]:
            merged["billed"] = False
            merged["cost"] = report.get("cost")
        elif merged["billed"] and _states_more(report.get("cost"), merged.get("cost")):
            merged["cost"] = report.get("cost")
        merged["flags"] += [flag for flag in report["flags"] if flag not in merged["flags"]]
    for report in attributed[1:]:
        complete_attribution(merged["attribution"], cast("dict[str, Any]", report["attribution"]))
    complete_times(merged, reports)
    if merged.get("cost") is not None and UNPRICED in merged["flags"]:
        merged["flags"].remove(UNPRICED)
    merged["record_id"] = record_id
    return cast("Record", {name: value for name, value in merged.items() if value is not None})


def _states_more(theirs: Cost | None, mine: Cost | None) -> bool:
    if mine is None or theirs is None:
        return theirs is not None
    return theirs["source"] == "reported" and mine["source"] != "reported"


def complete_usage(usage: Usage, other: Usage) -> None:
    """Add to *usage* the counts that only *other* knows, as long
    as parts stay within their whole.
    """
    mine, theirs = cast("dict[str, Any]", usage), cast("dict[str, Any]", other)
    for whole in ("input_tokens", "output_tokens"):
        if mine.get(whole) is None and theirs.get(whole) is not None:
            mine[whole] = theirs[whole]
            mine["status"] = theirs["status"]
    if mine.get("status") == "partial" and None not in (mine.get("input_tokens"), mine.get("output_tokens")):
        mine["status"] = "reported"
    for parts, whole in ((_INPUT_PARTS, "input_tokens"), (_OUTPUT_PARTS, "output_tokens")):
        for part in parts:
            known = sum(mine.get(p) or 0 for p in parts)
            if _fits(mine, theirs, part, whole, known):
                mine[part] = theirs[part]
    for part, whole in _NESTED_PARTS:
        if _fits(mine, theirs, part, whole, 0):
            mine[part] = theirs[part]
    if theirs.get("other"):
        mine["other"] = {**theirs["other"], **mine.get("other", {})}


def _fits(mine: dict[str, Any], theirs: dict[str, Any], part: str, whole: str, known: int) -> bool:
    """Whether *part*, which only *theirs* states, lies within the *whole*
    beside the *known* parts of it.
    """
    if mine.get(part) is not None or theirs.get(part) is None or mine.get(whole) is None:
        return False
    return bool(known + theirs[part] <= mine[whole])


def complete_attribution(attribution: dict[str, Any], other: dict[str, Any]) -> None:
    for name, value in other.items():
        if name == "labels":
            attribution["labels"] = {**value, **attribution.get("labels", {})}
        elif attribution.get(name) is None:
            attribution[name] = value
