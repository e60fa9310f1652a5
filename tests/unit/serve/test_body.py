"""Bodies within limits: on the wire, decompressed, and over all requests together."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from gateway.common.contract.errors import Overloaded
from gateway.serve.body import LONGEST_WAIT_S, MIB, BodyLimits, Budget, Hold, arriving_body, decompressed
from gateway.serve.content_encoding import gzip_blocks
from tests.conformance.otlp_http.payloads import PROTOBUF, Raw, post, protobuf_body
from tests.support.otlp_bytes import field
from tests.support.polling import HANGS_S
from tests.unit.serve.conftest import Serve, Served

Client = aiohttp.ClientSession

LIMIT = 1000
SMALL = BodyLimits(max_body_bytes=LIMIT, max_decompressed_bytes=LIMIT, max_in_flight_bytes=4 * LIMIT)


def padded(size: int) -> bytes:
    """A trace request of exactly *size* bytes: one real span and an unknown field."""
    body = protobuf_body("traces")
    filler = size - len(body) - 3
    return body + b"\x7a" + bytes([filler & 0x7F | 0x80, filler >> 7]) + bytes(filler)


async def answer_to(client: Client, served: Served, body: object, **headers: str) -> int:
    sent = {"Content-Type": PROTOBUF, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with client.post(f"{served.url}/v1/traces", data=body, headers=sent) as response:
        return response.status


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 100):
        yield body[at : at + 100]


@pytest.mark.parametrize(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413)])
async def test_the_limit_holds_for_an_announced_length(serve: Serve, client: Client, size: int, status: int) -> None:
    served = await serve(limits=SMALL)
    assert await answer_to(client, served, padded(size)) == status
    assert len(served.intake.kept) == (status == 200)


@pytest.mark.parametrize(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413)])
async def test_the_limit_holds_for_a_chunked_body(serve: Serve, client: Client, size: int, status: int) -> None:
    served = await serve(limits=SMALL)
    assert await answer_to(client, served, in_chunks(padded(size))) == status
    assert len(served.intake.kept) == (status == 200)


async def test_a_chunked_body_is_refused_as_soon_as_it_is_too_large_and_not_when_it_ends(serve: Serve) -> None:
    served = await serve(limits=SMALL)
    raw = await Raw.connect(served.url)
    head = (
        f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: {PROTOBUF}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    await raw.send(head.encode() + f"{LIMIT + 1:x}\r\n".encode() + bytes(LIMIT + 1) + b"\r\n")
    status, headers, _ = await raw.answer()
    assert status == 413
    assert headers["connection"] == "close"
    await raw.close()


@pytest.mark.parametrize(("size", "status"), [(LIMIT, 200), (LIMIT + 1, 413)])
async def test_the_limit_holds_after_decompression(serve: Serve, client: Client, size: int, status: int) -> None:
    served = await serve(limits=SMALL)
    assert await answer_to(client, served, gzip.compress(padded(size)), Content_Encoding="gzip") == status
    assert [len(kept.body) for kept in served.intake.kept] == [size] * (status == 200)


async def test_the_refusal_of_a_body_over_a_limit_names_the_option(serve: Serve, client: Client) -> None:
    served = await serve(limits=SMALL)
    body = padded(LIMIT + 1)
    for sent, encoding, option in (
        (body, "identity", "limits.max_body_bytes"),
        (in_chunks(body), "identity", "limits.max_body_bytes"),
        (gzip.compress(body), "gzip", "limits.max_decompressed_bytes"),
    ):
        headers = {"Content-Type": PROTOBUF, "Content-Encoding": encoding}
        async with client.post(f"{served.url}/v1/traces", data=sent, headers=headers) as response:
            assert response.status == 413
            assert f"is larger than {option} allows, {LIMIT} bytes" in (await response.read()).decode(
                "utf-8", "replace"
            )


async def test_a_body_of_many_blocks_is_decompressed_whole(serve: Serve, client: Client) -> None:
    served = await serve()
    size = 20 * 2**20
    body = protobuf_body("traces") + field(15, bytes(range(256)) * (size // 256))
    assert await answer_to(client, served, gzip.compress(body, 1), Content_Encoding="gzip") == 200
    assert served.intake.kept[0].body == body
    assert served.receiver.budget.used_bytes == 0


async def test_a_full_budget_is_503_with_retry_after_until_a_request_ends(serve: Serve, client: Client) -> None:
    served = await serve(limits=SMALL)
    budget = served.receiver.budget
    first = Hold(budget)
    first.take(budget.limit_bytes - 10)
    headers = {"Content-Type": PROTOBUF}
    async with client.post(f"{served.url}/v1/traces", data=padded(LIMIT), headers=headers) as response:
        assert response.status == 503
        assert int(response.headers["Retry-After"]) >= 1
    assert not served.intake.kept
    first.release()
    assert await answer_to(client, served, padded(LIMIT)) == 200
    assert budget.used_bytes == 0


async def test_bytes_that_are_only_announced_hold_nothing(serve: Serve) -> None:
    served = await serve(limits=SMALL)
    idle = [await Raw.connect(served.url) for _ in range(10)]
    for raw in idle:
        await raw.send(post("/v1/traces", padded(LIMIT))[:-LIMIT])
    raw = await Raw.connect(served.url)
    await raw.send(post("/v1/traces", padded(LIMIT)))
    assert (await raw.answer())[0] == 200
    for connection in [raw, *idle]:
        await connection.close()


@pytest.mark.parametrize("status", [200, 400, 413])
async def test_every_ending_gives_its_bytes_back(serve: Serve, client: Client, status: int) -> None:
    served = await serve(limits=SMALL)
    body = {200: padded(LIMIT), 400: b"\xff" * 500, 413: gzip.compress(bytes(10 * LIMIT))}[status]
    coding = "gzip" if status == 413 else "identity"
    assert await answer_to(client, served, body, Content_Encoding=coding) == status
    assert served.receiver.budget.used_bytes == 0


async def test_a_sender_that_goes_away_mid_body_leaves_nothing(serve: Serve, client: Client) -> None:
    served = await serve()
    raw = await Raw.connect(served.url)
    await raw.send(post("/v1/traces", padded(LIMIT), extra="Expect: 100-continue\r\n")[:-10])
    assert b"100" in await raw.head()  # the receiver is reading the body now
    raw.writer.transport.abort()
    async with asyncio.timeout(HANGS_S):
        while not served.receiver.counts.gone:
            assert await answer_to(client, served, b"") == 200
    assert not [kept for kept in served.intake.kept if kept.body]
    assert served.receiver.budget.used_bytes == 0


async def test_a_chunked_body_that_ends_early_leaves_nothing(serve: Serve, client: Client) -> None:
    served = await serve()
    raw = await Raw.connect(served.url)
    head = f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: {PROTOBUF}\r\nTransfer-Encoding: chunked\r\n"
    await raw.send(head.encode() + b"Expect: 100-continue\r\n\r\n")
    await raw.head()
    body = protobuf_body("traces")
    await raw.send(f"{len(body):x}\r\n".encode() + body + b"\r\n")
    raw.writer.transport.abort()
    async with asyncio.timeout(HANGS_S):
        while not served.receiver.counts.gone:
            assert await answer_to(client, served, b"") == 200
    assert not [kept for kept in served.intake.kept if kept.body]


async def test_a_body_that_does_not_arrive_in_time_is_retryable_and_ends_the_connection(serve: Serve) -> None:
    served = await serve(limits=BodyLimits(body_timeout_s=0.05))
    raw = await Raw.connect(served.url)
    await raw.send(post("/v1/traces", padded(LIMIT))[:-1])
    status, headers, _ = await raw.answer()
    assert status == 503
    assert "retry-after" in headers
    assert headers["connection"] == "close"
    assert not served.intake.kept
    await raw.close()


def test_a_refused_take_takes_nothing() -> None:
    budget = Budget(10)
    hold = Hold(budget)
    hold.take(8)
    with pytest.raises(Exception, match="in flight"):
        hold.take(3)
    assert budget.used_bytes == 8
    hold.release()
    hold.release()
    assert budget.used_bytes == 0


def held_by(budget: Budget, owner: str, *sizes: int) -> list[Hold]:
    """A request a size. Raises Overloaded, with those before it held."""
    holds = []
    for size in sizes:
        holds.append(Hold(budget))
        holds[-1].belongs_to(owner)
        holds[-1].take(size)
    return holds


def test_one_request_of_a_sender_may_take_all_that_is_free() -> None:
    budget = Budget(100)
    (alone,) = held_by(budget, "a", 100)
    assert alone.release() == 100
    assert budget.used_bytes == 0


def test_several_requests_of_a_sender_leave_as_much_free_as_they_hold() -> None:
    budget = Budget(100)
    holds = held_by(budget, "a", 20, 20, 10)
    with pytest.raises(Overloaded, match="of this sender") as raised:
        held_by(budget, "a", 1)
    assert raised.value.retry_after_s is not None
    assert 1 <= raised.value.retry_after_s <= LONGEST_WAIT_S
    (other,) = held_by(budget, "b", 50)
    other.release()
    for hold in holds:
        hold.release()
    assert budget.used_bytes == 0
    held_by(budget, "a", 25, 25)


def test_greedy_senders_get_equal_shares_and_the_next_one_too() -> None:
    budget = Budget(1000)
    held: dict[str, int] = {"a": 0, "b": 0, "c": 0}
    for _ in range(1000):
        for owner in held:
            with suppress(Overloaded):
                held_by(budget, owner, 1)
                held[owner] += 1
    assert max(held.values()) - min(held.values()) <= 1
    assert sum(held.values()) == pytest.approx(750, abs=3)
    held_by(budget, "d", 200)


def test_however_many_senders_have_a_large_request_there_is_room_for_small_ones() -> None:
    budget = Budget(256 * MIB)
    large = [held_by(budget, f"large{number}", 30 * MIB)[0] for number in range(7)]
    with pytest.raises(Overloaded, match="too many bytes are in flight"):
        held_by(budget, "one more", 30 * MIB)
    large[0].take(14 * MIB)
    with pytest.raises(Overloaded):
        large[1].take(1)
    small = [held_by(budget, f"small{number}", MIB) for number in range(30)]
    assert len(small) == 30


def test_the_only_large_request_may_take_all_there_is() -> None:
    budget = Budget(32 * MIB)
    held_by(budget, "small", MIB)
    (alone,) = held_by(budget, "alone", 16 * MIB)
    alone.take(15 * MIB)


SIZE = 20 * MIB


async def arrived() -> bytes:
    """A body of SIZE that comes in pieces, without the network."""
    left = iter([b"x" * 100_000] * (SIZE // 100_000))

    async def readany() -> bytes:
        return next(left, b"")

    content = SimpleNamespace(readany=readany)
    request: Any = SimpleNamespace(protocol=None, content=content, content_length=None, headers={}, transport=None)
    return await arriving_body(request, BodyLimits(), Hold(Budget(SIZE)))


async def inflated() -> bytes:
    return await decompressed(gzip.compress(bytes(SIZE)), gzip_blocks, BodyLimits(), Hold(Budget(SIZE)))


@pytest.mark.parametrize("read", [arrived, inflated])
async def test_a_body_is_in_memory_once(read: Callable[[], Awaitable[bytes]]) -> None:
    tracemalloc.start()
    try:
        body = await read()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) > 0.9 * SIZE
    assert peak_bytes < 1.6 * SIZE, "a body grows by an eighth at a time; pieces and their whole are twice as much"
