"""The contract that every exporter of the service keeps, through a real pump and real sockets;
pauses are skipped, not slept.
"""

import asyncio
import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from exporters.base import Exporter, Hold, Retry
from exporters.cost_service.client import CostServiceClient
from exporters.pump import Pump
from tests.conformance.exporters.conftest import KEY, Case, SpoolUnderTest
from tests.support.lane_runs import running_pump, skip_pauses_until, until
from tests.support.manual_clock import ManualClock
from tests.support.upstream import Reply, Seen, Upstream


@pytest.fixture(autouse=True)
def log_text() -> Iterator[io.StringIO]:
    """All that is logged, as text."""
    text = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(text))
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    yield text
    logging.getLogger().removeHandler(handler)
    structlog.reset_defaults()


class Run:
    """One lane with *count* records in it, its pump running until all are gone."""

    def __init__(self, case: Case, store: SpoolUnderTest, upstream: Upstream) -> None:
        self.case = case
        self.store = store
        self.upstream = upstream

    async def add(self, count: int, start: int = 0) -> None:
        await self.store.put(self.case.lane, [self.case.make_record(number) for number in range(start, start + count)])

    def drained(self) -> bool:
        return self.store.depth(self.case.lane).pending == 0

    def numbers(self) -> list[int]:
        return [number for seen in self.upstream.seen for number in self.case.numbers_in(seen)]

    def keys(self) -> list[str]:
        return [seen.headers["Idempotency-Key"] for seen in self.upstream.seen]


@pytest.fixture
def run(case: Case, store: SpoolUnderTest, upstream: Upstream) -> Run:
    return Run(case, store, upstream)


async def drain(run: Run, exporter: Exporter, clock: ManualClock) -> Pump:
    async with running_pump(run.store, exporter, clock, lane=run.case.lane, limits=run.case.limits) as pump:
        await skip_pauses_until(run.drained, pump, clock)
        assert pump.state == "ok"
    return pump


async def test_records_arrive_with_the_contracts_headers_and_path(
    run: Run, exporter: Exporter, clock: ManualClock
) -> None:
    await run.add(20)
    await drain(run, exporter, clock)
    assert sorted(run.numbers()) == list(range(20))
    for seen in run.upstream.seen:
        assert (seen.method, seen.path) == ("POST", run.case.path)
        assert seen.headers["Authorization"] == KEY
        assert seen.headers["Content-Type"] == run.case.content_type
        assert seen.headers["X-Gateway-Id"] == "gw-7f3a"
        assert seen.headers["User-Agent"].startswith("ai-telemetry-gateway/")
        assert seen.headers.get("Content-Encoding") == run.case.content_encoding
        assert len(seen.headers.getall("Authorization")) == 1  # type: ignore[attr-defined]  # a CIMultiDict
    assert len(set(run.keys())) == len(run.upstream.seen)


async def test_a_cut_before_the_request_was_read_is_tried_again(
    run: Run, exporter: Exporter, clock: ManualClock
) -> None:
    run.upstream.script.extend([Reply(reset="before_reading")] * 3)
    await run.add(1)
    await drain(run, exporter, clock)
    assert run.upstream.cut_unread == 3
    assert run.numbers() == [0]


@pytest.mark.parametrize("reset", ["after_reading", "mid_body"])
async def test_silence_after_the_request_repeats_the_same_bytes_under_the_same_key(
    run: Run, exporter: Exporter, clock: ManualClock, reset: str
) -> None:
    silence = Reply(202, reset="after_reading") if reset == "after_reading" else Reply(202, body=b"{", reset="mid_body")
    run.upstream.script.extend([silence] * 2)
    await run.add(1)
    await drain(run, exporter, clock)
    assert len(run.upstream.seen) == 3
    assert len({seen.body for seen in run.upstream.seen}) == 1
    assert len(set(run.keys())) == 1


async def test_an_answered_failure_repeats_the_same_bytes_under_another_key(
    run: Run, exporter: Exporter, clock: ManualClock
) -> None:
    run.upstream.script.extend([Reply(500), Reply(502), Reply(408), Reply(500, body=b"x", reset="mid_body")])
    await run.add(1)
    await drain(run, exporter, clock)
    assert len(run.upstream.seen) == 5
    assert len({seen.body for seen in run.upstream.seen}) == 1
    assert len(set(run.keys())) == 5


async def test_a_refused_key_holds_the_lane_and_keeps_its_data_until_the_secret_changes(
    run: Run, exporter: Exporter, clock: ManualClock, key_file: Path
) -> None:
    def respond(seen: Seen) -> Reply:
        return Reply(202) if seen.headers["Authorization"] == "fresh-key" else Reply(401, body=b'{"message":"no"}')

    run.upstream.respond = respond
    await run.add(50)
    async with running_pump(run.store, exporter, clock, lane=run.case.lane, limits=run.case.limits) as pump:
        await until(lambda: pump.state == "held" and not pump.in_flight)
        sends = len(run.upstream.seen)
        await skip_pauses_until(lambda: len(run.upstream.seen) >= sends + 5, pump, clock)
        assert run.store.depth(run.case.lane).pending == 50
        assert run.store.dead_letters(run.case.lane) == []
        await asyncio.to_thread(key_file.write_text, "fresh-key\n")
        await skip_pauses_until(run.drained, pump, clock)
    assert run.store.depth(run.case.lane).delivered == 50


