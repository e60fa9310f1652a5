"""The tables of docs/answers.md, row by row: what becomes of three records, over a real socket,
exporter, pump and spool. The upstream gives the answer of the row to the whole batch, and to its
parts; where the row is not understood, the parts get an answer that is not understood at any size.
"""

import gzip
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import orjson
import pytest

from exporters.base import Exporter
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.lanes import AI_TELEMETRY_SCOPE, AiTelemetryExporter, OtlpTelemetryExporter
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.otlp.exporter import OtlpExporter, OtlpSettings
from exporters.pump import Pump
from exporters.secret import Secret
from spool.record import AI_TELEMETRY
from tests.support.durable_spool import DurableSpool
from tests.support.lane_runs import is_held_for_good, running_pump, skip_pauses_until, until
from tests.support.manual_clock import ManualClock
from tests.support.raw_upstream import RawAnswer, RawUpstream, Request, running_raw_upstream
from tests.support.spool_rig import assert_balanced

PAGE = (Path(__file__).parents[3] / "docs/answers.md").read_text()
NAMES = ("a", "b", "c")
RECORDS = [orjson.dumps({"schema": "inference/1", "record_id": name, "kind": "call"}) for name in NAMES]
NEVER_UNDERSTOOD = b'{"accepted":-1}'
ENOUGH = 12
"""Requests after which a lane that neither ends nor holds is left alone."""


class Row(NamedTuple):
    status: int
    sent_as: tuple[str, ...]
    body: bytes
    outcome: str

    def answer(self, body: bytes | None = None) -> RawAnswer:
        body, lines, ends = self.body if body is None else body, [f"HTTP/1.1 {self.status} X"], False
        for how in self.sent_as:
            match how:
                case "gzip":
                    body, lines = gzip.compress(body, mtime=0), [*lines, "Content-Encoding: gzip"]
                case "br":
                    body, lines = b"\x8b\x04\x80" + body, [*lines, "Content-Encoding: br"]
                case "UTF-16":
                    body = body.decode().encode("utf-16")
                case "nested":
                    body = b"[" * 20_000 + b"]" * 20_000
                case "cut":
                    lines, ends = [*lines, f"Content-Length: {len(body) + 10}"], True
                case "short length":
                    lines, ends = [*lines, "Content-Length: 2"], True
                case "chunked":
                    lines = [*lines, "Transfer-Encoding: chunked"]
                    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
                case _:
                    assert "/" in how, how
                    lines.append(f"Content-Type: {how}")
        if not {"cut", "short length", "chunked"} & set(self.sent_as):
            lines.append(f"Content-Length: {len(body)}")
        return RawAnswer("\r\n".join([*lines, "", ""]).encode() + body, ends=ends)


def rows(name: str) -> list[Row]:
    table = PAGE.split(f"<!-- answers: {name} -->")[1].split("\n\n")[1]
    return [
        Row(
            int(status),
            tuple(part.strip().strip("`") for part in sent_as.split(",") if part.strip()),
            body.strip("`").encode(),
            outcome,
        )
        for status, sent_as, body, outcome in (
            [cell.strip() for cell in line.strip("|").split(" |")] for line in table.splitlines()[2:]
        )
    ]


def ids(row: Row) -> str:
    return f"{row.status} {', '.join(row.sent_as)} {row.body.decode()[:40]}"


def test_the_page_has_sixty_answers() -> None:
    assert len({row[:3] for row in rows("records")}) >= 60


