"""Every line of the checklist against gateway processes, over each kind of address."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.otlp.every_line import LINES
from tests.conformance.otlp.lines import Line, run
from tests.conformance.otlp.our_gateway import PLACES, forwarding_gateway, full_gateway, gateway_at
from tests.conformance.otlp.target import Target

NOT_APPLICABLE = {"B09": "it warns of nothing", "B36": "the address given"}
"""Line -> what it says. The default ports are looked at in tests/unit/config."""


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    """Place -> a gateway there."""
    with ExitStack() as stack:
        busy = stack.enter_context(full_gateway(tmp_path_factory.mktemp("full")))
        yield {
            place: stack.enter_context(gateway_at(place, tmp_path_factory.mktemp(place.split()[0]), busy))
            for place in PLACES
        }


@pytest.mark.parametrize("line", [one for one in LINES if one.over != "sender"], ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_the_gateway_holds(targets: dict[str, Target], place: str, line: Line) -> None:
    result = asyncio.run(run(line, targets[place]))
    if result.verdict == "not applicable":
        assert result.seen.startswith(NOT_APPLICABLE[line.number])
    else:
        assert result.verdict == "pass", result.seen


def test_it_forwards_as_the_checklist_says(tmp_path: Path) -> None:
    (line,) = [one for one in LINES if one.over == "sender"]
    with forwarding_gateway(tmp_path) as target:
        result = asyncio.run(run(line, target))
    assert result.verdict == "pass", result.seen
