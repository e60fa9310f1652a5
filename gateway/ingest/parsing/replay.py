"""Spans in protobuf, read in Python by what was learnt of their shapes: what the native extension
does, where it is not installed. Pure.

A span is known by the bytes of what repeats in it; a function made of its lesson
(`gateway.ingest.parsing.lesson_code`) then does what the rules did, and nothing else is decoded.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from gateway.decode import wire
from gateway.decode.limits import ParseLimits
from gateway.decode.otlp_protobuf import decode_raw_traces
from gateway.decode.slices import SLICE_BYTES
from gateway.ingest.parsing.learnt_shapes import (
    NO_NAMES,
    UNKNOWN,
    Key,
    Learnt,
    ScopeKey,
    ScopeShapes,
    ShapeMemory,
)
from gateway.ingest.parsing.lessons import Lesson
from gateway.normalise.ai_spans import MAX_TRACES
from gateway.normalise.templates import Role
from spool.span_form import SCOPE as RECORDS_SCOPE

WHOLE: Final = frozenset({"bearer", "related", "rejected"})
"""Why the rules read all of a payload that holds such a span: it states something about others, or
the answer names its place."""
FEW_GAPS: Final = 8
"""Of more, where they are most of what was read, the rest is not looked at."""
_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8
_NO_TRACE: Final = bytes(_TRACE_BYTES)
_NO_SPAN: Final = bytes(_SPAN_BYTES)
_FIELDS: Final = attrgetter(
    "attributes",
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "kind",
    "start_time_unix_nano",
    "end_time_unix_nano",
    "status.code",
)
_SPAN: Final[Any] = wire.class_of("RawSpan")
_SCOPE: Final[Any] = wire.class_of("InstrumentationScope")

Gap = tuple[bytes, bytes, bytes, int, int, str, bool]
"""As `gateway.ingest.parsing.reader` has it."""


class _Odd(Exception):
    """The rules read all of the payload."""


class ReplayReader:
    """As `gateway._native.Reader`, in any thread."""

    def __init__(self, max_bytes: int) -> None:
        self._memory = ShapeMemory(max_bytes)

    def read(
        self, context: int, body: bytes, received_ms: int, received_at: str, max_items: int, max_gaps: int
    ) -> tuple[Any, ...] | None:
        """What the spans of *body* come to, and the gaps that the rules read; None where these have
        to read all of it.
        """
        reading = _Reading(self._memory.scopes, context, (received_ms, received_at), max_items, max_gaps)
        try:
            for resource_spans in decode_raw_traces(body, ParseLimits(max_items)).resource_spans:
                reading.resource(resource_spans)
        except Exception:  # noqa: BLE001 - whatever it is, the rules say what the payload is
            return None
        return reading.output()

    def learn(
        self,
        context: int,
        resource: bytes,
        scope: bytes,
        span: bytes,
        service: str | None,
        roles: Sequence[tuple[str, Any, int]],
        reads_name: bool,  # noqa: FBT001 - the extension's interface
        refused: str | None,
    ) -> None:
        """Note how spans of a scope with the names of *span* are read.

        *roles*: attribute -> (kind, number); *refused*: why the rules read all of them.
        """
        entries, of = _SPAN.FromString(span).attributes[:], {name: Role(*role) for name, *role in roles}
        key = context, resource, scope
        self._memory.learn(key, service, entries, of, reads_name=reads_name, refused=refused or "")

    def teach(
        self, context: int, resource: bytes, scope: bytes, span: bytes, lesson: Lesson | None, refused: str
    ) -> None:
        """Teach *lesson* for the shape of *span*. *refused*: why the rules read the spans that it
        holds for, or without it all of the shape. `learn` comes before.
        """
        message = _SPAN.FromString(span)
        entries, _, _, parent, name, kind, _, _, status = _FIELDS(message)
        rest = kind, status, parent in {b"", _NO_SPAN}, message.HasField("events"), name
        self._memory.teach((context, resource, scope), entries[:], rest, lesson, refused)

    def clear(self) -> None:
        """Forget everything: prices or rules changed."""
        self._memory.clear()

    @property
    def bytes(self) -> int:
        """About how much takes what was learnt."""
        return self._memory.bytes


class _Use:
    """What the spans of one lesson come to in one payload."""

    __slots__ = ("learnt", "n", "sessions", "tokens", "traces")

    def __init__(self, learnt: Learnt) -> None:
        self.learnt = learnt
        self.n = self.tokens = 0
        self.sessions: dict[str, int] = {}
        """Session that varies -> tokens."""
        self.traces: set[bytes] = set()


class _Reading:
    """One payload."""

    def __init__(
        self,
        scopes: Mapping[ScopeKey, ScopeShapes],
        context: int,
        received: tuple[int, str],
        left: int,
        max_gaps: int,
    ) -> None:
        self._scopes, self._context, self._received = scopes, context, received
        self._left, self._max_gaps = left, max_gaps
        self.items = 0
        self.records: list[bytes] = []
        self.rows: list[bytes] = []
        self.links: list[bytes] = []
        self.uses: dict[int, _Use] = {}
        """By the lesson's identity."""
        self.gaps: list[Gap] = []
        self.is_whole = False
        self._missed: set[Key] = set()

    def resource(self, message: Any) -> None:
        """The spans of one resource."""
        resource, scopes = _one(message.resource), message.scope_spans
        self._take(1 + len(scopes))
        if not len(scopes):
            raise _Odd  # its service is counted, and not known here
        for scope_spans in scopes:
            described, spans = _one(scope_spans.scope), scope_spans.spans
            if not len(spans):
                raise _Odd  # nothing states whether the scope is one
            self._take(len(spans))
            self._scope((self._context, resource, described), spans)

    def _take(self, items: int) -> None:
        self._left -= items
        if self._left < 0:
            raise _Odd

    def _scope(self, key: ScopeKey, spans: Sequence[Any]) -> None:  # noqa: C901, PLR0912 - the hot loop
        scope = self._scopes.get(key)
        if scope is None:
            if _SCOPE.FromString(key[2]).name == RECORDS_SCOPE:
                raise _Odd
            scope = ScopeShapes(None)
        latest, uses, links = scope.last, self.uses, self.links
        add_record, add_row = self.records.append, self.rows.append
        received_ms, received_at = self._received
        use: _Use | None = None
        for span in spans:
            attributes, trace_id, span_id, parent, name, kind, start, end, status = _FIELDS(span)
            parent = parent or _NO_SPAN
            if (
                len(trace_id) != _TRACE_BYTES
                or len(span_id) != _SPAN_BYTES
                or len(parent) != _SPAN_BYTES
                or trace_id == _NO_TRACE
                or span_id == _NO_SPAN
            ):
                raise _Odd
            self.items += 1
            entries = attributes[:]
            rest = kind, status, parent == _NO_SPAN, span.HasField("events"), name
            names = latest.get(len(entries), NO_NAMES)
            shape_key, values = names.values(entries, *rest)
            shape = names.shapes.get(shape_key)
            if shape is None:
                found = scope.names_of(entries)
                if found is not names:
                    names = found
                    shape_key, values = names.values(entries, *rest)
                shape = names.shapes.get(shape_key, UNKNOWN)
            done, refused = None, shape.refused
            for learnt in shape.learnt:
                done = learnt.run(values, trace_id, span_id, parent, start, end, received_ms, received_at)
                if done is not None:
                    refused = learnt.refused
                    break
            if done is None or refused:
                self._gap(key, span, refused, shape_key or tuple(entries))
                if self.is_whole:
                    return
                continue
            if use is None or use.learnt is not learnt:
                use = uses.get(id(learnt)) or uses.setdefault(id(learnt), _Use(learnt))
            use.n += 1
            if done is True:
                links.append(trace_id + span_id + parent)
                if len(use.traces) < MAX_TRACES:
                    use.traces.add(trace_id)
                continue
            record, row, tokens, session = done
            add_record(record)
            add_row(row)
            if session is None:
                use.tokens += tokens
            else:
                use.sessions[session] = use.sessions.get(session, 0) + tokens

    def _gap(self, key: ScopeKey, span: Any, refused: str, missed: Key) -> None:
        """Leave *span* to the rules; *missed* distinguishes it from gaps of other shapes."""
        n = len(self.gaps)
        if refused in WHOLE:
            self.is_whole = True
        elif n >= self._max_gaps or (n >= FEW_GAPS and self._is_mostly_gaps()):
            self.is_whole = True
            return
        is_repeated = bool(refused) or (key, missed) in self._missed
        self._missed.add((key, missed))
        sent = span.SerializeToString()
        if len(sent) > SLICE_BYTES:
            raise _Odd
        before = len(self.records), 32 * len(self.links)
        self.gaps.append((*key[1:], sent, *before, refused, is_repeated))

    def _is_mostly_gaps(self) -> bool:
        return 2 * len(self.gaps) > self.items

    # ---- what it comes to

    def output(self) -> tuple[Any, ...]:
        is_whole = self.is_whole or self._is_mostly_gaps()
        gaps = self.gaps
        if is_whole:  # the others are neither read by themselves nor learnt
            gaps = [gap for gap in gaps[:-1] if not (gap[5] or gap[6])] + gaps[-1:]
        uses = list(self.uses.values())
        counts = (
            self.items,
            sum(use.n for use in uses if use.learnt.lesson.is_ignored),
            sum(use.n for use in uses if use.learnt.lesson.is_suppressed),
        )
        parts = self.records, b"".join(self.rows), b"".join(self.links)
        return counts, parts, _used(uses), _reported(uses), _ai_spans(uses), _unpriced(uses), gaps, is_whole


