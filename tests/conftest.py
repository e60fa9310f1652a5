"""What holds for every test."""

from collections import Counter

import pytest
from hypothesis import settings

settings.register_profile("tests", deadline=None)
"""A busy machine is no fault of an example; what hangs is ended by pytest's timeout."""
settings.load_profile("tests")

LONGEST = (
    "tests/fault/test_torture.py",
    "tests/e2e/test_litellm_proxy.py",
    "tests/e2e/test_device_mode.py",
    "tests/fault/test_devices_lost_fleet.py",
    "tests/fault/test_devices_forgotten.py",
)
"""Files that take a minute and more, mostly waiting: begun last, one alone
would be what a run ends with."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, then those of many tests; within a file the order of its lines."""
    tests_in = Counter(file_of(item) for item in items)
    first = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: (first.get(file_of(item), len(first)), -tests_in[file_of(item)]))


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
