"""Quotas of a key: the buckets by a clock that the test moves, and what a sender is
reported them over a real socket.
"""

import asyncio
import gzip
import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

import aiohttp
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # the package has no types
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.limits import RateLimits as KeyLimits
from gateway.access.record import KeyRecord
from gateway.access.store import KeyStore
from gateway.common.contract.errors import OverQuota
from gateway.common.contract.intake import Receipt, Sender
from gateway.common.contract.scopes import EVENT_SCOPE, HEARTBEAT_SCOPE, Fixed
from gateway.products.catalogue import SOURCES
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.http.sources import source_routes
from gateway.serve.http.streaming import PIECE_BYTES
from gateway.serve.otlp import INGEST_SCOPE
from gateway.serve.quotas import Quotas
from spool.errors import SpoolFull
from tests.conformance.otlp_http.payloads import JSON, PROTOBUF, protobuf_body
from tests.conformance.otlp_http.recording import RecordingIntake
from tests.unit.serve.conftest import Serve

SCOPES = frozenset({INGEST_SCOPE, EVENT_SCOPE, HEARTBEAT_SCOPE})
BODY = protobuf_body("traces")
all_sources = partial(source_routes, tuple(SOURCES.values()), {})


class Clock:
    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def key(requests: int | None = None, n_bytes: int | None = None, key_id: str = "id") -> KeyRecord:
    limits = KeyLimits(requests, n_bytes)
    return KeyRecord(key_id, f"name of {key_id}", "", Fixed(SCOPES), "Enabled", "", "", 0, "", 0, None, limits=limits)


def waits_s(quotas: Quotas, asked: KeyRecord, announced_bytes: int = 1) -> int:
    with pytest.raises(OverQuota) as refused:
        quotas.charge(asked, announced_bytes)
    return refused.value.retry_after_s


def test_a_key_without_limits_costs_nothing(clock: Clock) -> None:
    assert Quotas(clock).charge(key()) is None


def test_a_minutes_worth_may_come_at_once_and_then_as_it_fills(clock: Clock) -> None:
    quotas, limited = Quotas(clock), key(requests=6)
    for _ in range(6):
        quotas.charge(limited)
    assert waits_s(quotas, limited) == 10
    clock.s += 9.5
    assert waits_s(quotas, limited) == 1, "rounded up"
    clock.s += 0.5
    quotas.charge(limited)
    assert waits_s(quotas, limited) == 10
    clock.s += 3600
    for _ in range(6):
        quotas.charge(limited)
    assert waits_s(quotas, limited) == 10, "never more than a minute's worth"


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_who_waits_as_asked_is_let_in(size: int, taken: int) -> None:
    clock = Clock()
    quotas, limited = Quotas(clock), key(n_bytes=size)
    charge = quotas.charge(limited)
    assert charge is not None
    charge.take_body(taken)
    if taken < size:
        quotas.charge(limited)
        return
    clock.s += waits_s(quotas, limited)
    quotas.charge(limited)


def test_gateways_that_count_as_one_have_a_part_of_a_quota_each(clock: Clock) -> None:
    alive = [3]
    limited = key(requests=6, n_bytes=600)
    gateways = [Quotas(clock, lambda: alive[0]) for _ in range(3)]
    for quotas in gateways:
        for _ in range(2):
            quotas.charge(limited)
        assert waits_s(quotas, limited) == 30
        assert not quotas.have(limited, 1, 1)
    assert gateways[0].limits_of(key(requests=1)).requests_per_minute == 1, "never nothing"
    alive[0] = 1  # two died: what is left has the whole of it, and fills at the whole rate
    clock.s += 60
    for _ in range(6):
        gateways[0].charge(limited)
    assert waits_s(gateways[0], limited) == 10


def test_each_key_has_its_own(clock: Clock) -> None:
    quotas = Quotas(clock)
    quotas.charge(key(requests=1, key_id="a"))
    quotas.charge(key(requests=1, key_id="b"))
    assert waits_s(quotas, key(requests=1, key_id="a")) == 60


