"""What the ledger compares of a report, as a fixed row of bytes. Pure.

Rows of a chunk lie one after the other, in memory while the chunk settles and in the spool's
`facts` column, so that a restart knows what the gateway knew. Unknown counts are -1, unknown
fingerprints 0. The three `prev_*` references chain reports of one parent, of one response id
and of one request id; they are remade when the ledger is rebuilt.

A *reference* names a report: chunk seq, index in it, and whether it is a
link (a span that is no call).
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from gateway.counting.calls.models import fingerprint, model_fingerprint
from gateway.rules.call import (
    BASIS_MASK,
    BASIS_SHIFT,
    LINK_BYTES,
    RANK_MASK,
    RANK_SHIFT,
    STATES_SHIFT,
    UNFINISHED,
    Call,
)

_FACT = struct.Struct("<16s8s8sqqQQQQQiiiiiHHQIIQQQQ")
_ROW = struct.Struct("<24s8sqqQQQQQiiiiiHHQIIQQQQ")
"""The same bytes, with trace and span id as one."""
_ROW_FORMATS = ("24s", "8s", *"qqQQQQQiiiiiHHQIIQQQQ")
ROW_FIELDS: Final = tuple(
    (struct.calcsize("<" + "".join(_ROW_FORMATS[:number])), kind) for number, kind in enumerate(_ROW_FORMATS)
)
"""Place in the row and kind of each field that `fact_row` packs."""
pack_row: Final = _ROW.pack
_KEYS = struct.Struct("<24s8s16xQQQ36xH18xQ24x")
"""The same bytes again, of which only what the ledger looks up is read."""
_SPANS = struct.Struct("<24s8s128x")
_REMEMBERED = struct.Struct("<24s8s32xQ40xQ8xQ24x")
DIGEST_BYTES = _FACT.size
TRACE_ID_BYTES = 16
"""With which a row begins."""
IDENTITY_BYTES = 24
"""Trace and span id, with which a row begins."""
_BEFORE_REQUESTS = DIGEST_BYTES - 16
"""A row as it was before it had `request` and `prev_request`, as a spool may still hold it."""
_CHAINS = struct.Struct("<QQQ")
CHAINS_BYTES = _CHAINS.size
_NO_CHAINS = bytes(CHAINS_BYTES)
NO_SPAN = bytes(8)
_MAX_COUNT = (1 << 31) - 1
OF_A_FAILURE = 0x5A5A_5A5A_5A5A_5A5A
"""The failed and the successful attempt of a fallback share their id and are two calls."""

HIT = 1
"""The gateway's cache answered: no provider billed it."""
FAILED = 2
REPORTED_COST = 4
# 8 to 128 are LOG, REPEAT, UNFINISHED, STAMPED and STREAM_PART, from RANK_SHIFT on stands the rank,
# from STATES_SHIFT on what the report states of `PEOPLE`: `gateway.rules.call`

WHOLE_WEIGHT = 32
"""Completeness: what knowing each is worth; whole counts most, then what makes a price."""
CACHE_WEIGHT = 6
REASONING_WEIGHT = 4
RESPONSE_ID_WEIGHT = 8
COST_WEIGHT = 4
MODEL_WEIGHT = 4


_NO_COUNTS = (-1, -1, -1, -1, -1)


class CallDigest(NamedTuple):
    trace_id: bytes
    """The record id, for a report without a trace."""
    span_id: bytes
    """Of the record id's bytes for a report in a trace that has no
    span; zero for one without a trace."""
    parent_span_id: bytes
    start_ms: int
    end_ms: int
    source: int
    scope: int
    response: int
    """Fingerprint of the provider's response id."""
    request_model: int
    response_model: int
    input_tokens: int
    output_tokens: int
    cache_read: int
    cache_creation: int
    reasoning: int
    marks: int
    completeness: int
    """How much of the record is known; the fullest of several reports wins."""
    group: int
    """Product and sender, within which one way of reporting counts; 0 for none."""
    session: int
    """The session in the group; 0 where the report states none."""
    place: int
    """Where the service runs; 0 where the report does not state it."""
    request: int
    """Fingerprint of the request id, another one where the call
    failed; 0 where the report states none."""
    prev_child: int
    """Reference of the report before this one with the same parent."""
    prev_response: int
    """Reference of the report before this one with the same response id."""
    prev_request: int
    """Reference of the report before this one with the same request id."""


