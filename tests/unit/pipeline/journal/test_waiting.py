"""What an owner counts while it is behind, and what follows for senders."""

import pytest

from gateway.pipeline.journal.waiting import MAX_RETRY_AFTER_S, RETRY_AFTER_S, Progress, Waiting

MIB = 1 << 20


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> Progress:
    return Progress(clock)


def shown(progress: Progress) -> tuple[float | None, float | None]:
    return progress.behind_s, progress.bytes_per_s


def count(progress: Progress, clock: Clock, *, seconds: int, bytes_per_s: int) -> None:
    for _ in range(seconds):
        clock.now_s += 1
        progress.note(bytes_per_s, is_behind=True)


def test_an_owner_that_keeps_up_has_no_rate(progress: Progress, clock: Clock) -> None:
    progress.note(1 * MIB, is_behind=False)
    clock.now_s += 60
    progress.note(1 * MIB, is_behind=False)
    assert shown(progress) == (None, None)


def test_a_rate_is_known_after_ten_seconds_and_gone_once_the_owner_caught_up(progress: Progress, clock: Clock) -> None:
    progress.note(0, is_behind=True)
    count(progress, clock, seconds=9, bytes_per_s=MIB)
    assert shown(progress) == (9, None)
    count(progress, clock, seconds=1, bytes_per_s=MIB)
    assert progress.bytes_per_s == MIB
    progress.note(1, is_behind=False)
    assert shown(progress) == (None, None)


def test_a_rate_is_that_of_the_last_half_minute(progress: Progress, clock: Clock) -> None:
    progress.note(0, is_behind=True)
    count(progress, clock, seconds=600, bytes_per_s=10 * MIB)
    count(progress, clock, seconds=31, bytes_per_s=MIB)
    assert progress.bytes_per_s == MIB


def test_an_owner_that_counts_nothing_at_all_has_no_rate(progress: Progress, clock: Clock) -> None:
    progress.note(0, is_behind=True)
    count(progress, clock, seconds=60, bytes_per_s=0)
    assert shown(progress) == (60, None)


@pytest.mark.parametrize(
    ("bytes_per_s", "room_bytes", "retry_after_s"),
    [(None, 8192 * MIB, RETRY_AFTER_S), (MIB, 600 * MIB, 20), (100 * MIB, 8192 * MIB, RETRY_AFTER_S)],
    ids=["unknown", "slow", "fast"],
)
def test_what_waits_is_bounded_by_what_the_owner_counts_in_ten_minutes(
    bytes_per_s: float | None, room_bytes: int, retry_after_s: int
) -> None:
    waiting = Waiting()
    waiting.bytes_per_s = bytes_per_s
    assert waiting.room_bytes(8192 * MIB) == room_bytes
    assert waiting.retry_after_s(20 * MIB) == retry_after_s
    assert waiting.retry_after_s(1 << 50) == (RETRY_AFTER_S if bytes_per_s is None else MAX_RETRY_AFTER_S)
