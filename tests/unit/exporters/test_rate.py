from exporters.rate import TokenBucket


def test_a_bucket_lets_its_burst_pass_and_spaces_the_rest() -> None:
    bucket = TokenBucket(per_s=10.0, burst=3.0)
    assert [round(bucket.take(0.0), 3) for _ in range(6)] == [0.0, 0.0, 0.0, 0.1, 0.2, 0.3]


def test_a_bucket_fills_with_time_but_never_beyond_its_burst() -> None:
    bucket = TokenBucket(per_s=10.0, burst=2.0)
    assert [bucket.take(0.0) for _ in range(2)] == [0.0, 0.0]
    assert [round(bucket.take(100.0), 3) for _ in range(3)] == [0.0, 0.0, 0.1]
