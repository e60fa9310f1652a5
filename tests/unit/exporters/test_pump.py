"""The pump against a spool in memory and scripted exporters, under a clock that the test moves."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence

import pytest

from exporters.backoff import probe_delay_s
from exporters.base import Delivered, Hold, NotUnderstood, Outcome, Refused, Retry
from exporters.pump import WATCHDOG_S, BatchLimits, Pump
from spool.errors import SpoolError
from spool.record import Batch
from spool.store import Refusal
from tests.support.lane_runs import LANE, is_held_for_good, running_pump, skip_pauses_until, until
from tests.support.manual_clock import ManualClock
from tests.support.memory_spool import MemorySpool

Answers = Callable[[Batch], Outcome]


class Scripted:
    """Gives the outcomes of `script`, then what `answers` states; a
    send waits while `gate` is closed.
    """

    def __init__(self, *script: Outcome, answers: Answers = lambda batch: Delivered()) -> None:
        self.script = deque(script)
        self.answers = answers
        self.sent: list[Batch] = []
        self.delivered: list[bytes] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.under_way = 0
        self.most_under_way = 0

    async def send(self, batch: Batch) -> Outcome:
        self.sent.append(batch)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.gate.wait()
        finally:
            self.under_way -= 1
        outcome = self.script.popleft() if self.script else self.answers(batch)
        if isinstance(outcome, Delivered):
            gone = {refusal.index for refusal in outcome.refused}
            self.delivered += [record for index, record in enumerate(batch.records) if index not in gone]
        return outcome

    async def close(self) -> None: ...


def records(count: int, size_bytes: int = 0) -> list[bytes]:
    return [str(number).encode().ljust(size_bytes, b".") for number in range(count)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemorySpool:
    return MemorySpool(clock)


def drained(store: MemorySpool) -> bool:
    return store.depth(LANE).pending == 0


async def test_records_are_delivered_in_order_and_acked(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted()
    store.add(LANE, records(25))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=10, in_flight=1)) as pump:
        await until(lambda: drained(store))
        store.add(LANE, [b"later"])
        await until(lambda: drained(store))
        assert pump.state == "ok"
        assert pump.reason is None
        assert pump.counts.delivered_records == 26
    assert exporter.delivered == [*records(25), b"later"]


async def test_a_lane_is_off_while_its_pump_does_not_run(store: MemorySpool, clock: ManualClock) -> None:
    async with running_pump(store, Scripted(), clock) as pump:
        await until(lambda: pump.state == "ok")
    assert pump.state == "off"
    assert pump.reason == "not running"


async def test_no_more_batches_are_under_way_than_allowed(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted()
    exporter.gate.clear()
    store.add(LANE, records(100))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=10, in_flight=4)):
        await until(lambda: exporter.under_way == 4)
        exporter.gate.set()
        await until(lambda: drained(store))
    assert exporter.most_under_way == 4
    assert sorted(exporter.delivered) == sorted(records(100))


async def test_records_refused_in_a_success_become_dead_letters(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(Delivered((Refusal(1, "invalid_model", "no such model"),)))
    store.add(LANE, records(3))
    async with running_pump(store, exporter, clock):
        await until(lambda: drained(store))
    assert exporter.delivered == [b"0", b"2"]
    assert store.dead_letters(LANE) == [(b"1", "invalid_model", "no such model")]


async def test_silence_repeats_the_same_generation_and_an_answered_failure_the_next_one(
    store: MemorySpool, clock: ManualClock
) -> None:
    exporter = Scripted(
        Retry("silence", answered=False), Retry("500", answered=True), Retry("silence", answered=False), Delivered()
    )
    store.add(LANE, records(3))
    async with running_pump(store, exporter, clock) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
    assert [batch.generation for batch in exporter.sent] == [0, 0, 1, 1]
    assert len({(batch.batch_id, batch.sent_at, batch.records) for batch in exporter.sent}) == 1


async def test_failures_back_off_further_each_time_and_never_give_up(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(*[Retry("down", answered=False)] * 2000)
    store.add(LANE, records(3))
    waits_s: list[float] = []
    async with running_pump(store, exporter, clock, chance=lambda: 0.999) as pump:
        started_s = clock.now_s
        while exporter.script:
            sends = len(exporter.sent)
            await skip_pauses_until(lambda sends=sends: len(exporter.sent) > sends, pump, clock)  # type: ignore[misc]  # the default binds the loop's count
            waits_s.append(clock.now_s - started_s)
            started_s = clock.now_s
        assert pump.state in {"retrying", "ok"}
        await skip_pauses_until(lambda: drained(store), pump, clock)
        assert clock.now_s > 6 * 86_400, "days went by"
        assert pump.state == "ok"
    assert [round(wait_s) for wait_s in waits_s[1:12]] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert exporter.delivered == records(3)


async def test_batches_that_fail_together_are_one_failure(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(*[Retry("down", answered=False)] * 4)
    exporter.gate.clear()
    store.add(LANE, records(4))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=1), chance=lambda: 0.999) as pump:
        await until(lambda: exporter.under_way == 4)
        exporter.gate.set()
        await until(lambda: not pump.in_flight)
        assert pump.state == "retrying"
        assert pump.reason == "down"
        assert pump.opens_at_s - clock.now_s < 1.0
        await skip_pauses_until(lambda: drained(store), pump, clock)


async def test_retry_after_closes_the_whole_lane_for_that_long(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(Retry("HTTP 429", answered=True, after_s=120.0, throttled=True))
    store.add(LANE, records(1))
    async with running_pump(store, exporter, clock) as pump:
        await until(lambda: pump.state == "retrying" and not pump.in_flight)
        store.add(LANE, [b"more"])
        clock.advance(119.9)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(exporter.sent) == 1
        clock.advance(0.2)
        await until(lambda: drained(store))
    assert exporter.delivered == [b"0", b"more"]


async def test_a_retry_after_of_zero_for_ever_is_no_hot_loop(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(*[Retry("HTTP 503", answered=True, after_s=0.0, throttled=True)] * 10)
    store.add(LANE, records(1))
    started_s = clock.now_s
    async with running_pump(store, exporter, clock, chance=lambda: 0.999) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
    assert clock.now_s - started_s > 500


async def test_a_held_lane_keeps_its_data_and_probes_with_one_batch_ever_more_seldom(
    store: MemorySpool, clock: ManualClock
) -> None:
    exporter = Scripted(answers=lambda batch: Hold("HTTP 401: the key is refused"))
    store.add(LANE, records(100_000))
    async with running_pump(store, exporter, clock) as pump:
        await until(lambda: pump.state == "held" and not pump.in_flight)
        first_wave = len(exporter.sent)
        exporter.most_under_way = 0
        started_s = clock.now_s
        probed_s: list[float] = []
        while clock.now_s - started_s < 3600:
            sends = len(exporter.sent)
            await skip_pauses_until(lambda sends=sends: len(exporter.sent) > sends, pump, clock)  # type: ignore[misc]  # the default binds the loop's count
            probed_s.append(clock.now_s - started_s)
        assert first_wave <= 4
        assert exporter.most_under_way == 1
        gaps_s = [later - earlier for earlier, later in zip([0.0, *probed_s], probed_s, strict=False)]
        assert gaps_s == [probe_delay_s(number) for number in range(len(gaps_s))]
        assert store.depth(LANE).pending == 100_000
        assert store.dead_letters(LANE) == []
        assert pump.reason == "HTTP 401: the key is refused"

        exporter.answers = lambda batch: Delivered()
        await skip_pauses_until(lambda: drained(store), pump, clock)
        assert pump.state == "ok"
    assert sorted(exporter.delivered) == sorted(records(100_000)), "all, and each once"


async def test_a_held_lane_wakes_at_an_operators_word(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(Hold("no key"))
    store.add(LANE, records(3))
    async with running_pump(store, exporter, clock) as pump:
        await until(lambda: pump.state == "held" and not pump.in_flight)
        pump.wake()
        await until(lambda: drained(store))


async def test_a_server_that_is_down_does_not_lift_a_hold(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(Hold("HTTP 403"), Retry("HTTP 500", answered=True), Delivered())
    store.add(LANE, records(3))
    async with running_pump(store, exporter, clock) as pump:
        await skip_pauses_until(lambda: len(exporter.sent) == 2 and not pump.in_flight, pump, clock)
        assert pump.state == "held"
        assert pump.reason == "HTTP 403"
        await skip_pauses_until(lambda: drained(store), pump, clock)


async def test_a_batch_that_is_frozen_while_the_lane_closes_is_not_sent(
    store: MemorySpool, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = Scripted(Hold("HTTP 403"))
    exporter.gate.clear()
    slow = asyncio.Event()
    freeze, calls = store.freeze, 0

    async def freeze_slowly(lane: str, *, max_records: int, max_bytes: int) -> Batch | None:
        nonlocal calls
        calls += 1
        if calls == 2:
            await slow.wait()
        return await freeze(lane, max_records=max_records, max_bytes=max_bytes)

    monkeypatch.setattr(store, "freeze", freeze_slowly)
    store.add(LANE, records(2))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=1)) as pump:
        await until(lambda: exporter.under_way == 1)
        exporter.gate.set()
        await until(lambda: pump.state == "held")
        slow.set()
        await until(lambda: pump.holding == 0)
        assert len(exporter.sent) == 1
        await skip_pauses_until(lambda: drained(store), pump, clock)
    assert sorted(exporter.delivered) == records(2)


async def test_bad_records_are_found_by_halving_and_only_they_are_buried(
    store: MemorySpool, clock: ManualClock
) -> None:
    poison = {b"17", b"500", b"999"}
    exporter = Scripted(answers=lambda batch: Refused("invalid", "no") if poison & set(batch.records) else Delivered())
    store.add(LANE, records(1000))
    async with running_pump(store, exporter, clock) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
        assert pump.counts.dead_lettered_records == 3
    assert {record for record, _, _ in store.dead_letters(LANE)} == poison
    assert sorted(exporter.delivered) == sorted(set(records(1000)) - poison)
    assert len(exporter.sent) - 1 <= 2 * 3 * 10


async def test_a_batch_too_large_is_halved_and_the_size_is_remembered_and_grows_again(
    store: MemorySpool, clock: ManualClock
) -> None:
    limit_bytes = 30_000
    exporter = Scripted(
        answers=lambda batch: (
            Refused("too_large", "", too_large=True) if sum(map(len, batch.records)) > limit_bytes else Delivered()
        )
    )
    store.add(LANE, records(4000, 100))
    limits = BatchLimits(max_records=1000, max_bytes=100_000, in_flight=1)
    async with running_pump(store, exporter, clock, limits=limits) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
        refused = [batch for batch in exporter.sent if sum(map(len, batch.records)) > limit_bytes]
        assert len(refused) <= 8, "the ceiling keeps later batches below the limit"
        assert store.dead_letters(LANE) == []
        learnt_bytes = max(size for batch in exporter.sent if (size := sum(map(len, batch.records))) <= limit_bytes)
        assert learnt_bytes > 20_000
        sent = len(exporter.sent)
        exporter.answers = lambda batch: Delivered()
        store.add(LANE, records(100_000, 100))
        await until(lambda: drained(store))
        assert max(sum(map(len, batch.records)) for batch in exporter.sent[sent:]) > learnt_bytes * 1.2
    assert len(exporter.delivered) == 104_000


async def test_a_single_record_too_large_is_buried(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(
        answers=lambda batch: (
            Refused("too_large", "max 50", too_large=True)
            if any(len(record) > 50 for record in batch.records)
            else Delivered()
        )
    )
    store.add(LANE, [b"small", b"L" * 100, b"tiny"])
    async with running_pump(store, exporter, clock) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
    assert exporter.delivered == [b"small", b"tiny"]
    assert store.dead_letters(LANE) == [(b"L" * 100, "too_large", "max 50")]


# ---- the brake


def refuse(batch: Batch) -> Outcome:
    return Refused("schema", "unknown schema")


def refuse_in_a_success(batch: Batch) -> Outcome:
    return Delivered(tuple(Refusal(index, "schema", "") for index in range(len(batch.records))))


async def until_braked(pump: Pump, clock: ManualClock) -> None:
    await skip_pauses_until(lambda: pump.state == "held" and not pump.in_flight, pump, clock)
    assert (pump.reason or "").startswith("the upstream refuses every record: schema")


async def test_an_upstream_that_refuses_everything_holds_the_lane_before_the_backlog_becomes_dead_letters(
    store: MemorySpool, clock: ManualClock
) -> None:
    exporter = Scripted(answers=refuse)
    store.add(LANE, records(140))
    async with running_pump(store, exporter, clock) as pump:
        await until_braked(pump, clock)
        assert len(store.dead_letters(LANE)) == 19
        started_s, sends = clock.now_s, len(exporter.sent)
        await skip_pauses_until(lambda: clock.now_s - started_s > 86_400, pump, clock)
        assert len(store.dead_letters(LANE)) == 19
        assert store.depth(LANE).pending == 121
        assert len(exporter.sent) - sends < 100 + 121, "a day of probes, and halves on the way to one record"
        exporter.answers = lambda batch: Delivered()
        await skip_pauses_until(lambda: drained(store), pump, clock)
        assert pump.state == "ok"
    assert len(exporter.delivered) == 121


async def test_a_success_that_refuses_every_record_counts_for_the_brake(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(answers=refuse_in_a_success)
    store.add(LANE, records(4000))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=100, in_flight=1)) as pump:
        await until_braked(pump, clock)
        assert len(store.dead_letters(LANE)) == 200, "the third batch is kept"
        exporter.answers = lambda batch: Delivered()
        await skip_pauses_until(lambda: drained(store), pump, clock)
    assert len(exporter.delivered) == 3800


@pytest.mark.parametrize("limits", [BatchLimits(max_records=1), BatchLimits(max_records=7), BatchLimits()])
async def test_bad_records_among_good_ones_do_not_hold_the_lane(
    store: MemorySpool, clock: ManualClock, limits: BatchLimits
) -> None:
    is_bad = lambda record: int(record) % 10 != 7  # noqa: E731
    exporter = Scripted(
        answers=lambda batch: refuse(batch) if any(map(is_bad, batch.records)) else Delivered(),
    )
    store.add(LANE, records(400))
    async with running_pump(store, exporter, clock, limits=limits) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
        assert pump.counts.holds == 0
    assert sorted(exporter.delivered, key=int) == [f"{n}".encode() for n in range(7, 400, 10)]
    assert len(store.dead_letters(LANE)) == 360


async def test_a_probe_moves_on_to_other_batches_and_goes_down_to_one_record(
    store: MemorySpool, clock: ManualClock
) -> None:
    """A batch of good records with a bad one is refused as a whole, too."""
    exporter = Scripted(
        answers=lambda batch: refuse(batch) if any(record != b"good" for record in batch.records) else Delivered()
    )
    store.add(LANE, records(60))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=60)) as pump:
        await until_braked(pump, clock)
        store.add(LANE, [b"good"] * 30 + [b"61"] + [b"good"] * 29)
        await skip_pauses_until(lambda: store.depth(LANE).delivered == 59, pump, clock)
        depth = store.depth(LANE)
        assert depth.dead_lettered > 19, "with good ones between them, bad ones are dead letters"
        assert depth.pending == 61 - depth.dead_lettered
    assert exporter.delivered == [b"good"] * 59


async def test_a_restart_keeps_the_brake_on_and_probes_at_once(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(answers=refuse)
    store.add(LANE, records(140))
    for _ in range(10):
        async with running_pump(store, exporter, clock, brake=store) as pump:
            sends = len(exporter.sent)
            await skip_pauses_until(lambda sends=sends: len(exporter.sent) > sends, pump, clock)  # type: ignore[misc]  # the default binds the loop's count
            await until_braked(pump, clock)
        assert len(store.dead_letters(LANE)) == 19
        assert store.leased(LANE) == 0
    exporter.answers = lambda batch: Delivered()
    now_s = clock.now_s
    async with running_pump(store, exporter, clock, brake=store):
        await until(lambda: drained(store))
    assert clock.now_s == now_s
    assert store.brakes == {}


async def test_an_operator_lets_the_refusals_of_a_backlog_through_and_no_more(
    store: MemorySpool, clock: ManualClock
) -> None:
    exporter = Scripted(answers=refuse)
    store.add(LANE, records(140))
    async with running_pump(store, exporter, clock, brake=store) as pump:
        assert not pump.set_aside(140), "it is not held"
        await until_braked(pump, clock)
        assert pump.set_aside(store.depth(LANE).pending)
        await skip_pauses_until(lambda: drained(store), pump, clock)
        assert len(store.dead_letters(LANE)) == 140
        store.add(LANE, records(140))
        await until_braked(pump, clock)
    assert len(store.dead_letters(LANE)) < 140 + 20


# ---- answers that are not understood

UNCLEAR = NotUnderstood("HTTP 200: the answer is not understood: it is text")


def unclear_of(*bad: int) -> Answers:
    """Not understood where one of *bad* is in the batch."""
    names = {str(number).encode() for number in bad}
    return lambda batch: UNCLEAR if names & set(batch.records) else Delivered()


async def until_held(pump: Pump, clock: ManualClock) -> None:
    await skip_pauses_until(lambda: is_held_for_good(pump), pump, clock)
    assert pump.state == "held"
    assert pump.reason == UNCLEAR.reason


def nothing_lost(store: MemorySpool, exporter: Scripted, count: int) -> bool:
    depth = store.depth(LANE)
    return (depth.delivered, depth.pending + depth.delivered, depth.dead_lettered) == (
        len(exporter.delivered),
        count,
        0,
    )


async def test_an_answer_that_is_not_understood_has_the_same_bytes_go_again_under_the_same_key(
    store: MemorySpool, clock: ManualClock
) -> None:
    exporter = Scripted(UNCLEAR)
    store.add(LANE, records(20))
    started_s = clock.now_s
    async with running_pump(store, exporter, clock, chance=lambda: 0.999) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
        await until(lambda: pump.state == "ok")
        assert pump.reason is None
    first, second = exporter.sent
    assert (first.batch_id, first.generation, first.records) == (second.batch_id, second.generation, second.records)
    assert clock.now_s - started_s <= 1.0


@pytest.mark.parametrize("count", [1, 20, 1000])
async def test_a_lane_of_which_no_answer_is_understood_is_held_after_a_few_requests(
    store: MemorySpool, clock: ManualClock, count: int
) -> None:
    exporter = Scripted(answers=lambda batch: UNCLEAR)
    store.add(LANE, records(count))
    started_s = clock.now_s
    async with running_pump(store, exporter, clock, limits=BatchLimits(in_flight=1)) as pump:
        await until_held(pump, clock)
        assert len(exporter.sent) <= 16
        assert clock.now_s - started_s <= 1.0 + probe_delay_s(0), "`until_held` may have skipped to the first probe"
        assert {batch.generation for batch in exporter.sent} == {0}
        started_s, sends = clock.now_s, len(exporter.sent)
        await skip_pauses_until(lambda: clock.now_s - started_s > 86_400, pump, clock)
        assert len(exporter.sent) - sends < 1000
        assert nothing_lost(store, exporter, count)
        exporter.answers = lambda batch: Delivered()
        await skip_pauses_until(lambda: drained(store), pump, clock)
        await until(lambda: pump.state == "ok")
    assert sorted(exporter.delivered) == sorted(records(count)), "all of them, each once"


@pytest.mark.parametrize("bad", [(0,), (7,), (19,), (3, 17), (0, 1, 2), (4, 5, 6, 7, 12), tuple(range(0, 20, 2))])
async def test_all_but_the_records_that_are_not_understood_are_delivered_and_nothing_newer(
    store: MemorySpool, clock: ManualClock, bad: tuple[int, ...]
) -> None:
    exporter = Scripted(answers=unclear_of(*bad))
    store.add(LANE, records(20))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=20)) as pump:
        await skip_pauses_until(lambda: len(exporter.delivered) == 20 - len(bad), pump, clock)
        store.add(LANE, [b"newer"])
        await until_held(pump, clock)
        started_s = clock.now_s
        await skip_pauses_until(lambda: clock.now_s - started_s > 86_400, pump, clock)
        assert nothing_lost(store, exporter, 21)
        assert b"newer" not in exporter.delivered
        exporter.answers = lambda batch: Delivered()
        await skip_pauses_until(lambda: drained(store), pump, clock)
    assert exporter.delivered[-1] == b"newer"
    assert sorted(exporter.delivered[:-1]) == sorted(records(20))


async def test_batches_under_way_together_are_narrowed_down_one_after_the_other(
    store: MemorySpool, clock: ManualClock
) -> None:
    exporter = Scripted(answers=unclear_of(5, 25, 35))
    exporter.gate.clear()
    store.add(LANE, records(40))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=10)) as pump:
        await until(lambda: exporter.under_way == 4)
        exporter.gate.set()
        await skip_pauses_until(lambda: len(exporter.delivered) == 37, pump, clock)
        await until_held(pump, clock)
        assert nothing_lost(store, exporter, 40)


async def test_a_batch_that_must_not_be_halved_goes_whole_each_time(store: MemorySpool, clock: ManualClock) -> None:
    whole = NotUnderstood(UNCLEAR.reason, is_divisible=False)
    exporter = Scripted(answers=lambda batch: whole)
    store.add(LANE, records(20))
    async with running_pump(store, exporter, clock) as pump:
        await until_held(pump, clock)
        await skip_pauses_until(lambda: len(exporter.sent) > 6, pump, clock)
    assert len({(batch.batch_id, batch.generation, batch.records) for batch in exporter.sent}) == 1


async def test_a_restart_in_the_middle_begins_again_and_loses_nothing(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(answers=unclear_of(0, 11))
    store.add(LANE, records(20))
    for stop_after in range(1, 30):
        sends = len(exporter.sent)
        async with running_pump(store, exporter, clock) as pump:
            await skip_pauses_until(lambda n=sends + stop_after: len(exporter.sent) >= n, pump, clock)  # type: ignore[misc]  # the default binds the loop's count
        assert store.leased(LANE) == 0
        assert nothing_lost(store, exporter, 20)
    assert len(exporter.delivered) == 18
    exporter.answers = lambda batch: Delivered()
    async with running_pump(store, exporter, clock) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
    assert sorted(exporter.delivered) == sorted(records(20))


async def test_an_operator_makes_dead_letters_of_the_records_that_hold_the_lane_alone(
    store: MemorySpool, clock: ManualClock
) -> None:
    exporter = Scripted(answers=unclear_of(3, 17, 30))
    store.add(LANE, records(40))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=20)) as pump:
        for n, number in enumerate((b"3", b"17", b"30")):
            await until_held(pump, clock)
            assert pump.set_aside(store.depth(LANE).pending)
            await skip_pauses_until(lambda n=n: len(store.dead_letters(LANE)) > n, pump, clock)  # type: ignore[misc]  # the default binds the loop's count
            assert store.dead_letters(LANE)[n:] == [(number, "answer_not_understood", UNCLEAR.reason)]
        await skip_pauses_until(lambda: pump.state == "ok", pump, clock)
    assert len(exporter.delivered) == 37
    assert drained(store)


async def test_other_failures_in_the_middle_have_their_own_ends(store: MemorySpool, clock: ManualClock) -> None:
    def answers(batch: Batch) -> Outcome:
        if b"3" in batch.records:
            return UNCLEAR
        if b"4" in batch.records:
            return Refused("bad", "bad")
        return Retry("HTTP 500", answered=True) if len(exporter.sent) % 3 == 0 else Delivered()

    exporter = Scripted(answers=answers)
    store.add(LANE, records(20))
    async with running_pump(store, exporter, clock) as pump:
        await skip_pauses_until(lambda: len(exporter.delivered) == 18, pump, clock)
        await until_held(pump, clock)
        assert [letter[0] for letter in store.dead_letters(LANE)] == [b"4"]
        assert store.depth(LANE).pending == 1


async def test_a_batch_that_alone_meets_errors_is_split_down_to_the_record_which_waits_aside(
    store: MemorySpool, clock: ManualClock
) -> None:
    exporter = Scripted(
        answers=lambda batch: Retry("HTTP 500", answered=True) if b"7" in batch.records else Delivered()
    )
    store.add(LANE, records(8))
    fed = 0

    def feed_until_alone() -> bool:
        nonlocal fed
        if store.depth(LANE).pending < 20:
            store.add(LANE, [f"more-{fed}".encode()])
            fed += 1
        return pump.holding - pump.in_flight == 1

    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=8, in_flight=2)) as pump:
        await skip_pauses_until(feed_until_alone, pump, clock)
        await skip_pauses_until(lambda: store.depth(LANE).pending == 1, pump, clock)
        assert [batch.records for batch in store.frozen(LANE)] == [(b"7",)]
        assert pump.state == "ok", "one suspect is no reason to stop the lane"
        assert store.dead_letters(LANE) == [], "attempts alone bury nothing"
        exporter.answers = lambda batch: Delivered()
        clock.advance(300.0)
        await until(lambda: drained(store))
    assert len(exporter.delivered) == 8 + fed


async def test_a_lost_wake_up_costs_no_more_than_the_watchdogs_time(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted()
    async with running_pump(store, exporter, clock):
        await until(lambda: clock.next_due_s() is not None)
        store.lose_wakeups = True
        store.add(LANE, records(1))
        for _ in range(100):
            await asyncio.sleep(0)
        assert exporter.sent == []
        clock.advance(WATCHDOG_S)
        await until(lambda: drained(store))
    assert WATCHDOG_S < 5.0


async def test_a_spool_whose_wait_never_returns_stops_no_lane(clock: ManualClock) -> None:
    class DeafSpool(MemorySpool):
        async def wait_ready(self, lane: str, timeout_s: float) -> None:
            await asyncio.Event().wait()

    store = DeafSpool(clock)
    async with running_pump(store, Scripted(), clock):
        await until(lambda: clock.next_due_s() == WATCHDOG_S)
        store.add(LANE, records(1))
        clock.advance(WATCHDOG_S)
        await until(lambda: drained(store))


async def test_a_jump_of_the_wall_clock_moves_nothing(
    store: MemorySpool, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = Scripted(Retry("down", answered=False))
    store.add(LANE, records(1))
    async with running_pump(store, exporter, clock, chance=lambda: 0.9) as pump:
        await until(lambda: pump.state == "retrying" and not pump.in_flight)
        for years in (10, -10):
            monkeypatch.setattr("time.time", lambda years=years: 1_767_607_200.0 + years * 31_556_952)
            for _ in range(50):
                await asyncio.sleep(0)
            assert len(exporter.sent) == 1
        clock.advance(1.0)
        await until(lambda: drained(store))


async def test_a_stop_gives_what_is_under_way_its_grace(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted()
    exporter.gate.clear()
    store.add(LANE, records(4))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=1)) as pump:
        await until(lambda: exporter.under_way == 4)
        stopping = asyncio.create_task(pump.stop(5.0))
        await until(lambda: clock.next_due_s() == 5.0)
        exporter.gate.set()
        await stopping
    assert exporter.delivered == records(4)
    assert drained(store)


@pytest.mark.parametrize("way", ["stop", "cancel"])
async def test_a_stop_with_the_target_hanging_loses_nothing_and_repeats_under_the_same_key(
    store: MemorySpool, clock: ManualClock, way: str
) -> None:
    exporter = Scripted()
    exporter.gate.clear()
    store.add(LANE, records(10))
    pump = Pump(LANE, store, exporter, limits=BatchLimits(max_records=1), clock=clock, chance=lambda: 0.5)
    running = asyncio.create_task(pump.run())
    await until(lambda: exporter.under_way == 4)
    if way == "stop":
        stopping = asyncio.create_task(pump.stop(5.0))
        await until(lambda: clock.next_due_s() == 5.0)
        clock.advance(5.0)
        await stopping
    else:
        running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert exporter.under_way == 0
    assert store.leased(LANE) == 0
    assert store.depth(LANE).pending == 10

    hung = list(exporter.sent)
    exporter.gate.set()
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=1)):
        await until(lambda: drained(store))
    assert sorted(exporter.delivered) == records(10)
    again = exporter.sent[len(hung) :]
    assert [(b.batch_id, b.generation) for b in again[:4]] == [(b.batch_id, b.generation) for b in hung]


@pytest.mark.parametrize("way", ["stop", "cancel"])
async def test_a_stop_waits_for_an_ack_that_is_being_written(clock: ManualClock, way: str) -> None:
    class SlowSpool(MemorySpool):
        acking = False
        gate = asyncio.Event()

        async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
            self.acking = True
            await self.gate.wait()
            await super().ack(batch, refused)

    store = SlowSpool(clock)
    store.add(LANE, records(3))
    pump = Pump(LANE, store, Scripted(), limits=BatchLimits(), clock=clock, chance=lambda: 0.5)
    running = asyncio.create_task(pump.run())
    await until(lambda: store.acking)
    stopping = asyncio.create_task(pump.stop(0.0)) if way == "stop" else None
    if stopping is None:
        running.cancel()
    for _ in range(50):
        await asyncio.sleep(0)
    assert not running.done()
    store.gate.set()
    await asyncio.gather(running, return_exceptions=True)
    if stopping is not None:
        await stopping
    assert drained(store), "what was delivered is not sent again at the next start"
    assert store.leased(LANE) == 0


@pytest.mark.parametrize(
    "failing", [Retry("HTTP 503", answered=True, throttled=True), Retry("refused", answered=False), Hold("HTTP 401")]
)
async def test_fifty_stops_with_the_target_failing_lose_nothing(
    store: MemorySpool, clock: ManualClock, failing: Outcome
) -> None:
    exporter = Scripted(answers=lambda batch: failing)
    store.add(LANE, records(40))
    for _ in range(50):
        sends = len(exporter.sent)
        async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=4)) as pump:
            await skip_pauses_until(lambda sends=sends: len(exporter.sent) > sends, pump, clock)  # type: ignore[misc]  # the default binds the loop's count
        assert store.leased(LANE) == 0
        assert store.depth(LANE).pending == 40
    exporter.answers = lambda batch: Delivered()
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=4)):
        await until(lambda: drained(store))
    assert Counter(exporter.delivered) == Counter(records(40))


async def test_a_refused_batch_that_is_kept_is_given_back_at_a_stop(store: MemorySpool, clock: ManualClock) -> None:
    exporter = Scripted(answers=lambda batch: Refused("schema", "no"))
    store.add(LANE, records(1200))
    async with running_pump(store, exporter, clock, limits=BatchLimits(max_records=1)) as pump:
        await skip_pauses_until(lambda: pump.holding - pump.in_flight >= 3, pump, clock)
        assert store.leased(LANE) >= 3
    assert store.leased(LANE) == 0


async def test_an_exporter_that_raises_loses_nothing_and_its_text_stays_out_of_the_state(
    store: MemorySpool, clock: ManualClock
) -> None:
    def broken(batch: Batch) -> Outcome:
        raise RuntimeError("prompt text")

    exporter = Scripted(answers=broken)
    store.add(LANE, records(3))
    async with running_pump(store, exporter, clock) as pump:
        await until(lambda: pump.state == "retrying")
        assert pump.reason == "unforeseen RuntimeError in the exporter"
        exporter.answers = lambda batch: Delivered()
        await skip_pauses_until(lambda: drained(store), pump, clock)


class FailingSpool(MemorySpool):
    """Raises SpoolError at every call of the methods named in `failing`."""

    failing: frozenset[str] = frozenset()
    failed = 0

    def _maybe(self, method: str) -> None:
        if method in self.failing:
            self.failed += 1
            raise SpoolError("disk full")

    async def freeze(self, lane: str, *, max_records: int, max_bytes: int) -> Batch | None:
        self._maybe("freeze")
        return await super().freeze(lane, max_records=max_records, max_bytes=max_bytes)

    async def ack(self, batch: Batch, refused: object = ()) -> None:
        self._maybe("ack")
        await super().ack(batch)


class StumblingSpool(MemorySpool):
    """Raises what no one foresaw at the first `ack` or `split`."""

    stumbled = False

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        self._stumble()
        await super().ack(batch, refused)

    async def split(self, batch: Batch) -> None:
        self._stumble()
        await super().split(batch)

    def _stumble(self) -> None:
        if not self.stumbled:
            self.stumbled = True
            raise ValueError("what nobody foresaw")


@pytest.mark.parametrize("answer", [Delivered(), Refused("bad", "bad")])
async def test_a_batch_that_cannot_be_settled_is_not_left_leased(clock: ManualClock, answer: Outcome) -> None:
    store = StumblingSpool(clock)
    exporter = Scripted(answer)
    store.add(LANE, records(3))
    async with running_pump(store, exporter, clock) as pump:
        await skip_pauses_until(lambda: drained(store), pump, clock)
    first, again = exporter.sent[:2]
    assert (again.batch_id, again.generation, again.records) == (first.batch_id, first.generation, first.records)


@pytest.mark.parametrize("method", ["freeze", "ack"])
async def test_a_spool_that_fails_for_a_while_is_asked_again(clock: ManualClock, method: str) -> None:
    store = FailingSpool(clock)
    store.failing = frozenset({method})
    exporter = Scripted()
    store.add(LANE, records(3))
    async with running_pump(store, exporter, clock):
        await until(lambda: store.failed == 1)
        for _ in range(3):
            failed = store.failed
            while store.failed == failed:
                await asyncio.sleep(0)
                clock.advance(1.0)
        store.failing = frozenset()
        while not drained(store):
            await asyncio.sleep(0)
            clock.advance(1.0)
    assert exporter.delivered == records(3), "sent once, acked when the spool could"


async def test_a_dead_lane_leaves_the_others_their_speed(clock: ManualClock) -> None:
    store = MemorySpool(clock)
    lanes = [f"lane-{number}" for number in range(10)]
    exporters = {lane: Scripted() for lane in lanes}
    exporters["lane-0"].gate.clear()
    for lane in lanes:
        store.add(lane, records(1000))
    pumps = [
        Pump(lane, store, exporters[lane], limits=BatchLimits(max_records=10), clock=clock, chance=lambda: 0.5)
        for lane in lanes
    ]
    tasks = [asyncio.create_task(pump.run()) for pump in pumps]
    await until(lambda: all(store.depth(lane).pending == 0 for lane in lanes[1:]))
    assert store.depth("lane-0").pending == 1000
    for pump in pumps:
        await pump.stop(0.0)
    await asyncio.gather(*tasks)
