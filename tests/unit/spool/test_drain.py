"""When it is worth coming again: by the rate of the last ten to twenty seconds."""

from spool.drain import Drain


class Seconds:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def draining(clock: Seconds, drain: Drain, *, bytes_per_s: int, seconds: int) -> None:
    for _ in range(seconds):
        clock.now_s += 1
        drain.left(bytes_per_s)


def test_nothing_that_drains_is_half_a_minute() -> None:
    assert Drain(Seconds()).wait_s(1) == 30


def test_the_wait_is_what_is_over_by_the_rate() -> None:
    clock = Seconds()
    drain = Drain(clock)
    draining(clock, drain, bytes_per_s=1000, seconds=25)
    assert drain.wait_s(40_000) in range(38, 43)


def test_it_is_at_least_a_second_and_at_most_five_minutes() -> None:
    clock = Seconds()
    drain = Drain(clock)
    draining(clock, drain, bytes_per_s=1000, seconds=25)
    assert (drain.wait_s(1), drain.wait_s(10**9)) == (1, 300)


def test_what_drained_long_ago_says_nothing() -> None:
    clock = Seconds()
    drain = Drain(clock)
    draining(clock, drain, bytes_per_s=1000, seconds=25)
    clock.now_s += 20
    assert drain.wait_s(1) == 30
