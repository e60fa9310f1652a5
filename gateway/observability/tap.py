"""The tap: each call as it settles, without its content, for operators.

One task reads settled chunks while someone watches, and only then, for a small share of the loop's
time. What it cannot keep up with it skips, and a watcher that reads slowly loses lines; both are
counted, and stated in the next line that the watcher gets.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal, TypedDict, cast

import orjson
import structlog

from gateway.common.contract.errors import Overloaded
from gateway.common.contract.json_types import Schema
from gateway.common.contract.tags import OF_FIELD, is_tag, tag_of
from gateway.common.traceback_summary import places
from gateway.usage.sums.tags import PARAMETER
from spool.errors import SpoolError
from spool.record import AI_TELEMETRY
from spool.store import SettledReader

log = structlog.get_logger()

Filters = Mapping[str, AbstractSet[str]]
"""Field of a line -> the values that pass; all of the fields must."""

FILTERS: Final = ("outcome", "provider", "model", "team", "project", "key", "service", "device", PARAMETER)
MAX_WATCHERS: Final = 8
MAX_WAITING: Final = 1000
"""Lines that wait for one watcher; older ones are dropped."""
LOOK_S: Final = 0.5
PAGE_BYTES: Final = 64 << 10
MAX_BEHIND: Final = 200
"""Chunks."""
SHARE: Final = 0.05
"""Of the loop's time."""


Outcome = Literal["kept", "duplicate", "suppressed", "rejected", "ignored"]


class Line(TypedDict):
    """A line of one record: names and figures, no user, no session, no content."""

    at: str | None
    """The start of the call."""
    received_at: str | None
    outcome: Outcome
    reason: str | None
    """As in the reasons of the status; null for a call of its own."""
    kind: str | None
    operation: str | None
    provider: str | None
    model: str | None
    status: str | None
    usage: str | None
    """Whether the sender stated the tokens."""
    input_tokens: Annotated[int | None, Schema(minimum=0)]
    cache_read_input_tokens: Annotated[int | None, Schema(minimum=0)]
    output_tokens: Annotated[int | None, Schema(minimum=0)]
    cost: Any
    """Amount, currency, and who states it; null where it is unknown."""
    duration_ms: float | None
    key: str | None
    environment: str | None
    team: str | None
    project: str | None
    service: str | None
    device: str | None
    labels: Mapping[str, str]
    """Those of the record; tags are among them."""
    source: str | None
    """The format in which it was reported."""
    record_id: str | None


class Watcher:
    """Lines for one reader."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._waiting: deque[Line] = deque()
        self._lost = 0
        self._ready = asyncio.Event()

    def put(self, lines: Sequence[Line], skipped: int) -> None:
        """Never waits."""
        self._lost += skipped
        for line in lines:
            if passes(line, self._filters):
                self._waiting.append(line)
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
            self._lost += 1
        if self._waiting or self._lost:
            self._ready.set()

    def wake(self) -> None:
        self._ready.set()

    async def take(self, timeout_s: float) -> tuple[list[Line], int]:
        """The lines that wait, and how many were lost before them; none after *timeout_s*."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
        except TimeoutError:
            return [], 0
        lines, lost = list(self._waiting), self._lost
        self._waiting.clear()
        self._lost = 0
        self._ready.clear()
        return lines, lost


class Tap:
    """The watchers, and the task that serves them."""

    def __init__(self, spool: SettledReader) -> None:
        self._spool = spool
        self._watchers: set[Watcher] = set()
        self._following: asyncio.Task[None] | None = None
        self.is_closed = False

    @asynccontextmanager
    async def watch(self, filters: Filters) -> AsyncIterator[Watcher]:
        """Lines of what settles from now on. Raises SpoolError; Overloaded for one too many."""
        if len(self._watchers) >= MAX_WATCHERS:
            raise Overloaded(f"{MAX_WATCHERS} taps are open already: close one")
        watcher = Watcher(filters)
        self._watchers.add(watcher)
        try:
            if self._following is None or self._following.done():
                self._following = asyncio.create_task(
                    self._follow(await self._spool.settled_seq(AI_TELEMETRY)), name="tap"
                )
            yield watcher
        finally:
            self._watchers.discard(watcher)

    async def close(self) -> None:
        """End what is open."""
        self.is_closed = True
        for watcher in self._watchers:
            watcher.wake()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})

    async def _follow(self, seq: int) -> None:
        """Read on from chunk *seq* while someone watches."""
        while self._watchers:
            try:
                seq, pause_s = await self._read_page(seq)
            except SpoolError as error:
                log.warning("the tap cannot read the spool", error=type(error).__name__, at=places(error))
                pause_s = LOOK_S
            await asyncio.sleep(pause_s)

    async def _read_page(self, seq: int) -> tuple[int, float]:
        """The chunk that was reached, and how long to pause."""
        page = await self._spool.settled_outcomes(AI_TELEMETRY, seq, max_bytes=PAGE_BYTES, max_behind=MAX_BEHIND)
        began_s = time.perf_counter()
        lines = [line for outcome, record in page.items if (line := line_of(outcome, record)) is not None]
        for watcher in self._watchers:
            watcher.put(lines, page.skipped)
        took_s = time.perf_counter() - began_s
        return page.through_seq, took_s * (1 / SHARE - 1) if page.is_more else LOOK_S


def line_of(outcome: str, record: bytes) -> Line | None:
    """The line of one record; None for bytes that cannot be read."""
    try:
        found = orjson.loads(record)
    except orjson.JSONDecodeError:
        return None
    return line_from(outcome, found)


def line_from(outcome: str, found: Mapping[str, Any]) -> Line:
    """The line of a record that was read."""
    word, _, reason = outcome.partition(".")
    usage, attribution = found.get("usage", {}), found.get("attribution", {})
    return {
        "at": found.get("started_at"),
        "received_at": found.get("received_at"),
        "outcome": cast("Outcome", word),
        "reason": reason or None,
        "kind": found.get("kind"),
        "operation": found.get("operation"),
        "provider": found.get("provider"),
        "model": found.get("response_model") or found.get("request_model"),
        "status": found.get("status"),
        "usage": usage.get("status"),
        "input_tokens": usage.get("input_tokens"),
        "cache_read_input_tokens": usage.get("cache_read_input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cost": found.get("cost"),
        "duration_ms": found.get("duration_ms"),
        "key": attribution.get("key"),
        "environment": attribution.get("environment"),
        "team": attribution.get("team"),
        "project": attribution.get("project"),
        "service": attribution.get("service_name"),
        "device": attribution.get("device_id"),
        "labels": attribution.get("labels") or {},
        "source": found.get("source", {}).get("format"),
        "record_id": found.get("record_id"),
    }


def passes(line: Line, filters: Filters) -> bool:
    return all(_value(line, name) in wanted for name, wanted in filters.items())


def _value(line: Line, name: str) -> Any:
    """Of a field of the line, or of a tag."""
    if not is_tag(name):
        return dict(line)[name]
    tag = tag_of(name)
    return line["environment"] if tag == OF_FIELD else line["labels"].get(tag)
