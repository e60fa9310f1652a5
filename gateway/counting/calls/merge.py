"""One record out of several reports of one call. Pure. Tokens are completed, never added."""

from collections.abc import Sequence
from typing import Any, cast

from gateway.common.contract.flags import BASIS_ASSUMED, UNFINISHED, UNPRICED
from gateway.counting.calls.partial import complete_called, complete_times
from gateway.rules.model_names import is_version
from gateway.rules.provider import counts_cache_apart
from spool.record import FIELDS, Cost, Record, Usage

_FILLED = FIELDS.merged("fill")
_ANY = FIELDS.merged("any")
_WHOLES = FIELDS.merged("whole", "usage")
_PARTS = tuple(
    (part.name, part.row.whole, FIELDS.parts_of(part.row.whole) if merge == "part" else ())
    for merge in ("part", "within")
    for part in FIELDS.of("usage")
    if part.row.merge == merge
)
"""Part, its whole, and all parts that add up to the whole."""
_JOINED = FIELDS.merged("join", "usage")
_LABELS = FIELDS.merged("join", "attribution")
_OWN = {"record_id", "billed", "operation", "started_at", "cost", "error_type", "flags", "usage.status"}
"""What a rule here, or in `partial`, decides."""
if {".".join(field.path) for field in FIELDS if field.row.merge == "own"} != _OWN:
    raise TypeError("the table has other fields that are merged by a rule of their own")


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
        _complete_fields(merged, cast("dict[str, Any]", report))
        if merged["status"] == "error" and merged.get("error_type") is None:
            merged["error_type"] = report.get("error_type")
        holds_more = _lacks_cache_of(merged["usage"], report["usage"]) or _knows_more_cache(
            report["usage"], merged["usage"]
        )
        complete_usage(merged["usage"], report["usage"])
        if not report["billed"]:
            merged["billed"] = False
            merged["cost"] = report.get("cost")
        elif merged["billed"] and _states_more(report.get("cost"), merged.get("cost"), holds_more=holds_more):
            merged["cost"] = report.get("cost")
        merged["flags"] += [flag for flag in report["flags"] if flag not in merged["flags"]]
    for report in attributed[1:]:
        complete_attribution(merged["attribution"], cast("dict[str, Any]", report["attribution"]))
    _place_models(merged, reports)
    complete_times(merged, reports)
    if merged.get("cost") is not None and UNPRICED in merged["flags"]:
        merged["flags"].remove(UNPRICED)
    if BASIS_ASSUMED in merged["flags"] and any(
        _shows_basis(report) or _lacks_cache_of(report["usage"], merged["usage"]) for report in reports
    ):
        merged["flags"].remove(BASIS_ASSUMED)
    merged["record_id"] = record_id
    return cast("Record", {name: value for name, value in merged.items() if value is not None})


def _place_models(merged: dict[str, Any], reports: Sequence[Record]) -> None:
    """Where one report has the version that answered in the place of the model that another one
    says was asked for, each has its own place. A version goes before the name that it is one of.
    """
    answered = merged.get("response_model")
    dated = next((name for x in reports if is_version(name := x.get("response_model"), answered)), None)
    if dated is not None:
        merged["response_model"] = dated
    stated = merged.get("request_model")
    others = [report.get("request_model") for report in reports]
    asked = next((name for name in others if is_version(stated, name)), stated)
    version = next((name for name in (stated, *others) if is_version(name, asked)), None)
    if version is None:
        return
    merged["request_model"] = asked
    if merged["status"] == "ok" and merged.get("response_model") is None:
        merged["response_model"] = version


def _complete_fields(merged: dict[str, Any], report: dict[str, Any]) -> None:
    for name in _FILLED:
        if merged.get(name) is None and report.get(name) is not None:
            merged[name] = report[name]
    for name in _ANY:
        if report.get(name):
            merged[name] = True


def _states_more(theirs: Cost | None, mine: Cost | None, *, holds_more: bool) -> bool:
    """*holds_more*: their estimate is of an input that holds the cache, which mine lacks."""
    if mine is None or theirs is None:
        return theirs is not None
    return mine["source"] != "reported" and (holds_more or theirs["source"] == "reported")


def _lacks_cache_of(mine: Usage, theirs: Usage) -> bool:
    """Whether my input is theirs without exactly the cache parts that either states, equal ones
    where both state them.
    """
    own, other = mine.get("input_tokens"), theirs.get("input_tokens")
    if own is None or other is None:
        return False
    together = 0
    for here, there in (
        (mine.get("cache_read_input_tokens") or 0, theirs.get("cache_read_input_tokens") or 0),
        (mine.get("cache_creation_input_tokens") or 0, theirs.get("cache_creation_input_tokens") or 0),
    ):
        if here and there and here != there:
            return False
        together += max(here, there)
    return other - own == together > 0


def _knows_more_cache(mine: Usage, theirs: Usage) -> bool:
    """Whether, of one input, more is known here to be cache reads and writes."""
    return mine.get("input_tokens") == theirs.get("input_tokens") and cached_of(mine) > cached_of(theirs)


def cached_of(usage: Usage) -> int:
    """Cache reads and writes."""
    return (usage.get("cache_read_input_tokens") or 0) + (usage.get("cache_creation_input_tokens") or 0)


def _shows_basis(report: Record) -> bool:
    """Whether it was known of a report what its input holds, which the provider leaves open."""
    model = report.get("response_model") or report.get("request_model")
    return (
        cached_of(report["usage"]) > 0
        and BASIS_ASSUMED not in report["flags"]
        and counts_cache_apart(report.get("provider"), model)
    )


def complete_usage(usage: Usage, other: Usage) -> None:
    """Add to *usage* the counts that only *other* knows, as long
    as parts stay within their whole.
    """
    mine, theirs = cast("dict[str, Any]", usage), cast("dict[str, Any]", other)
    if _lacks_cache_of(usage, other):
        mine["input_tokens"] = theirs["input_tokens"]
    for whole in _WHOLES:
        if mine.get(whole) is None and theirs.get(whole) is not None:
            mine[whole] = theirs[whole]
            mine["status"] = theirs["status"]
    if mine.get("status") == "partial" and None not in map(mine.get, _WHOLES):
        mine["status"] = "reported"
    for part, whole, parts in _PARTS:
        if _fits(mine, theirs, part, whole, parts):
            mine[part] = theirs[part]
    for name in _JOINED:
        if theirs.get(name):
            mine[name] = {**theirs[name], **mine.get(name, {})}


def _fits(mine: dict[str, Any], theirs: dict[str, Any], part: str, whole: str, parts: Sequence[str]) -> bool:
    """Whether *part*, which only *theirs* states, fits in the *whole* with the other *parts*. A 0
    states nothing where another report states more: senders write it of what they do not know.
    """
    stated, more = mine.get(part), theirs.get(part)
    if more is None or (stated is not None and (stated or not more)) or mine.get(whole) is None:
        return False
    return bool(sum(mine.get(name) or 0 for name in parts) + more <= mine[whole])


def complete_attribution(attribution: dict[str, Any], other: dict[str, Any]) -> None:
    for name, value in other.items():
        if name in _LABELS:
            attribution[name] = {**value, **attribution.get(name, {})}
        elif attribution.get(name) is None:
            attribution[name] = value
