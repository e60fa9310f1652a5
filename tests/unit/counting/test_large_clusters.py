"""Payloads made to are related: counting them must keep no other sender waiting."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.normalise.call import Call
from tests.support.calls import call
from tests.support.spool_rig import Rig

MOST = 32.0
"""Work for 4n over work for n: 16 where it is quadratic; where each report looked at all
others for each cluster, 64."""


def one_response(n: int) -> tuple[list[Call], int]:
    """A local server that gives each response one id."""
    return [call(f"s{i}", trace=f"t{i}", response="r", tokens=(i + 1, 5)) for i in range(n)], n


def one_request(n: int) -> tuple[list[Call], int]:
    calls = [call(f"s{i}", trace=f"t{i}", request="q", scope=f"scope-{i}", tokens=(i + 1, 5)) for i in range(n)]
    return calls, n


def one_call_told_often(n: int) -> tuple[list[Call], int]:
    return [call(f"s{i}", trace=f"t{i}", response="r", scope=f"scope-{i % 2}") for i in range(n)], 1


def twins(n: int) -> tuple[list[Call], int]:
    return [call(f"s{i}", scope=f"scope-{i % 2}") for i in range(n)], n // 2


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


@pytest.mark.parametrize("build", [one_response, one_request, one_call_told_often, twins, children, chain, raw_spans])
async def test_related_reports_are_counted_truly_at_no_more_than_quadratic_work(
    build: Callable[[int], tuple[list[Call], int]], tmp_path: Path
) -> None:
    few = min([await work(build, 200, tmp_path / f"few{n}") for n in range(3)])
    many = await work(build, 800, tmp_path / "many")
    assert many / few < MOST


async def work(build: Callable[[int], tuple[list[Call], int]], n: int, folder: Path) -> float:
    """CPU seconds of counting *n* related reports, whose calls must be counted truly."""
    rig = await Rig.opened(folder)
    calls, truth = build(n)
    began = time.process_time()
    await rig.send(*calls)
    await rig.settle()
    took = time.process_time() - began
    assert (await rig.totals())[0] == truth
    await rig.close()
    return took
