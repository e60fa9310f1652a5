"""Commits that fail at any moment, with reports that are related in every way: what is forwarded is
what would be, had what they held never come.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from gateway.counting.calls.ledger import Ledger
from gateway.pipeline.settle import Settler
from gateway.rules.call import UNFINISHED, Call
from spool.errors import SpoolError
from tests.support.calls import call, link, stream_begin, stream_end
from tests.support.native import IMPLEMENTATIONS
from tests.support.spool_homes import SpoolHome, spool_home_of
from tests.support.spool_rig import SETTLE_MS, Clock, Rig

COURSES = 12
NO_CHUNK = 1 << 40
Payload = tuple[list[Call], list[bytes]]


class Step(NamedTuple):
    """*waits_ms* pass; then *payloads* come in one commit. It may fail, with a pass of settling
    that is under way, and they may come again. Else a pass may be made.
    """

    waits_ms: int
    payloads: list[Payload]
    fails: bool
    settles: bool
    come_again: bool


def any_call(chance: Random) -> Call:
    pick = chance.choice
    at = pick([0, 0, 10, 1000])
    said: dict[str, Any] = {
        "trace": pick(["t", "t", "u", ""]),
        "parent": pick(["", "", "s0", "s1", "m", "root"]),
        "at": (at, at + pick([500, 1000, 3000])),
        "response": pick([None, None, None, "r1", "r2"]),
        "request": pick([None, None, None, "q1"]),
        "service": pick(["a", "a", "a", "b"]),
        "scope": pick(["openai", "openai", "framework", "x"]),
        "model": pick(["gpt-4o", "gpt-4o", "o3", None]),
        "failed": chance.random() < 0.1,
        "reasoning": pick([None, None, 5]),
    }
    span, tokens = pick(["s0", "s1", "s2", "s3", "s4"]), pick([(100, 20), (100, 20), (200, 40), (None, None), (7, 0)])
    kind = pick(["begin", "end", "unfinished", "log", "repeats", "product", "product", "product", *[""] * 6])
    if kind == "begin":
        return stream_begin(span, **said)
    if kind == "end":
        return stream_end(span, tokens=tokens, **said)
    if kind == "product":
        said |= {"product": "codex", "session": pick([None, "x", "y"]), "rank": pick([1, 2, 3])}
    made = call(span, tokens=tokens, log=kind == "log", repeats=kind == "repeats", **said)
    if kind != "unfinished":
        return made
    made.record["flags"].append("unfinished")
    return made._replace(marks=made.marks | UNFINISHED)


def any_payload(chance: Random) -> Payload:
    calls = [any_call(chance) for _ in range(chance.choice([0, 1, 1, 2, 4]))]
    above = ["", "s0", "s1", "m", "root"]
    links = [link(chance.choice("tu"), chance.choice(["m", "n", "root"]), chance.choice(above)) for _ in range(2)]
    return calls, links[: chance.choice([0, 0, 1, 2])]


def any_step(chance: Random) -> Step:
    return Step(
        chance.choice([0, 0, 100, SETTLE_MS // 2, SETTLE_MS, 31 * SETTLE_MS]),
        [any_payload(chance) for _ in range(chance.choice([0, 1, 1, 2]))],
        *(chance.random() < 0.5 for _ in range(3)),
    )


class Course:
    """One course of steps at one gateway."""

    def __init__(self, rig: Rig, home: SpoolHome, *, loses: bool) -> None:
        """Unless it *loses*, what fails never comes."""
        self._rig, self._home, self._loses = rig, home, loses
        self.forwarded: list[dict[str, Any]] = []

    async def take(self, step: Step) -> None:
        rig = self._rig
        rig.clock.now_ms += step.waits_ms
        if not step.fails:
            await self._bring(step.payloads)
        elif self._loses:
            await self._lose(step)
        if step.fails and step.come_again:
            await self._bring(step.payloads)
        if step.settles and not step.fails:
            await rig.settle(after_ms=0)
            self.forwarded += await rig.records()

    async def _bring(self, payloads: Sequence[Payload]) -> None:
        for calls, links in payloads:
            await self._rig.send(*calls, links=links)

    async def _lose(self, step: Step) -> None:
        """The payloads, and a call of which each is another, so that the commit has a record."""
        lost = [([call(f"lost {self._rig.clock.now_ms}", trace="l", service="l")], []), *step.payloads]
        await self._home.break_appends()
        asked: list[Awaitable[None]] = [asyncio.ensure_future(self._fail_pass())] if step.settles else []
        asked += [self._rig.append(*calls, links=links) for calls, links in lost]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, SpoolError) for each in found), found
        await self._home.mend_appends()
        assert self._rig.counting.recovery is not None
        await self._rig.counting.recovery

    async def _fail_pass(self) -> None:
        """A pass that begins before the commit does, takes what is in it for due, and finds when it
        writes that it failed.
        """
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(self._rig.spool), "sealed_seq", property(lambda _: NO_CHUNK))
            patch.setattr(self._rig.counting, "settle_ms", 0)
            await self._rig.counting.settle_due(self._rig.spool.age_ms())


async def forwarded(steps: Sequence[Step], folder: Path, *, loses: bool) -> list[dict[str, Any]]:
    home = spool_home_of("memory", folder, clock := Clock())
    rig = await Rig.opened(folder, clock, home=home)
    course = Course(rig, home, loses=loses)
    for step in steps:
        await course.take(step)
    for _ in range(4):
        await rig.settle(after_ms=31 * SETTLE_MS)
        course.forwarded += await rig.records()
    assert rig.counting.ledger.oldest_ms() is None
    await home.check()
    await rig.close()
    return sorted(course.forwarded, key=lambda record: record["record_id"])


@pytest.mark.parametrize("native", IMPLEMENTATIONS)
async def test_a_commit_that_fails_leaves_nothing_behind(
    native: ModuleType | None, chance: Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settler, "ledger_type", partial(Ledger, native=native))
    for _ in range(COURSES):
        steps = [any_step(chance) for _ in range(chance.choice([4, 8, 16]))]
        wanted = await forwarded(steps, tmp_path, loses=False)
        assert await forwarded(steps, tmp_path, loses=True) == wanted
