"""`GET /v2/calls/{record_id}`: one call, why it was counted so, and its other reports."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import NotFound
from gateway.common.contract.flags import FLAG_MEANINGS
from gateway.common.lists.conventions import BadListRequest
from gateway.observability import one_call, settled_calls
from gateway.operate import calls
from gateway.rules.call import Call
from spool.record import FLAGS
from tests.support.calls import call
from tests.support.operations import perform
from tests.support.spool_rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> Any:
    rig = await Rig.opened(tmp_path)
    yield rig
    await rig.spool.close()


async def ask(rig: Rig, path: str = "", **query: str) -> Any:
    return await perform(calls.OPERATIONS, rig.spool, "GET", f"/v2/calls{path}", query=list(query.items()))


async def one(rig: Rig, record_id: str, **query: str) -> Any:
    return (await ask(rig, f"/{record_id}", **query))["call"]


def id_of(made: Call) -> str:
    return str(made.record["record_id"])


def traced(made: Call) -> Call:
    """With its place in the trace, as spans have it."""
    parent = made.parent_span_id.hex() or None
    made.record["trace"] = {"trace_id": made.trace_id.hex(), "span_id": made.span_id.hex(), "parent_span_id": parent}
    return made


async def test_a_call_of_its_own_has_its_record_and_no_other_report(rig: Rig) -> None:
    made = call("alone", trace="one", team="core")
    await rig.send(made)
    await rig.settle()
    found = await one(rig, id_of(made))
    assert (found["outcome"], found["because"], found["related"]) == ("kept", "it is a call of its own", [])
    assert found["record"]["attribution"]["team"] == "core"
    assert found["usage_from"] == "its input and its output are stated"


async def test_reports_of_one_response_are_named_with_what_became_of_each(rig: Rig) -> None:
    sdk, gateway = call("sdk", trace="a", response="r-1"), call("gw", trace="b", response="r-1", scope="litellm")
    other = call("other", trace="c", response="r-2")
    await rig.send(sdk, other)
    await rig.send(gateway)
    await rig.settle()
    listed = {each["record_id"]: each for each in (await ask(rig))["calls"]}
    (kept,) = [each for each in (sdk, gateway) if listed[id_of(each)]["outcome"] == "kept"]
    (dropped,) = [each for each in (sdk, gateway) if each is not kept]
    found = await one(rig, id_of(kept))
    assert found["because"] == "several reports of it were merged into one record"
    assert [(each["record_id"], each["outcome"], each["relation"]) for each in found["related"]] == [
        (id_of(dropped), "duplicate", "response_id")
    ]
    assert found["related"][0]["because"].startswith("another report has its response id")
    back = await one(rig, id_of(dropped))
    assert (back["outcome"], back["related"][0]["record_id"]) == ("duplicate", id_of(kept))


async def test_a_report_that_was_dropped_for_its_time_names_the_one_that_counts(rig: Rig) -> None:
    inner = call("inner", trace="a", at=(10, 990), scope="openai", service="app")
    outer = call("outer", trace="b", at=(0, 1000), scope="langchain", service="app")
    later = call("later", trace="c", at=(60_000, 61_000), service="app")
    elsewhere = call("elsewhere", trace="d", at=(0, 1000), service="other", tokens=(100, 20))
    await rig.send(inner, outer, later, elsewhere)
    await rig.settle()
    (dropped,) = (await ask(rig, outcome="duplicate"))["calls"]
    assert dropped["reason"] == "twin"
    found = await one(rig, dropped["record_id"])
    (kept,) = {id_of(inner), id_of(outer)} - {dropped["record_id"]}
    assert [(each["record_id"], each["relation"]) for each in found["related"]] == [(kept, "same_time")]
    back = await one(rig, kept)
    assert [(each["record_id"], each["relation"]) for each in back["related"]] == [(dropped["record_id"], "same_time")]
    assert (await one(rig, id_of(later)))["related"] == []


async def test_calls_above_and_below_and_of_the_trace_are_told_apart(rig: Rig) -> None:
    above = call("above", tokens=(300, 60))
    made = call("call", parent="above", tokens=(100, 20))
    below = call("below", parent="call", tokens=(5, 1), model="guard")
    beside = call("beside", parent="x", at=(5000, 6000))
    await rig.send(*map(traced, (above, made, below, beside)))
    await rig.settle()
    found = await one(rig, id_of(made))
    assert {each["record_id"]: each["relation"] for each in found["related"]} == {
        id_of(above): "above",
        id_of(below): "below",
        id_of(beside): "same_trace",
    }


async def test_a_report_that_is_sent_again_has_the_id_of_the_first_and_the_kept_one_is_shown(rig: Rig) -> None:
    first, fuller = call("span", tokens=(None, None)), call("span", tokens=(100, 20))
    await rig.send(first)
    await rig.send(fuller)
    await rig.settle()
    found = await one(rig, id_of(first))
    assert (found["outcome"], found["input_tokens"]) == ("kept", 100)
    assert {each["relation"] for each in found["related"]} <= {"same_span"}


async def test_the_source_of_the_cost_is_in_words(rig: Rig) -> None:
    stated, unpriced = call("stated", trace="1", cost="0.5"), call("unpriced", trace="2")
    await rig.send(stated, unpriced)
    await rig.settle()
    assert (await one(rig, id_of(stated)))["cost_from"] == "the sender states it"
    assert "no cost is stated" in (await one(rig, id_of(unpriced)))["cost_from"]
    assert calls.cost_from({"cost": {"source": "estimated", "price_version": "p-7"}}).endswith("by the price list p-7")


async def test_each_flag_has_its_meaning(rig: Rig) -> None:
    made = call("flagged")
    made.record["flags"] = ["late", "conflict"]
    await rig.send(made)
    await rig.settle()
    assert [each["flag"] for each in (await one(rig, id_of(made)))["flags"]] == ["late", "conflict"]
    assert FLAG_MEANINGS.keys() == set(FLAGS)


async def test_a_call_that_is_far_back_is_found_from_the_page_that_lists_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [call(f"call {n}", trace=f"t{n}") for n in range(6)]
    for each in made:
        await rig.send(each)
    await rig.settle()
    monkeypatch.setattr(settled_calls, "READ_BYTES", 1)
    first = await ask(rig, limit="4")
    monkeypatch.setattr(one_call, "READ_BYTES", 1)
    monkeypatch.setattr(one_call, "FIND_BYTES", 2 * len(orjson.dumps(made[0].record)))
    assert (await one(rig, id_of(made[5])))["record_id"] == id_of(made[5])
    with pytest.raises(NotFound, match="no call with this id is among the newest"):
        await one(rig, id_of(made[1]))
    cursor = first["pagination"]["cursor"]["next_cursor"]
    assert (await one(rig, id_of(made[1]), cursor=cursor))["record_id"] == id_of(made[1])


@pytest.mark.parametrize("record_id", ["0" * 32, "x", "%"])
async def test_an_unknown_id_is_not_found(rig: Rig, record_id: str) -> None:
    await rig.send(call("one"))
    await rig.settle()
    with pytest.raises(NotFound):
        await one(rig, record_id)
    with pytest.raises(BadListRequest, match=r"^cursor"):
        await one(rig, record_id, cursor="x")


def test_a_kept_call_says_what_its_reason_is() -> None:
    assert calls.because({"outcome": "kept", "reason": "conflict"}).endswith("differs")  # type: ignore[arg-type, union-attr]  # two fields do
    assert calls.because({"outcome": "kept", "reason": "new-reason"}) == "it is a call of its own"  # type: ignore[arg-type]  # the same
