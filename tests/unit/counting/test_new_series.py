"""A source that brings too many new series waits until its window ends; no other does."""

from gateway.counting.metrics.new_series import MAX_SOURCES, NewSeries


def test_a_source_over_its_limit_waits_until_its_window_ends() -> None:
    series = NewSeries(100, window_ms=1000)
    series.note("a", 60, 0)
    assert series.wait_ms("a", 0) == 0
    series.note("a", 60, 400)
    assert series.wait_ms("a", 400) == 600
    assert series.wait_ms("b", 400) == 0
    assert series.wait_ms("a", 999) == 1
    assert series.wait_ms("a", 1000) == 0
    series.note("a", 60, 1000)
    assert series.wait_ms("a", 1000) == 0


def test_those_who_wait_are_listed_with_how_long() -> None:
    series = NewSeries(100, window_ms=1000)
    for source, brought in {"a": 100, "b": 99}.items():
        series.note(source, brought, 0)
    series.note("c", 100, 300)
    assert series.waiting_ms(400) == {"a": 600, "c": 900}
    assert series.waiting_ms(1000) == {"c": 300}


def test_a_clock_that_jumps_back_keeps_no_one_out() -> None:
    series = NewSeries(100, window_ms=1000)
    series.note("a", 100, 10_000)
    assert series.wait_ms("a", 5_000) == 0
    series.note("a", 1, 5_000)
    assert series.wait_ms("a", 5_000) == 0


def test_sources_are_remembered_within_a_bound() -> None:
    series = NewSeries(1, window_ms=1000)
    for n in range(MAX_SOURCES + 1):
        series.note(str(n), 1, 0)
    assert series.wait_ms("0", 0) == 0
    assert series.wait_ms(str(MAX_SOURCES), 0) == 1000
