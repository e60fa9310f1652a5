"""Misbehaviour on order: the same seed, the same course of events; and connections that really are
cut.
"""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import aiohttp
import pytest
import uvloop

from gateway.common.contract.scopes import CATALOGUE, Fixed
from gateway.local_service.misbehave import GOOD, Misbehave, Plan, parse_misbehave, plan
from gateway.local_service.service import Service

from .conftest import ADMIN, Client, ai_envelope, ai_record

INGEST = "/v2/ai-telemetry/records"
EVERYTHING = Fixed(frozenset(scope.name for scope in CATALOGUE))


def test_the_options_are_read_as_written() -> None:
    assert parse_misbehave(fail="429:0.1, 500:0.05", latency="200ms", reset="0.01") == Misbehave(
        failures=((429, 0.1), (500, 0.05)), latency_ms=200, reset=0.01
    )
    assert parse_misbehave(latency="2s") == Misbehave(latency_ms=2000)
    assert parse_misbehave() is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"fail": "429"}, "fail"),
        ({"fail": "200:0.5"}, "fail"),
        ({"fail": "429:1.5"}, "fail"),
        ({"fail": "429:0.6,500:0.6"}, "fail"),
        ({"fail": "429:0.1.2"}, "fail"),
        ({"latency": "200"}, "latency"),
        ({"reset": "often"}, "reset"),
        ({"reset": "nan"}, "reset"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: "):
        parse_misbehave(**options)


def test_one_seed_gives_one_course_of_events_in_the_ordered_shares() -> None:
    misbehave = Misbehave(failures=((429, 0.1), (500, 0.2)), latency_ms=5, reset=0.05)

    def course(seed: int) -> list[Plan]:
        draw = Random(seed)
        return [plan(misbehave, draw) for _ in range(10_000)]

    plans = course(1)
    assert plans == course(1) != course(2)
    failures = [each.failure for each in plans if each.failure is not None]
    counted = Counter((failure.answer.status, failure.when) for failure in failures)
    assert set(counted) == {(429, "before"), (500, "before"), (500, "after")}
    assert 900 < counted[429, "before"] < 1100
    assert 900 < counted[500, "after"] < 1100
    assert 400 < sum(each.reset is not None for each in plans) < 600
    pauses = Counter(failure.answer.retry_after_s for failure in failures if failure.answer.status == 429)
    assert set(pauses) == {None, 1}
    assert plan(None, Random(1)) == GOOD


@pytest.mark.parametrize("misbehave", [Misbehave(failures=((503, 1.0),))])
async def test_an_answer_of_503_may_come_after_the_data_was_stored(client: Client) -> None:
    replies = [await client.post(INGEST, ai_envelope(ai_record(str(number)))) for number in range(30)]
    assert {reply.status for reply in replies} == {503}
    assert {reply.headers.get("Retry-After") for reply in replies} == {None, "1"}
    stored = (await client.get(INGEST)).json["pagination"]["total_count"]
    assert 0 < stored < 30


@pytest.mark.parametrize("misbehave", [Misbehave(failures=((500, 0.5),))])
async def test_a_failing_answer_is_replayed_under_its_idempotency_key_like_any_other(client: Client) -> None:
    async def statuses(key: str) -> set[int]:
        replies = [await client.post(INGEST, ai_envelope(ai_record(key)), {"Idempotency-Key": key}) for _ in range(6)]
        return {reply.status for reply in replies}

    seen = [await statuses(str(number)) for number in range(24)]
    assert all(len(each) == 1 for each in seen)
    assert set.union(*seen) == {202, 500}


@pytest.mark.parametrize("misbehave", [Misbehave(failures=((429, 1.0),))])
async def test_the_lists_that_check_what_arrived_never_misbehave(client: Client) -> None:
    assert (await client.get("/v2/insights")).status == 429
    for path in (INGEST, "/v2/ai-telemetry/summary", "/v2/ai-control-plane/devices", "/events/v1/events"):
        assert (await client.get(path)).status == 200


async def cut_connections(data_path: Path) -> tuple[int, int, int]:
    """(requests answered, requests cut, records stored) of 40 requests, half of them to be cut."""
    service = Service(data_path, misbehave=Misbehave(reset=0.5), random=Random(4))
    port = await service.start()
    created = await service.keys.create("everything", EVERYTHING, by=ADMIN)
    answered = cut = 0
    async with aiohttp.ClientSession() as session:
        client = Client(service, port, session, created.secret.reveal())
        for number in range(40):
            try:
                answered += (await client.post(INGEST, ai_envelope(ai_record(str(number))))).status == 202
            except aiohttp.ClientConnectionError:
                cut += 1
        stored = (await client.get(INGEST)).json["pagination"]["total_count"]
    await service.stop()
    return answered, cut, stored


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_connection_is_cut_before_or_after_storing(
    tmp_path: Path, loop: "type[asyncio.AbstractEventLoop]", caplog: pytest.LogCaptureFixture
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        answered, cut, stored = runner.run(cut_connections(tmp_path))
    assert answered + cut == 40
    assert cut > 10
    assert answered < stored < 40
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.parametrize("misbehave", [Misbehave(latency_ms=50)])
async def test_latency_is_added_to_every_published_request(client: Client) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await client.get("/v2/insights")
    assert loop.time() - began >= 0.05
