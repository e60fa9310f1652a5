"""Every line of the checklist against gateway processes, over each kind of address."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.otlp.every_line import LINES
from tests.conformance.otlp.lines import Line, run
from tests.conformance.otlp.our_gateway import ANY_PORT, full_gateway, gateway_at
from tests.conformance.otlp.target import Target

NOT_APPLICABLE = {"B09": "it warns of nothing", "B36": "the address given has port"}
"""Line -> what it says. The default ports are looked at in tests/unit/config."""
FORMS = ("http", "unix")
"""Kinds of address."""


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    """Kind of address -> a gateway there."""
    with ExitStack() as stack:
        busy = stack.enter_context(full_gateway(tmp_path_factory.mktemp("full")))
        made = {}
        for form in FORMS:
            folder = tmp_path_factory.mktemp(form)
            address = ANY_PORT if form == "http" else f"unix:{folder / 'http.sock'}"
            made[form] = stack.enter_context(gateway_at(address, folder))
            made[form].busy_http = busy
        yield made


@pytest.mark.parametrize("line", [one for one in LINES if one.over == "http"], ids=repr)
@pytest.mark.parametrize("form", FORMS)
def test_over_http(targets: dict[str, Target], form: str, line: Line) -> None:
    result = asyncio.run(run(line, targets[form]))
    if result.verdict == "not applicable":
        assert result.seen.startswith(NOT_APPLICABLE[line.number])
    else:
        assert result.verdict == "pass", result.seen
