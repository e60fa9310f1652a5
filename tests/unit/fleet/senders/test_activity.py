"""Who sends what: bounded, in the order in which it was seen last, over restarts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.fleet.senders.activity import MAX_SENDERS, MAX_SERVICES, OTHER, SenderId, Senders, format_of
from gateway.fleet.senders.listing import sender_page
from gateway.fleet.senders.repeats import sent_in
from gateway.fleet.senders.store import KeptSenders
from gateway.fleet.senders.warning import warnings_of
from gateway.products.catalogue import SOURCES
from gateway.serve.http.forwarded import forwarded_routes
from gateway.serve.http.sources import source_routes
from gateway.serve.http.telemetry import telemetry_routes
from gateway.serve.otlp import otlp_routes
from tests.conformance.otlp_http.recording import RecordingIntake
from tests.support.grpc_calls import TRACES
from tests.support.stores import SQL_HOMES, Home, home_of

HOUR_MS = 3_600_000


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_767_607_200_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def senders(clock: Clock) -> Senders:
    return Senders(clock)


@pytest.fixture(params=SQL_HOMES)
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Home]:
    async with home_of(request.param, tmp_path) as home:
        yield home


def send(senders: Senders, service: str | None = "bot", *, key: str | None = "team-a", calls: int = 1) -> None:
    senders.sent(key, "otlp.traces", "OTel/1.0", sent_in([(service, calls, calls, 0)], 100, calls))


def test_a_request_counts_for_each_service_in_it(senders: Senders) -> None:
    senders.sent("k", "otlp.traces", "", sent_in([("a", 3, 2, 1), ("b", 5, 0, 0)], 80, 8))
    a, b = (senders.known[SenderId("k", "otlp.traces", service, "")] for service in "ab")
    assert (a.requests, a.items, a.calls, a.without_usage, a.size_bytes) == (1, 3, 2, 1, 40)
    assert (b.requests, b.items, b.calls, b.without_usage, b.size_bytes) == (1, 5, 0, 0, 40)


def test_the_parts_of_one_request_are_one(senders: Senders) -> None:
    for is_new in (True, False, False):
        senders.sent("k", "litellm", "", sent_in([("a", 10, 10, 0)], 50, 10, is_new=is_new))
    (activity,) = senders.known.values()
    assert (activity.requests, activity.items, activity.size_bytes) == (1, 30, 150)


def test_the_one_that_was_silent_longest_goes_first(senders: Senders) -> None:
    for number in range(MAX_SENDERS + 5):
        send(senders, key=f"key-{number}")
        send(senders, key="key-0")
    assert len(senders.known) == MAX_SENDERS
    assert SenderId("key-0", "otlp.traces", "bot", "OTel/1.0") in senders.known
    assert SenderId("key-1", "otlp.traces", "bot", "OTel/1.0") not in senders.known


def test_a_key_with_ever_new_services_does_not_push_out_the_others(senders: Senders) -> None:
    send(senders, key="quiet")
    for number in range(3 * MAX_SENDERS):
        send(senders, f"service-{number}", key="loud")
    assert SenderId("quiet", "otlp.traces", "bot", "OTel/1.0") in senders.known
    assert len(senders.known) == MAX_SERVICES + 2
    assert senders.known[SenderId("loud", "otlp.traces", OTHER, "OTel/1.0")].requests == 3 * MAX_SENDERS - MAX_SERVICES


def test_a_refusal_is_put_down_to_the_service_that_sent_last_under_its_key(senders: Senders, clock: Clock) -> None:
    send(senders)
    senders.refused("team-a", "otlp.traces", "OTel/1.0", "too_large")
    senders.refused(None, "otlp.traces", "", "no_key")
    sent, without_key = senders.known.items()
    assert sent[0].service == "bot"
    assert sent[1].refusals["too_large"].requests == 1
    assert (without_key[0], without_key[1].requests) == (SenderId(None, "otlp.traces", None, ""), 0)
    (warned,) = warnings_of(sent[1], "otlp.traces", clock())
    assert (warned.code, warned.text) == ("refused", "requests are refused: too_large")
    assert "limits.max_body_bytes" in warned.remedy
    clock.now_ms += 2 * HOUR_MS
    assert list(warnings_of(sent[1], "otlp.traces", clock())) == []


def test_reasons_are_bounded(senders: Senders) -> None:
    for number in range(100):
        senders.refused("k", "unit_cost", "", f"code_{number}")
    (activity,) = senders.known.values()
    assert len(activity.refusals) == 21
    assert activity.refused == 100


def test_a_sender_is_silent_when_it_is_so_for_twice_as_long_as_ever(senders: Senders, clock: Clock) -> None:
    for _ in range(20):
        clock.now_ms += HOUR_MS
        send(senders)
    (activity,) = senders.known.values()
    assert activity.longest_gap_ms == HOUR_MS
    clock.now_ms += 2 * HOUR_MS
    assert list(warnings_of(activity, "otlp.traces", clock())) == []
    clock.now_ms += HOUR_MS
    (warned,) = warnings_of(activity, "otlp.traces", clock())
    assert (warned.code, warned.text) == ("silent", "silent for 3.0 h; its longest silence was 1.0 h")


def test_calls_without_usage_are_a_warning_from_five_percent_on(senders: Senders, clock: Clock) -> None:
    senders.sent("k", "otlp.traces", "", sent_in([("bot", 100, 100, 5)], 1, 100))
    (activity,) = senders.known.values()
    assert list(warnings_of(activity, "otlp.traces", clock())) == []
    senders.sent("k", "otlp.traces", "", sent_in([("bot", 10, 10, 10)], 1, 10))
    (warned,) = warnings_of(activity, "otlp.traces", clock())
    assert (warned.code, warned.text) == ("missing_usage", "14 % of its calls report no tokens")


async def test_senders_are_kept_over_a_restart(home: Home, clock: Clock) -> None:
    kept = await KeptSenders.open(await home.senders(), clock)
    send(kept.senders)
    clock.now_ms += 5000
    send(kept.senders)
    kept.senders.refused("team-a", "otlp.traces", "OTel/1.0", "too_large")
    send(kept.senders, None, key=None)
    await kept.write()
    again = await KeptSenders.open(await home.senders(), clock)
    assert sender_page(again.senders.known, clock(), ()) == sender_page(kept.senders.known, clock(), ())
    assert list(again.senders.known) == list(kept.senders.known), "in the order of their last requests"
    send(again.senders, "new")
    assert again.senders.known[SenderId("team-a", "otlp.traces", "new", "OTel/1.0")].sender_no == 3


async def test_only_what_changed_is_written_and_what_is_gone_is_deleted(home: Home, clock: Clock) -> None:
    kept = await KeptSenders.open(await home.senders(), clock)
    for number in range(MAX_SENDERS):
        send(kept.senders, key=f"key-{number}")
    await kept.write()
    assert list(kept.senders.changed()) == []
    send(kept.senders, key="one more")
    assert len(list(kept.senders.changed())) == 1
    await kept.write()
    again = await KeptSenders.open(await home.senders(), clock)
    assert again.senders.known.keys() == kept.senders.known.keys()


async def test_a_write_that_fails_loses_nothing(home: Home, clock: Clock) -> None:
    kept = await KeptSenders.open(await home.senders(), clock)
    send(kept.senders)
    await home.close()
    await kept.close()
    assert len(list(kept.senders.changed())) == 1


def test_each_route_has_its_format() -> None:
    routes = {
        TRACES: "otlp.traces",
        "/v1/sources/litellm": "litellm",
        "/v1/sources/langfuse/v1/traces": "otlp.traces",
        "/v2/ai-telemetry/otlp/v1/traces": "otlp.traces",
        "/v2/ai-telemetry/records": "records",
        "/v1/unit-cost/value/{stream}/sum": "unit_cost",
        "/v1/unit-cost": "unit_cost",
        "/unit-cost/v1/telemetry": "unit_cost",
        "/v1/devices/{device_id}/ping": "devices",
        "none": "unknown",
    }
    assert {route: format_of(route) for route in routes} == routes


def test_no_route_of_the_receiver_is_unknown() -> None:
    intake = RecordingIntake()
    own = [*otlp_routes(intake), *telemetry_routes(intake), *forwarded_routes(intake)]
    pushed = source_routes(tuple(SOURCES.values()), {}, intake)
    assert len(pushed) > 50
    assert [route.path for route in (*own, *pushed) if format_of(route.path) == "unknown"] == []
