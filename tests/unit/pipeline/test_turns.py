"""Senders take turns at a process, whoever sends more waits longer."""

import asyncio
from collections.abc import Sequence

import pytest

from gateway.pipeline.parsing.turns import MAX_UNDER_WAY, Turns

MAX_BYTES = 100


class Line:
    """Bodies that wait for their turn, and the order in which they began."""

    def __init__(self) -> None:
        self.turns = Turns(MAX_BYTES)
        self.began: list[str] = []

    async def wait(self, name: str, n_bytes: int) -> "asyncio.Task[None]":
        """The sender is the first letter of *name*."""

        async def begin() -> None:
            await self.turns.begin(name[0], n_bytes)
            self.began.append(name)

        task = asyncio.create_task(begin())
        await asyncio.sleep(0)
        return task

    async def order(self, bodies: Sequence[tuple[str, int]]) -> list[str]:
        """In which *bodies* begin that come in this order, one at a time."""
        for body in bodies:
            await self.wait(*body)
        sizes = dict(bodies)
        for n in range(len(bodies)):
            assert len(self.began) == n + 1
            self.turns.end(sizes[self.began[n]])
            await asyncio.sleep(0)
        return self.began


async def test_bodies_begin_at_once_while_there_is_room() -> None:
    line = Line()
    for n in range(3):
        await line.wait(f"a{n}", 40)
    assert line.began == ["a0", "a1"]
    line.turns.end(40)
    await asyncio.sleep(0)
    assert line.began == ["a0", "a1", "a2"]


async def test_a_body_larger_than_all_the_room_goes_by_itself() -> None:
    line = Line()
    await line.wait("a", 1)
    await line.wait("b", 10 * MAX_BYTES)
    assert line.began == ["a"]
    line.turns.end(1)
    await asyncio.sleep(0)
    assert line.began == ["a", "b"]
    await line.wait("c", 1)
    assert line.began == ["a", "b"]


async def test_no_more_than_some_are_under_way_however_small_they_are() -> None:
    line = Line()
    for n in range(MAX_UNDER_WAY + 1):
        await line.wait(f"a{n}", 1)
    assert len(line.began) == MAX_UNDER_WAY


async def test_who_sends_one_body_waits_for_one_of_who_sends_many() -> None:
    bodies = [*((f"a{n}", MAX_BYTES) for n in range(5)), ("b", MAX_BYTES)]
    assert await Line().order(bodies) == ["a0", "a1", "b", "a2", "a3", "a4"]


async def test_a_small_body_goes_before_large_ones_of_another() -> None:
    assert await Line().order([("a0", 1000), ("a1", 1000), ("b", 150)]) == ["a0", "b", "a1"]


async def test_small_bodies_without_end_do_not_keep_a_large_one_waiting() -> None:
    bodies = [("a0", 200), ("b", 400), *((f"a{n}", 190) for n in range(1, 6))]
    assert await Line().order(bodies) == ["a0", "a1", "a2", "b", "a3", "a4", "a5"]


@pytest.mark.parametrize("has_turn", [False, True])
async def test_who_no_longer_waits_leaves_the_turn_to_the_next(has_turn: bool) -> None:  # noqa: FBT001 - a case
    line = Line()
    await line.wait("a", MAX_BYTES)
    gone = await line.wait("b", MAX_BYTES)
    await line.wait("c", MAX_BYTES)
    if has_turn:
        line.turns.end(MAX_BYTES)
        gone.cancel()
    else:
        gone.cancel()
        line.turns.end(MAX_BYTES)
    for _ in range(3):
        await asyncio.sleep(0)
    assert line.began == ["a", "c"]
    line.turns.end(MAX_BYTES)
    assert line.turns.is_idle
