"""What holds for every test."""

from collections import Counter
from random import Random

import pytest
from hypothesis import is_hypothesis_test

from tests.support.drawing import SEED, drawn_for, set_up_hypothesis

set_up_hypothesis()

LONGEST = (
    "tests/e2e/test_litellm_proxy.py",
    "tests/e2e/test_real_clients.py",
    "tests/fault/test_torture.py",
    "tests/fault/test_unit_cost_totals.py",
    "tests/e2e/test_device_mode.py",
)
"""Files that take two minutes and more: begun last, one alone would be what a run ends with."""
PROCESSES = ("tests/fault", "tests/e2e", "tests/browser")
"""Folders of tests that start processes; a run ends with small ones, which fill every worker."""


def pytest_configure(config: pytest.Config) -> None:
    if SEED:
        config.option.hypothesis_seed = SEED  # before its plug-in looks, which was there before


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes name no test: some hold the time, and the workers of a run must have the same tests."""
    return argname if isinstance(val, bytes) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    if "chance" in getattr(item, "fixturenames", ()) or is_hypothesis_test(getattr(item, "obj", None)):
        item.add_marker("explored")


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> Random:
    """What a test draws its cases from."""
    return drawn_for(request.node.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, then processes, then files of many tests; within one, by lines."""
    tests_in = Counter(file_of(item) for item in items)
    first = {file: number for number, file in enumerate(LONGEST)}

    def place(item: pytest.Item) -> tuple[int, bool, int]:
        file = file_of(item)
        return first.get(file, len(first)), not file.startswith(PROCESSES), -tests_in[file]

    items.sort(key=place)


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
