"""Calls of which the beginning, the end, or something between is reported first: one record with
all of it, however long it takes.
"""

from typing import Any

import pytest

from gateway.counting.calls.merge import merge
from gateway.pipeline.settle import UNFINISHED_SETTLES
from gateway.rules.call import UNFINISHED, Call
from spool.clock import rfc3339_ms
from tests.support.calls import EPOCH_MS, call, link
from tests.support.spool_rig import Rig

pytestmark = pytest.mark.usefixtures("each_ledger")


def begun(span: str, **more: Any) -> Call:
    """Only that it began, with what model."""
    made = call(span, tokens=(None, None), at=(0, 0), **more)
    made.record["flags"].append("unfinished")
    made.record["duration_ms"] = None
    return made._replace(marks=made.marks | UNFINISHED)


def ended(span: str, at_ms: int, *, failed: bool = False, tokens: tuple[int | None, int | None] = (100, 20)) -> Call:
    """Only that it ended, and with what usage."""
    made = call(span, tokens=tokens, at=(at_ms, at_ms), model=None, failed=failed)
    made.record["flags"].append("start_unknown")
    made.record["duration_ms"] = None
    made.record["provider"] = "unknown"
    return made


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_beginning_and_end_are_one_call_in_either_order(rig: Rig, order: tuple[int, ...]) -> None:
    parts = (begun("a"), ended("a", 2_500))
    for at in order:
        await rig.send(parts[at])
    await rig.settle()
    (record,) = await rig.records()
    assert (record["request_model"], record["response_model"], record["provider"]) == ("gpt-4o", "gpt-4o", "openai")
    assert (record["started_at"], record["duration_ms"]) == (rfc3339_ms(EPOCH_MS), 2_500)
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (100, 20)
    assert record["flags"] == []
    assert (rig.spool.edge()["kept"], rig.spool.edge()["duplicate"]) == (1, 1)


@pytest.mark.parametrize("restart", [False, True])
async def test_an_end_that_comes_long_after_the_settle_time_still_completes_its_beginning(
    rig: Rig, *, restart: bool
) -> None:
    await rig.send(begun("a"), call("other"))
    for _ in range(3):
        await rig.settle()
        if restart:
            await rig.reopen()
    assert [record["record_id"] for record in await rig.records()] == [call("other").record["record_id"]]
    assert (rig.spool.edge()["received"], rig.spool.edge()["kept"]) == (2, 2)
    await rig.send(ended("a", 31_000))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["request_model"], record["usage"]["input_tokens"], record["duration_ms"]) == ("gpt-4o", 100, 31_000)
    assert (rig.spool.edge()["received"], rig.spool.edge()["kept"], rig.spool.edge()["duplicate"]) == (3, 2, 1)


async def test_what_is_reported_while_it_goes_on_waits_with_it(rig: Rig) -> None:
    await rig.send(begun("a"))
    more = begun("a", team="blue", model=None)
    await rig.send(more._replace(start_ms=more.start_ms + 5))
    for _ in range(4):
        await rig.settle()
    assert await rig.records() == []
    await rig.reopen()
    await rig.send(ended("a", 42_000))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["attribution"]["team"], record["request_model"], record["flags"]) == ("blue", "gpt-4o", [])


async def test_a_call_that_never_ends_is_reported_once_with_unknown_usage(rig: Rig) -> None:
    await rig.send(begun("a"))
    for _ in range(UNFINISHED_SETTLES - 1):
        await rig.settle()
    assert await rig.records() == []
    await rig.settle()
    await rig.settle()
    (record,) = await rig.records()
    assert (record["usage"]["status"], record["usage"].get("input_tokens"), record["flags"]) == (
        "missing",
        None,
        ["unfinished"],
    )


async def test_an_end_after_all_that_time_is_a_duplicate_and_no_second_call(rig: Rig) -> None:
    await rig.send(begun("a"))
    for _ in range(UNFINISHED_SETTLES + 1):
        await rig.settle()
    assert len(await rig.records()) == 1
    await rig.send(ended("a", 400_000))
    await rig.settle()
    assert await rig.records() == []
    assert rig.spool.edge()["duplicate"] == 1


