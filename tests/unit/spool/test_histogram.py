"""Buckets as Prometheus has them: a bound belongs to its bucket, counts are cumulative."""

from spool.histogram import Histogram, Observed


def test_an_observation_counts_in_each_bucket_whose_bound_it_does_not_exceed() -> None:
    histogram = Histogram((0.25, 1.0))
    for value in (0.125, 0.25, 0.5, 1.0, 8.0):
        histogram.observe(value)
    assert histogram.read() == Observed([(0.25, 2), (1.0, 4), (float("inf"), 5)], 9.875)


def test_a_histogram_that_observed_nothing_has_its_buckets() -> None:
    assert Histogram((1.0,)).read() == Observed([(1.0, 0), (float("inf"), 0)], 0.0)


def test_a_quantile_is_the_bound_that_so_many_do_not_exceed() -> None:
    histogram = Histogram((0.25, 1.0))
    assert histogram.quantile(0.95) is None
    for value in (0.1, 0.1, 0.1, 0.5):
        histogram.observe(value)
    assert (histogram.quantile(0.5), histogram.quantile(0.75), histogram.quantile(0.95)) == (0.25, 0.25, 1.0)
    histogram.observe(5.0)
    assert histogram.quantile(0.95) == float("inf")
