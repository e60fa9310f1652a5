"""One payload of an AI gateway -> what is left to count and keep, as plain types, so that a worker can read it. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from gateway.ingest.parsing.calls import pack
from gateway.ingest.parsing.points import packed
from gateway.ingest.trace_attributes import TraceUpdate
from gateway.normalise.attribution import attribute
from gateway.normalise.context import Context
from gateway.pricing.prices import Prices
from gateway.sources.catalogue import SOURCES
from gateway.sources.reading import read_source
from gateway.sources.source import Source


class ParsedSource(NamedTuple):
    calls: tuple[Any, ...]
    """The fields of a `Packed`."""
    measured: tuple[Any, ...] | None
    """The fields of a `PackedMetrics`; None where the payload sums up nothing."""
    answer: dict[str, object]
    """What the answer repeats of the payload."""
    threads: list[TraceUpdate] = []  # noqa: RUF012 a NamedTuple's default, never changed
    """What is said of threads, for `Threads.complete`."""
    threads_of_calls: dict[str, str] = {}  # noqa: RUF012 the same
    """Record id -> thread's id."""


def kind_of(name: str, first_line: int) -> str:
    """How a worker is told what to read: `litellm/1`."""
    return f"{name}/{first_line}"


def parse_source(
    kind: str,
    body: bytes,
    *,
    context: Context,
    prices: Prices,
    prefer_metrics: frozenset[str],
    sources: Mapping[str, Source] = SOURCES,
    **_: object,
) -> ParsedSource:
    """What *body* holds, sent to the source, from the line, that *kind* names. Raises BadPayload."""
    name, line = kind.rsplit("/", 1)
    read = read_source(name, body, context, first_line=int(line), sources=sources)
    measured = tuple(packed(read.measured)) if read.measured.items else None
    threads = [
        (thread.id, cast("dict[str, Any]", attribute({}, thread.who, context)), thread.at_ms) for thread in read.threads
    ]
    calls = tuple(pack(read.calls, prices, prefer_metrics, is_stamped=bool(context.key_fixes)))
    return ParsedSource(calls, measured, read.answer, threads, read.threads_of_calls)