def identity(call: Call) -> bytes:
    """24 bytes that name the report itself: its trace and span id, or its
    record id where it has no span.

    A report without a span that stands in a trace keeps the trace id, so that its parent is
    found after a restart too.
    """
    if call.span_id:
        return call.trace_id + call.span_id
    record_id = bytes.fromhex(call.record["record_id"])
    return call.trace_id + record_id[:8] if call.trace_id else record_id + NO_SPAN


def digest_rows(calls: Sequence[Call]) -> bytes:
    """The rows of *calls*, one after the other, with empty chains."""
    return b"".join([fact_row(call) for call in calls])


def fact_row(call: Call, pack: Callable[..., bytes] = _ROW.pack) -> bytes:
    """The row of *call*, whose fields *pack* takes. One flat function: it runs once for every
    call.
    """
    (
        record,
        trace_id,
        span_id,
        parent_span_id,
        start_ms,
        end_ms,
        source,
        scope,
        _,
        own_marks,
        group,
        session,
        _,
        place,
        _,
    ) = call
    usage = record["usage"].get
    counts: tuple[int, ...] = (  # type: ignore[assignment]  # a TypedDict's bound `get` is typed as object
        usage("input_tokens", -1),
        usage("output_tokens", -1),
        usage("cache_read_input_tokens", -1),
        usage("cache_creation_input_tokens", -1),
        usage("reasoning_output_tokens", -1),
    )
    if usage("status") == "estimated":
        counts = _NO_COUNTS  # a tokenizer's: the provider's counts, which differ, are of the same call
    if None in counts:
        counts = tuple(-1 if count is None else count for count in counts)
    input_tokens, output_tokens, read, created, reasoning = counts
    request_model, response_model = record["request_model"], record["response_model"]
    response_id = record["response_id"]
    response = fingerprint(response_id) if response_id else 0
    marks = own_marks if record["billed"] else own_marks | HIT
    request_id = record.get("request_id")
    request = fingerprint(request_id) if request_id else 0
    if record["status"] == "error":
        marks |= FAILED
        request = request and request ^ OF_A_FAILURE
    who = record["attribution"]
    marks |= (
        ("user" in who) | ("session" in who) << 1 | ("team" in who) << 2 | ("project" in who) << 3
    ) << STATES_SHIFT
    score = (
        (input_tokens >= 0 and WHOLE_WEIGHT)
        + (output_tokens >= 0 and WHOLE_WEIGHT)
        + (read >= 0 and CACHE_WEIGHT)
        + (created >= 0 and CACHE_WEIGHT)
        + (reasoning >= 0 and REASONING_WEIGHT)
        + (response and RESPONSE_ID_WEIGHT)
    )
    if response_model:
        score += MODEL_WEIGHT
    if record.get("cost"):
        marks |= REPORTED_COST
        score += COST_WEIGHT
    row = (
        trace_id + span_id if span_id else identity(call),
        parent_span_id or NO_SPAN,
        start_ms,
        end_ms,
        source,
        scope,
        response,
        model_fingerprint(request_model) if request_model else 0,
        model_fingerprint(response_model) if response_model else 0,
    )
    try:
        return pack(*row, *counts, marks, score, group, session, place, request, 0, 0, 0)
    except struct.error:  # a count beyond 2^31: compared as the largest that fits
        return pack(*row, *(min(x, _MAX_COUNT) for x in counts), marks, score, group, session, place, request, 0, 0, 0)


def rank(fact: CallDigest) -> int:
    """Its place in its product's order of reports; 0 for none."""
    return fact.marks >> RANK_SHIFT & RANK_MASK


def basis_of(fact: CallDigest) -> int:
    """How its input was read, which no table knows (`rules.usage.ASSUMED`); 0 where it does not
    matter.
    """
    return fact.marks >> BASIS_SHIFT & BASIS_MASK


def keys_of(rows: bytes) -> Iterator[tuple[bytes, bytes, int, int, int, int, int]]:
    """Of each row: its identity, parent span id, source, scope, response, marks and request."""
    return _KEYS.iter_unpack(rows)


def spans_of(rows: bytes | bytearray) -> Iterator[tuple[bytes, bytes]]:
    """Of each row: its identity and parent span id."""
    return _SPANS.iter_unpack(rows)


