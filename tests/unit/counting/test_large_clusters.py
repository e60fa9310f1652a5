"""Payloads made to hang together: counting them must keep no other sender waiting."""

import time
from collections.abc import Callable

import pytest

from gateway.normalise.call import Call
from tests.support.calls import call
from tests.support.spool_rig import Rig

MOST_S = 5.0
"""Ten times what it takes here; before reports were looked at once for each cluster it was minutes."""


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
async def test_a_thousand_reports_that_hang_together_are_counted_at_once(
    rig: Rig, build: Callable[[int], tuple[list[Call], int]]
) -> None:
    calls, truth = build(1000)
    began = time.process_time()
    await rig.send(*calls)
    await rig.settle()
    assert time.process_time() - began < MOST_S
    assert (await rig.totals())[0] == truth
