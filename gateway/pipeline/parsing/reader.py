"""Spans in protobuf, read by the native extension by what Python's rules taught of their shapes.

It knows no rule. What it cannot read it leaves to the rules span by span (a gap), and then
learns the span's shape (`gateway.pipeline.parsing.lessons`). Spans that state something about
others, and what is odd in any way, leave the whole payload to the rules. Without the extension, the
rules read every payload.
"""

import itertools
import secrets
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from time import thread_time_ns
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from gateway.common.contract.errors import BadPayload, TooLarge
from gateway.common.contract.parsed_payload import ParsedPayload, Reported, Sent, Used
from gateway.common.contract.reader_status import ReaderStatus
from gateway.common.native import NATIVE, WHY_NOT, other_reader
from gateway.common.varying import Computation
from gateway.pipeline.parsing.joining import joined
from gateway.pipeline.parsing.lessons import lesson_of, refusal
from gateway.pipeline.parsing.parse import Parsed, ParseRules, Payload, parse, parsed_calls
from gateway.read import wire
from gateway.read.otlp_protobuf import decode_traces, one_span
from gateway.rules.attribution import resource_origin
from gateway.rules.context import Context
from gateway.rules.templates import WORDS, Refused, represent, roles_of, stand
from gateway.rules.traces import read_spans
from spool.span_form import SCOPE as RECORDS_SCOPE

MAX_BYTES: Final = 32 * 1024 * 1024
"""Of templates; with more, all are forgotten."""
MAX_CONTEXTS: Final = 16_384
"""Senders whose templates are known; with more, the one known longest is forgotten."""
MAX_GAPS: Final = 64
"""Of one payload; with more, Python reads all of it."""
MAX_GAP_BYTES: Final = 32 * 1024
"""Of the gaps of one payload, which are read in the gateway's own process; with more, as above."""
LESSONS_EACH: Final = 4
"""Shapes learnt of one payload at most."""
LESSONS_NS: Final = 500_000_000
"""Time for lessons at the start, and the most that is saved up."""
LESSONS_NS_PER_BYTE: Final = 3
"""Time for lessons that a payload brings: a tenth of what Python needs to read it. A
sender of a new shape with each span makes reading little slower."""
DIFFERS: Final = "differs"
NOT_RECORDED: Final = "not_recorded"
ODD: Final = "odd"
UNKNOWN: Final = "unknown"

_GapOf = tuple[bytes, bytes, bytes, int, int, str, bool]
"""Resource, scope and span; calls and bytes of links before it; why Python reads it, "" where it
may teach; whether another gap of the payload is alike."""


class ReadTogether(NamedTuple):
    """Payloads that were read together."""

    calls: ParsedPayload
    """Of all of them; what each service reported is in `sent`."""
    sent: Sequence[Sent]
    unpriced: Sequence[tuple[str, int]]
    """Model and calls of it without a price."""
    left: Sequence[int]
    """Places of the payloads that are to be read one by one."""


