"""When a lane is taken for one that does not move."""

from gateway.pipeline.delivery.watchdog import STILL_S, LaneWatch

EVERY_S = 0.5


def asked(watch: LaneWatch, *, seconds: float, every_s: float, moved: int = 1, from_s: float = 100.0) -> bool:
    """Whether it says so at any time."""
    steps = int(seconds / every_s) + 1
    return any(watch.stands_still(from_s + step * every_s, moved=moved, holding=0) for step in range(steps))


def test_a_lane_that_leaves_alone_what_is_ready_does_not_move() -> None:
    assert asked(LaneWatch(EVERY_S), seconds=STILL_S + EVERY_S, every_s=EVERY_S)


def test_time_without_a_cpu_is_not_held_against_it() -> None:
    watch = LaneWatch(EVERY_S)
    assert not asked(watch, seconds=600, every_s=2.5)
    assert not asked(watch, seconds=STILL_S - EVERY_S, every_s=EVERY_S, from_s=1000)
    assert asked(watch, seconds=STILL_S, every_s=EVERY_S, from_s=1000 + STILL_S)


def test_what_moved_or_began_counts_from_there() -> None:
    watch = LaneWatch(EVERY_S)
    assert not asked(watch, seconds=STILL_S - EVERY_S, every_s=EVERY_S)
    assert not watch.stands_still(100 + STILL_S, moved=2, holding=0)
    watch.began(105.0)
    assert not asked(watch, seconds=STILL_S - EVERY_S, every_s=EVERY_S, moved=2, from_s=105.0)
