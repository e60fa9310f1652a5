"""What the lanes to one target share: silence stops all of them, one probes,
and one answer opens all.
"""

import asyncio
from collections import Counter

import pytest
from structlog.testing import capture_logs

from exporters.base import Delivered, Hold, Outcome, Retry
from exporters.destination import PROBE_LONGEST_S, SILENCES, Destination
from exporters.http_client import Endpoint, HttpClient
from exporters.pump import NO_ANSWER, WATCHDOG_S, BatchLimits, Pump
from spool.record import Batch
from tests.support.lane_runs import running_pump, until
from tests.support.manual_clock import ManualClock
from tests.support.memory_spool import MemorySpool

LANES = ("ai_telemetry", "usage_events", "devices")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def destination(clock: ManualClock) -> Destination:
    return Destination(clock, lambda: 0.999)


class Target:
    """Answers or is silent, and states the destination so, as the client does."""

    def __init__(self, destination: Destination) -> None:
        self.answers = True
        self.outcome: Outcome = Delivered()
        self.tries: Counter[str] = Counter()
        self._destination = destination

    async def send(self, batch: Batch) -> Outcome:
        self.tries[batch.lane] += 1
        await asyncio.sleep(0)
        if not self.answers:
            self._destination.silent()
            return Retry("no answer", answered=False)
        self._destination.answered()
        return self.outcome

    async def close(self) -> None: ...


def go_down(destination: Destination) -> None:
    for _ in range(SILENCES):
        destination.silent()


def test_few_silences_prove_nothing_and_an_answer_forgets_them(destination: Destination) -> None:
    for _ in range(10):
        for _ in range(SILENCES - 1):
            destination.silent()
        destination.answered()
    assert not destination.is_down


def test_it_waits_longer_after_each_probe_that_meets_silence(destination: Destination, clock: ManualClock) -> None:
    go_down(destination)
    waits_s = []
    for _ in range(12):
        waits_s.append(round(destination.opens_at_s - clock.now_s))
        clock.now_s = destination.opens_at_s
        assert destination.launch()
        assert destination.opens_at_s == clock.now_s + PROBE_LONGEST_S, "others wait for the probe"
        destination.silent()
    assert waits_s == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_silence_of_what_was_under_way_before_is_no_news(destination: Destination) -> None:
    go_down(destination)
    opens_at_s = destination.opens_at_s
    go_down(destination)
    assert destination.opens_at_s == opens_at_s


def test_a_probe_that_never_got_there_makes_room_for_another(destination: Destination, clock: ManualClock) -> None:
    go_down(destination)
    clock.now_s = destination.opens_at_s
    probe = destination.launch()
    destination.landed(probe=probe)
    assert destination.opens_at_s == clock.now_s


async def test_lanes_of_a_target_that_is_down_wait_together_and_go_on_together(
    destination: Destination, clock: ManualClock
) -> None:
    store, target = MemorySpool(clock), Target(destination)
    target.answers = False
    for lane in LANES:
        store.add(lane, [b"%d" % number for number in range(20)])
    limits = BatchLimits(max_records=1)
    pumps = [
        Pump(lane, store, target, limits=limits, clock=clock, chance=lambda: 0.999, destination=destination)
        for lane in LANES
    ]
    running = [asyncio.create_task(pump.run()) for pump in pumps]
    await until(lambda: destination.is_down and not any(pump.in_flight for pump in pumps))
    first = target.tries.total()
    assert first <= len(LANES) * limits.in_flight
    for _ in range(3600):  # an hour
        clock.advance(1.0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert sum(pump.in_flight for pump in pumps) <= 1, "more than one batch probes"
    assert {pump.state for pump in pumps} == {"retrying"}
    probes = target.tries.total() - first
    assert 10 <= probes <= 25, "an hour of probes of one target, whatever the number of its lanes"

    target.answers = True
    while not any(store.depth(lane).delivered for lane in LANES):
        clock.advance(1.0)
        for _ in range(10):
            await asyncio.sleep(0)
    await until(lambda: all(store.depth(lane).pending == 0 for lane in LANES))  # with the clock standing still
    assert {pump.state for pump in pumps} == {"ok"}
    for pump in pumps:
        await pump.stop(0.0)
    await asyncio.gather(*running)


async def test_a_lane_that_met_no_silence_itself_says_why_it_waits(
    destination: Destination, clock: ManualClock
) -> None:
    store, target = MemorySpool(clock), Target(destination)
    async with running_pump(store, target, clock, destination=destination) as pump:
        await until(lambda: pump.state == "ok")
        go_down(destination)
        assert (pump.state, pump.reason) == ("retrying", NO_ANSWER)
        store.add(pump.lane, [b"0"])
        clock.advance(0.5)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not target.tries
        clock.advance(WATCHDOG_S)
        await until(lambda: store.depth(pump.lane).pending == 0)
        assert (pump.state, pump.reason) == ("ok", None)


async def test_a_refused_key_is_one_lanes_matter(destination: Destination, clock: ManualClock) -> None:
    store, held, well = MemorySpool(clock), Target(destination), Target(destination)
    held.outcome = Hold("HTTP 403")
    for lane in LANES[:2]:
        store.add(lane, [b"0"])
    async with (
        running_pump(store, held, clock, lane=LANES[0], destination=destination) as holding,
        running_pump(store, well, clock, lane=LANES[1], destination=destination) as going,
    ):
        await until(lambda: store.depth(LANES[1]).pending == 0 and holding.state == "held")
        assert going.state == "ok"
        assert not destination.is_down


async def test_an_operators_word_tries_a_target_that_is_down_at_once(
    destination: Destination, clock: ManualClock
) -> None:
    store, target = MemorySpool(clock), Target(destination)
    store.add(LANES[0], [b"0"])
    go_down(destination)
    async with running_pump(store, target, clock, lane=LANES[0], destination=destination) as pump:
        for _ in range(100):
            await asyncio.sleep(0)
        assert not target.tries
        pump.wake()
        await until(lambda: store.depth(LANES[0]).pending == 0)


def test_an_outage_is_one_line_when_it_begins_and_one_with_its_length_when_it_ends(clock: ManualClock) -> None:
    destination = Destination(clock, lambda: 0.999, "costs.example:443")
    with capture_logs() as lines:
        for _ in range(SILENCES + 3):
            destination.silent()
            clock.now_s += 10
        destination.answered()
        destination.answered()
    assert [dict(line) for line in lines] == [
        {"event": "upstream does not answer", "log_level": "warning", "upstream": "costs.example:443"},
        {"event": "upstream answers again", "log_level": "info", "upstream": "costs.example:443", "silent_s": 80.0},
    ]


async def test_the_client_of_the_transport_gives_the_address() -> None:
    client = HttpClient(Endpoint("https://user.example:8443/api"), {})
    assert client.destination.address == "user.example:8443"
    await client.close()
