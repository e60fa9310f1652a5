"""What a data point adds to its series: against a sender that counts, whatever is
repeated, lost, late or restarted.
"""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gateway.counting.metrics.series import Delta, PointReport, State, advance


def cumulative(value: int, time_ns: int, *, start_ns: int = 10, measurements: int = -1) -> PointReport:
    return PointReport(is_delta=False, start_ns=start_ns, time_ns=time_ns, value=value, measurements=measurements)


def delta(value: int, time_ns: int = 20) -> PointReport:
    return PointReport(is_delta=True, start_ns=10, time_ns=time_ns, value=value, measurements=1)


def added(*reports: PointReport) -> list[Delta]:
    """What each of *reports* of one key adds."""
    state: State | None = None
    steps = []
    for report in reports:
        step, state = advance(state, report, 0)
        steps.append(step)
    return steps


def test_a_delta_counts_as_it_is_and_its_repeat_adds_nothing() -> None:
    first, again = added(delta(7), delta(7))
    assert (first.is_new, first.value, first.start_ns) == (True, 7, 10)
    assert (again.is_new, again.value) == (False, 0)


def test_the_first_point_counts_in_full_from_its_start() -> None:
    (step,) = added(cumulative(1000, 99, measurements=3))
    assert step == Delta(is_new=True, value=1000, measurements=3, start_ns=10)


def test_a_first_point_without_a_start_covers_no_time() -> None:
    (step,) = added(cumulative(1000, 99, start_ns=0))
    assert (step.value, step.start_ns) == (1000, 99)


def test_a_later_value_counts_as_the_difference_since_the_last() -> None:
    _, step = added(cumulative(100, 20, measurements=1), cumulative(170, 30, measurements=4))
    assert step == Delta(is_new=True, value=70, measurements=3, start_ns=20)


def test_a_repeat_adds_nothing_and_only_a_later_one_says_that_nothing_was_used() -> None:
    _, same, later = added(cumulative(100, 20), cumulative(100, 20), cumulative(100, 30))
    assert (same.is_new, same.is_idle) == (False, False)
    assert (later.is_new, later.is_idle) == (False, True)


def test_calls_without_tokens_are_counted() -> None:
    _, step = added(cumulative(100, 20, measurements=1), cumulative(100, 30, measurements=2))
    assert (step.is_new, step.value, step.measurements) == (True, 0, 1)


def test_an_older_point_that_comes_late_adds_nothing_and_breaks_nothing() -> None:
    _, old, new = added(cumulative(200, 30), cumulative(100, 20), cumulative(250, 40))
    assert (old.is_new, new.value) == (False, 50)


def test_less_at_a_later_time_is_a_reset_and_counts_in_full() -> None:
    _, reset, after = added(cumulative(200, 30), cumulative(50, 40), cumulative(60, 50))
    assert (reset.value, reset.start_ns) == (50, 30)
    assert after.value == 10


def test_more_at_an_earlier_time_counts_since_clocks_jump_back() -> None:
    _, step, after = added(cumulative(200, 3_000), cumulative(230, 40), cumulative(260, 50))
    assert (step.value, step.start_ns) == (30, 40)
    assert after.value == 30


@dataclass
class Process:
    """A sender's process: counts tokens and exports the sum, with a start time of its own."""

    start_ns: int
    used: list[int] = field(default_factory=list)

    def exports(self) -> list[PointReport]:
        total = 0
        found = []
        for n, value in enumerate(self.used):
            total += value
            found.append(cumulative(total, self.start_ns + n + 1, start_ns=self.start_ns, measurements=n + 1))
        return found


used = st.lists(st.integers(0, 1000), min_size=1, max_size=8)


@given(st.lists(used, min_size=1, max_size=4), st.data())
def test_whatever_is_lost_repeated_or_late_the_sum_is_what_the_last_export_says(
    processes: list[list[int]], data: st.DataObject
) -> None:
    """Each process of a series keeps a state of its own, as its key has the start time in it."""
    total = calls = 0
    for n, of_process in enumerate(processes):
        exports = Process(n * 1000 + 1, of_process).exports()
        came = [*data.draw(st.lists(st.sampled_from(exports), max_size=12)), exports[-1]]
        steps = added(*came)
        assert sum(step.value for step in steps) == sum(of_process)
        assert sum(step.measurements for step in steps if step.is_new) == len(of_process)
        total += sum(step.value for step in steps)
        calls += len(of_process)
        assert all(step.is_new or not step.value for step in steps)
    assert total == sum(sum(of_process) for of_process in processes)


@given(used, used)
def test_a_reset_without_a_new_start_is_found_where_the_value_fell(before: list[int], after: list[int]) -> None:
    first, second = Process(1, before).exports(), Process(1, after).exports()
    moved = [report._replace(time_ns=report.time_ns + 100) for report in second]
    steps = added(*first, *moved)
    if moved[0].value < first[-1].value:
        assert sum(step.value for step in steps) == sum(before) + sum(after)
    else:  # distinguished by nothing: what is there before is taken for the same count
        assert sum(step.value for step in steps) == max(sum(before), sum(after))
