import pytest

from exporters.backoff import full_jitter_s, probe_delay_s, retry_after_s

NOW_UNIX_S = 1_767_607_200.0  # Mon, 05 Jan 2026 10:00:00 GMT


@pytest.mark.parametrize(
    ("attempt", "longest_s"), [(1, 1), (2, 2), (3, 4), (8, 128), (9, 256), (10, 300), (11, 300), (10_000, 300)]
)
def test_the_jitter_draws_from_the_whole_span_that_doubles_up_to_five_minutes(attempt: int, longest_s: float) -> None:
    assert full_jitter_s(attempt, 0.0) == 0.0
    assert full_jitter_s(attempt, 0.5) == longest_s / 2
    assert full_jitter_s(attempt, 0.999_999) < longest_s


def test_probes_of_a_held_lane_get_rarer_from_30_s_to_15_min() -> None:
    assert [probe_delay_s(probe) for probe in (0, 1, 2, 3, 4, 5, 6, 5000)] == [30, 60, 120, 240, 480, 900, 900, 900]


@pytest.mark.parametrize(
    ("value", "wanted_s"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("99999999999999999999999", 3600.0),
        ("Mon, 05 Jan 2026 10:02:00 GMT", 120.0),
        ("Monday, 05-Jan-26 10:02:00 GMT", 120.0),
        ("Mon Jan  5 10:02:00 2026", 120.0),
        ("Mon, 05 Jan 2026 09:00:00 GMT", 0.0),
        ("Tue, 06 Jan 2026 10:00:00 GMT", 3600.0),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("²", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_at_most_an_hour(value: str | None, wanted_s: float | None) -> None:
    assert retry_after_s(value, now_unix_s=NOW_UNIX_S) == wanted_s
