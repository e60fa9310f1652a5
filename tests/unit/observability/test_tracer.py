"""What is remembered of sampled requests, and the spans that wait, are bounded."""

import itertools
import os
from time import perf_counter

import pytest

from exporters.base import Delivered, Retry
from gateway.observability.telemetry.tracer import MAX_REMEMBERED, MAX_SPANS, Tracer
from spool.record import Batch
from tests.support.retained import largest


def tracer(ratio: float = 1.0, draws: tuple[float, ...] = (0.5,)) -> Tracer:
    chance = itertools.cycle(draws)
    return Tracer(ratio, chance=lambda: next(chance), random_bytes=os.urandom)


def record(number: int) -> bytes:
    return b'{"schema":"inference/1","record_id":"%032x","kind":"call"}' % number


def request(traced: Tracer, number: int, status: int = 200) -> None:
    """One that is taken, with one record in a chunk of its own."""
    context = traced.begin()
    traced.appended(number, [record(number)], perf_counter())
    if context is not None:
        traced.end(context, perf_counter(), "POST /v1/traces", {}, status)


def batch(*numbers: int) -> Batch:
    return Batch("b", "ai_telemetry", 0, 1, "2026-01-05T10:00:00.000Z", tuple(map(record, numbers)))


def test_the_share_decides_and_what_is_not_sampled_leaves_no_span() -> None:
    traced = tracer(0.25, (0.24, 0.25, 0.9, 0.1))
    for number in range(4):
        request(traced, number)
    assert [span.name for span in traced.take()] == ["append", "POST /v1/traces"] * 2
    traced.settled(range(4), perf_counter())
    traced.sent(batch(0, 1, 2, 3), Delivered(), 0.1)
    settle, send = traced.take()
    assert len(settle.links) == len(send.links) == 2


def test_a_request_that_ended_names_no_later_append() -> None:
    traced = tracer(0.5, (0.1, 0.9))
    request(traced, 1)
    request(traced, 2)
    assert len(traced.take()) == 2


def test_spans_that_wait_are_bounded_and_the_rest_counted() -> None:
    traced = tracer()
    for number in range(MAX_SPANS):
        request(traced, number)
    assert traced.dropped == MAX_SPANS
    assert len(traced.take()) == MAX_SPANS
    assert traced.take() == []


def test_what_is_remembered_is_bounded_and_the_newest_stays() -> None:
    traced = tracer()
    for number in range(MAX_REMEMBERED + 10):
        request(traced, number)
        traced.take()
    assert largest(traced) == MAX_REMEMBERED
    traced.sent(batch(0), Delivered(), 0.1)
    assert traced.take() == []
    traced.sent(batch(MAX_REMEMBERED), Delivered(), 0.1)
    assert len(traced.take()) == 1


def test_a_batch_that_is_tried_again_is_linked_each_time() -> None:
    traced = tracer()
    request(traced, 1)
    traced.take()
    traced.sent(batch(1), Retry("HTTP 503", answered=True), 0.1)
    traced.sent(batch(1), Delivered(), 0.1)
    traced.sent(batch(1), Delivered(), 0.1)
    failed, delivered = traced.take()
    assert (failed.is_error, failed.attributes["telemetry_gateway.outcome"]) == (True, "retry")
    assert (delivered.is_error, delivered.links) == (False, failed.links)


@pytest.mark.parametrize(("status", "is_error"), [(200, False), (400, False), (503, True)])
def test_an_answer_of_ours_that_failed_is_an_error(*, status: int, is_error: bool) -> None:
    traced = tracer()
    request(traced, 1, status)
    assert [span.is_error for span in traced.take()] == [False, is_error]