def test_bytes_are_taken_of_bodies_and_one_that_does_not_fit_takes_nothing(clock: Clock) -> None:
    quotas, limited = Quotas(clock), key(n_bytes=600)
    first = quotas.charge(limited)
    assert first is not None
    first.take_body(500)
    second = quotas.charge(limited)
    assert second is not None
    with pytest.raises(OverQuota) as refused:
        second.take_body(200)
    assert refused.value.retry_after_s == 10
    third = quotas.charge(limited)
    assert third is not None
    third.take_body(100)
    assert waits_s(quotas, limited) == 1
    assert waits_s(quotas, limited, announced_bytes=300) == 30


def test_a_body_above_the_whole_allowance_waits_for_a_full_bucket_and_leaves_a_debt(clock: Clock) -> None:
    quotas, limited = Quotas(clock), key(n_bytes=600)
    first = quotas.charge(limited)
    assert first is not None
    first.take_body(10)
    assert waits_s(quotas, limited, announced_bytes=6000) == 1
    clock.s += 1
    large = quotas.charge(limited, 6000)
    assert large is not None
    large.take_body(6000)
    assert waits_s(quotas, limited) == 541, "nine minutes of debt, and a byte"
    clock.s += 541
    assert quotas.charge(limited) is not None


def test_pieces_behind_the_first_are_never_refused(clock: Clock) -> None:
    quotas, limited = Quotas(clock), key(n_bytes=60)
    charge = quotas.charge(limited)
    assert charge is not None
    for _ in range(3):
        charge.take_body(50)
    assert waits_s(quotas, limited) == 91
    charge.give_back()
    assert quotas.charge(limited) is not None


def test_what_is_given_back_fills_no_bucket_above_its_size(clock: Clock) -> None:
    quotas, limited = Quotas(clock), key(requests=2, n_bytes=100)
    charge = quotas.charge(limited)
    assert charge is not None
    charge.take_body(100)
    clock.s += 60
    quotas.charge(limited)
    charge.give_back()
    charge.give_back()
    for _ in range(2):
        quotas.charge(limited)
    assert waits_s(quotas, limited) == 30


def test_what_is_given_back_is_not_what_was_spent(clock: Clock) -> None:
    quotas, asked = Quotas(clock), key(requests=1, n_bytes=60)
    charge = quotas.charge(asked)
    assert charge is not None
    charge.take_body(50)
    charge.spend()
    charge.take_body(100)
    charge.give_back()
    charge.give_back()
    assert waits_s(quotas, asked) == 60, "the request is spent"
    assert waits_s(quotas, key(n_bytes=60), 60) == 50, "so are the first 50 bytes, and no more"


def test_a_limit_that_is_changed_holds_from_the_next_request_on(clock: Clock) -> None:
    quotas = Quotas(clock)
    for _ in range(3):
        quotas.charge(key(requests=100))
    quotas.charge(key(requests=1))
    assert waits_s(quotas, key(requests=1)) == 60
    assert quotas.charge(key()) is None
    assert waits_s(quotas, key(requests=1, n_bytes=5)) == 60, "a limit taken away and set again is no new minute"


def test_a_clock_that_stops_or_goes_back_gives_nothing(clock: Clock) -> None:
    quotas, limited = Quotas(clock), key(requests=1)
    quotas.charge(limited)
    clock.s -= 500
    assert waits_s(quotas, limited) == 60


# ---- over a real socket


async def limited_key(keys: KeyStore, requests: int | None = None, n_bytes: int | None = None) -> str:
    made = await keys.create("team-a", Fixed(SCOPES), by="ops@example.com", limits=KeyLimits(requests, n_bytes))
    return made.secret.reveal()