async def test_retry_after_closes_the_lane_for_as_long_as_asked(
    run: Run, exporter: Exporter, clock: ManualClock
) -> None:
    run.upstream.script.append(Reply(429, headers={"Retry-After": "120"}))
    await run.add(1)
    started_s = clock.now_s
    await drain(run, exporter, clock)
    assert len(run.upstream.seen) == 2
    assert clock.now_s - started_s == 120.0


async def test_a_retry_after_date_is_honoured(run: Run, exporter: Exporter, clock: ManualClock) -> None:
    headers = {"Date": "Mon, 05 Jan 2026 10:00:00 GMT", "Retry-After": "Mon, 05 Jan 2026 10:00:42 GMT"}
    run.upstream.script.append(Reply(503, headers=headers))
    await run.add(1)
    started_s = clock.now_s
    await drain(run, exporter, clock)
    assert clock.now_s - started_s == 42.0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_holds_the_lane(
    run: Run, exporter: Exporter, clock: ManualClock, status: int
) -> None:
    run.upstream.script.append(Reply(status, headers={"Location": f"{run.upstream.base_url}/elsewhere"}))
    await run.add(1)
    async with running_pump(run.store, exporter, clock, lane=run.case.lane, limits=run.case.limits) as pump:
        await until(lambda: pump.state == "held" and not pump.in_flight)
        assert [seen.path for seen in run.upstream.seen] == [run.case.path]
        await skip_pauses_until(run.drained, pump, clock)
    assert {seen.path for seen in run.upstream.seen} == {run.case.path}


async def test_one_bad_record_is_buried_with_the_services_words(
    run: Run, exporter: Exporter, clock: ManualClock
) -> None:
    def respond(seen: Seen) -> Reply:
        bad = 7 in run.case.numbers_in(seen)
        return Reply(400, body=b'{"error":{"message":"no model","type":"invalid_record"}}') if bad else Reply(202)

    run.upstream.respond = respond
    await run.add(16)
    await drain(run, exporter, clock)
    assert run.store.dead_letters(run.case.lane) == [(run.case.make_record(7), "invalid_record", "no model")]
    assert run.store.depth(run.case.lane).delivered == 15


async def test_a_stop_while_the_upstream_hangs_loses_nothing_and_repeats_under_the_same_key(
    run: Run, exporter: Exporter, clock: ManualClock
) -> None:
    never = asyncio.Event()
    run.upstream.script.append(Reply(202, until=never))
    await run.add(1)
    async with running_pump(run.store, exporter, clock, lane=run.case.lane, limits=run.case.limits):
        await run.upstream.seen_at_least(1)
    assert run.store.leased(run.case.lane) == 0
    assert not run.drained()
    never.set()
    await drain(run, exporter, clock)
    assert len(run.upstream.seen) == 2
    assert len(set(run.keys())) == 1
    assert len({seen.body for seen in run.upstream.seen}) == 1


async def test_the_key_is_in_no_log_state_error_or_dead_letter_even_when_the_upstream_echoes_it(
    run: Run, exporter: Exporter, clock: ManualClock, client: CostServiceClient, log_text: io.StringIO
) -> None:
    echo = f'{{"message":"key {KEY} is bad","code":"{KEY}"}}'.encode()
    run.upstream.script.extend([Reply(500, body=echo), Reply(401, body=echo), Reply(400, body=echo)])
    await run.add(1)
    shown: list[str] = []
    async with running_pump(run.store, exporter, clock, lane=run.case.lane, limits=run.case.limits) as pump:
        while not run.drained():
            await asyncio.sleep(0)
            shown.append(f"{pump.state} {pump.reason}")
            await skip_pauses_until(lambda: not pump.in_flight, pump, clock)
            if run.upstream.seen and not run.drained():
                clock.advance(30.0)
    shown += [repr(exporter), repr(client), repr(client.keyring), repr(vars(client)), repr(vars(client.keyring))]
    shown += [repr(run.store.dead_letters(run.case.lane)), log_text.getvalue()]
    assert run.store.dead_letters(run.case.lane) != []
    assert "held" in "".join(shown)
    assert KEY not in "\n".join(shown)


async def test_an_unreachable_upstream_is_silence(
    case: Case, exporter: Exporter, upstream: Upstream, client: CostServiceClient, store: SpoolUnderTest
) -> None:
    client._base_url, client._address = "http://127.0.0.1:1", "127.0.0.1:1"
    await store.put(case.lane, [case.make_record(1)])
    batch = await store.freeze(case.lane, max_records=1, max_bytes=1000)
    assert batch is not None
    outcome = await exporter.send(batch)
    assert outcome == Retry("127.0.0.1:1 cannot be reached: Connection refused", answered=False)


async def test_without_a_key_nothing_is_sent(
    case: Case, exporter: Exporter, upstream: Upstream, client: CostServiceClient, store: SpoolUnderTest
) -> None:
    client.keyring.use([])
    await store.put(case.lane, [case.make_record(1)])
    batch = await store.freeze(case.lane, max_records=1, max_bytes=1000)
    assert batch is not None
    outcome = await exporter.send(batch)
    assert isinstance(outcome, Hold)
    assert not outcome.answered
    assert upstream.seen == []
