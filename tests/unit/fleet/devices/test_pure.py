"""Names, slots and the herd's limits."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.backoff import full_jitter_s
from exporters.base import Hold, Retry
from exporters.pacing import Pacing
from gateway.common.contract.device_identity import enrollment_id, fraction, is_device_id, kind_of_service, machine_id
from gateway.common.contract.errors import TooLarge
from gateway.fleet.devices.clocks import now_by
from gateway.fleet.devices.heartbeat_body import MAX_VALUES, decode_enrolment, decode_heartbeat
from gateway.fleet.devices.heartbeats import due_ms, is_stale, next_slot_ms, offline_after_ms
from gateway.fleet.devices.lane import LIMITS
from gateway.fleet.devices.lane_store import LONGEST_S
from gateway.fleet.devices.throttling import Budget, MassNotFoundBreaker

NOW_MS = 1_767_607_200_000
MINUTE_MS = 60_000


@pytest.mark.parametrize("text", ["a", "host:a/b", "dev-01J…", "ü" * 128, "...", "a/../b", "50%"])
def test_a_printable_text_is_a_device_id(text: str) -> None:
    assert is_device_id(text)


@pytest.mark.parametrize("text", ["", " a", "a ", "a\n", "a\x00b", "x" * 129, ".", "..", "a\u202eb", "\ud800"])
def test_an_empty_long_or_unprintable_text_is_none(text: str) -> None:
    assert not is_device_id(text)


def test_a_machines_id_shows_neither_host_nor_user_and_depends_on_both_and_on_the_secret() -> None:
    made = machine_id(b"s", "mbp-of-ann", "ann@example.com")
    assert made == machine_id(b"s", "mbp-of-ann", "ann@example.com")
    assert "ann" not in made
    others = [
        machine_id(b"t", "mbp-of-ann", "ann@example.com"),
        machine_id(b"s", "mbp-of-bob", "ann@example.com"),
        machine_id(b"s", "mbp-of-ann", "bob@example.com"),
        machine_id(b"s", "mbp-of-anna", "nn@example.com"),
        machine_id(b"s", "mbp-of-an", "nann@example.com"),
    ]
    assert len({made, *others}) == 6


def test_an_enrolment_is_the_same_for_one_device_and_epoch() -> None:
    assert enrollment_id("d", 1) == enrollment_id("d", 1)
    assert len({enrollment_id("d", 1), enrollment_id("d", 2), enrollment_id("e", 1)}) == 3


def test_coding_assistants_run_on_workstations() -> None:
    assert kind_of_service("claude-code") == "workstation"
    assert kind_of_service("checkout") == kind_of_service(None) == "server"


@given(st.text(min_size=1, max_size=20), st.integers(1_000, 3_600_000), st.integers(0, NOW_MS * 2))
def test_a_slot_comes_later_and_within_twelve_tenths_of_an_interval(name: str, interval_ms: int, after_ms: int) -> None:
    slot_ms = next_slot_ms(name, interval_ms, after_ms)
    assert after_ms < slot_ms <= after_ms + 1.2 * interval_ms + 1
    assert next_slot_ms(name, interval_ms, after_ms) == slot_ms


def test_a_fleet_that_starts_at_once_beats_spread_over_the_interval() -> None:
    seconds = Counter((next_slot_ms(f"d{n}", MINUTE_MS, NOW_MS) - NOW_MS) // 1000 for n in range(6_000))
    busiest = max(seconds.values())
    assert busiest < 160  # of 100 in the mean
    assert len(seconds) >= 60


def test_the_first_beat_goes_at_once_and_the_next_in_its_slot() -> None:
    assert due_ms("d", MINUTE_MS, NOW_MS, None) == NOW_MS
    second_ms = due_ms("d", MINUTE_MS, NOW_MS, NOW_MS)
    assert NOW_MS + MINUTE_MS // 2 < second_ms <= NOW_MS + 1.7 * MINUTE_MS
    assert due_ms("d", MINUTE_MS, NOW_MS + 10 * MINUTE_MS, NOW_MS) <= NOW_MS + 11.2 * MINUTE_MS


def test_a_beat_late_by_more_than_an_interval_is_stale() -> None:
    assert not is_stale(NOW_MS, MINUTE_MS, NOW_MS + MINUTE_MS)
    assert is_stale(NOW_MS, MINUTE_MS, NOW_MS + MINUTE_MS + 1)


def test_offline_is_five_minutes_or_three_intervals() -> None:
    assert offline_after_ms(MINUTE_MS) == 5 * MINUTE_MS
    assert offline_after_ms(10 * MINUTE_MS) == 30 * MINUTE_MS


def test_an_hour_brings_so_many_new_devices_and_no_more() -> None:
    budget = Budget(100, used=40, now_s=0.0)
    assert sum(budget.take(0.0) for _ in range(200)) == 60
    assert budget.wait_s(0.0) == 37
    assert budget.take(37.0)
    assert not budget.take(37.0)
    assert sum(budget.take(37.0 + 7200) for _ in range(200)) == 100


def test_a_budget_of_none_never_lets_one_in() -> None:
    budget = Budget(0, used=0, now_s=0.0)
    assert not budget.take(1e9)
    assert budget.wait_s(1e9) is None


def test_retries_grow_to_ten_minutes() -> None:
    assert [full_jitter_s(n, 1.0, longest_s=LONGEST_S) for n in (1, 2, 3, 20, 999)] == [1, 2, 4, 600, 600]
    assert full_jitter_s(5, 0.5, longest_s=LONGEST_S) == 8


def lane_pacing() -> Pacing:
    return Pacing(max_bytes=LIMITS.max_bytes, in_flight=LIMITS.in_flight, backoff=LIMITS.backoff)


def test_the_lane_pauses_after_five_failures_in_a_row_and_probes_with_one() -> None:
    lane = lane_pacing()
    failure = Retry("HTTP 500", answered=True)
    for _ in range(4):
        lane.failed(failure, epoch=lane.epoch, now_s=0.0, chance=1.0)
    assert lane.reason is None
    lane.delivered(1, epoch=lane.epoch)
    for _ in range(5):
        assert lane.slots == 4
        lane.failed(failure, epoch=lane.epoch, now_s=0.0, chance=1.0)
    assert (lane.reason, lane.slots, lane.opens_at_s) == ("HTTP 500", 1, 1.0)
    lane.failed(Retry("HTTP 502", answered=True), epoch=lane.epoch, now_s=1.0, chance=1.0)
    assert lane.opens_at_s == 3.0
    lane.delivered(1, epoch=lane.epoch)
    assert (lane.reason, lane.slots) == (None, 4)


def test_an_answer_of_an_earlier_epoch_does_not_open_the_lane() -> None:
    lane = lane_pacing()
    epoch = lane.epoch
    lane.hold(Hold("no such path"), epoch=epoch, now_s=0.0)
    assert (lane.state, lane.opens_at_s) == ("held", 30.0)
    lane.delivered(1, epoch=epoch)
    lane.failed(Retry("HTTP 500", answered=True), epoch=epoch, now_s=0.0, chance=1.0)
    assert lane.state == "held"
    lane.hold(Hold("no such path"), epoch=lane.epoch, now_s=30.0)
    assert lane.opens_at_s == 90.0
    lane.delivered(1, epoch=lane.epoch)
    assert lane.state == "ok"


def test_one_forgotten_device_is_one_forgotten_device() -> None:
    forgetting = MassNotFoundBreaker()
    lost = [forgetting.note(f"d{n}", n / 100, is_unknown=n % 7 == 0) for n in range(1_000)]
    assert not any(lost)


def test_five_in_a_row_are_an_outage_however_many_were_known_before() -> None:
    forgetting = MassNotFoundBreaker()
    for n in range(5_000):
        assert not forgetting.note(f"d{n}", 0.0, is_unknown=False)
    assert [forgetting.note(f"x{n}", 1.0, is_unknown=True) for n in range(5)] == [False] * 4 + [True]


def test_five_in_a_row_are_an_outage_however_slowly_they_beat() -> None:
    forgetting = MassNotFoundBreaker()
    assert [forgetting.note(f"d{n}", 900.0 * n, is_unknown=True) for n in range(5)] == [False] * 4 + [True]


def test_two_devices_that_are_forgotten_again_and_again_are_no_fleet() -> None:
    forgetting = MassNotFoundBreaker()
    assert not any(forgetting.note(f"d{n % 2}", 60.0 * n, is_unknown=True) for n in range(20))


def test_times_are_those_of_the_wall_clock_and_small_corrections_of_it_change_none() -> None:
    assert now_by(NOW_MS, NOW_MS + 29_000) == (NOW_MS, 0)
    assert now_by(NOW_MS, NOW_MS - 29_000) == (NOW_MS, 0)
    assert now_by(NOW_MS, NOW_MS + 6 * 86_400_000 + 5) == (NOW_MS, 6 * 86_400_000)


def test_more_than_a_fifth_within_a_minute_is_an_outage_and_what_is_older_does_not_count() -> None:
    forgetting = MassNotFoundBreaker()
    assert not any(forgetting.note(f"a{n}", 0.0, is_unknown=n % 2 == 0) for n in range(8))
    assert forgetting.note("a8", 0.0, is_unknown=True)
    forgetting.clear()
    assert not any(forgetting.note(f"b{n}", 40.0 * n, is_unknown=n % 2 == 0) for n in range(40))


@given(st.text(), st.text())
def test_a_fraction_lies_below_one(one: str, other: str) -> None:
    assert 0 <= fraction(one, other) < 1


@pytest.mark.parametrize("decode", [decode_heartbeat, decode_enrolment])
def test_a_body_of_a_device_holds_few_values(decode: Callable[[bytes], object]) -> None:
    known = b'{"device_id":"d","instance_id":"i","sequence":1,"more":['
    decode(known + b"[]," * (MAX_VALUES // 2 - 10) + b"1]}")
    with pytest.raises(TooLarge, match="more than 4096 values: send what describes the device alone"):
        decode(known + b"[]," * MAX_VALUES + b"1]}")
