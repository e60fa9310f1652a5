"""Agents without calls, from requests to what the status and the insights show."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.counting.coverage import WAIT_MS
from gateway.usage.insights.detect import Figures, detect
from tests.support.spool_rig import Rig
from tests.unit.pipeline.test_ancestors import Gateway, Span, agent, call

CREW = [Span(f"task {n}", "crew", scope="crewai.telemetry", crew_key="k") for n in range(3)]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    rig = await Rig.opened(tmp_path / "data")
    yield Gateway(rig)
    await rig.close()


def titles(gateway: Gateway) -> list[str]:
    gateway.rig.clock.now_ms += WAIT_MS
    uncovered = gateway.rig.counting.uncovered()
    return [finding.title for finding in detect(Figures(uncovered=uncovered))]


async def test_an_application_with_nothing_but_its_framework_is_named(gateway: Gateway) -> None:
    await gateway.send(*CREW)
    (title,) = titles(gateway)
    assert title.startswith("app: AI spans of crewai.telemetry, and no call of a model; instrument LiteLLM")


@pytest.mark.parametrize("calls_first", [False, True])
async def test_calls_by_another_instrumentation_of_the_service_are_no_alarm(
    gateway: Gateway, *, calls_first: bool
) -> None:
    parts = [CREW, [call("c", trace="elsewhere", scope="openinference.instrumentation.litellm")]]
    for part in reversed(parts) if calls_first else parts:
        await gateway.send(*part)
    assert titles(gateway) == []


async def test_calls_by_another_service_in_the_trace_are_no_alarm(gateway: Gateway) -> None:
    await gateway.send(*CREW)
    await gateway.send(call("c", "crew"), resource={"service.name": "litellm"})
    assert titles(gateway) == []


async def test_agents_that_are_read_by_a_convention_are_named_too(gateway: Gateway) -> None:
    await gateway.send(*(agent(f"a{n}") for n in range(3)))
    (title,) = titles(gateway)
    assert "openinference.instrumentation.agno" in title
