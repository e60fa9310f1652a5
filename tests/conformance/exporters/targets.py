"""What the one contract suite asks of a target: to misbehave at random, and to state what it has.

A new exporter adds one class and its name in `TARGETS`.
"""

import asyncio
import errno
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Literal, Protocol, get_args

import orjson
import pytest

from exporters.base import Exporter
from exporters.console import ConsoleExporter
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.lanes import AiTelemetryExporter, OtlpTelemetryExporter, UsageEventsExporter
from exporters.cost_service.unit_cost import UnitCostExporter, UnitCostSettings
from exporters.file import FileExporter
from exporters.otlp.exporter import OtlpExporter, OtlpSettings
from exporters.pump import BatchLimits
from tests.conformance.exporters.conftest import CASES, ai_record, block_nothing, learn_no_base, span_ids_in
from tests.support.upstream import Reply, Seen, Upstream

SLOW_S = 0.02
LIES = (
    b'{"accepted":0,"rejected":[{"index":9999,"code":"x"},{"index":-1},{"index":"0"},{"index":true}]}',
    b'{"rejected":"everything"}',
    b'{"rejected":{"index":0}}',
    b'{"partialSuccess":{"rejectedSpans":"7","errorMessage":"none of it"}}',
    b'"rejected"',
    b'\xff\xfe"rejected"',
)
"""Successes whose lists of what they did not take mean nothing."""


class Target(Protocol):
    lane: str
    limits: BatchLimits

    def make_record(self, number: int) -> bytes: ...

    def open(self) -> Exporter:
        """A new exporter, as after a restart."""

    def misbehaving(self, chance: random.Random, share: float) -> "contextmanager[None]":
        """For that share of the requests something goes wrong."""

    def has(self) -> Counter[int]:
        """Number of record -> how often the target has it, as far as
        it cannot state repeats itself.
        """

    def assert_repeats_can_be_told(self) -> None:
        """What came more than once came in a form that shows it."""


class ServiceTarget:
    """The cost service, lane by lane: it takes what it read, then answers or not."""

    lies = LIES
    """Which of them it may tell: what means nothing to one reader may mean something to another."""

    def __init__(self, name: str, client: CostServiceClient, upstream: Upstream) -> None:
        case = CASES[name]
        self._name = name
        self.lane, self.limits, self.make_record = case.lane, case.limits, case.make_record
        self._numbers_in = case.numbers_in
        self._client = client
        self._upstream = upstream
        self._taken: set[int] = set()
        upstream.respond = self._take

    def open(self) -> Exporter:
        match self._name:
            case "ai_telemetry":
                return AiTelemetryExporter(self._client)
            case "ai_telemetry_otlp":
                return OtlpTelemetryExporter(self._client)
            case "unit_cost":
                return UnitCostExporter(self._client, UnitCostSettings(learn_no_base, block_nothing), Impatient())
            case _:
                return UsageEventsExporter(self._client, repeatable=True)

    @contextmanager
    def misbehaving(self, chance: random.Random, share: float) -> Iterator[None]:
        def respond(seen: Seen) -> Reply:
            return self._misbehave(seen, chance) if chance.random() < share else self._take(seen)

        self._upstream.respond = respond
        self._upstream.cut_share = lambda: chance.random() < share / 8
        yield
        self._upstream.cut_share = None
        self._upstream.respond = self._take

    def has(self) -> Counter[int]:
        return Counter(self._taken)

    def assert_repeats_can_be_told(self) -> None:
        by_key: dict[str, set[bytes]] = defaultdict(set)
        for seen in self._upstream.seen:
            by_key[seen.headers["Idempotency-Key"]].add(seen.body)
        assert all(len(bodies) == 1 for bodies in by_key.values()), "one idempotency key came with two bodies"

    def _take(self, seen: Seen) -> Reply:
        self._taken.update(self._numbers_in(seen))
        return Reply(202)

    def _misbehave(self, seen: Seen, chance: random.Random) -> Reply:  # noqa: PLR0911 - a table, a line a fault
        took = chance.random() < 0.5
        if took:
            self._take(seen)
        match chance.randrange(9):
            case 0:
                return Reply(429, headers={"Retry-After": str(chance.randrange(3))})
            case 1:
                return Reply(chance.choice([500, 502, 504]), body=b"<html>oops</html>")
            case 2:
                return Reply(503)
            case 3:
                return Reply(202 if took else 500, reset="after_reading")
            case 4:
                return Reply(202, body=b'{"accepted":', reset="mid_body")
            case 5:
                return Reply(202, reset="closed")
            case 6:
                self._take(seen)
                slow = asyncio.Event()
                asyncio.get_running_loop().call_later(SLOW_S, slow.set)
                return Reply(202, until=slow)
            case 7:
                self._take(seen)
                return Reply(chance.choice([200, 202]), body=chance.choice(self.lies))
            case _:
                return Reply(chance.choice([301, 302, 307, 308]), headers={"Location": f"{self._upstream.base_url}/x"})


