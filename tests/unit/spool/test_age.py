"""The suspend-aware monotonic clock: a stop counts as at most a day, and
nothing else moves it but time spent.
"""

import pytest

from spool.age import LONGEST_STOP_MS, AgeClock, Seen, age_at_start

DAY_MS = 86_400_000
YEARS_MS = 10 * 365 * DAY_MS
NOW_MS = 1_767_607_200_000


@pytest.mark.parametrize(
    ("seen", "newest_ms", "wall_ms", "start_ms"),
    [
        pytest.param(None, None, NOW_MS, NOW_MS, id="a new spool begins with the wall clock"),
        pytest.param(Seen(NOW_MS, NOW_MS), None, NOW_MS + 3000, NOW_MS + 3000, id="a short stop counts whole"),
        pytest.param(Seen(NOW_MS, NOW_MS), None, NOW_MS + YEARS_MS, NOW_MS + DAY_MS, id="years ahead are a day"),
        pytest.param(Seen(NOW_MS, NOW_MS), None, NOW_MS - YEARS_MS, NOW_MS, id="years back are nothing"),
        pytest.param(
            Seen(NOW_MS, NOW_MS + YEARS_MS), None, NOW_MS + YEARS_MS + 500, NOW_MS + 500, id="wrong for long is told"
        ),
        pytest.param(Seen(NOW_MS, NOW_MS), NOW_MS + 40, NOW_MS + 100, NOW_MS + 100, id="accepted after the last note"),
        pytest.param(Seen(NOW_MS, NOW_MS), NOW_MS + 40, NOW_MS + 10, NOW_MS + 40, id="never before what was accepted"),
        pytest.param(
            Seen(NOW_MS, NOW_MS), NOW_MS + YEARS_MS, NOW_MS + 9, NOW_MS + DAY_MS, id="a damaged stamp is at most a day"
        ),
        pytest.param(None, NOW_MS, NOW_MS + YEARS_MS, NOW_MS + DAY_MS, id="an older file, years ahead"),
        pytest.param(None, NOW_MS + YEARS_MS, NOW_MS, NOW_MS, id="an older file that was written years ahead"),
    ],
)
def test_a_start_goes_on_where_time_was(seen: Seen | None, newest_ms: int | None, wall_ms: int, start_ms: int) -> None:
    assert LONGEST_STOP_MS == DAY_MS
    assert age_at_start(seen, newest_ms, wall_ms) == start_ms


def test_it_follows_the_monotonic_clock() -> None:
    passed_ms = [500]
    clock = AgeClock(NOW_MS, lambda: passed_ms[0])
    passed_ms[0] += 1234
    assert clock() == NOW_MS + 1234
