"""Large clusters: the work for one report does not depend on the size of its cluster."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.counting.calls.cluster import SMALL_CLUSTER
from gateway.counting.calls.digest import call_ref
from gateway.counting.calls.rows import MAX_LOOKS
from gateway.pipeline.settlement_pass import SettlementPass
from gateway.rules.call import Call
from spool.errors import SpoolError
from tests.support.calls import call
from tests.support.spool_rig import Rig

LINEAR = 8.0
"""Work for 4n over work for n: 4, and what a noisy machine adds; quadratic work gives 16."""
BASE = 1_600
"""More than `MAX_CLUSTER`."""
PASSES = 3_200
"""More than one pass: below it a parent's calls need no part, and cost a third."""


def one_response(n: int) -> tuple[list[Call], int]:
    """A local server that gives each response one id."""
    return [call(f"s{i}", trace=f"t{i}", response="r", tokens=(i + 1, 5)) for i in range(n)], n


def one_request(n: int) -> tuple[list[Call], int]:
    calls = [call(f"s{i}", trace=f"t{i}", request="q", scope=f"scope-{i}", tokens=(i + 1, 5)) for i in range(n)]
    return calls, n


def one_call_told_often(n: int) -> tuple[list[Call], int]:
    return [call(f"s{i}", trace=f"t{i}", response="r", scope=f"scope-{i % 2}") for i in range(n)], 1


def co_instrumented(n: int) -> tuple[list[Call], int]:
    return [call(f"s{i}", scope=f"scope-{i % 2}") for i in range(n)], n // 2