def _one(parts: Sequence[bytes]) -> bytes:
    """The description of a container; b"" where it has none."""
    if len(parts) > 1 or (parts and len(parts[0]) > SLICE_BYTES):
        raise _Odd
    return parts[0] if parts else b""


def _used(uses: Sequence[_Use]) -> list[tuple[Any, ...]]:
    sums: dict[tuple[Any, ...], int] = {}
    for use in uses:
        call = use.learnt.lesson.call
        if call is None:
            continue
        service, device, instance, session, model, hole = call.used
        by_session: Mapping[str | None, int] = {session: use.tokens} if hole is None else use.sessions  # type: ignore[assignment]  # only read
        for each, tokens in by_session.items():
            key = service, device, instance, each, model
            sums[key] = sums.get(key, 0) + tokens
    return [(*key, tokens) for key, tokens in sums.items()]


def _reported(uses: Sequence[_Use]) -> list[tuple[str | None, int, int, int]]:
    sums: dict[str | None, list[int]] = {}
    for use in uses:
        call = use.learnt.lesson.call
        sums.setdefault(use.learnt.service, [0, 0, 0])[0] += use.n
        if call is not None:
            of_service = sums.setdefault(call.service, [0, 0, 0])
            of_service[1] += use.n
            of_service[2] += use.n * call.is_missing
    return [(service, max(items, calls), calls, missing) for service, (items, calls, missing) in sums.items()]


def _ai_spans(uses: Sequence[_Use]) -> list[tuple[str | None, str, int, list[bytes]]]:
    sums: dict[tuple[str | None, str], tuple[int, list[bytes]]] = {}
    for use in uses:
        source = use.learnt.lesson.ai_source
        if source is not None:
            n, traces = sums.get(source, (0, []))
            sums[source] = n + use.n, sorted({*traces, *use.traces})[:MAX_TRACES]
    return [(*source, n, traces) for source, (n, traces) in sums.items()]


def _unpriced(uses: Sequence[_Use]) -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for use in uses:
        call = use.learnt.lesson.call
        if call is not None and call.unpriced is not None:
            sums[call.unpriced] = sums.get(call.unpriced, 0) + use.n
    return list(sums.items())