ROUTES = [
    ("/v1/traces", PROTOBUF, BODY),
    ("/v1/traces", JSON, b"{}"),
    ("/v1/events", JSON, b"{}"),
    ("/v1/devices/d/heartbeat", JSON, b"{}"),
    ("/v1/sources/litellm", JSON, b"{}"),
    ("/v1/sources/bedrock", JSON, b"{}"),
    ("/api/public/ingestion", JSON, b"{}"),
]


@pytest.mark.parametrize(("path", "content_type", "body"), ROUTES)
async def test_over_quota_is_429_with_the_time_to_wait_in_the_manner_of_each_route(
    serve: Serve, client: aiohttp.ClientSession, keys: KeyStore, clock: Clock, path: str, content_type: str, body: bytes
) -> None:
    served = await serve(gate=KeyAuthenticator(keys), quotas=Quotas(clock), further=all_sources)
    sent = {"Content-Type": content_type, "Authorization": await limited_key(keys, requests=1)}
    async with client.post(served.url + path, data=body, headers=sent) as response:
        assert response.status in {200, 202, 207}
    async with client.post(served.url + path, data=body, headers=sent) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "60")
        answer = await response.read()
    if content_type == PROTOBUF:
        status = Status.FromString(answer)
        assert (status.code, "quota of 1 requests a minute" in status.message) == (8, True)
    else:
        assert b"quota of 1 requests a minute" in answer
        json.loads(answer)
    clock.s += 60
    async with client.post(served.url + path, data=body, headers=sent) as response:
        assert response.status in {200, 202, 207}
    assert served.receiver.figures().over_quota == {("team-a", "requests"): 1}
    (refused,) = served.receiver.refused.status()
    assert (refused["status"], refused["reason"], refused["last_key"]) == (429, "over_quota_requests", "team-a")


async def test_bytes_are_those_of_the_plain_body(
    serve: Serve, client: aiohttp.ClientSession, keys: KeyStore, clock: Clock
) -> None:
    served = await serve(gate=KeyAuthenticator(keys), quotas=Quotas(clock))
    plain = b'{"pad":"' + b"x" * 5000 + b'"}'
    headers = {"Content-Type": JSON, "Authorization": await limited_key(keys, n_bytes=8000)}
    gzipped = headers | {"Content-Encoding": "gzip"}
    async with client.post(f"{served.url}/v1/events", data=gzip.compress(plain), headers=gzipped) as response:
        assert response.status == 202
    for sent, body in ((gzipped, gzip.compress(plain)), (headers, plain)):
        async with client.post(f"{served.url}/v1/events", data=body, headers=sent) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "16")
    clock.s += 16
    async with client.post(f"{served.url}/v1/events", data=plain, headers=headers) as response:
        assert response.status == 202


async def test_a_body_that_was_decompressed_to_be_refused_is_charged_as_a_request(
    serve: Serve, client: aiohttp.ClientSession, keys: KeyStore, clock: Clock
) -> None:
    served = await serve(gate=KeyAuthenticator(keys), quotas=Quotas(clock), further=all_sources)
    headers = {"Content-Type": JSON, "Authorization": await limited_key(keys, requests=3, n_bytes=6000)}
    gzipped = headers | {"Content-Encoding": "gzip"}
    url, large = f"{served.url}/v1/events", gzip.compress(b'{"pad":"' + b"x" * 5000 + b'"}')

    async def answer(url: str, body: bytes, sent: dict[str, str]) -> tuple[int, str | None]:
        async with client.post(url, data=body, headers=sent) as response:
            return response.status, response.headers.get("Retry-After")

    assert await answer(url, large, gzipped) == (202, None)
    for _ in range(5):  # stated unread, by the length that is announced, and so for nothing
        assert (await answer(url, b"x" * 5000, headers))[0] == 429
    assert await answer(url, large, gzipped) == (429, "41")
    assert await answer(f"{served.url}/v1/sources/litellm", large, gzipped) == (429, "41"), "in pieces as well"
    assert served.receiver.figures().over_quota == {("team-a", "bytes"): 7}
    assert await answer(url, large, gzipped) == (429, "20")
    assert served.receiver.figures().over_quota[("team-a", "requests")] == 1, "it was not read"
    clock.s += 41
    assert await answer(url, large, gzipped) == (202, None), "who waits as told is let in"


