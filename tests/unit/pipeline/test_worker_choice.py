"""Which payloads are handed to the processes that read bodies."""

import asyncio

import pytest

from gateway.common.in_thread import HERE_BYTES
from gateway.pipeline.parsing.parse import Payload
from gateway.pipeline.parsing.process import Worker
from gateway.pipeline.parsing.turns import Turns
from gateway.pipeline.parsing.worker_client import FIRST_WORK_BYTES, MIN_TOGETHER, QUICK_BYTES, WorkerClient
from tests.support.workers import worker_client

SMALL, LARGE = Payload("traces", b"{}"), Payload("traces", bytes(HERE_BYTES + 1))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> WorkerClient:
    """Its processes are ready for ever."""
    monkeypatch.setattr(Worker, "is_ready", True)
    monkeypatch.setattr(Worker, "is_first_start", False)
    return worker_client()


async def arriving(client: WorkerClient, n: int) -> list[bool]:
    """*n* small payloads in one iteration of the loop."""
    taken = [client.takes(SMALL) for _ in range(n)]
    await asyncio.sleep(0)
    return taken


async def test_small_ones_are_handed_over_while_enough_arrive_at_once(client: WorkerClient) -> None:
    assert await arriving(client, MIN_TOGETHER) == [False] * MIN_TOGETHER
    assert await arriving(client, 2) == [True] * 2
    assert await arriving(client, MIN_TOGETHER) == [False] * MIN_TOGETHER
    assert await arriving(client, MIN_TOGETHER) == [True] * MIN_TOGETHER


async def test_few_at_a_time_are_never_prepared_for_it(client: WorkerClient) -> None:
    for _ in range(10):
        assert await arriving(client, MIN_TOGETHER - 1) == [False] * (MIN_TOGETHER - 1)


async def test_a_large_one_is_always_handed_over_and_a_busy_process_takes_no_small_ones(
    client: WorkerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await arriving(client, MIN_TOGETHER)
    monkeypatch.setattr(Turns, "is_free", lambda *_: False)
    assert not client.takes(SMALL)
    assert client.takes(LARGE)


async def test_no_one_waits_for_the_first_start_but_for_any_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    client, huge = worker_client(), Payload("traces", bytes(QUICK_BYTES + 1))
    assert [client.takes(LARGE), client.takes(huge)] == [False, True]
    client.worker.restarts = 1
    assert client.takes(LARGE)
    client.worker.restarts, client.worker._was_ready = 0, True
    assert client.takes(LARGE)


async def test_a_process_that_starts_later_starts_with_a_megabyte_of_small_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted: list[Worker] = []
    monkeypatch.setattr(Worker, "want", lambda worker: wanted.append(worker))  # noqa: PLW0108 - a method of it
    monkeypatch.setattr(Worker, "start", lambda _: None)
    client = worker_client()
    client.start_later()
    payload = Payload("traces", bytes(HERE_BYTES))
    for _ in range(FIRST_WORK_BYTES // HERE_BYTES - 1):
        assert not client.takes(payload)
    assert not wanted
    client.takes(payload)
    assert wanted == [client.worker]