class ShapeReader:
    """Reads payloads of spans in protobuf, in any thread."""

    def __init__(self, rules: ParseRules, *, lessons_ns: int = LESSONS_NS) -> None:
        self._rules = rules
        self._stands = stand(secrets.token_bytes(32))
        self._reader: Any = None if NATIVE is None else NATIVE.Reader(sorted(WORDS), RECORDS_SCOPE, MAX_BYTES)
        self._contexts: dict[tuple[object, ...], int] = {}
        self._numbers = itertools.count()
        """Of contexts; none is given twice, as templates are of one context."""
        self._changes = rules.prices.changes
        self._lock = Lock()
        self._left_ns = self._most_ns = lessons_ns
        self.native_spans = 0
        self.python_spans: Counter[str] = Counter()
        """Reason -> single spans that Python read among others."""
        self.python_payloads: Counter[str] = Counter()
        """Reason -> payloads that Python read as a whole."""

    def status(self) -> ReaderStatus:
        """As `GET /v2/status` shows it."""
        return {
            "name": "python" if self._reader is None else "native",
            "why_not_native": WHY_NOT or None,
            "other_reader": other_reader(WHY_NOT),
            "native_spans": self.native_spans,
            "python_spans": dict(self.python_spans),
            "python_payloads": dict(self.python_payloads),
        }

    @property
    def template_bytes(self) -> int:
        """About how many the templates take."""
        return 0 if self._reader is None else int(self._reader.bytes)

    @property
    def reads_spans(self) -> bool:
        """Whether it reads any: the extension is there, and calls do not depend on metrics."""
        return self._reader is not None and not self._rules.prefer_metrics

    def reads(self, payload: Payload) -> bool:
        """Whether `parse` takes *payload*."""
        return self.reads_spans and payload.kind == "traces" and not payload.json

    def parse(self, payload: Payload, context: Context) -> Parsed | None:
        """As `gateway.pipeline.parsing.parse.parse`, byte for byte; None where Python has to read
        all of *payload*. Ask only where it `reads`.
        """
        number = self._number_of(context)
        found = self._reader.read(
            number, payload.body, context.received_at_ms, context.received_at, context.limits.max_items, MAX_GAPS
        )
        if found is None:
            self.python_payloads[ODD] += 1
            return None
        *parts, unpriced, gaps, is_whole = found
        calls = _calls(*parts)
        if gaps:
            silent = self._rules.prices.silent()
            is_whole = is_whole or sum(len(span) for _, _, span, *_ in gaps) > MAX_GAP_BYTES
            filled = None if is_whole else self._fill(calls, gaps, context, self._rules._replace(prices=silent))
            self._earn(len(payload.body))
            self._learn(gaps, number, context)
            if filled is None:
                self.python_payloads[gaps[-1][5] or UNKNOWN] += 1
                return None
            calls = filled
            unpriced += silent.unpriced.items()
        self.native_spans += calls.items - len(gaps)
        for model, n in unpriced:
            self._rules.prices.note_unpriced(model, n)
        return Parsed(calls)

    def read_together(self, bodies: Sequence[bytes], context: Context) -> ReadTogether | None:
        """*bodies* of spans in protobuf of one sender, each of which is read whole or left; None
        where each is to be read by itself. Nothing is noted of it until `note_together`.
        """
        if not self.reads_spans:
            return None
        limits = context.limits
        counts, parts, used, ai_spans, unpriced, sent, left = self._reader.read_together(
            self._number_of(context), bodies, context.received_at_ms, context.received_at, limits.max_items
        )
        return ReadTogether(_calls(counts, parts, used, [], ai_spans), sent, unpriced, left)

    def note_together(self, read: ReadTogether) -> None:
        """What was *read* is taken."""
        self.native_spans += read.calls.items
        for model, n in read.unpriced:
            self._rules.prices.note_unpriced(model, n)

    def _earn(self, n_bytes: int) -> None:
        """Python reads a payload of that size."""
        self._left_ns = min(self._left_ns + n_bytes * LESSONS_NS_PER_BYTE, self._most_ns)

    def _number_of(self, context: Context) -> int:
        """The number of all in *context* but its time."""
        if self._rules.prices.changes != self._changes:
            self._forget()
        key = _sender(context)
        known = self._contexts.get(key)
        if known is not None:
            return known
        with self._lock:
            if len(self._contexts) >= MAX_CONTEXTS:
                del self._contexts[next(iter(self._contexts))]
            return self._contexts.setdefault(key, next(self._numbers))

    def _forget(self) -> None:
        """Prices changed."""
        self._changes = self._rules.prices.changes
        self._contexts = {}
        self._reader.clear()

    # ---- gaps

    def _fill(
        self, calls: ParsedPayload, gaps: Sequence[_GapOf], context: Context, rules: ParseRules
    ) -> ParsedPayload | None:
        """*calls* with what Python reads in the *gaps*; None where it has to read all."""
        parts = [self._one(gap, context, rules) for gap in gaps]
        if None in parts:
            return None
        for gap in gaps:
            self.python_spans[gap[5] or UNKNOWN] += 1
        return joined(calls, [(*gap[3:5], part) for gap, part in zip(gaps, parts, strict=True) if part is not None])

    def _one(self, gap: _GapOf, context: Context, rules: ParseRules) -> ParsedPayload | None:
        """The span of *gap* by itself; None where it states something about others."""
        try:
            read = read_spans(decode_traces(one_span(*gap[:3]), context.limits), context)
        except (BadPayload, TooLarge):
            return None
        if read.is_related or read.out.rejected:
            return None
        return parsed_calls(read.out, context, rules)

    # ---- lessons

    def _learn(self, gaps: Sequence[_GapOf], number: int, context: Context) -> None:
        """Teach the shapes of *gaps*, as long as there is time for it."""
        new = [gap[:3] for gap in gaps if not gap[5] and not gap[6]]
        for parts in new[:LESSONS_EACH]:
            if self._left_ns <= 0:
                return
            began_ns = thread_time_ns()
            self._teach(parts, number, context)
            self._left_ns -= thread_time_ns() - began_ns

    def _teach(self, parts: tuple[bytes, bytes, bytes], number: int, context: Context) -> None:
        """Teach the shape of one span, and look whether both readers then agree on it."""
        try:
            sent = tuple(kind.FromString(part) for kind, part in zip(_KINDS, parts, strict=True))
        except DecodeError:
            return
        resource, scope, span = sent
        roles = roles_of(scope.name, scope.version, tuple(span.attributes), context.tags)
        service = resource_origin(resource, context).attribution.get("service_name")
        listed = [(name, *role) for name, role in roles.of.items()]
        self._reader.learn(number, *parts, service, listed, roles.reads_name, roles.refused or None)
        if roles.refused:
            return
        computation = Computation()
        try:
            payload = Payload("traces", one_span(*parts), json=False)
            true = parse(payload, context, self._rules._replace(prices=self._rules.prices.silent()))
            shape = represent(span, resource, scope, roles, context, self._stands, computation)
            lesson = lesson_of(shape, self._rules.prices, self._stands)
            self._reader.teach(number, *parts, lesson, "")
        except Refused as refused:
            self._refuse(parts, number, computation, refused.reason)
            return
        except Exception:  # noqa: BLE001 a rule may do anything with what stands for a value; an error's text may quote it
            self._refuse(parts, number, computation, NOT_RECORDED)
            return
        if not self._agree(payload, true, number, context):
            self._reader.teach(number, *parts, None, DIFFERS)

    def _refuse(self, parts: tuple[bytes, bytes, bytes], number: int, computation: Computation, reason: str) -> None:
        """Leave spans to Python of which all that was computed until the refusal comes out so."""
        try:
            self._reader.teach(number, *parts, refusal(computation), reason)
        except (ValueError, TypeError, OverflowError):  # a number that is no computation's
            self._reader.teach(number, *parts, None, reason)

    def _agree(self, payload: Payload, true: Parsed, number: int, context: Context) -> bool:
        found = self._reader.read(
            number, payload.body, context.received_at_ms, context.received_at, context.limits.max_items, 1
        )
        if found is None or found[6] or true.calls is None:
            return False
        return _calls(*found[:5]) == true.calls


_KINDS: Final[tuple[Any, ...]] = (
    wire.class_of("Resource"),
    wire.class_of("InstrumentationScope"),
    wire.class_of("Span"),
)


def _calls(
    counts: tuple[int, int, int],
    parts: tuple[list[bytes], bytes, bytes],
    used: list[Used],
    reported: list[Reported],
    ai_spans: list[tuple[str | None, str, int, list[bytes]]],
) -> ParsedPayload:
    """*counts*: items, ignored, suppressed; *parts*: records, rows, links."""
    items, ignored, suppressed = counts
    return ParsedPayload(
        items,
        ignored,
        {"not_a_call": suppressed} if suppressed else {},
        [],
        *parts,
        used,
        {},
        [],
        ai_spans,
        reported,
        [],
    )


def _sender(context: Context) -> tuple[object, ...]:
    """All of *context* that templates depend on; who sends a product's several ways is not in it,
    as such calls have no template.
    """
    sender = (context.key, context.counted_as, context.device_id, context.users, context.machines)
    known = (*sender, context.own_device, context.tags)
    return (*known, *context.key_fixes.items()) if context.key_fixes else known
