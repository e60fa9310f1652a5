"""Two instrumentations of one call, of which one leaves the reasoning out of the output."""

from typing import Any

import pytest

from tests.support.calls import call
from tests.support.spool_rig import Rig

FULL: dict[str, Any] = {"tokens": (100, 150)}
BARE: dict[str, Any] = {"tokens": (100, 100)}
PLACES: dict[str, dict[str, Any]] = {
    "below it": {"parent": "a"},
    "beside it": {},
    "in another trace": {"trace": "other"},
    "of its response": {"response": "r", "trace": "other", "service": "gateway"},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("full_first", [True, False])
@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize(("of_the_full", "of_the_bare"), [(50, None), (None, 50), (50, 50), (50, 0), (0, 50)])
async def test_outputs_that_differ_by_the_reasoning_agree_and_the_fuller_one_stays(
    rig: Rig, place: str, of_the_full: int | None, of_the_bare: int | None, *, full_first: bool, restart: bool
) -> None:
    response = PLACES[place].get("response")
    full = FULL | {"reasoning": of_the_full}
    bare = BARE | {"reasoning": of_the_bare, "cost": "0.01"}
    outer, inner = (full, bare) if full_first else (bare, full)
    await rig.send(call("a", response=response, **outer))
    if restart:
        await rig.reopen()
    await rig.send(call("b", scope="other", at=(5, 990), **PLACES[place] | inner))
    await rig.settle()
    (record,) = await rig.records()
    usage = record["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (100, 150)
    if 0 not in (of_the_full, of_the_bare):
        assert usage["reasoning_output_tokens"] == 50
    assert (record["flags"], record["cost"]["amount"]) == ([], "0.01")


@pytest.mark.parametrize("place", ["beside it", "of its response"])
@pytest.mark.parametrize(("of_the_full", "of_the_bare"), [(None, None), (49, None), (None, 51), (50, 20)])
async def test_outputs_that_differ_otherwise_are_two_calls(
    rig: Rig, place: str, of_the_full: int | None, of_the_bare: int | None
) -> None:
    response = PLACES[place].get("response")
    await rig.send(call("a", response=response, reasoning=of_the_full, **FULL))
    await rig.send(call("b", scope="other", at=(5, 990), reasoning=of_the_bare, **PLACES[place] | BARE))
    await rig.settle()
    assert (await rig.totals())[0] == 2


async def test_a_burst_is_paired_one_to_one(rig: Rig) -> None:
    await rig.send(*(call(f"a{n}", at=(n, 1000 + n), reasoning=50, **FULL) for n in range(100)))
    await rig.send(*(call(f"b{n}", scope="other", at=(n, 1000 + n), **BARE) for n in range(100)))
    await rig.settle()
    assert await rig.totals() == (100, 10_000, 15_000)
