"""Spans that only state again what a call used, beside the call under one agent."""

from itertools import permutations
from typing import Any

import pytest

from tests.support.calls import call, link
from tests.support.spool_rig import Rig

CALL = call("c", parent="agent", tokens=(100, 20), at=(0, 1000))


def accounting(span: str = "u", **changes: Any) -> Any:
    return call(span, repeats=True, **{"parent": "agent", "tokens": (100, 20), "at": (1001, 1001)} | changes)


@pytest.mark.parametrize("order", list(permutations(range(2))))
@pytest.mark.parametrize("restart", [True, False])
async def test_it_is_another_report_of_the_call_in_any_order_and_split(
    rig: Rig, order: tuple[int, ...], *, restart: bool
) -> None:
    reports = [CALL, accounting()]
    for number in order:
        await rig.send(reports[number], links=[link("t", "agent")])
        if restart:
            await rig.reopen()
    await rig.settle()
    (record,) = await rig.records()
    assert record["duration_ms"] == CALL.record["duration_ms"]


async def test_below_the_call_it_is_another_report_too(rig: Rig) -> None:
    await rig.send(call("c", tokens=(100, 20)), accounting(parent="c", at=(999, 999)))
    await rig.settle()
    assert len(await rig.records()) == 1


@pytest.mark.parametrize("changes", [{"tokens": (100, 21)}, {"at": (1100, 1100)}, {"parent": "other"}, {"model": "o3"}])
async def test_one_that_accounts_for_no_call_nearby_is_a_call(rig: Rig, changes: dict[str, Any]) -> None:
    await rig.send(CALL, accounting(**changes))
    await rig.settle()
    assert len(await rig.records()) == 2


async def test_each_of_a_burst_of_equal_calls_is_counted(rig: Rig) -> None:
    calls = [call(f"c{i}", parent="agent", at=(1000 * i, 1000 * i + 900)) for i in range(50)]
    spans = [accounting(f"u{i}", at=(1000 * i + 901, 1000 * i + 902)) for i in range(50)]
    await rig.send(*(report for pair in zip(calls, spans, strict=True) for report in pair))
    await rig.settle()
    assert len(await rig.records()) == 50
