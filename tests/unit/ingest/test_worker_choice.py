"""Which payloads are handed to the parser process."""

import asyncio
from typing import cast

import pytest

from gateway.ingest.parsing.frames import Setup
from gateway.ingest.parsing.parse import Payload
from gateway.ingest.parsing.process import Worker
from gateway.ingest.parsing.worker_client import LARGE_BYTES, TOGETHER_LEAST, WorkerClient

SMALL, LARGE = Payload("traces", b"{}"), Payload("traces", bytes(LARGE_BYTES))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> WorkerClient:
    """Its worker is free for ever."""
    monkeypatch.setattr(Worker, "is_free", True)
    return WorkerClient(cast("Setup", {}))


async def arriving(client: WorkerClient, n: int) -> list[bool]:
    """*n* small payloads in one iteration of the loop."""
    taken = [client.takes(SMALL) for _ in range(n)]
    await asyncio.sleep(0)
    return taken


async def test_small_ones_are_handed_over_while_enough_arrive_at_once(client: WorkerClient) -> None:
    assert await arriving(client, TOGETHER_LEAST) == [False] * TOGETHER_LEAST
    assert await arriving(client, 2) == [True] * 2
    assert await arriving(client, TOGETHER_LEAST) == [False] * TOGETHER_LEAST
    assert await arriving(client, TOGETHER_LEAST) == [True] * TOGETHER_LEAST


async def test_few_at_a_time_are_never_prepared_for_it(client: WorkerClient) -> None:
    for _ in range(10):
        assert await arriving(client, TOGETHER_LEAST - 1) == [False] * (TOGETHER_LEAST - 1)


async def test_a_large_one_goes_by_itself_and_a_busy_worker_takes_none(
    client: WorkerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.takes(LARGE)
    await arriving(client, TOGETHER_LEAST)
    monkeypatch.setattr(Worker, "is_free", False)
    assert not client.takes(LARGE)
    assert not client.takes(SMALL)