def test_a_body_refused_for_its_size_waits_for_a_request_too(clock: Clock) -> None:
    quotas, limited = Quotas(clock), key(requests=1, n_bytes=60)
    charge = quotas.charge(limited)
    assert charge is not None
    quotas.give_back(limited, -30, n_requests=0)  # others of the key sent as much meanwhile
    with pytest.raises(OverQuota) as refused:
        charge.take_body(40)
    charge.give_back()
    assert refused.value.retry_after_s == 60, "10 s for the bytes, 60 s for the request"
    clock.s += 60
    again = quotas.charge(limited)
    assert again is not None
    again.take_body(40)


async def test_what_could_not_be_kept_is_not_charged(
    serve: Serve, client: aiohttp.ClientSession, keys: KeyStore, clock: Clock
) -> None:
    intake = RecordingIntake(fail_with=SpoolFull("full"))
    served = await serve(gate=KeyAuthenticator(keys), quotas=Quotas(clock), intake=intake, further=all_sources)
    headers = {"Content-Type": JSON, "Authorization": await limited_key(keys, requests=1, n_bytes=2)}
    for path in ("/v1/traces", "/v1/sources/litellm", "/v1/events"):
        async with client.post(served.url + path, data=b"{}", headers=headers) as response:
            assert response.status == 503
    intake.fail_with = None
    async with client.post(f"{served.url}/v1/traces", data=b"{}", headers=headers) as response:
        assert response.status == 200
    async with client.post(f"{served.url}/v1/traces", data=b"{}", headers=headers) as response:
        assert response.status == 429


async def test_pieces_that_are_on_disk_are_charged_whatever_becomes_of_the_rest(
    serve: Serve, client: aiohttp.ClientSession, keys: KeyStore, clock: Clock
) -> None:
    @dataclass(slots=True)
    class FullFromTheThird(RecordingIntake):
        async def source(self, name: str, body: bytes, *, sender: Sender, first_line: int = 1) -> Receipt:
            if len(self.kept) == 2:
                raise SpoolFull("full")
            return await RecordingIntake.source(self, name, body, sender=sender, first_line=first_line)

    intake = FullFromTheThird()
    served = await serve(gate=KeyAuthenticator(keys), quotas=Quotas(clock), intake=intake, further=all_sources)
    headers = {"Authorization": await limited_key(keys, n_bytes=PIECE_BYTES)}
    url, body = f"{served.url}/v1/sources/litellm", b'{"a":1}\n' * (3 * PIECE_BYTES // 8)
    async with client.post(url, data=gzip.compress(body), headers=headers) as response:
        assert response.status == 503
    assert len(intake.kept) == 2
    charged = sum(len(piece.body) for piece in intake.kept)
    async with client.post(url, data=b"{}", headers=headers) as response:
        waits_s = math.ceil((charged - PIECE_BYTES + 2) * 60 / PIECE_BYTES)
        assert (response.status, response.headers["Retry-After"]) == (429, str(waits_s))


async def test_a_body_in_pieces_is_let_in_whole_and_its_debt_holds_the_next_one(
    serve: Serve, client: aiohttp.ClientSession, keys: KeyStore, clock: Clock
) -> None:
    served = await serve(gate=KeyAuthenticator(keys), quotas=Quotas(clock), further=all_sources)
    headers = {"Authorization": await limited_key(keys, n_bytes=PIECE_BYTES // 2)}
    lines = b'{"a":1}\n' * (PIECE_BYTES // 8)

    async def body() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield lines
            await asyncio.sleep(0)

    url = f"{served.url}/v1/sources/litellm"
    async with client.post(url, data=body(), headers=headers) as response:
        assert response.status == 200
    async with client.post(url, data=b"{}", headers=headers) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "301")
