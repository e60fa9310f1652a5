"""Spans of the gateway's own work, sampled: a request with its append, the settling of its chunk,
and the batch that takes its records to the upstream, linked to the request. They hold routes,
lanes, counts and outcomes; nothing of a payload. Pure but for the clock; `spans.py` writes them.

A request is sampled when it comes, by a share of all. What is remembered of it until its records
are sent is bounded, and so are the spans that wait for the next push; what does not fit is counted.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Final, Literal, NamedTuple, TypeVar

from exporters.attempts import outcome_name
from exporters.base import Delivered, Outcome
from spool.record import AI_TELEMETRY, Batch

MAX_SPANS: Final = 2048
MAX_REMEMBERED: Final = 10_000
"""Chunks, and records, of sampled requests that are on their way."""
MAX_LINKS: Final = 128
ID_CHARS: Final = 32
BEFORE_ID: Final = len('{"schema":"inference/1","record_id":"')
RECORD_ID_AT: Final = slice(BEFORE_ID, BEFORE_ID + ID_CHARS)
"""Where a stored record has its id (`gateway.rules.record`)."""
SERVER_ERROR: Final = 500

Kind = Literal["SERVER", "CLIENT", "INTERNAL"]

K = TypeVar("K")


class SpanContext(NamedTuple):
    trace_id: bytes
    span_id: bytes


class Span(NamedTuple):
    name: str
    kind: Kind
    context: SpanContext
    start_ns: int
    """Wall clock."""
    end_ns: int
    attributes: Mapping[str, str]
    parent_span_id: bytes = b""
    """Empty for a root."""
    links: Sequence[SpanContext] = ()
    is_error: bool = False


PRESENT: ContextVar[SpanContext | None] = ContextVar("own span", default=None)
"""Of the sampled request that this code runs for."""


class Tracer:
    def __init__(
        self,
        ratio: float,
        *,
        chance: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """*ratio* of the requests is sampled; *chance* draws from [0, 1)."""
        self._ratio = ratio
        self._chance = chance
        self._random_bytes = random_bytes
        self._now_ns = now_ns
        self._spans: deque[Span] = deque()
        self._chunks: OrderedDict[int, SpanContext] = OrderedDict()
        self._records: OrderedDict[bytes, SpanContext] = OrderedDict()
        self.dropped = 0
        """Spans that found no room."""

    # ---- a request

    def begin(self) -> SpanContext | None:
        """The context of a request that is sampled; None for one that is not."""
        if self._chance() >= self._ratio:
            return None
        context = self._new_context(self._random_bytes(16))
        PRESENT.set(context)
        return context

    def end(self, context: SpanContext, began_s: float, name: str, attributes: Mapping[str, str], status: int) -> None:
        """The request's answer is made, with the HTTP *status* or, of gRPC, its counterpart.

        *began_s* is of `perf_counter`.
        """
        PRESENT.set(None)
        is_error = status >= SERVER_ERROR
        self._add(Span(name, "SERVER", context, *self._since(began_s), attributes, is_error=is_error))

    def appended(self, seq: int, records: Sequence[bytes], began_s: float) -> None:
        """The present request's *records* are on disk, the first in chunk *seq*."""
        parent = PRESENT.get()
        if parent is None:
            return
        remember(self._chunks, [seq], parent)
        remember(self._records, [record[RECORD_ID_AT] for record in records[:MAX_LINKS]], parent)
        attributes = {"telemetry_gateway.records": str(len(records))}
        context, times = self._new_context(parent.trace_id), self._since(began_s)
        self._add(Span("append", "INTERNAL", context, *times, attributes, parent.span_id))

    # ---- what follows

    def settled(self, seqs: Iterable[int], began_s: float) -> None:
        """The chunks *seqs* may be sent."""
        links = [context for seq in seqs if (context := self._chunks.pop(seq, None)) is not None]
        if links:
            self._root("settle", "INTERNAL", began_s, {"telemetry_gateway.lane": AI_TELEMETRY}, links)

    def sent(self, batch: Batch, outcome: Outcome, took_s: float) -> None:
        """A batch came back from the upstream."""
        if not self._records:
            return
        is_done = isinstance(outcome, Delivered)
        found = (self._sent_record(record[RECORD_ID_AT], is_done=is_done) for record in batch.records)
        links = list(dict.fromkeys(context for context in found if context is not None))
        if links:
            attributes = {
                "telemetry_gateway.lane": batch.lane,
                "telemetry_gateway.outcome": outcome_name(outcome),
                "telemetry_gateway.records": str(len(batch.records)),
            }
            began_s = time.perf_counter() - took_s
            self._root(f"send {batch.lane}", "CLIENT", began_s, attributes, links, is_error=not is_done)

    def _sent_record(self, record_id: bytes, *, is_done: bool) -> SpanContext | None:
        return self._records.pop(record_id, None) if is_done else self._records.get(record_id)

    # ---- the push

    def take(self) -> list[Span]:
        """The spans that ended since; they are forgotten."""
        spans = list(self._spans)
        self._spans.clear()
        return spans

    def _new_context(self, trace_id: bytes) -> SpanContext:
        return SpanContext(trace_id, self._random_bytes(8))

    def _since(self, began_s: float) -> tuple[int, int]:
        end_ns = self._now_ns()
        return end_ns - max(0, round((time.perf_counter() - began_s) * 1e9)), end_ns

    def _root(
        self,
        name: str,
        kind: Kind,
        began_s: float,
        attributes: Mapping[str, str],
        links: Sequence[SpanContext],
        *,
        is_error: bool = False,
    ) -> None:
        context, times = self._new_context(self._random_bytes(16)), self._since(began_s)
        self._add(Span(name, kind, context, *times, attributes, links=links[:MAX_LINKS], is_error=is_error))

    def _add(self, span: Span) -> None:
        if len(self._spans) >= MAX_SPANS:
            self.dropped += 1
        else:
            self._spans.append(span)


def remember(known: OrderedDict[K, SpanContext], names: Iterable[K], context: SpanContext) -> None:
    """The oldest goes first where there are too many."""
    for name in names:
        known[name] = context
        if len(known) > MAX_REMEMBERED:
            known.popitem(last=False)
