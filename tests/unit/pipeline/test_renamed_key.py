"""A key that is renamed is the same source: nothing that it stated before counts again, and
calls still cover its metrics.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.common.contract.intake import Sender
from gateway.counting.metrics.gaps import sender_shown
from gateway.pipeline.parsing.parse import ParseRules, Payload, parse
from gateway.pipeline.parsing.worker_client import MIN_TOGETHER
from gateway.usage.pricing.prices import Prices
from spool.data_dir import DATABASE
from spool.record import AI_TELEMETRY
from tests.support.metrics import Export
from tests.support.metrics_rig import MetricsRig
from tests.support.polling import until_true
from tests.support.spans import call_span
from tests.support.workers import worker_client

PEER = "192.0.2.7"
BLUE = Sender("team blue", PEER, counted_as="k1")
GREEN = Sender("team green", PEER, counted_as="k1")
"""The same key, renamed."""
ANOTHER = Sender("team blue", PEER, counted_as="k2")
"""A new key under the name that became free."""
KNOWN_BY_NAME = Path(__file__).parents[2] / "data" / "spools" / "key_by_name.db.gz"
"""Written when counting knew keys by their names. The key `team blue` stated a counter of 100 and
20 tokens, and a call of 7 and 3."""


def counter(input_tokens: int, output_tokens: int, *, at: float, service: str = "counter") -> Export:
    """Sums since a start that is not reported: only its source distinguishes
    this counter from another.
    """
    made = Export(resource={"service.name": service}, start=-1, at=at)
    return made.point(input_tokens, "input").point(output_tokens, "output")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[MetricsRig]:
    made = await MetricsRig(tmp_path / "data").open()
    yield made
    await made.close()


async def used_by_key(rig: MetricsRig) -> dict[str, tuple[int, int]]:
    await rig.settle()
    return {
        record["attribution"]["key"]: (record["usage"]["input_tokens"], record["usage"]["output_tokens"])
        for record in await rig.records()
    }


async def test_a_counter_goes_on_under_the_keys_new_name(rig: MetricsRig) -> None:
    await rig.metrics(counter(100, 20, at=60), sender=BLUE)
    await rig.reopen()
    await rig.metrics(counter(150, 30, at=120), sender=GREEN)
    assert await used_by_key(rig) == {"team blue": (100, 20), "team green": (50, 10)}


async def test_a_new_key_under_a_name_that_became_free_is_another_source(rig: MetricsRig) -> None:
    await rig.metrics(counter(100, 20, at=60), sender=BLUE)
    await rig.metrics(counter(150, 30, at=120), sender=ANOTHER)
    await rig.settle()
    assert await rig.used() == (250, 50)


async def test_calls_under_the_old_name_cover_metrics_under_the_new_one(rig: MetricsRig) -> None:
    await rig.traces(call_span("a", (7, 3), resource={"service.name": "app"}), sender=BLUE)
    await rig.metrics(counter(7, 3, at=60, service="app"), sender=GREEN)
    assert await used_by_key(rig) == {"team blue": (7, 3)}
    assert rig.spool.reasons()["suppressed.calls_reported"] == 1


async def test_what_was_counted_under_the_name_goes_on_when_counting_knows_the_key_otherwise(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / DATABASE).write_bytes(gzip.decompress(KNOWN_BY_NAME.read_bytes()))
    renamed = Sender("team green", PEER, counted_as="team blue")
    rig = await MetricsRig(tmp_path / "data").open()
    await rig.metrics(counter(150, 30, at=120), counter(7, 3, at=60, service="caller"), sender=renamed)
    await rig.settle()
    records = await rig.records(AI_TELEMETRY)
    told = sorted((x["attribution"]["key"], x["usage"]["input_tokens"], x["usage"]["output_tokens"]) for x in records)
    assert told == [("team blue", 7, 3), ("team blue", 100, 20), ("team green", 50, 10)]
    await rig.close()


async def test_the_second_process_knows_a_key_as_the_gateway_does(rig: MetricsRig) -> None:
    context = rig.intake.front.context_of(GREEN)
    client = worker_client()
    client.start()
    try:
        await until_true(lambda: client.is_free, what="the worker")
        payload = Payload("metrics", counter(1, 1, at=60).body, json=False)
        answers = await asyncio.gather(*(client.parse(payload, context) for _ in range(MIN_TOGETHER)))
        assert client.worker.done > 0, "answers came from there"
    finally:
        await client.stop()
    beside, here = answers[0][0].points, parse(payload, context, ParseRules(Prices())).points
    assert beside is not None
    assert here is not None
    assert [point.key for point in beside.points] == [point.key for point in here.points]
    assert beside.points[0].labels.reporter.sender == "key:k1"


async def test_a_gap_is_reported_by_the_name_that_the_key_has_now(rig: MetricsRig) -> None:
    await rig.traces(call_span("a", (7, 3), resource={"service.name": "app"}), sender=BLUE)
    told = Export(resource={"service.name": "app"}, start=0, at=60).point(700, "input").point(300, "output")
    await rig.metrics(told, sender=GREEN)
    await rig.settle()
    (gap,) = rig.counting.aggregates.gaps()
    assert (gap["tokens_by_calls"], gap["tokens_by_metrics"]) == (10, 1000)
    assert sender_shown(gap["sender"], {"k1": "team green"}) == "key:team green"
    assert sender_shown(gap["sender"], {}) == "key:k1"
    assert sender_shown("peer:::1", {":1": "no"}) == "peer:::1"