async def test_an_end_alone_is_a_call(rig: Rig) -> None:
    await rig.send(ended("a", 2_500))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["usage"]["input_tokens"], record.get("duration_ms"), record["flags"]) == (
        100,
        None,
        ["start_unknown"],
    )


async def test_a_failure_is_reported_at_the_end(rig: Rig) -> None:
    await rig.send(begun("a"))
    await rig.send(ended("a", 900, failed=True, tokens=(None, None)))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["status"], record["request_model"], record.get("response_model")) == ("error", "gpt-4o", None)


async def test_a_waiting_call_delays_no_other(rig: Rig) -> None:
    await rig.send(begun("a"))
    for n in range(5):
        await rig.send(call(f"other {n}"))
        await rig.settle()
        assert len(await rig.records()) == 1


async def test_a_call_that_waits_is_still_below_its_parent(rig: Rig) -> None:
    await rig.send(begun("a", parent="chain"), links=[link("t", "chain", "root")])
    await rig.settle()
    await rig.settle()
    await rig.send(ended("a", 30_000))
    await rig.send(call("root", at=(0, 31_000), scope="framework"), links=[link("t", "chain", "root")])
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_settle_that_fails_loses_and_doubles_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.send(begun("a"))
    numbered = rig.spool.number_chunk

    def fail() -> int:
        monkeypatch.setattr(rig.spool, "number_chunk", numbered)
        raise OSError("no number")

    monkeypatch.setattr(rig.spool, "number_chunk", fail)
    with pytest.raises(OSError, match="no number"):
        await rig.settle()
    await rig.counting.recovery  # type: ignore[misc]  # set by the failure
    await rig.settle()
    await rig.send(ended("a", 2_500))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


def test_a_part_completes_no_report_that_knows_its_model() -> None:
    full, other = call("a", model="gpt-4o").record, call("b", model="o3", at=(50, 100)).record
    merged = merge([full, other], full["record_id"])
    assert (merged["request_model"], merged["started_at"]) == ("gpt-4o", full["started_at"])


async def test_a_call_that_waited_is_no_other_report_of_its_response(rig: Rig) -> None:
    """Where it stood before it waited on, nothing was dropped."""
    await rig.send(begun("a", response="r"))
    await rig.settle()
    gateways = call("g", trace="u", scope="litellm", service="gateway", response="r", at=(0, 15_000), cost="0.1")
    await rig.send(gateways, ended("a", 12_000))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["usage"]["input_tokens"], record["cost"]["amount"]) == (100, "0.1")


async def test_an_end_that_comes_while_its_beginning_is_moved_completes_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.send(begun("a"))
    write = rig.counting._write

    async def write_late(*args: Any) -> None:
        monkeypatch.undo()
        await rig.send(ended("a", 9_999))
        await write(*args)

    monkeypatch.setattr(rig.counting, "_write", write_late)
    await rig.settle()
    await rig.settle()
    (record,) = await rig.records()
    assert (record["usage"]["input_tokens"], record["flags"]) == (100, [])
    rig.counting.ledger.prune()
    assert rig.counting.ledger.sizes()["versions"] == 0


@pytest.mark.parametrize("other", ["above", "co-instrumented"])
async def test_who_states_no_usage_does_not_end_a_call_that_waits(rig: Rig, other: str) -> None:
    """A beginning states none either, which makes the two no more alike."""
    if other == "above":
        await rig.send(begun("p"), begun("a", parent="p"))
        await rig.send(ended("p", 8_000, tokens=(None, None)))
    else:
        await rig.send(begun("a"), call("b", trace="u", scope="langchain", tokens=(None, None), at=(0, 10)))
    await rig.settle()
    await rig.send(ended("a", 12_000))
    await rig.settle()
    assert (await rig.totals())[1:] == (100, 20)


async def test_a_call_above_one_that_waits_accounts_for_it(rig: Rig) -> None:
    await rig.send(begun("p"), begun("a", parent="p"))
    await rig.send(ended("p", 8_000))
    await rig.settle()
    await rig.send(ended("a", 12_000))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["usage"]["input_tokens"], record["flags"]) == (100, [])
    assert rig.spool.reasons()["suppressed.parent_forwarded"] == 1
