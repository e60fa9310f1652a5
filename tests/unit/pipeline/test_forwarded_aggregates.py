"""Aggregates that gateways forward to a hub: dropped where another gateway forwarded calls of their
source, and only there.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.common.contract.intake import Sender
from gateway.pipeline import settle
from gateway.pipeline.metrics import Settings
from gateway.pipeline.settle import FORWARDED_SETTLES
from spool.clock import rfc3339_ms
from spool.record import AI_TELEMETRY
from tests.support.metrics_rig import METRICS_SETTLE_MS, SETTLE_MS, MetricsRig

HUB_KEY = Sender(key="edges", peer="192.0.2.1")
MINUTE_MS = 60_000


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[MetricsRig]:
    rig = await MetricsRig(tmp_path / "data").open()
    yield rig
    await rig.close()


class Edges:
    """Gateways that forward to *rig* in envelopes of their own."""

    def __init__(self, rig: MetricsRig) -> None:
        self.rig = rig
        self.made = 0

    def record(self, kind: str, ago_ms: int = 0, **attribution: str) -> dict[str, Any]:
        self.made += 1
        now_ms = self.rig.clock.now_ms - ago_ms
        found: dict[str, Any] = {
            "schema": "inference/1",
            "record_id": f"{self.made:032x}",
            "kind": kind,
            "source": {"format": "otlp.metrics" if kind == "aggregate" else "otlp.traces", "convention": "gen_ai"},
            "operation": "chat",
            "provider": "openai",
            "request_model": "gpt-4o-mini",
            "started_at": rfc3339_ms(now_ms - MINUTE_MS),
            "usage": {
                "status": "aggregate" if kind == "aggregate" else "reported",
                "input_tokens": 100,
                "output_tokens": 20,
            },
            "status": "ok",
            "attribution": {"key": "app", "service_name": "checkout", **attribution},
            "received_at": rfc3339_ms(now_ms),
            "flags": [],
        }
        if kind == "aggregate":
            found["period"] = {"start": rfc3339_ms(now_ms - MINUTE_MS), "end": rfc3339_ms(now_ms)}
        return found

    async def forward(self, gateway_id: str, *records: dict[str, Any], key: Sender = HUB_KEY) -> None:
        envelope = {
            "schema": "ai-telemetry/1",
            "batch_id": f"b{self.made}",
            "gateway_id": gateway_id,
            "records": records,
        }
        await self.rig.intake.source("records", orjson.dumps(envelope), sender=key)

    async def kinds(self) -> list[str]:
        """Of what the hub forwards, once all has settled."""
        await self.rig.settle(after_ms=FORWARDED_SETTLES * METRICS_SETTLE_MS)
        return sorted(record["kind"] for record in await self.rig.records())


@pytest.fixture
def edges(rig: MetricsRig) -> Edges:
    return Edges(rig)


@pytest.mark.parametrize("calls_first", [True, False])
async def test_metrics_of_one_gateway_do_not_add_to_calls_of_another(edges: Edges, *, calls_first: bool) -> None:
    for kind in ("call", "aggregate") if calls_first else ("aggregate", "call"):
        await edges.forward(kind, edges.record(kind))
    assert await edges.kinds() == ["call"]
    assert edges.rig.spool.reasons()["suppressed.calls_reported"] == 1


async def test_what_one_gateway_decided_stands(edges: Edges) -> None:
    """It knows more than its records state, such as the instance of each."""
    await edges.forward("a", edges.record("call"), edges.record("aggregate"))
    assert await edges.kinds() == ["aggregate", "call"]


async def test_records_of_no_gateway_are_kept_as_they_are(edges: Edges) -> None:
    await edges.forward("", edges.record("call"))
    await edges.forward("b", edges.record("aggregate"))
    await edges.forward("a", edges.record("call", service_name="search"))
    await edges.forward("", edges.record("aggregate", service_name="search"))
    assert await edges.kinds() == ["aggregate", "aggregate", "call", "call"]


@pytest.mark.parametrize(
    "other", [{"key": "another"}, {"service_name": "search"}, {"device_id": "laptop-2"}, {"session": "s2"}]
)
async def test_calls_of_another_source_cover_nothing(edges: Edges, other: dict[str, str]) -> None:
    stated = {"device_id": "laptop-1", "session": "s1"}
    await edges.forward("a", edges.record("call", **stated))
    await edges.forward("b", edges.record("aggregate", **stated | other))
    assert await edges.kinds() == ["aggregate", "call"]


async def test_gateways_under_different_keys_of_the_hub_cannot_change_each_others_counts(edges: Edges) -> None:
    await edges.forward("a", edges.record("call"), key=Sender(key="other edges", peer="192.0.2.1"))
    await edges.forward("b", edges.record("aggregate"))
    assert await edges.kinds() == ["aggregate", "call"]


async def test_calls_of_long_before_cover_nothing(edges: Edges) -> None:
    await edges.forward("a", edges.record("call"))
    edges.rig.clock.now_ms += 3_600_000
    await edges.forward("b", edges.record("aggregate"))
    assert await edges.kinds() == ["aggregate", "call"]


async def test_an_aggregate_that_was_held_up_is_compared_by_when_its_gateway_received_it(edges: Edges) -> None:
    await edges.forward("a", edges.record("call"))
    edges.rig.clock.now_ms += 3_600_000
    await edges.forward("b", edges.record("aggregate", ago_ms=3_600_000))
    assert await edges.kinds() == ["call"]


async def wait(edges: Edges, ms: int) -> list[str]:
    """What the hub forwards after each settle time of the next *ms*."""
    found: list[str] = []
    for _ in range(ms // SETTLE_MS):
        await edges.rig.settle(after_ms=SETTLE_MS)
        found += [record["kind"] for record in await edges.rig.records()]
    return found


async def test_an_aggregate_waits_for_calls_as_long_as_one_of_the_hubs_own_and_other_records_do_not(
    edges: Edges,
) -> None:
    await edges.forward("b", edges.record("aggregate"), edges.record("call", service_name="search"))
    assert await wait(edges, METRICS_SETTLE_MS - SETTLE_MS) == ["call"]
    await edges.forward("a", edges.record("call"))
    assert await wait(edges, METRICS_SETTLE_MS) == ["call"]
    assert edges.rig.spool.reasons()["suppressed.calls_reported"] == 1


async def test_an_aggregate_without_calls_goes_on_when_its_time_is_up(edges: Edges) -> None:
    await edges.forward("b", edges.record("aggregate"))
    assert await wait(edges, METRICS_SETTLE_MS - SETTLE_MS) == []
    assert await wait(edges, 2 * SETTLE_MS) == ["aggregate"]


async def test_no_more_wait_than_are_written_again_in_time_and_the_oldest_go_first(
    edges: Edges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "MAX_HELD_BACK", 3)
    for number in range(5):
        aggregate = edges.record("aggregate", service_name=f"s{number}")
        await edges.forward("b", aggregate)
    await edges.rig.settle(after_ms=SETTLE_MS)
    assert [record["attribution"]["service_name"] for record in await edges.rig.records()] == ["s0", "s1"]
    assert await wait(edges, 2 * METRICS_SETTLE_MS) == ["aggregate"] * 3


async def test_after_an_outage_an_aggregate_waits_for_what_is_still_on_its_way(edges: Edges) -> None:
    """Each gateway tries its hub again in its own time."""
    await edges.forward("b", edges.record("aggregate", ago_ms=METRICS_SETTLE_MS + 5 * MINUTE_MS))
    assert await wait(edges, METRICS_SETTLE_MS + 4 * MINUTE_MS) == []
    await edges.forward("a", edges.record("call", ago_ms=METRICS_SETTLE_MS + 9 * MINUTE_MS))
    assert await wait(edges, 2 * METRICS_SETTLE_MS) == ["call"]


async def test_an_aggregate_of_long_ago_does_not_wait_for_ever(edges: Edges) -> None:
    await edges.forward("b", edges.record("aggregate", ago_ms=1000 * MINUTE_MS))
    assert await wait(edges, FORWARDED_SETTLES * METRICS_SETTLE_MS - SETTLE_MS) == []
    assert await wait(edges, 2 * SETTLE_MS) == ["aggregate"]


async def test_an_aggregate_that_waits_is_there_once_whenever_the_hub_is_killed(edges: Edges, tmp_path: Path) -> None:
    """It waits its whole time again: since when it waited is not on disk."""
    await edges.forward("b", edges.record("aggregate"))
    rig = edges.rig
    for number in range(3):
        for _ in range(number):
            await rig.settle(after_ms=SETTLE_MS)
            assert await rig.records() == []
        survivor = await rig.killed(tmp_path / f"killed-{number}")
        if rig is not edges.rig:
            await rig.close()
        rig = survivor
    await rig.settle(after_ms=FORWARDED_SETTLES * METRICS_SETTLE_MS)
    assert [record["kind"] for record in await rig.records()] == ["aggregate"]
    assert (rig.spool.edge()["received"], rig.spool.edge()["kept"]) == (1, 1)
    await rig.close()


async def test_it_is_dropped_too_after_the_hub_was_killed(edges: Edges, tmp_path: Path) -> None:
    await edges.forward("a", edges.record("call"))
    await edges.rig.settle(after_ms=SETTLE_MS)
    await edges.forward("b", edges.record("aggregate"))
    survivor = Edges(await edges.rig.killed(tmp_path / "killed"))
    survivor.made = edges.made
    assert await survivor.kinds() == ["call"]
    await survivor.forward("b", survivor.record("aggregate"))
    assert await survivor.kinds() == []
    assert survivor.rig.spool.reasons()["suppressed.calls_reported"] == 2
    await survivor.rig.close()


@pytest.mark.parametrize("waits", [True, False])
async def test_a_repeat_is_a_duplicate_while_it_waits_and_afterwards(edges: Edges, *, waits: bool) -> None:
    aggregate = edges.record("aggregate")
    await edges.forward("b", aggregate)
    assert await wait(edges, SETTLE_MS if waits else 2 * METRICS_SETTLE_MS) == ([] if waits else ["aggregate"])
    await edges.forward("b", aggregate)
    assert edges.rig.spool.edge()["duplicate"] == 1
    assert await wait(edges, 2 * METRICS_SETTLE_MS) == (["aggregate"] if waits else [])
    assert edges.rig.spool.depth(AI_TELEMETRY).kept == 1


async def test_a_repeat_of_what_was_dropped_is_a_duplicate(edges: Edges) -> None:
    aggregate = edges.record("aggregate")
    await edges.forward("a", edges.record("call"))
    await edges.forward("b", aggregate)
    assert await edges.kinds() == ["call"]
    await edges.forward("b", aggregate)
    assert await edges.kinds() == []
    assert edges.rig.spool.edge()["duplicate"] == 1


async def test_a_service_that_the_hub_bills_by_metrics_keeps_its_aggregates(tmp_path: Path) -> None:
    settings = Settings(settle_ms=METRICS_SETTLE_MS, prefer_metrics=frozenset({"checkout"}))
    rig = await MetricsRig(tmp_path / "preferring", metrics=settings).open()
    edges = Edges(rig)
    await edges.forward("a", edges.record("call"))
    await edges.forward("b", edges.record("aggregate"))
    assert await edges.kinds() == ["aggregate"]
    await rig.close()