def remembered_of(rows: bytes) -> Iterator[tuple[bytes, bytes, int, int, int]]:
    """Of each row: its identity, parent span id, response, group and request."""
    return _REMEMBERED.iter_unpack(rows)


def chained(rows: bytes, chains: Sequence[tuple[int, int, int, int]], left_out: AbstractSet[int]) -> bytes:
    """The rows less those *left_out*, with (index, prev_child, prev_response,
    prev_request) of *chains* written in.
    """
    if not chains and not left_out:
        return rows
    written = bytearray(rows)
    for i, *chain in chains:
        _CHAINS.pack_into(written, (i + 1) * DIGEST_BYTES - _CHAINS.size, *chain)
    if not left_out:
        return bytes(written)
    places = range(0, len(written), DIGEST_BYTES)
    return b"".join(written[at : at + DIGEST_BYTES] for i, at in enumerate(places) if i not in left_out)


def of_this_size(rows: bytes, n: int) -> bytes:
    """The *n* rows of a chunk in today's layout, also where an earlier release wrote them."""
    if not n or len(rows) != n * _BEFORE_REQUESTS:
        return rows
    old = [rows[at : at + _BEFORE_REQUESTS] for at in range(0, len(rows), _BEFORE_REQUESTS)]
    return b"".join([row[:-16] + bytes(8) + row[-16:] + bytes(8) for row in old])


def unpack_fact(rows: bytes | bytearray, index: int) -> CallDigest:
    return CallDigest._make(_FACT.unpack_from(rows, index * DIGEST_BYTES))


def bare_row(row: bytes, at_ms: int) -> bytes:
    """The row of a report of the same call of which only the time is known."""
    fact = unpack_fact(row, 0)
    bare = fact._replace(
        start_ms=at_ms, end_ms=at_ms, response=0, request_model=0, response_model=0,
        input_tokens=-1, output_tokens=-1, cache_read=-1, cache_creation=-1, reasoning=-1,
        marks=UNFINISHED, completeness=0, request=0, prev_child=0, prev_response=0, prev_request=0,
    )  # fmt: skip
    return _FACT.pack(*bare)


def with_chains(row: bytes | bytearray | memoryview, prev_child: int, prev_response: int, prev_request: int) -> bytes:
    """The same row with other references, for a ledger that is rebuilt."""
    return bytes(row[: DIGEST_BYTES - _CHAINS.size]) + _CHAINS.pack(prev_child, prev_response, prev_request)


def unchained(rows: bytes) -> bytes:
    """The same rows with empty chains."""
    bare = bytearray(rows)
    for end in range(DIGEST_BYTES, len(bare) + 1, DIGEST_BYTES):
        bare[end - CHAINS_BYTES : end] = _NO_CHAINS
    return bytes(bare)


# ---- links

_LINK = struct.Struct("<16s8s8sQ")
_LINK_IDS = struct.Struct("<16s8s8s")
LINK_ROW_BYTES = _LINK.size


class Link(NamedTuple):
    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    prev_child: int


def iter_links(links: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Trace, span and parent span id of each of *links*, as the normaliser gives them."""
    return _LINK_IDS.iter_unpack(links)


def links_of(rows: bytes) -> bytes:
    """The links of whole *rows*, as the normaliser gives them (`LINK_BYTES` each)."""
    return b"".join([rows[at : at + LINK_BYTES] for at in range(0, len(rows), LINK_ROW_BYTES)])


def unpack_link(rows: bytes | bytearray, index: int) -> Link:
    return Link._make(_LINK.unpack_from(rows, index * LINK_ROW_BYTES))


# ---- references


REF_STEP = 2
"""From one report's reference to the next one's in its chunk."""


SEQ_SHIFT = 22
MAX_IDX = (1 << 21) - 1


def call_ref(seq: int, idx: int) -> int:
    return seq << SEQ_SHIFT | idx << 1 | 0


def link_ref(seq: int, idx: int) -> int:
    return seq << SEQ_SHIFT | idx << 1 | 1


class Ref(NamedTuple):
    seq: int
    idx: int
    is_link: bool


def split_ref(ref: int) -> Ref:
    return Ref(ref >> SEQ_SHIFT, ref >> 1 & MAX_IDX, bool(ref & 1))