class Run:
    """Three records in the lane, and an upstream that answers as *row* has it."""

    def __init__(self, row: Row, store: DurableSpool, clock: ManualClock) -> None:
        self.row = row
        self.store = store
        self.clock = clock
        self.sizes: list[int] = []
        self.seen: list[Request] = []

    def respond(self, request: Request) -> RawAnswer:
        self.seen.append(request)
        size = sum(request.body.count(f'"{name}"'.encode()) or name in spans_of(request) for name in NAMES)
        self.sizes.append(size)
        is_part = size < len(NAMES) and self.row.outcome == "not understood" and self.row.status in range(200, 300)
        return self.row.answer(NEVER_UNDERSTOOD if is_part else None)

    def is_over(self, pump: Pump) -> bool:
        pending = self.store.depth(AI_TELEMETRY).pending
        return not pump.in_flight and (not pending or is_held_for_good(pump) or len(self.seen) >= ENOUGH)

    async def through(self, exporter: Exporter) -> Pump:
        await self.store.put(AI_TELEMETRY, RECORDS)
        async with running_pump(self.store, exporter, self.clock) as pump:
            await skip_pauses_until(lambda: self.is_over(pump), pump, self.clock)
            self.check(pump.state, pump.reason or "")
        assert self.store.leased(AI_TELEMETRY) == 0
        await assert_balanced(self.store)
        return pump

    def check(self, state: str, reason: str) -> None:
        depth = self.store.depth(AI_TELEMETRY)
        dead = [orjson.loads(record)["record_id"] for record, *_ in self.store.dead_letters(AI_TELEMETRY) if record]
        counts = (depth.delivered, depth.dead_lettered, depth.pending)
        match self.row.outcome:
            case "delivered":
                assert (counts, len(self.seen)) == ((3, 0, 0), 1)
            case "not understood":
                assert (counts, state) == ((0, 0, 3), "held")
                assert "the answer is not understood: it" in reason
                assert (self.sizes[:2], self.sizes[2] in {1, 2}) == ([3, 3], True), "the same bytes, then halves"
                assert self.repeats_the_first()
            case "ambiguous":
                assert (counts, state) == ((0, 0, 3), "retrying")
                assert (self.sizes[:2], self.sizes[2] in {1, 2}) == ([3, 3], True)
                assert self.repeats_the_first()
            case "no answer":
                assert (counts, state, set(self.sizes)) == ((0, 0, 3), "retrying", {3})
                assert len(set(self.keys())) == 1
            case "waits":
                assert (counts, state) == ((0, 0, 3), "retrying")
                assert len(set(self.keys())) == len(self.seen)
            case "held":
                assert (counts, state, len(self.seen)) == ((0, 0, 3), "held", 1)
                assert str(self.row.status) in reason
            case outcome if found := re.fullmatch(r"(.+) refused", outcome):
                refused = found[1].split(", ")
                assert (sorted(dead), counts) == (refused, (3 - len(refused), len(refused), 0))
            case outcome if found := re.fullmatch(r"(\d) not named", outcome):
                assert (dead, counts, len(self.seen)) == ([], (3 - int(found[1]), int(found[1]), 0), 1)
            case outcome:
                raise AssertionError(outcome)

    def keys(self) -> list[str]:
        return [request.headers.get("idempotency-key", "") for request in self.seen]

    def repeats_the_first(self) -> bool:
        first, second = self.seen[:2]
        return first.body == second.body and self.keys()[0] == self.keys()[1]


def spans_of(request: Request) -> set[str]:
    """Names of the records in an OTLP request: the attribute's value is a text of one byte."""
    return {name for name in NAMES if b"\x12\x03\x0a\x01" + name.encode() in request.body}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DurableSpool]:
    spool = DurableSpool(tmp_path / "data")
    yield spool
    await spool.close()


class Closes(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closes)


@asynccontextmanager
async def aclosing(what: C) -> AsyncIterator[C]:
    try:
        yield what
    finally:
        await what.close()


def client_of(upstream: RawUpstream) -> CostServiceClient:
    key = KeySetting("all", Secret("key-4711"), {AI_TELEMETRY_SCOPE}.__contains__)
    return CostServiceClient(Endpoint(upstream.base_url), Keyring([key]), "gw-1")


