"""What a span's shape comes to, for the native reader: the record's JSON with holes, the ledger's
row, and what it adds to the payload's sums. Pure.

The plain tuples here are those of `native/src/reader/lesson.rs`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from gateway.common.json_bytes import json_bytes
from gateway.common.varying import Computation, Money, Time, Varying, VaryingText
from gateway.counting.calls.digest import OF_A_FAILURE, ROW_FIELDS, fact_row, pack_row
from gateway.counting.calls.models import fingerprint
from gateway.pipeline.parsing.parse import stamped, tokens_used
from gateway.rules.ai_spans import packed
from gateway.rules.call import Call
from gateway.rules.record import lacks_usage
from gateway.rules.templates import Refused, Representative, Stand
from gateway.usage.pricing.prices import Prices
from spool.span_form import span_record_id

Piece = tuple[str, int, bytes]
"""Kind, place or number, and the text of a `text`."""
Patch = tuple[str, int, int, int]
"""Kind, offset in the row, place or number, and what a fingerprint is changed by."""


class CallLesson(NamedTuple):
    record: list[Piece]
    row: bytes
    patches: list[Patch]
    used: tuple[str | None, str | None, int, str | None, str | None, int | None]
    """As `Used`; in the place of the tokens the number of the session's hole, None for none."""
    tokens: int
    """Place of the tokens."""
    service: str | None
    is_missing: bool
    unpriced: str | None
    """Model without a price; None where it has one, or needs none."""


class Lesson(NamedTuple):
    """What spans of one shape come to, where each of `conditions` comes out so."""

    nodes: list[tuple[str, int, int]]
    conditions: list[tuple[str, int, int, bool]]
    is_ignored: bool
    is_suppressed: bool
    ai_source: tuple[str | None, str] | None
    call: CallLesson | None


def lesson_of(shape: Representative, prices: Prices, stands: Stand) -> Lesson:
    """Raises Refused for what no template states, and whatever code raises that cannot work with
    what stands for a value.
    """
    computation, (out, *_), context = shape
    if shape.read.is_related:
        raise Refused("related")
    if out.rejected:
        raise Refused("rejected")
    ai_source = next(((service, scope) for service, scope, *_ in packed(out)), None)
    calls = stamped(out.calls, context)
    call = None
    if calls:
        if not calls[0].span_id or calls[0].group:
            raise Refused("ranked" if calls[0].group else "run")
        call = call_lesson(calls[0], computation, prices, stands)
    return Lesson(computation.nodes, computation.conditions, bool(out.ignored), bool(out.suppressed), ai_source, call)


def refusal(computation: Computation) -> Lesson:
    """Where all of *computation* comes out so, Python reads the span."""
    return Lesson(computation.nodes, computation.conditions, False, False, None, None)  # noqa: FBT003 no sums


def call_lesson(call: Call, computation: Computation, prices: Prices, stands: Stand) -> CallLesson:
    """What *call*, whose item stands for others, comes to. Raises as `lesson_of`."""
    record: Any = call.record
    if record["kind"] != "call":
        raise Refused("run")
    used: Any = tokens_used([call])
    service, device, instance, session, model, tokens = used[0]
    if not isinstance(tokens, Varying):
        tokens = computation.given("const", tokens, tokens)
    silent = prices.silent()
    silent.price(record, call.start_ms)
    row, patches = _row(call, stands)
    hole = session.number if isinstance(session, VaryingText) else None
    return CallLesson(
        list(_pieces(record, stands)),
        row,
        patches,
        (service, device, instance, None if hole is not None else session, model, hole),
        tokens.place,
        record["attribution"].get("service_name"),
        lacks_usage(record),
        next(iter(silent.unpriced), None),
    )


def _row(call: Call, stands: Stand) -> tuple[bytes, list[Patch]]:
    """The row with zeros for what varies, and where that stands."""
    record = cast("Any", {**call.record, **{x: _plain(call.record.get(x)) for x in ("response_id", "request_id")}})
    fields: tuple[Any, ...] = ()

    def keep(*packed_fields: Any) -> bytes:
        nonlocal fields
        fields = packed_fields
        return b""

    fact_row(call._replace(record=record), keep)
    marks = _fingerprints(stands)
    patches: list[Patch] = []
    row: list[Any] = []
    for (offset, kind), field in zip(ROW_FIELDS, fields, strict=True):
        if isinstance(field, Varying):
            patches.append(("count" if kind == "i" else "number", offset, field.place, 0))
        elif field in marks:
            patches.append(("fingerprint", offset, *marks[field]))
        row.append(0 if isinstance(field, Varying) or field in marks else field)
    return pack_row(*row), patches


def _plain(text: Any) -> Any:
    return _letters(text) if isinstance(text, VaryingText) else text


def _letters(text: VaryingText) -> str:
    return str.__str__(text)


def _fingerprints(stands: Stand) -> Mapping[Any, tuple[int, int]]:
    """Fingerprint in a row -> number of the text, and what it is changed by."""
    found: dict[Any, tuple[int, int]] = {}
    for text in stands.texts:
        mark = fingerprint(_letters(text))
        found[mark] = (text.number, 0)
        found[mark ^ OF_A_FAILURE] = (text.number, OF_A_FAILURE)
    return found


# ---- the record's JSON


def _pieces(record: Any, stands: Stand) -> Iterator[Piece]:
    """The JSON of *record*, cut where something varies."""
    mark = stands.received_at
    holes = _ids(stands)
    text = json_bytes(_with_marks(record, mark)).decode()
    named = "|".join(map(re.escape, (*holes, mark + "@")))
    at = 0
    for found in re.finditer(rf'"?(?:{named})(?:([a-z]+)(\d+);"?)?', text):
        begin, end, kind = found.start(), found.end(), found[1]
        is_number = kind == "number"
        if not is_number:  # the quotes around a text stay
            begin += found[0].startswith('"')
            end -= found[0].endswith('"')
        yield "text", 0, text[at:begin].encode()
        yield (kind or holes[text[begin:end]], int(found[2] or 0), b"")
        at = end
    yield "text", 0, text[at:].encode()


def _ids(stands: Stand) -> Mapping[str, str]:
    return {
        span_record_id(stands.trace_id, stands.span_id): "record_id",
        stands.trace_id.hex(): "trace_id",
        stands.span_id.hex(): "span_id",
        stands.parent_id.hex(): "parent_id",
    }


def _with_marks(value: Any, mark: str) -> Any:
    """*value* with a mark for each value that varies."""
    if isinstance(value, dict):
        return {name: _with_marks(part, mark) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_marks(part, mark) for part in value]
    match value:
        case Varying(place=place):
            return f"{mark}@number{place};"
        case Time(place) | Money(place):
            return f"{mark}@{type(value).__name__.lower()}{place};"
        case VaryingText(number=number):
            return f"{mark}@hole{number};"
        case _:
            return f"{mark}@received0;" if type(value) is str and value == mark else value
