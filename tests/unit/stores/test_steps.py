"""Parts of a range in steps, of which each is grouped by itself."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.stores.sql.sums.rows import in_steps
from gateway.usage.sums.grains import DAY, HOUR
from gateway.usage.sums.timespan import Segment


@given(st.sampled_from([HOUR, DAY]), st.integers(20_000, 20_005), st.integers(1, 400))
def test_each_hour_is_in_one_step_and_no_day_in_two(span: int, first_day: int, days: int) -> None:
    part = Segment(span, first_day * DAY, (first_day + days) * DAY, has_all=False)
    steps = in_steps([part])
    assert [step.first_hour for step in steps[1:]] == [step.end_hour for step in steps[:-1]]
    assert (steps[0].first_hour, steps[-1].end_hour) == (part.first_hour, part.end_hour)
    assert all((step.span, step.has_all) == (span, False) and step.first_hour % DAY == 0 for step in steps)
    assert len(steps) <= 6, "a statement of SQLite has few parts and parameters"


def test_a_short_part_is_one_step() -> None:
    part = Segment(HOUR, 7, 30)
    assert in_steps([part]) == [part]