@pytest.mark.parametrize("row", rows("records"), ids=ids)
async def test_an_answer_to_records_becomes_what_the_page_says(
    row: Row, store: DurableSpool, clock: ManualClock
) -> None:
    run = Run(row, store, clock)
    async with running_raw_upstream(run.respond) as upstream, aclosing(client_of(upstream)) as client:
        await run.through(AiTelemetryExporter(client))


@pytest.mark.parametrize("row", rows("otlp"), ids=ids)
@pytest.mark.parametrize("to", ["the service", "a backend"])
async def test_an_answer_to_spans_becomes_what_the_page_says(
    row: Row, store: DurableSpool, clock: ManualClock, to: str
) -> None:
    run = Run(row, store, clock)
    async with running_raw_upstream(run.respond) as upstream, aclosing(client_of(upstream)) as client:
        of: dict[str, Callable[[], Exporter]] = {
            "the service": lambda: OtlpTelemetryExporter(client),
            "a backend": lambda: OtlpExporter(OtlpSettings(upstream.base_url)),
        }
        async with aclosing(of[to]()) as exporter:
            pump = await run.through(exporter)
    assert pump.counts.unnamed_refusals == (2 if row.outcome == "2 not named" else 0)


JSON_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


async def test_bytes_behind_an_answer_are_not_taken_for_the_next_one(store: DurableSpool, clock: ManualClock) -> None:
    """The upstream answers the first request twice; it refuses the second, whose answer would be
    taken for that to the third, and so on.
    """
    answers = [
        RawAnswer(JSON_OK % (2, b"{}"), later=JSON_OK % (2, b"{}")),
        RawAnswer(JSON_OK % (14, b'{"accepted":0}')),
    ]

    def respond(request: Request) -> RawAnswer:
        return answers[min(len(upstream.seen), 2) - 1]

    async with (
        running_raw_upstream(respond) as upstream,
        aclosing(client_of(upstream)) as client,
        running_pump(store, AiTelemetryExporter(client), clock) as pump,
    ):
        await store.put(AI_TELEMETRY, RECORDS[:1])
        await skip_pauses_until(lambda: store.depth(AI_TELEMETRY).delivered == 1, pump, clock)
        upstream.is_answered.set()
        await until(lambda: has_more(client))
        await store.put(AI_TELEMETRY, RECORDS[1:])
        await skip_pauses_until(lambda: is_held_for_good(pump), pump, clock)
    depth = store.depth(AI_TELEMETRY)
    assert (depth.delivered, depth.pending) == (1, 2)


def has_more(client: CostServiceClient) -> bool:
    """Whether a connection that is not in use has read more than its answer."""
    connector = client._session.connector
    assert connector is not None
    return any(protocol.should_close for free in connector._conns.values() for protocol, _ in free)


@pytest.mark.parametrize(
    "interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 3]
)
async def test_an_interim_answer_is_none(store: DurableSpool, clock: ManualClock, interim: bytes) -> None:
    run = Run(Row(200, (), b"{}", "delivered"), store, clock)
    respond = lambda request: RawAnswer(interim + run.respond(request).data)  # noqa: E731
    async with running_raw_upstream(respond) as upstream, aclosing(client_of(upstream)) as client:
        await run.through(AiTelemetryExporter(client))


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 20\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 99 X\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"220 mail.example ESMTP\r\n",
        b"<html>",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"",
    ],
)
async def test_what_is_no_answer_of_http_delivers_nothing(store: DurableSpool, clock: ManualClock, head: bytes) -> None:
    respond = lambda request: RawAnswer(head, ends=True)  # noqa: E731
    async with running_raw_upstream(respond) as upstream, aclosing(client_of(upstream)) as client:
        await store.put(AI_TELEMETRY, RECORDS)
        async with running_pump(store, AiTelemetryExporter(client), clock) as pump:
            await skip_pauses_until(lambda: len(upstream.seen) >= 6 or pump.state == "held", pump, clock)
            assert pump.state in {"retrying", "held"}
    depth = store.depth(AI_TELEMETRY)
    assert (depth.delivered, depth.dead_lettered, depth.pending) == (0, 0, 3)
