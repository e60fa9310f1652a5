"""Whatever the order, the split over requests, the repeats and the restart:
what is billed is what happened.
"""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.rules.call import Call
from tests.support.scenarios import ALL, Scenario
from tests.support.spool_homes import HOMES, spool_home_of
from tests.support.spool_rig import SETTLE_MS, Clock, Rig, totals

Item = Call | bytes


@dataclass(frozen=True, slots=True)
class Delivery:
    """Requests in their order: the ms before each, and the items in it; and when the gateway
    restarts: before which request.
    """

    requests: list[tuple[int, list[Item]]]
    restart_at: int | None
    reopened: frozenset[int] = frozenset()
    """After which passes of settling it restarts."""
    home: str = "sqlite"
    """Where its spool is."""


@st.composite
def deliveries(draw: st.DrawFn, scenarios: list[Scenario]) -> Delivery:
    """Every item at least once, all within the settle time of the first."""
    items: list[Item] = [item for scenario in scenarios for item in scenario.items]
    repeated = draw(st.lists(st.sampled_from(items), max_size=len(items) // 2))
    order: list[Item] = draw(st.permutations([*items, *repeated]))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1), max_size=6)))
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    most_ms = (SETTLE_MS - 1) // len(parts)
    gaps_ms = draw(st.lists(st.integers(0, most_ms), min_size=len(parts), max_size=len(parts)))
    restart_at = draw(st.none() | st.integers(0, len(parts)))
    reopened = draw(st.sets(st.integers(0, 2 * SETTLE_MS // 1000), max_size=3))
    home = draw(st.sampled_from(HOMES))
    return Delivery(list(zip(gaps_ms, parts, strict=True)), restart_at, frozenset(reopened), home)


async def forwarded(delivery: Delivery, folder: Path) -> list[dict[str, Any]]:
    """What the upstream gets of *delivery*, in passes of a second."""
    clock = Clock()
    home = spool_home_of(delivery.home, folder / "data", clock)
    rig = await Rig.opened(folder, clock, home=home)
    for n, (gap_ms, items) in enumerate(delivery.requests):
        rig.clock.now_ms += gap_ms
        if n == delivery.restart_at:
            await rig.reopen()
        calls = [item for item in items if isinstance(item, Call)]
        await rig.send(*calls, links=[item for item in items if not isinstance(item, Call)])
    if delivery.restart_at == len(delivery.requests):
        await rig.reopen()
    records: list[dict[str, Any]] = []
    for n in range(2 * SETTLE_MS // 1000):
        await rig.settle(after_ms=1000)
        records += await rig.records()
        if n in delivery.reopened:
            await rig.reopen()
    assert rig.counting.ledger.oldest_ms() is None, "something was left unsettled"
    await home.check()
    await rig.close()
    return records


def check(scenario: Scenario, records: list[dict[str, Any]], delivery: Delivery) -> None:
    """Raises AssertionError when *records* do not state the truth about *scenario*."""
    own = [record for record in records if record["attribution"]["service_name"] in scenario.services]
    ids = {call.record["record_id"]: n for n, call in enumerate(scenario.calls)}
    told = (scenario.name, [(ids[r["record_id"]], r["usage"], r["flags"]) for r in own], delivery)
    assert totals(own) == scenario.truth, told
    assert sum(not record["billed"] for record in own) == scenario.unbilled, told
    assert any("conflict" in record["flags"] for record in own) == scenario.conflicts, told


def run(scenarios: list[Scenario], delivery: Delivery) -> None:
    with tempfile.TemporaryDirectory() as folder:
        records = asyncio.run(forwarded(delivery, Path(folder)))
    assert len({record["record_id"] for record in records}) == len(records), "a record was forwarded twice"
    for scenario in scenarios:
        check(scenario, records, delivery)


@pytest.mark.parametrize("build", ALL, ids=lambda build: build.__name__)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_order_of_one_situation_bills_the_truth(build: Callable[[int], Scenario], data: st.DataObject) -> None:
    scenarios = [build(0)]
    run(scenarios, data.draw(deliveries(scenarios)))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_mixture_of_situations_bills_the_truth(data: st.DataObject) -> None:
    builders = data.draw(st.lists(st.sampled_from(ALL), min_size=2, max_size=5))
    scenarios = [build(number) for number, build in enumerate(builders)]
    run(scenarios, data.draw(deliveries(scenarios)))