class OtlpTarget(ServiceTarget):
    """A backend that takes OTLP, as a lane beside the service's; it knows a span by its id."""

    lies = (
        b'{"rejected":"everything"}',
        b'{"partialSuccess":{"rejectedSpans":"0","errorMessage":"a warning"}}',
        b'{"partialSuccess":{"rejectedSpans":null}}',
        b'{"partialSuccess":"none"}',
        b'"rejected"',
    )

    def __init__(self, upstream: Upstream, client: CostServiceClient) -> None:
        super().__init__("ai_telemetry_otlp", client, upstream)
        self.lane = "backend"

    def open(self) -> Exporter:
        return OtlpExporter(OtlpSettings(self._upstream.base_url))

    def assert_repeats_can_be_told(self) -> None:
        by_number: dict[int, set[bytes]] = defaultdict(set)
        for seen in self._upstream.seen:
            for number, span_id in zip(self._numbers_in(seen), span_ids_in(seen), strict=True):
                by_number[number].add(span_id)
        assert all(len(span_ids) == 1 for span_ids in by_number.values()), "one record came as two spans"


class FileTarget:
    """A file on a disk that fails: before, within and after a write."""

    lane = "archive"
    limits = BatchLimits(max_records=10, in_flight=1)

    def __init__(self, folder: Path) -> None:
        self._path = folder / "records.ndjson"

    def make_record(self, number: int) -> bytes:
        return ai_record(number)

    def open(self) -> Exporter:
        return FileExporter(self._path)

    @contextmanager
    def misbehaving(self, chance: random.Random, share: float) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            write, fdatasync, ftruncate = os.write, os.fdatasync, os.ftruncate
            patch.setattr("exporters.journal.os.write", lambda fd, data: self._torn(write, fd, data, chance, share))
            patch.setattr("exporters.journal.os.fdatasync", lambda fd: _failing(fdatasync, fd, chance, share))
            patch.setattr(
                "exporters.journal.os.ftruncate",
                lambda fd, size: _failing(lambda fd: ftruncate(fd, size), fd, chance, share),
            )
            yield

    def has(self) -> Counter[int]:
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        return Counter(int(orjson.loads(line)["record_id"], 16) for line in lines)

    def assert_repeats_can_be_told(self) -> None:
        """A file states nothing, so there must be none."""
        assert set(self.has().values()) <= {1}

    @staticmethod
    def _torn(write: Callable[[int, bytes], int], fd: int, data: bytes, chance: random.Random, share: float) -> int:
        if chance.random() < share:
            write(fd, data[: chance.randrange(len(data))])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)


def _failing(call: Callable[[int], None], fd: int, chance: random.Random, share: float) -> None:
    if chance.random() < share / 2:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    call(fd)


class ConsoleTarget:
    """A stream that breaks; what stood on it before cannot be taken back."""

    lane = "screen"
    limits = BatchLimits(max_records=10, in_flight=1)

    def __init__(self) -> None:
        self._stream = BrokenStream()

    def make_record(self, number: int) -> bytes:
        return ai_record(number)

    def open(self) -> Exporter:
        return ConsoleExporter(self._stream)

    @contextmanager
    def misbehaving(self, chance: random.Random, share: float) -> Iterator[None]:
        self._stream.breaks = lambda: chance.random() < share
        yield
        self._stream.breaks = lambda: False

    def has(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for line in self._stream.getvalue().splitlines():
            found[int(orjson.loads(line)["record_id"], 16)] = 1  # it is printed for people: at least once is all
        return found

    def assert_repeats_can_be_told(self) -> None:
        """By their record id."""


class Impatient:
    """A clock by which nothing ever has to wait for its turn."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic_s(self) -> float:
        self._now_s += 1.0
        return self._now_s

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None: ...


class BrokenStream(BytesIO):
    breaks: Callable[[], bool] = staticmethod(lambda: False)

    def write(self, data: bytes) -> int:  # type: ignore[override]  # bytes are all that is printed
        if self.breaks():
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        return super().write(data)

    def flush(self) -> None:
        if self.breaks():
            raise OSError(errno.EIO, os.strerror(errno.EIO))


TargetName = Literal["ai_telemetry", "usage_events", "unit_cost", "file", "console", "otlp"]
TARGETS: tuple[TargetName, ...] = get_args(TargetName)


def target_named(name: TargetName, client: CostServiceClient, upstream: Upstream, folder: Path) -> Target:
    match name:
        case "file":
            return FileTarget(folder)
        case "console":
            return ConsoleTarget()
        case "otlp":
            return OtlpTarget(upstream, client)
        case _:
            return ServiceTarget(name, client, upstream)
