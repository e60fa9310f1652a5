"""A gateway's report of one call -> the `Call` that is counted: times, identity, record.
Pure; shared by all sources.

1. The report's identity is the sender's own event id within its source, so the same
   report sent again is the same one.
2. A report without a time of its own stands at its receipt, flagged
   `received_time`, and for the ledger may have begun up to `UNTIMED_MS` before: so
   it still meets another report of its call.
3. A report that stands in a real trace (ids of 32 and 16 hex digits) keeps its place there.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from gateway.common.contract.flags import RECEIVED_TIME
from gateway.common.contract.outcomes import Rejection
from gateway.common.operations import like, merged
from gateway.rules import times
from gateway.rules.attribution import gateway_origin
from gateway.rules.call import BASIS_SHIFT, Call, Normalised
from gateway.rules.context import Context
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import Extracted
from gateway.rules.fingerprint import scope_fingerprint
from gateway.rules.record import call_record, error_name, event_record_id
from gateway.rules.texts import Json
from gateway.rules.usage import SHOWN
from spool.record import Source, Trace

UNTIMED_MS = 10 * 60 * 1000
_MAX_DURATION_MS = 24 * 3600 * 1000
_MS_PER_S = 1000
_SECONDS_BELOW = 10**11
"""Epoch numbers below it are seconds (until the year 5138), then come ms, then µs, then ns,
each a thousand times more."""
_HEX_TRACE = re.compile(r"[0-9a-f]{32}")
_HEX_SPAN = re.compile(r"[0-9a-f]{16}")


class Report(NamedTuple):
    """One call as a gateway reports it, beside its picked values."""

    picked: Extracted
    event_id: str
    """The sender's own id of this report; else what else distinguishes it from
    any other (`content_id`)."""
    start_ms: int | None = None
    """Epoch ms; None where the payload has no time."""
    end_ms: int | None = None
    duration_ms: float | None = None
    """Where it is reported by itself; else it is end less start."""
    failed: bool = False
    error: str | None = None
    """What the failure is called: a class, a code. A sentence becomes `error`."""
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    """Hex digits; anything else is left out."""
    version: str | None = None
    """Of the gateway that sent it."""
    channel: str = ""
    """Which of a source's ways to report this is, where it has several (`lago`, `openmeter`):
    they may report one call twice."""


def add_call(out: Normalised, report: Report, convention: Convention, position: str, context: Context) -> None:
    """Add the call of *report* to *out*, or its rejection where
    its time is none of an AI call's.
    """
    start_ms, end_ms, duration_ms = span_of_time(report)
    untimed = start_ms is None
    if start_ms is None or end_ms is None:
        end_ms = context.received_at_ms
        start_ms = end_ms
    if not times.FIRST_NS <= start_ms * times.NS_PER_MS < times.LAST_NS:
        out.rejected.append(Rejection("invalid_time", position))
        return
    out.note_position(position, "", report, convention)
    made = gateway_origin(convention.name, context)
    trace_id, span_id, parent = trace_ids(report)
    record = call_record(
        report.picked,
        convention=convention,
        source=source_of(convention.name, report.version),
        record_id=event_record_id(f"{convention.name}\x00{report.channel}", report.event_id),
        start_ms=start_ms,
        duration_ms=duration_ms,
        failed=report.failed,
        trace=trace_of(trace_id, span_id, parent),
        base=made.attribution,
        context=context,
    )
    if report.failed:
        record["error_type"] = error_name(report.error or "error")
    if untimed:
        record["flags"].append(RECEIVED_TIME)
    out.calls.append(
        Call(
            record,
            bytes.fromhex(trace_id) if span_id else b"",
            bytes.fromhex(span_id),
            bytes.fromhex(parent) if span_id else b"",
            start_ms - UNTIMED_MS if untimed else start_ms,
            max(start_ms, end_ms),
            made.source,
            scope_fingerprint(f"{convention.name}/{report.channel}"),
            report.event_id,
            report.picked.counts.get(SHOWN, 0) << BASIS_SHIFT,
        )
    )


def span_of_time(report: Report) -> tuple[int | None, int | None, int | None]:
    """Start, end and duration in ms, each from the others where it was not reported;
    all None without any time.
    """
    start_ms, end_ms, stated = report.start_ms, report.end_ms, report.duration_ms
    duration = round(stated) if stated is not None and 0 <= stated <= _MAX_DURATION_MS else None
    if start_ms is None and end_ms is None:
        return None, None, duration
    if start_ms is None and end_ms is not None:
        start_ms = end_ms - (duration or 0)
    elif end_ms is None and start_ms is not None:
        end_ms = start_ms + (duration or 0)
    elif (
        duration is None and start_ms is not None and end_ms is not None and 0 <= end_ms - start_ms <= _MAX_DURATION_MS
    ):
        duration = end_ms - start_ms
    return start_ms, end_ms, duration


@lru_cache(maxsize=1024)
def source_of(name: str, version: str | None) -> Source:
    """Shared by the records: never changed."""
    return {"format": f"source.{name}", "convention": name, "library": name, "library_version": version}


def trace_ids(report: Report) -> tuple[str, str, str]:
    """Trace, span and parent span id as hex digits; "" for what is none.

    A UUID's dashes are left out.
    """
    trace_id = hex_trace(report.trace_id)
    if not trace_id:
        return "", "", ""
    span_id, parent = report.span_id.lower(), report.parent_span_id.lower()
    return (
        trace_id,
        span_id if _HEX_SPAN.fullmatch(span_id) and int(span_id, 16) else "",
        parent if _HEX_SPAN.fullmatch(parent) and int(parent, 16) else "",
    )


def hex_trace(sent: str) -> str:
    """The trace id *sent* as hex digits; "" for what is none."""
    if not sent:
        return ""
    trace_id = sent.replace("-", "").lower()
    return trace_id if _HEX_TRACE.fullmatch(trace_id) and int(trace_id, 16) else ""


def trace_of(trace_id: str, span_id: str, parent: str) -> Trace | None:
    return {"trace_id": trace_id, "span_id": span_id or None, "parent_span_id": parent or None} if trace_id else None


def content_id(*parts: object) -> str:
    """An identity made of what a report states, for a sender that gives its reports no id.

    No content goes in: names, counts, times.
    """
    texts = ["" if part is None else part if type(part) is str else str(part) for part in parts]
    return merged("\x1f".join(texts), parts)


def epoch_ms(value: Json) -> int | None:
    """Milliseconds of a time as senders write it: RFC 3339 text, or seconds, ms, µs or ns
    since the epoch, also as text.

    A text without an offset is UTC. None when it is no time.
    """
    return like(_epoch_ms(value), value)


def _epoch_ms(value: Json) -> int | None:
    if isinstance(value, str):
        text = value.strip()
        if not (text.isascii() and text.replace(".", "", 1).isdigit()):
            return _text_ms(text)
        value = float(text) if "." in text else int(text) if len(text) <= 20 else None  # noqa: PLR2004 - digits of 64 bits
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if 0 < value < _SECONDS_BELOW:
        return round(value * _MS_PER_S)
    if not 0 < value < 10**20:
        return None
    while value >= _SECONDS_BELOW * _MS_PER_S:
        value = value // _MS_PER_S
    return int(value)


def _text_ms(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text[:40])
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return round(moment.timestamp() * _MS_PER_S)
    except (OverflowError, OSError):
        return None
