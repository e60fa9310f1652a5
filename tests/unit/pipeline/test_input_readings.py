"""How inputs were read that no table knows, from requests to what the status and insights show."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.counting.bases import Instrumentation, LearntBases
from gateway.counting.readings import MAX_INSTRUMENTATIONS, InputReadings, Readings
from gateway.usage.insights.detect import Figures, detect
from gateway.usage.insights.thresholds import ASSUMED_LEAST_CALLS
from tests.support.metrics_rig import SETTLE_MS, MetricsRig
from tests.unit.pipeline.test_learnt_by_key import EXCLUDES, OPEN, A, B, C, call


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[MetricsRig]:
    made = await MetricsRig(tmp_path / "data").open()
    yield made
    await made.close()


async def reading(rig: MetricsRig) -> dict[str, Any]:
    """Of the only instrumentation, after what was sent has settled."""
    await rig.settle(SETTLE_MS + 1)
    (found,) = rig.counting.input_readings()
    return dict(found)


def titles(rig: MetricsRig) -> list[str]:
    return [finding.title for finding in detect(Figures(input_readings=rig.counting.input_readings()))]


async def test_calls_that_prove_nothing_are_assumed_and_named_once_there_are_some(rig: MetricsRig) -> None:
    for number in range(ASSUMED_LEAST_CALLS - 1):
        await rig.traces(call(f"open{number}", OPEN), sender=A)
    assert await reading(rig) == {
        "library": "my.own.scope",
        "library_version": "1.0",
        "provider": "anthropic",
        "basis": None,
        "includes_cache": [],
        "excludes_cache": [],
        "calls_proved": 0,
        "calls_learnt": 0,
        "calls_assumed": ASSUMED_LEAST_CALLS - 1,
        "input_tokens_assumed": 200 * (ASSUMED_LEAST_CALLS - 1),
    }
    assert titles(rig) == []
    await rig.traces(call("one more", OPEN), sender=A)
    await rig.settle(SETTLE_MS + 1)
    (title,) = titles(rig)
    assert title.startswith("my.own.scope 1.0: nothing shows whether the input of its calls to anthropic includes")


async def test_proved_and_learnt_calls_are_counted_apart_and_end_the_insight(rig: MetricsRig) -> None:
    for number in range(ASSUMED_LEAST_CALLS):
        await rig.traces(call(f"open{number}", OPEN), sender=A)
    await rig.settle(SETTLE_MS + 1)
    assert len(titles(rig)) == 1
    for number in range(7):
        await rig.traces(call(f"proof{number}", EXCLUDES), sender=A)
    await rig.traces(call("learnt", OPEN), sender=C)
    found = await reading(rig)
    assert (found["calls_proved"], found["calls_learnt"], found["calls_assumed"]) == (7, 1, ASSUMED_LEAST_CALLS)
    assert (found["basis"], found["excludes_cache"]) == ("excludes_cache", ["key-a"])
    assert titles(rig) == []


async def test_keys_whose_calls_prove_both_are_named(rig: MetricsRig) -> None:
    await rig.traces(call("a", EXCLUDES), sender=A)
    await rig.traces(call("b", (5000, 100), holds=True), sender=B)
    await rig.traces(call("open", OPEN), sender=C)
    found = await reading(rig)
    assert (found["basis"], found["includes_cache"], found["excludes_cache"]) == (
        "contradictory", ["key-b"], ["key-a"],
    )  # fmt: skip
    assert (found["calls_assumed"], found["input_tokens_assumed"]) == (1, 200)
    (title,) = titles(rig)
    assert title == (
        "my.own.scope 1.0: its calls to anthropic prove that the input includes the cached tokens (key key-b),"
        " and that it excludes them (key key-a)"
    )


async def test_a_repeated_report_is_no_second_assumed_call(rig: MetricsRig) -> None:
    same = {"gen_ai.response.id": "msg_1"}
    await rig.traces(call("open", OPEN, **same), sender=A)
    await rig.traces(call("again", OPEN, at=1.01, **same), sender=A)
    found = await reading(rig)
    assert len(await rig.records()) == found["calls_assumed"] == 1


async def test_calls_that_a_table_knows_are_not_listed(rig: MetricsRig) -> None:
    await rig.traces(call("openai", OPEN, **{"gen_ai.provider.name": "openai"}), sender=A)
    await rig.settle(SETTLE_MS + 1)
    assert rig.counting.input_readings() == []


def test_only_so_many_instrumentations_are_remembered() -> None:
    readings = InputReadings()
    for number in range(3 * MAX_INSTRUMENTATIONS):
        readings.add({Instrumentation(f"library{number}", "", "anthropic"): Readings(assumed=1)})
    found = {each["library"] for each in readings.status(LearntBases())}
    assert len(found) <= MAX_INSTRUMENTATIONS
    assert f"library{3 * MAX_INSTRUMENTATIONS - 1}" in found
