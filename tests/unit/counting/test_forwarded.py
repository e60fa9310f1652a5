"""Whose aggregates repeat calls that another gateway forwarded."""

from typing import Any

import pytest

from gateway.counting.metrics.forwarded import ForwardedCalls, forwarded_source, gateway_in, topic_of_gateway
from gateway.rules.points import MetricSource
from spool.record import Attribution

HUB_KEY = 7
A, B, C = 11, 12, 13


def source(hub_key: int = HUB_KEY, **attribution: Any) -> MetricSource:
    named: Attribution = {"key": "app", "service_name": "checkout", **attribution}  # type: ignore[typeddict-item]  # names of its fields
    return forwarded_source(hub_key, named)


def seen(*gateways: int, of: MetricSource | None = None, at_ms: int = 1000) -> ForwardedCalls:
    calls = ForwardedCalls()
    for n, gateway in enumerate(gateways):
        calls.note(gateway, of or source(), at_ms + n)
    return calls


def test_calls_of_another_gateway_cover_an_aggregate_and_those_of_its_own_do_not() -> None:
    assert seen(A).by_another(B, source(), 1000)
    assert not seen(A).by_another(A, source(), 1000)


def test_calls_of_before_do_not_count() -> None:
    assert not seen(A).by_another(B, source(), 1001)


@pytest.mark.parametrize("gateway", [A, B, C])
def test_of_any_number_of_gateways_another_one_is_found(gateway: int) -> None:
    assert seen(A, B, C, C, C).by_another(gateway, source(), 1000)


def test_only_the_time_of_the_others_counts() -> None:
    calls = seen(A, B)
    calls.note(B, source(), 9000)
    assert calls.by_another(A, source(), 9000)
    assert not calls.by_another(B, source(), 1001), "A was seen at 1000 last"


def test_what_is_read_back_in_any_order_counts_by_its_time() -> None:
    calls = ForwardedCalls()
    for gateway, at_ms in ((A, 5000), (B, 4000), (C, 1000), (A, 2000)):
        calls.note(gateway, source(), at_ms)
    assert calls.by_another(B, source(), 5000)
    assert calls.by_another(A, source(), 4000)
    assert not calls.by_another(A, source(), 4001)


@pytest.mark.parametrize(
    "changed",
    [{"hub_key": 8}, {"key": "another"}, {"service_name": "search"}, {"device_id": "laptop-2"}, {"session": "s2"}],
)
def test_another_key_service_device_or_session_is_another_source(changed: dict[str, Any]) -> None:
    stated = {"device_id": "laptop-1", "session": "s1"}
    calls = seen(A, of=source(**stated))
    assert calls.by_another(B, source(**stated), 1000)
    assert not calls.by_another(B, source(**stated | changed), 1000)


def test_a_device_or_a_session_that_one_side_does_not_state_is_no_difference() -> None:
    calls = seen(A, of=source(device_id="laptop-1"))
    assert calls.by_another(B, source(session="s1"), 1000)


def test_the_oldest_sources_are_forgotten() -> None:
    calls = ForwardedCalls(most=4)
    for n in range(50):
        calls.note(A, source(service_name=f"s{n}"), n)
    assert len(calls) <= 4
    assert calls.by_another(B, source(service_name="s49"), 0)
    assert not calls.by_another(B, source(service_name="s0"), 0)


def test_a_gateway_is_read_back_from_its_topic_and_from_no_other() -> None:
    assert gateway_in(topic_of_gateway(A)) == A
    assert gateway_in("calls") is None
    assert gateway_in("metric\x004\x00meter") is None
