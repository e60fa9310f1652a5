"""One settled call by its record id, and the reports near it that share an id with it."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import orjson

from gateway.observability.settled_calls import EVERY_CHUNK, READ_BYTES, CallReader
from spool.record import AI_TELEMETRY

FIND_BYTES: Final = 64 << 20
"""Of records that one search reads."""
NEAR_BYTES: Final = 1 << 20
"""Of records before and after the call, where its other reports are looked for."""
MAX_RELATED: Final = 50

Relation = Literal["same_span", "response_id", "request_id", "above", "below", "same_trace", "same_time"]
BY_TIME: Final = frozenset({"twin", "other_report", "stream_end"})
"""Reasons by which a report without a common id is dropped for another one."""
CLOSE_MS: Final = 1_000
"""Between the begins of two such reports."""
Items = Iterable[tuple[str, bytes]]


class Report(NamedTuple):
    outcome: str
    """As `Outcomes` has it."""
    record: Mapping[str, Any]
    """As it is kept, or as it was dropped."""
    content: bytes


class FoundCall(NamedTuple):
    report: Report
    related: list[tuple[Relation, Report]]
    """By the time of their receipt."""


async def find(spool: CallReader, record_id: str, before_seq: int | None = None) -> FoundCall | None:
    """The call in chunks before *before_seq*; None where it is not among the newest `FIND_BYTES` of
    them. Raises SpoolError.
    """
    before_seq = await spool.settled_seq(AI_TELEMETRY) + 1 if before_seq is None else before_seq
    left_bytes = FIND_BYTES
    while left_bytes > 0:
        page = await spool.outcomes_before(AI_TELEMETRY, before_seq, max_bytes=READ_BYTES)
        if any(report.record.get("record_id") == record_id for report in with_any(page.items, [record_id])):
            newer = await spool.settled_outcomes(
                AI_TELEMETRY, before_seq - 1, max_bytes=NEAR_BYTES, max_behind=EVERY_CHUNK
            )
            older = await spool.outcomes_before(AI_TELEMETRY, page.through_seq, max_bytes=NEAR_BYTES)
            return found_among([*newer.items, *page.items, *older.items], record_id)
        if not page.is_more:
            return None
        before_seq = page.through_seq
        left_bytes -= sum(len(record) for _, record in page.items)
        await asyncio.sleep(0)
    return None


def found_among(items: list[tuple[str, bytes]], record_id: str) -> FoundCall:
    """A report that was sent twice has one id: the kept one is the call."""
    own = [each for each in with_any(items, [record_id]) if each.record.get("record_id") == record_id]
    report = next((each for each in own if each.outcome.startswith("kept")), own[0])
    near = with_any(items, ids_of(report.record))
    related = [
        (relation, each)
        for each in near
        if each.content is not report.content and (relation := relation_of(report, each)) is not None
    ]
    related.sort(key=lambda item: str(item[1].record.get("received_at")))
    return FoundCall(report, related[:MAX_RELATED])


def with_any(items: Items, ids: Iterable[str]) -> Iterator[Report]:
    """Those of *items* whose bytes hold one of *ids*, read."""
    wanted = [text.encode() for text in ids]
    for outcome, content in items:
        if any(text in content for text in wanted):
            try:
                yield Report(outcome, orjson.loads(content), content)
            except orjson.JSONDecodeError:
                continue


def ids_of(record: Mapping[str, Any]) -> list[str]:
    """Texts of which a related report has one."""
    trace = record.get("trace") or {}
    ids = (record["record_id"], record.get("response_id"), record.get("request_id"), trace.get("trace_id"))
    return [text for text in (*ids, service_of(record)) if text]


def service_of(record: Mapping[str, Any]) -> str | None:
    found: str | None = (record.get("attribution") or {}).get("service_name")
    return found


def relation_of(report: Report, other: Report) -> Relation | None:
    """What *other* shares with *report*; None for nothing."""
    by_id = relation_by_id(report.record, other.record)
    return "same_time" if by_id in {None, "same_trace"} and is_at_its_time(report, other) else by_id


def is_at_its_time(report: Report, other: Report) -> bool:
    """Whether one of the two was dropped for its time, and the other may be what it was dropped
    for.
    """
    if not {each.outcome.partition(".")[2] for each in (report, other)} & BY_TIME:
        return False
    mine, theirs = report.record, other.record
    is_close = abs(begin_ms(mine) - begin_ms(theirs)) <= CLOSE_MS
    return (
        is_close
        and service_of(mine) == service_of(theirs)
        and _agree(mine.get("usage") or {}, theirs.get("usage") or {})
    )


def begin_ms(record: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(record["started_at"]).timestamp() * 1000


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    tokens = {usage.get("output_tokens") for usage in (one, other)} - {None}
    return len(tokens) <= 1


def relation_by_id(record: Mapping[str, Any], other: Mapping[str, Any]) -> Relation | None:
    mine, theirs = record.get("trace") or {}, other.get("trace") or {}
    is_same_trace = mine.get("trace_id") is not None and mine.get("trace_id") == theirs.get("trace_id")
    if record["record_id"] == other.get("record_id"):
        return "same_span"
    for name in ("response_id", "request_id"):
        if _same(record, other, name):
            return "response_id" if name == "response_id" else "request_id"
    if not is_same_trace:
        return None
    if _same(mine, theirs, "span_id"):  # after the ids: a merged record may have the span of another report
        return "same_span"
    if mine.get("parent_span_id") and mine.get("parent_span_id") == theirs.get("span_id"):
        return "above"
    return "below" if mine.get("span_id") and mine["span_id"] == theirs.get("parent_span_id") else "same_trace"


def _same(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    return one.get(name) is not None and one.get(name) == other.get(name)
