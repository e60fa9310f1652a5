"""Where co-instrumented spans are looked for."""

from gateway.counting.calls.co_instrumented import MAX_FORGOTTEN, MAX_NEAR, MAX_NEAR_SILENT, CoInstrumentedIndex
from gateway.counting.calls.digest import CallDigest, call_ref, digest_rows, unpack_fact
from tests.support.calls import call

MANY = 4 * MAX_NEAR


def fact(scope: str) -> CallDigest:
    found = unpack_fact(digest_rows([call("s", scope=scope)]), 0)
    assert found is not None
    return found


X, Y = fact("openai"), fact("agents")


def reported(index: CoInstrumentedIndex, chunk: int, what: CallDigest, n: int = MANY) -> list[int]:
    """*n* equal reports, which begin at one time."""
    refs = [call_ref(chunk, number) for number in range(n)]
    for ref in refs:
        index.add(what, ref)
    return refs


def test_equal_calls_are_paired_in_order_when_half_of_earlier_pairs_is_forgotten() -> None:
    index = CoInstrumentedIndex()
    reported(index, 1, X)
    reported(index, 2, Y)
    index.prune(call_ref(2, 0))
    index.prune(call_ref(2, 1))
    first, second = reported(index, 3, X), reported(index, 4, Y)
    assert all(other in index.near(X, ref) for ref, other in zip(first, second, strict=True))
    assert all(other in index.near(Y, ref) for ref, other in zip(second, first, strict=True))


def test_what_is_forgotten_of_all_scopes_begins_again() -> None:
    index = CoInstrumentedIndex()
    reported(index, 1, X)
    reported(index, 2, Y)
    assert not index.prune(call_ref(3, 0))
    (first,), (second,) = reported(index, 3, X, 1), reported(index, 4, Y, 1)
    assert index.near(X, first) == [second]
    assert index.near(Y, second) == [first]


def test_a_report_that_the_index_does_not_hold_is_compared_with_the_last() -> None:
    index = CoInstrumentedIndex()
    reported(index, 1, X)
    last = reported(index, 2, Y)[-1]
    assert last in index.near(X, call_ref(3, 0))


def test_what_is_remembered_of_forgotten_reports_is_bounded() -> None:
    index = CoInstrumentedIndex()
    for chunk in range(1, 2 * MAX_FORGOTTEN // 100 + 3):
        for number in range(100):
            index.add(X._replace(scope=chunk * 1000 + number), call_ref(chunk, number))
        index.prune(call_ref(chunk, 99))
        assert len(index._forgotten) <= MAX_FORGOTTEN


def test_a_report_without_usage_is_compared_with_the_nearest_of_the_others() -> None:
    silent = X._replace(input_tokens=-1, output_tokens=-1, reasoning=-1)
    for first in (True, False):
        index = CoInstrumentedIndex()
        if first:
            index.add(silent, call_ref(1, 0))
        for number in range(1, MANY):
            start = Y.start_ms + 1000 * (number - MANY // 2)
            used = {"input_tokens": number, "output_tokens": number}
            index.add(Y._replace(start_ms=start, end_ms=start + 10, **used), call_ref(1, number))
        if not first:
            assert call_ref(1, MANY // 2) in index.near(silent, call_ref(1, 0))
            index.add(silent, call_ref(1, 0))
        near = index.near(silent, call_ref(1, 0))
        assert call_ref(1, MANY // 2) in near
        assert len(near) <= MAX_NEAR_SILENT
        beside = Y._replace(input_tokens=MANY // 2, output_tokens=MANY // 2, end_ms=Y.start_ms + 10)
        assert call_ref(1, 0) in index.near(beside, call_ref(1, MANY // 2))


def test_a_report_that_is_taken_back_leaves_the_number_of_the_next() -> None:
    index = CoInstrumentedIndex()
    reported(index, 1, X, 2)
    reported(index, 2, Y, 1)
    index.prune(call_ref(2, 0))
    for _ in range(2):
        (ref,) = reported(index, 3, X, 1)
        (entry,) = index._buckets[20][X.scope, False]
        assert entry.number == 2
        index.remove(X, ref)
