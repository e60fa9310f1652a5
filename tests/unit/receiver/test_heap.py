"""Memory of large messages goes back to the system, and small ones cost nothing."""

import asyncio

import pytest

import gateway.common.heap
from gateway.common.heap import LARGE_BYTES, TRIM_AFTER_BYTES, Heap
from tests.support.polling import until_true


async def test_large_messages_are_followed_by_one_trim_and_small_ones_by_none(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    monkeypatch.setattr(gateway.common.heap, "TRIM_IN_S", 0.01)
    heap = Heap()
    monkeypatch.setattr(heap, "_trim", lambda: trims.append(1))
    for _ in range(TRIM_AFTER_BYTES // LARGE_BYTES + 10):
        heap.freed(LARGE_BYTES - 1)
    await asyncio.sleep(0.05)
    assert trims == []
    for _ in range(3):
        heap.freed(TRIM_AFTER_BYTES)
    await until_true(lambda: bool(trims), timeout_s=5, what="trimmed")
    await asyncio.sleep(0.05)
    assert trims == [1]
