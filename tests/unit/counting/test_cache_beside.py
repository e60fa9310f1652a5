"""Two instrumentations of one call, of which one leaves the cached tokens out of the input."""

from typing import Any

import pytest

from tests.support.calls import call
from tests.support.spool_rig import Rig

FULL: dict[str, Any] = {"tokens": (150, 20)}
BARE: dict[str, Any] = {"tokens": (100, 20)}
PLACES: dict[str, dict[str, Any]] = {
    "below it": {"parent": "a"},
    "beside it": {},
    "in another trace": {"trace": "other"},
    "of its response": {"response": "r", "trace": "other", "service": "gateway"},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("full_first", [True, False])
@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize(("of_the_full", "of_the_bare"), [(50, None), (None, 50), (50, 50), (50, 0)])
async def test_inputs_that_differ_by_the_cache_agree_and_the_fuller_one_stays(
    rig: Rig, place: str, of_the_full: int | None, of_the_bare: int | None, *, full_first: bool, restart: bool
) -> None:
    response = PLACES[place].get("response")
    full = FULL | {"cache_read": of_the_full}
    bare = BARE | {"cache_read": of_the_bare, "cost": "0.01"}
    outer, inner = (full, bare) if full_first else (bare, full)
    await rig.send(call("a", response=response, **outer))
    if restart:
        await rig.reopen()
    await rig.send(call("b", scope="other", at=(5, 990), **PLACES[place] | inner))
    await rig.settle()
    (record,) = await rig.records()
    usage = record["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (150, 20)
    assert (record["flags"], record["cost"]["amount"]) == ([], "0.01")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("full_first", [True, False])
async def test_a_report_may_state_only_one_of_the_cache_parts_that_its_input_lacks(
    rig: Rig, place: str, *, full_first: bool
) -> None:
    response = PLACES[place].get("response")
    full = call("a", response=response, tokens=(180, 20), cache_read=50)
    full.record["usage"]["cache_creation_input_tokens"] = 30
    bare = call("b", scope="other", at=(5, 990), cache_read=50, **PLACES[place] | BARE)
    for report in (full, bare) if full_first else (bare, full):
        await rig.send(report)
    await rig.settle()
    (record,) = await rig.records()
    usage = record["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (180, 50)
    assert usage["cache_creation_input_tokens"] == 30


@pytest.mark.parametrize("place", ["beside it", "of its response"])
@pytest.mark.parametrize(("of_the_full", "of_the_bare"), [(None, None), (49, None), (None, 51), (50, 20)])
async def test_inputs_that_differ_otherwise_are_two_calls(
    rig: Rig, place: str, of_the_full: int | None, of_the_bare: int | None
) -> None:
    response = PLACES[place].get("response")
    await rig.send(call("a", response=response, cache_read=of_the_full, **FULL))
    await rig.send(call("b", scope="other", at=(5, 990), cache_read=of_the_bare, **PLACES[place] | BARE))
    await rig.settle()
    assert len(await rig.records()) == 2


async def test_a_sum_of_calls_with_the_cache_covers_them_without_it(rig: Rig) -> None:
    await rig.send(call("p", tokens=(250, 40), at=(0, 3000), scope="agents"))
    parts = [call(f"c{i}", parent="p", tokens=(100, 20), cache_read=cached) for i, cached in ((1, 50), (2, 0))]
    await rig.send(*parts)
    await rig.settle()
    assert sorted(record["usage"]["input_tokens"] for record in await rig.records()) == [100, 100]