def co_instrumented_one_scope_after_the_other(n: int) -> tuple[list[Call], int]:
    return [call(f"{scope}{i}", trace=f"t{i}", scope=scope) for scope in "xy" for i in range(n // 2)], n // 2


def children(n: int) -> tuple[list[Call], int]:
    return [call("root", tokens=(100 * n, 20 * n)), *(call(f"s{i}", parent="root") for i in range(n))], n


def chain(n: int) -> tuple[list[Call], int]:
    return [call(f"s{i}", parent=f"s{i - 1}" if i else "") for i in range(n)], 1


def raw_spans(n: int) -> tuple[list[Call], int]:
    repeats = [
        call(f"s{i}", parent="root", repeats=True, scope="litellm", response=f"r{i}", tokens=(i + 1, 3))
        for i in range(n)
    ]
    return [call("root", response="r"), *repeats], n + 1


def chain_from_the_leaf(n: int) -> tuple[list[Call], int]:
    calls, truth = chain(n)
    return calls[::-1], truth


def ancestors_of_a_star(n: int) -> tuple[list[Call], int]:
    above, _ = chain(n // 2)
    return [*above, *(call(f"leaf{i}", parent=f"s{n // 2 - 1}") for i in range(n // 2))], n // 2


SHAPES = [
    one_response,
    one_request,
    one_call_told_often,
    co_instrumented,
    co_instrumented_one_scope_after_the_other,
    children,
    chain,
    chain_from_the_leaf,
    ancestors_of_a_star,
    raw_spans,
]


@pytest.mark.parametrize("build", SHAPES)
async def test_a_thousand_related_reports_are_counted_exactly(
    rig: Rig, build: Callable[[int], tuple[list[Call], int]]
) -> None:
    calls, truth = build(1000)
    await rig.send(*calls)
    await rig.settle()
    assert (await rig.totals())[0] == truth


@pytest.mark.parametrize("build", SHAPES)
async def test_four_times_the_reports_are_four_times_the_work(
    build: Callable[[int], tuple[list[Call], int]], tmp_path: Path
) -> None:
    few, many = float("inf"), float("inf")
    base = PASSES if build is children else BASE
    for run in range(3):  # the machine may be at other work: the least of several runs counts
        few = min(few, await work(build, base, tmp_path / f"few{run}"))
        many = min(many, await work(build, 4 * base, tmp_path / f"many{run}"))
        if many / few < LINEAR:
            return
    assert many / few < LINEAR


async def work(build: Callable[[int], tuple[list[Call], int]], n: int, folder: Path) -> float:
    """CPU seconds of counting *n* reports that come in requests of 400,
    whose calls must be counted truly.
    """
    rig = await Rig.opened(folder)
    calls, truth = build(n)
    began = time.process_time()
    for first in range(0, len(calls), 400):
        await rig.send(*calls[first : first + 400])
    await rig.settle()
    took = time.process_time() - began
    assert (await rig.totals())[0] == truth
    await rig.close()
    return took


async def test_a_report_of_a_large_cluster_that_comes_late_is_no_second_call(rig: Rig) -> None:
    calls = [call(f"s{i}", trace=f"t{i}", response="r", at=(i * 2000, i * 2000 + 900)) for i in range(2 * BASE)]
    await rig.send(*calls)
    await rig.settle()
    again = call(
        "gateway", trace="g", response="r", scope="x", service="gw", at=(2000 * (2 * BASE - 1), 2000 * 2 * BASE)
    )
    await rig.send(again)
    await rig.settle()
    records = await rig.records()
    assert len(records) == 2 * BASE
    assert all("conflict" in record["flags"] for record in records)


async def test_a_call_below_a_call_of_a_large_cluster_is_not_billed_as_well(rig: Rig) -> None:
    calls = [call(f"s{i}", trace=f"t{i}", response="r", tokens=(i + 1, 5)) for i in range(BASE)]
    await rig.send(*calls[:-1])
    await rig.send(calls[-1])
    await rig.settle(after_ms=9_000)
    await rig.send(call("below", trace=f"t{BASE - 1}", parent=f"s{BASE - 1}", tokens=(BASE, 5)))
    await rig.settle(after_ms=1_000)
    await rig.settle()
    assert (await rig.totals())[0] == BASE


@pytest.mark.parametrize("tokens", [(100, 20), (100, 0), (100, None), (None, 20)])
@pytest.mark.parametrize("n", [100, 400])
async def test_a_burst_of_equal_calls_from_three_scopes_is_as_many_as_each_scope_reports(
    rig: Rig, tokens: tuple[int | None, int | None], n: int
) -> None:
    """Each scope reports all its calls before the next one does."""
    for late, scope in enumerate(("x", "y", "z"), 1):
        calls = [
            call(
                f"{scope}{i}", trace=f"{scope}{i}", scope=scope, at=(i * 10 - late, i * 10 + 500 + late), tokens=tokens
            )
            for i in range(n)
        ]
        await rig.send(*calls)
    await rig.settle()
    assert (await rig.totals())[0] == n


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("build", SHAPES)
async def test_a_commit_that_fails_within_a_large_cluster_changes_no_count(
    rig: Rig, build: Callable[[int], tuple[list[Call], int]], *, restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, truth = build(1500)
    for first in range(0, len(calls), 400):
        await rig.send(*calls[first : first + 400])
    commit, commits = SettlementPass._commit, 0

    async def dies_at_the_second(self: SettlementPass) -> None:
        nonlocal commits
        commits += 1
        if commits == 2:
            raise SpoolError("the power is gone")
        await commit(self)

    with monkeypatch.context() as patch:
        patch.setattr(SettlementPass, "_commit", dies_at_the_second)
        with suppress(SpoolError):
            await rig.settle()
    if restarts:
        await rig.reopen()
    await rig.settle()
    assert (await rig.totals())[0] == truth


async def test_passes_that_cannot_write_make_no_large_cluster_of_a_small_one(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gathers it again, and its reports are not worn by that."""
    calls, truth = one_response(SMALL_CLUSTER + 8)
    await rig.send(*calls)
    with monkeypatch.context() as patch:
        patch.setattr(rig.spool, "settle", refused)
        for _ in range(MAX_LOOKS + 1):
            with pytest.raises(SpoolError):
                await rig.settle()
    seq = rig.counting.ledger.open_chunks()[0]
    assert not any(rig.counting.ledger.cluster(call_ref(seq, 0), {})[0].is_large for _ in range(2))
    await rig.settle()
    assert (await rig.totals())[0] == truth


async def refused(*_: object, **__: object) -> None:
    raise SpoolError("the disk takes nothing")
