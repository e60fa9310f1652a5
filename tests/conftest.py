"""What holds for every test."""

from collections import Counter
from random import Random

import pytest
from hypothesis import is_hypothesis_test

from tests.support.drawing import SEED, drawn_for, set_up_hypothesis
from tests.support.durations import Recorder, durations, expected_s

set_up_hypothesis()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-durations", action="store_true", help="write tests/data/durations.txt")


def pytest_configure(config: pytest.Config) -> None:
    if SEED:
        config.option.hypothesis_seed = SEED  # before its plug-in looks, which was there before
    if config.option.store_durations and not hasattr(config, "workerinput"):  # the workers report to this process
        if config.option.keyword or config.option.markexpr or any("::" in argument for argument in config.args):
            raise pytest.UsageError("--store-durations measures whole files: leave out -k, -m and ::")
        config.pluginmanager.register(Recorder())


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
    """The longest files first, so that no worker ends a run alone; within one, by lines."""
    measured, tests_in = durations(), Counter(map(file_of, items))
    items.sort(key=lambda item: (-expected_s(file_of(item), measured), -tests_in[file_of(item)]))


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
